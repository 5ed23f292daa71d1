/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Status codes of the core: everything below the glue returns 0 or one of these. The core knows
 * nothing of MPI; the glue converts them (compat.h) into MPI error codes and help texts.
 */
#ifndef GPURING_UTIL_STATUS_H
#define GPURING_UTIL_STATUS_H

/* X(NAME, number, text for messages); GPURING_ERR_NAME is -number. */
#define GPURING_ERRORS(X)                                                                     \
    X(ARG, 1, "invalid argument") /* an argument or parameter is out of range */              \
    X(NOMEM, 2, "out of memory")  /* host, pinned or device memory, descriptors */            \
    X(IO, 3, "system or driver call failed")                                                  \
    X(UNSUPPORTED, 4, "not supported here") /* legal, but not by this build, device or net */ \
    X(TIMEOUT, 5, "timed out")                                                                \
    X(ABORTED, 6, "stopped, as another rank or thread failed")                                \
    X(PEER, 7, "peer process lost") /* or it speaks another protocol version */               \
    X(NET, 8, "network error")                                                                \
    X(DATA, 9, "wrong data found")                   /* by a check of results or of a path */ \
    X(MIXED, 10, "host and GPU buffers in one call") /* at different ranks */                 \
    X(DISAGREE, 11, "ranks disagree")       /* they have different parameters, or versions */ \
    X(DEVICE, 12, "a GPU no longer works")  /* it does not even copy */                       \
    X(FILES, 13, "out of file descriptors") /* of the process or of the system */             \
    X(REFUSED, 14, "the system refuses a call that is needed") /* as containers do */         \
    X(COUNTS, 15, "the ranks gave different counts to one call")                              \
    X(CALLS, 16, "the ranks made different calls")                                            \
    X(CONTEXT, 17, "the CUDA context of GPU buffers was destroyed")                           \
    X(STALE, 18, "verbs queue pairs failed during connecting") /* the ranks connect once more */

enum gpuring_status {
    GPURING_AGAIN = 1, /* not an error: nothing more can be done now, call again */
    GPURING_OK = 0,
#define GPURING_STATUS_ENUM(name, number, text) GPURING_ERR_##name = -(number),
    GPURING_ERRORS(GPURING_STATUS_ENUM)
#undef GPURING_STATUS_ENUM
};

/* A short English name of a status ("out of memory"); never NULL, static storage. */
const char *gpuring_status_text(int status);

#endif
