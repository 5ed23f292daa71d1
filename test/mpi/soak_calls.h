/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Random calls of all collectives and their expected results, which each rank computes alone; see
 * soak.c.
 */
#ifndef GPURING_TEST_SOAK_CALLS_H
#define GPURING_TEST_SOAK_CALLS_H

#include "harness.h"
#include "soak_types.h"

#define SOAK_RANKS 16

enum soak_form { SOAK_BLOCKING, SOAK_NONBLOCKING, SOAK_PERSISTENT, SOAK_FORMS };

enum soak_what {
    SOAK_BCAST,
    SOAK_GATHER,
    SOAK_GATHERV,
    SOAK_SCATTER,
    SOAK_SCATTERV,
    SOAK_ALLGATHER,
    SOAK_ALLGATHERV,
    SOAK_ALLTOALL,
    SOAK_ALLTOALLV,
    SOAK_ALLTOALLW,
    SOAK_ALLREDUCE, /* reductions from here on */
    SOAK_REDUCE,
    SOAK_SCAN,
    SOAK_EXSCAN,
    SOAK_REDUCE_SCATTER_BLOCK,
    SOAK_REDUCE_SCATTER,
    SOAK_WHATS
};

/* One of the two buffers of a call on this rank. */
struct soak_side {
    int blocks;                                 /* 0: the argument is not used */
    bool even, each;                            /* each: blocks have different types, alltoallw */
    struct soak_type types[SOAK_RANKS];         /* one type, or one for each block */
    int counts[SOAK_RANKS], displs[SOAK_RANKS]; /* displs: in extents, or with `each` in bytes */
    MPI_Datatype handles[SOAK_RANKS];
    void *address; /* argument of the MPI call */
    char *memory;  /* allocated memory, including guard bytes */
    char *before;  /* content before the call */
    size_t bytes, origin;
    bool on_gpu;
};

/* A call. The first members are equal on all ranks. */
struct soak_call {
    int number, comm_number, root;
    MPI_Comm comm;
    int rank, size; /* in the communicator */
    enum soak_what what;
    enum soak_form form;
    bool in_place, on_gpus; /* on_gpus: each rank has a buffer on a GPU, where that matters */
    uint64_t seed, data;    /* seeds of its lengths and of its data */
    struct soak_signature signature;
    const struct harness_type *type; /* only for reductions */
    const struct harness_op *op;
    int length; /* cells of a block, or elements of a reduction */

    bool reuses; /* in place on this rank */
    struct soak_side send, receive;
    char *seen; /* room for the content of either buffer */
    MPI_Request request;
};

/* Draw a call on a communicator, equal on all ranks. `most` is the approximate maximum size of a
 * buffer in bytes. `only` selects a collective; SOAK_WHATS means any. */
void soak_call_draw(struct soak_call *call, uint64_t *shared, enum soak_what only, size_t most);
/* Choose this rank's types and buffers. */
void soak_call_open(struct soak_call *call, uint64_t *own, bool agree);
void soak_call_close(struct soak_call *call);
/* Fill the buffers with new data. */
void soak_call_fill(struct soak_call *call);
/* Make the call, and return its MPI error code. Defined in soak_make.c. */
int soak_call_make(struct soak_call *call);
/* Check the result. Return NULL or a description of the error. */
const char *soak_call_check(struct soak_call *call);
const char *soak_call_text(const struct soak_call *call);

#endif
