/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Calls of every collective with buffers, in every form; see staged.c. */
#ifndef GPURING_TEST_STAGED_H
#define GPURING_TEST_STAGED_H

#include <mpi.h>
#include <stdbool.h>

#define PEERS 16

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

/* One call: the arguments of all collectives, of which each takes its own. */
struct call {
    enum form form;
    MPI_Comm comm;
    MPI_Request request; /* of a form that has one */

    int rank, size;       /* in the communicator (its own group) */
    int sources, targets; /* number of ranks that send to this one and receive from it */
    bool root_here;       /* this rank is the root; root: as MPI wants it */
    bool bystander;       /* of the root's group, between groups */
    int root;

    const void *send; /* or MPI_IN_PLACE */
    void *receive;
    MPI_Datatype type;
    MPI_Op op;
    int count;                            /* of blocks of one size */
    int part;                             /* of reduce_scatter_block: all ranks' make 12 */
    int give;                             /* this rank's own, where ranks' counts differ */
    int from_counts[PEERS];               /* of the sources, where they differ */
    int parts[PEERS];                     /* of reduce_scatter */
    int from_displs[PEERS];               /* of both, in extents */
    int s_counts[PEERS], r_counts[PEERS]; /* of alltoallv */
    int s_displs[PEERS], r_displs[PEERS]; /* in extents */
    int s_bytes[PEERS], r_bytes[PEERS];   /* of alltoallw */
    MPI_Aint s_aints[PEERS], r_aints[PEERS];
    MPI_Datatype s_types[PEERS], r_types[PEERS];
};

enum {
    ROOTED = 1,       /* has a root */
    REDUCES = 2,      /* has an operation */
    IN_PLACE = 4,     /* takes MPI_IN_PLACE as the send buffer, of the root alone if it has one */
    SCATTERS = 8,     /* of the root as the receive buffer */
    ONE_GROUP = 16,   /* not between groups */
    NEIGHBORS = 32,   /* needs a topology */
    FIRST_KEEPS = 64, /* leaves rank 0's receive buffer alone */
    SYMMETRIC = 256,  /* all ranks have GPU buffers, or none has, unless they agree */
    ONE_BLOCK = 128   /* of one vector, not of one for each peer */
};

struct collective {
    const char *name;
    unsigned flags;
    int (*call)(struct call *call);
};

extern const struct collective collectives[]; /* the end has no name */

#endif
