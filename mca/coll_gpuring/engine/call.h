/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The description of a call of a collective for the engine. No MPI. */
#ifndef GPURING_ENGINE_CALL_H
#define GPURING_ENGINE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/engine/reason.h"
#include "mca/coll_gpuring/plan/plan.h"

/*
 * One buffer of a call. Collectives that only move data count in bytes (type BYTE) for every
 * datatype.
 */
struct gpuring_call_buffer {
    struct gpuring_pointer at; /* kind and location of the memory */
    const void *sample;        /* address of data in the buffer that `at` describes; NULL: none */
    /* All data of the call is within this number of bytes from the buffer's address. 0: the call
     * does not use the buffer. */
    uint64_t bytes;
    struct gpuring_blocks blocks; /* for collectives with blocks; offsets within `bytes` */
    struct gpuring_runs *runs; /* pieces of the data, if the call works on a packed copy of `bytes`
                                  bytes; otherwise NULL */
};

/* Memory owned by the call. */
struct gpuring_call_memory {
    struct gpuring_runs in_runs, out_runs;
    struct gpuring_extent extents[]; /* of the input, then of the output */
};

/*
 * Connections are made in sets, when a call first needs them. Each algorithm has a set with the
 * algorithm's number. GPURING_SET_SMALL is one more set, for small calls. In a node of GPUs, it
 * contains connections of direct for LL alone, with one stripe and short slots. Between nodes that
 * verbs connects, it contains connections of direct for Simple with one stripe and short slots,
 * until longer calls need those of direct itself, which replace them. GPURING_SET_NODES is for
 * alltoalls by node, whose algorithm is called two-shot. GPURING_SET_DOUBLING is for allreduces by
 * doubling between nodes of hosts, whose algorithm is called direct. GPURING_SET_MAPPED is for
 * persistent allreduces on mapped buffers (mapping.h), whose algorithm is two-shot, and whose slots
 * carry no data.
 */
#define GPURING_SET_SMALL    ((int) GPURING_ALGORITHM_COUNT)
#define GPURING_SET_NODES    (GPURING_SET_SMALL + 1)
#define GPURING_SET_DOUBLING (GPURING_SET_NODES + 1)
#define GPURING_SET_MAPPED   (GPURING_SET_DOUBLING + 1)
#define GPURING_SET_COUNT    (GPURING_SET_MAPPED + 1)
static inline enum gpuring_algorithm gpuring_set_algorithm(int set)
{
    return set == GPURING_SET_SMALL || set == GPURING_SET_DOUBLING ? GPURING_ALGORITHM_DIRECT
           : set == GPURING_SET_NODES || set == GPURING_SET_MAPPED ? GPURING_ALGORITHM_TWO_SHOT
                                                                   : (enum gpuring_algorithm) set;
}

/* The selected way to run a call (select.h). */
struct gpuring_selection {
    /* Why the call is left to the previous component, or NONE. Equal on all ranks. */
    enum gpuring_reason delegated;
    enum gpuring_reason blocking_delegated; /* the same for a blocking call */
    enum gpuring_algorithm algorithm;
    int set; /* of connections, see GPURING_SET_SMALL */
    enum gpuring_protocol protocol;
    uint32_t channels; /* number of channels to use, see gpuring_plan_first_lanes */
    uint64_t chunk;    /* elements */
    uint64_t slice;    /* elements per slot if a chunk takes several slots, otherwise 0
                          (kernels/work.h) */
};

/* A call of a collective. */
struct gpuring_call {
    enum gpuring_collective collective;
    const char *name; /* "MPI_Allgatherv", for messages */
    int root;         /* 0 in collectives without a root */
    const void *input;
    void *output;   /* in place: equal to input, or overlapping as MPI specifies */
    uint64_t count; /* elements of the vector or of the longest block; GPURING_COUNT_UNKNOWN if not
                       all ranks know it */
    bool counts;    /* the arguments include a count for each rank */
    uint32_t type;  /* enum gpuring_type */
    uint32_t op;    /* enum gpuring_op */
    uint32_t element_size; /* bytes */
    struct gpuring_call_buffer in, out;
    struct gpuring_call_memory *memory; /* NULL: none */
    /* Persistent: the mapped buffers of all ranks, which belong to the request; NULL: none. */
    struct gpuring_mapping *mapping;
    bool selected; /* `choice` is set */
    struct gpuring_selection choice;
    uint64_t made;  /* word that must be equal on all ranks, see serve/differ.h; 0: unknown */
    uint64_t shape; /* calls of a communicator with the same number differ only in addresses; 0:
                       no number */
};

#define GPURING_COUNT_UNKNOWN UINT64_MAX

/* Return the bytes of the vector or of the longest block, which determine the selection. */
static inline uint64_t gpuring_call_bytes(const struct gpuring_call *call)
{
    return call->count == GPURING_COUNT_UNKNOWN ? GPURING_COUNT_UNKNOWN
                                                : call->count * call->element_size;
}

/* Return the bytes of the call at this rank, for statistics. */
static inline uint64_t gpuring_call_moves(const struct gpuring_call *call)
{
    return call->in.bytes > call->out.bytes ? call->in.bytes : call->out.bytes;
}

/* Return true if any buffer of the call is on a GPU. */
static inline bool gpuring_call_on_gpu(const struct gpuring_call *call)
{
    return gpuring_pointer_on_gpu(call->out.at.kind) || gpuring_pointer_on_gpu(call->in.at.kind);
}

#endif
