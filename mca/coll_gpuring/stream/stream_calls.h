/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Functions of the component for libgpuring_stream.so (tools/gpuring-stream.c), which has the MPIX
 * functions that programs call. The library finds this table as a symbol of the component, and uses
 * it between MPI_Init and MPI_Finalize. doc/hacking/stream.md describes how both work together.
 *
 * Functions return MPI_SUCCESS or an MPI error code. The component has logged the cause. It does
 * not call error handlers.
 */
#ifndef GPURING_STREAM_CALLS_H
#define GPURING_STREAM_CALLS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define GPURING_STREAM_VERSION 4
#define GPURING_STREAM_SYMBOL  "mca_coll_gpuring_stream"

/* The calls: X(name of the collective, name of the function). */
#define GPURING_STREAM_CALLS(X)                                  \
    X(allreduce, "MPIX_Allreduce_enqueue")                       \
    X(bcast, "MPIX_Bcast_enqueue")                               \
    X(reduce, "MPIX_Reduce_enqueue")                             \
    X(allgather, "MPIX_Allgather_enqueue")                       \
    X(reduce_scatter_block, "MPIX_Reduce_scatter_block_enqueue") \
    X(alltoall, "MPIX_Alltoall_enqueue")                         \
    X(barrier, "MPIX_Barrier_enqueue")

enum gpuring_stream_call {
#define GPURING_STREAM_ENUM(name, text) GPURING_STREAM_##name,
    GPURING_STREAM_CALLS(GPURING_STREAM_ENUM)
#undef GPURING_STREAM_ENUM
        GPURING_STREAM_COUNT
};

/* The arguments of a call. Unused ones are zero. If a call has one count and datatype for both
 * buffers, these are rcount and rtype. If it has one buffer, this is rbuf. */
struct gpuring_stream_arguments {
    const void *sbuf;
    size_t scount;
    MPI_Datatype stype;
    void *rbuf;
    size_t rcount;
    MPI_Datatype rtype;
    MPI_Op op;
    int root;
};

/* A message. Its buffer, count and datatype are those of the call. */
struct gpuring_stream_message {
    bool sends;
    int peer; /* rank of this communicator, or MPI_ANY_SOURCE */
    int tag;
    void *buffer;
    size_t count;
    MPI_Datatype type;
};

struct gpuring_stream_functions {
    int version;

    /*
     * Collective over `comm`, which must not be used for anything else until it is freed. Connect
     * the ranks for calls in the streams that they pass, which are handles of the driver. If a rank
     * has an error, all ranks return an error.
     */
    int (*connect)(MPI_Comm comm, void *stream);

    /* Wait until all calls of a connected communicator have ended. Call this before MPI_Comm_free,
     * because messages of MPI that connect nodes hold the communicator. */
    void (*close)(MPI_Comm comm);

    /* Enqueue a call. Does not wait, except for memory of a plan that is used for the first time.
     */
    int (*enqueue)(MPI_Comm comm, enum gpuring_stream_call what,
                   const struct gpuring_stream_arguments *arguments);

    /* Check a message before it is enqueued: its peer, datatype and buffer. `function` is the name
     * of the call, for messages of errors. */
    int (*check)(MPI_Comm comm, const char *function, const struct gpuring_stream_message *message);

    /* Enqueue messages that are exchanged simultaneously, which were checked. */
    int (*exchange)(MPI_Comm comm, const char *function,
                    const struct gpuring_stream_message *messages, int count);

    /* Return the error of earlier calls, of this rank or another one. Does not wait. */
    int (*error)(MPI_Comm comm);
};

struct mca_coll_gpuring_module_t;

/* For the component. gpuring_stream_close waits until all calls of a module have ended, and frees
 * its state, if it has one. It must be called before the engine is destroyed. gpuring_stream_finish
 * ends the thread that watches calls. */
void gpuring_stream_close(struct mca_coll_gpuring_module_t *module);
void gpuring_stream_finish(void);

/* The component's symbol. */
extern const struct gpuring_stream_functions mca_coll_gpuring_stream;

#endif
