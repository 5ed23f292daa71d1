/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the component does for libgpuring_aware.so (tools/gpuring-aware.c), which serves the MPI
 * functions that touch a buffer before any component is asked: where a buffer is, and its bytes in
 * host memory. That library finds this table behind the component's structure, and uses it between
 * MPI_Init and MPI_Finalize. Threads: any, one for each handle.
 */
#ifndef GPURING_P2P_AWARE_H
#define GPURING_P2P_AWARE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/compat.h"

#define GPURING_AWARE_VERSION 1

struct gpuring_aware {
    int version;

    /* Do point-to-point calls and collectives take GPU buffers in this process? */
    bool (*serves)(void);

    /* Must Open MPI not see it? */
    bool (*on_gpu)(const void *buffer, size_t count, MPI_Datatype type);

    /* Host memory for the bytes of a buffer that is on a GPU, packed as MPI_Pack does; in: with
     * these bytes in it. MPI_SUCCESS, or an MPI error (logged), and then nothing has to be ended.
     */
    int (*begin)(const void *buffer, size_t count, MPI_Datatype type, bool in, void **handle,
                 void **host, size_t *bytes);
    /* Copy the first bytes out to the buffer, and give back the memory. */
    int (*end)(void *handle, size_t bytes_out);
};

/* The component's symbol. */
struct gpuring_aware_component {
    mca_coll_base_component_t super;
    const struct gpuring_aware *aware;
};

extern const struct gpuring_aware gpuring_p2p_aware;

#endif
