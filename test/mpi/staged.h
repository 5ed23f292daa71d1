/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Calls of every collective with buffers, in every form; see staged.c. */
#ifndef GPURING_TEST_STAGED_H
#define GPURING_TEST_STAGED_H

#include "harness.h"

#define PEERS 128

/* One call. It has the arguments of all collectives, and each collective uses some of them. */
struct call {
    enum form form;
    MPI_Comm comm;
    MPI_Request request; /* only for forms with a request */

    int rank, size;       /* in the communicator (its own group) */
    int sources, targets; /* number of ranks that send to this one and receive from it */
    bool root_here;       /* this rank is the root; `root` is MPI's argument */
    bool bystander;       /* not the root, but in its group (intercommunicators) */
    int root;

    const void *send; /* or MPI_IN_PLACE */
    void *receive;
    MPI_Datatype type;
    MPI_Op op;
    int count;                            /* for blocks of one size */
    int part;                             /* reduce_scatter_block: the sum over all ranks is 12 */
    int give;                             /* this rank's count if the counts of ranks differ */
    int from_counts[PEERS];               /* counts of the sources if they differ */
    int parts[PEERS];                     /* for reduce_scatter */
    int from_displs[PEERS];               /* for both, in extents */
    int s_counts[PEERS], r_counts[PEERS]; /* for alltoallv */
    int s_displs[PEERS], r_displs[PEERS]; /* in extents */
    int s_bytes[PEERS], r_bytes[PEERS];   /* for alltoallw */
    MPI_Aint s_aints[PEERS], r_aints[PEERS];
    MPI_Datatype s_types[PEERS], r_types[PEERS];
};

enum {
    ROOTED = 1,       /* has a root */
    REDUCES = 2,      /* has an operation */
    IN_PLACE = 4,     /* accepts MPI_IN_PLACE as send buffer, only on the root if there is one */
    SCATTERS = 8,     /* accepts MPI_IN_PLACE as receive buffer of the root */
    ONE_GROUP = 16,   /* not between groups */
    NEIGHBORS = 32,   /* needs a topology */
    FIRST_KEEPS = 64, /* does not change rank 0's receive buffer */
    SYMMETRIC = 256,  /* all ranks have GPU buffers, or none has, unless they agree */
    ONE_BLOCK = 128   /* has one vector, not one block for each peer */
};

struct collective {
    const char *name;
    unsigned flags;
    int (*call)(struct call *call);
};

extern const struct collective collectives[]; /* the end has no name */

/* Make a call in its form and wait for it, or start a persistent one again. Return true if no
 * function has failed. */
bool complete_call(struct call *call, const struct collective *what);
bool start_again(struct call *call);

#endif
