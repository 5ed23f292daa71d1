/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Status codes of the core: everything below the glue returns 0 or one of these. The core knows
 * nothing of MPI; the glue converts them (compat.h) into MPI error codes and help texts.
 */
#ifndef GPURING_UTIL_STATUS_H
#define GPURING_UTIL_STATUS_H

enum gpuring_status {
    GPURING_AGAIN = 1, /* not an error: nothing more can be done now, call again */
    GPURING_OK = 0,
    GPURING_ERR_ARG = -1,         /* an argument or parameter is out of range */
    GPURING_ERR_NOMEM = -2,       /* out of host, pinned or device memory, or of descriptors */
    GPURING_ERR_IO = -3,          /* a system or driver call failed */
    GPURING_ERR_UNSUPPORTED = -4, /* legal, but this build, device or network cannot do it */
    GPURING_ERR_TIMEOUT = -5,     /* a wait passed its deadline */
    GPURING_ERR_ABORTED = -6,     /* stopped, as another lane, thread or rank failed */
    GPURING_ERR_PEER = -7,        /* a peer process died or speaks another protocol version */
    GPURING_ERR_NET = -8,         /* the network reported an error */
    GPURING_ERR_DATA = -9,        /* a check of results or of a path found wrong data */
    GPURING_ERR_MIXED = -10,      /* some ranks gave GPU buffers to a call, others none */
    GPURING_ERR_DISAGREE = -11,   /* ranks were given different parameters, or versions of this */
    GPURING_ERR_DEVICE = -12,     /* a GPU does not even copy any more */
};

/* A short English name of a status ("out of memory"); never NULL, static storage. */
const char *gpuring_status_text(int status);

#endif
