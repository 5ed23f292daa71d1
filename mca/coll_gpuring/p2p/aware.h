/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Functions of the component for libgpuring_aware.so (tools/gpuring-aware.c), which serves the MPI
 * functions that read or write a buffer before any component is called. They classify a buffer, and
 * stage a buffer on a GPU. The library finds this table next to the component's structure, and uses
 * it between MPI_Init and MPI_Finalize. Threads: any, but only one at a time for each handle.
 */
#ifndef GPURING_P2P_AWARE_H
#define GPURING_P2P_AWARE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/compat.h"

#define GPURING_AWARE_VERSION 2

/* Use of a buffer by the call. */
enum gpuring_aware_use {
    GPURING_AWARE_IN = 1,  /* the call reads it, or may leave some of its bytes unchanged */
    GPURING_AWARE_OUT = 2, /* the call writes it */
    /* Other processes wait for the call, so the caller makes it even after a failure. */
    GPURING_AWARE_COLLECTIVE = 4,
};

struct gpuring_aware {
    int version;

    /* Return true if point-to-point calls and collectives accept GPU buffers in this process. */
    bool (*serves)(void);

    /* Return true if the buffer is on a GPU and Open MPI itself does not accept it. */
    bool (*on_gpu)(const void *buffer, size_t count, MPI_Datatype type);

    /*
     * Get host memory that replaces a buffer on a GPU in a call with the same count and datatype.
     * *host is the address for that call. use: bits of enum gpuring_aware_use. function: its name
     * for messages, such as "MPI_Pack", which must remain valid until `end`.
     *
     * Return MPI_SUCCESS or an MPI error (logged). If *handle is not NULL, the caller can make the
     * call and must then call `end`. After an error, this is only the case for a collective call if
     * there is host memory, which then contains GPURING_POISON.
     */
    int (*begin)(const char *function, const void *buffer, size_t count, MPI_Datatype type,
                 unsigned use, void **handle, void **host);
    /* If `out`, copy the data that the call has written to the user's buffer. Release the handle.
     * Return MPI_SUCCESS or an MPI error (logged). */
    int (*end)(void *handle, bool out);
};

/* The component's symbol. */
struct gpuring_aware_component {
    mca_coll_base_component_t super;
    const struct gpuring_aware *aware;
};

extern const struct gpuring_aware gpuring_p2p_aware;

#endif
