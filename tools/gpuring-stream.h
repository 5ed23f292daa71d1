/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Shared by the files of libgpuring_stream.so. */
#ifndef GPURING_STREAM_LIBRARY_H
#define GPURING_STREAM_LIBRARY_H

#include <stdio.h>

#include "mca/coll_gpuring/stream/stream_calls.h"
#include "tools/gpuring_stream.h"

/* Define a function of gpuring_stream.h with its two names; see gpuring-stream.c. */
#define FUNCTION(name)                           \
    extern __typeof__(MPIX_##name) PMPIX_##name, \
        MPIX_##name __attribute__((weak, alias("PMPIX_" #name)))

/* Errors without a communicator belong to this one (MPI 4.0; before, to MPI_COMM_WORLD). */
#if MPI_VERSION >= 4
#define ERRORS_WITHOUT_COMM MPI_COMM_SELF
#else
#define ERRORS_WITHOUT_COMM MPI_COMM_WORLD
#endif

/* Call the error handler of a communicator, unless `code` is MPI_SUCCESS. Returns the code. */
int gpuring_stream_raise(MPI_Comm comm, int code);

/* Print why a function fails, and call the error handler. */
#define FAIL(comm, code, ...)                                                                     \
    (fprintf(stderr, "libgpuring_stream: "), fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), \
     gpuring_stream_raise(comm, code))

/* The attribute of a communicator with a stream. */
struct gpuring_stream_attached {
    MPI_Comm calls; /* for enqueued calls */
    MPIX_Stream stream;
    struct gpuring_stream_request *first; /* messages that were not started, in their order */
};

/* A message of a request. */
struct gpuring_stream_request {
    struct gpuring_stream_request *next;
    struct gpuring_stream_attached *attached; /* NULL: the message was started, or never will be */
    MPI_Comm comm; /* for errors; MPI_COMM_NULL: the error handler was called for `code` */
    int code;      /* error of the exchange that it was in */
    struct gpuring_stream_message message;
};

/* Return the attribute of a communicator, or NULL if it has no stream. */
struct gpuring_stream_attached *gpuring_stream_attached(MPI_Comm comm);

/* Fail because a communicator has no stream. */
int gpuring_stream_missing(MPI_Comm comm, const char *function);

/* Return the functions of the component, which exist if any communicator has a stream. */
const struct gpuring_stream_functions *gpuring_stream_component(void);

#endif
