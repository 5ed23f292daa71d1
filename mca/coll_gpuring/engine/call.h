/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* One call of a collective, in the engine's own terms. No MPI. */
#ifndef GPURING_ENGINE_CALL_H
#define GPURING_ENGINE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/plan/plan.h"

/* A collective as the engine runs it. */
struct gpuring_call {
    enum gpuring_collective collective;
    const void *input; /* equal to output: in place */
    void *output;
    uint64_t count;                             /* elements of the input, and of the output */
    uint32_t type;                              /* enum gpuring_type */
    uint32_t op;                                /* enum gpuring_op */
    uint32_t element_size;                      /* bytes */
    struct gpuring_pointer input_at, output_at; /* where the buffers are */
    bool agree;      /* the ranks have to agree first (coll_gpuring_agree) */
    uint64_t number; /* of the call on its communicator, see buffer_mismatch.c; 0: not counted */
};

/* Bytes of the input, and of the output. */
static inline uint64_t gpuring_call_bytes(const struct gpuring_call *call)
{
    return call->count * call->element_size;
}

/* True if a GPU has a part in it. */
static inline bool gpuring_call_on_gpu(const struct gpuring_call *call)
{
    return gpuring_pointer_on_gpu(call->output_at.kind) ||
           gpuring_pointer_on_gpu(call->input_at.kind);
}

#endif
