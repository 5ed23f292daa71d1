/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Plans: one algorithm for one rank, as data. plan/build*.c builds plans from channels,
 * plan/plan_check.c proves them, and kernels/ executes them.
 *
 * A connection is identified by (sender, receiver, key), which is unique within a plan. The
 * sender's plan lists {peer, key} among its sends, the receiver's plan lists it among its receives,
 * and the transport creates one FIFO for each such triple. A connection belongs to exactly one lane
 * at each end.
 *
 * A communicator has the connections of its base plans. There is one base plan per algorithm: the
 * allreduce, or the alltoall for direct exchanges between many ranks and by node. The plans of all
 * other collectives and roots reuse these connections, one operation after another. Such a plan is
 * built on its base plan and lists the same connections. Each of its lanes uses connections of the
 * base lanes that have the same part.
 *
 * Ownership: a plan owns everything it points to; gpuring_plan_free frees it. A built plan is
 * never changed, so it may be read from any number of threads.
 */
#ifndef GPURING_PLAN_PLAN_H
#define GPURING_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/step.h"

#define GPURING_CHANNEL_MAX_DOWN                                          \
    3 /* children of a rank in a tree: two of its chain or node, one more \
         across nodes; see mca/topo_pci/search/pci_channels.h */

/* One rank's position in one ring or tree channel; ranks are ranks of the communicator. */
struct gpuring_ring_position {
    int prev, next;
    int index; /* position in the ring, 0 .. nranks-1; the same origin on all ranks */
};

struct gpuring_tree_position {
    int up;                             /* parent, -1: this rank is the root */
    int down[GPURING_CHANNEL_MAX_DOWN]; /* children, -1: none; no gaps */
};

struct gpuring_channel {
    struct gpuring_ring_position ring;
    struct gpuring_tree_position
        tree[2]; /* the double binary tree: each carries half of the data */
};

/*
 * The collectives that plans perform: X(NAME, text, blocks). blocks is true if the input or the
 * output has one block per rank, and false if both are one vector. Calls with blocks of different
 * sizes (MPI_Allgatherv) are the same collective with other extents. postcondition.c defines the
 * result on each rank, and plan_check.c proves it.
 */
#define GPURING_PLAN_COLLECTIVES(X)               \
    X(ALLREDUCE, "MPI_Allreduce", false)          \
    X(BCAST, "MPI_Bcast", false)                  \
    X(REDUCE, "MPI_Reduce", false)                \
    X(SCAN, "MPI_Scan", false)                    \
    X(EXSCAN, "MPI_Exscan", false)                \
    X(ALLGATHER, "MPI_Allgather", true)           \
    X(REDUCE_SCATTER, "MPI_Reduce_scatter", true) \
    X(ALLTOALL, "MPI_Alltoall", true)             \
    X(GATHER, "MPI_Gather", true)                 \
    X(SCATTER, "MPI_Scatter", true)

enum gpuring_collective {
#define GPURING_COLLECTIVE_ENUM(name, text, blocks) GPURING_COLLECTIVE_##name,
    GPURING_PLAN_COLLECTIVES(GPURING_COLLECTIVE_ENUM)
#undef GPURING_COLLECTIVE_ENUM
        GPURING_COLLECTIVE_COUNT
};

/* "MPI_Allreduce", "ring" */
const char *gpuring_collective_text(enum gpuring_collective collective);
static inline bool gpuring_collective_has_blocks(enum gpuring_collective collective)
{
#define GPURING_PLAN_BLOCKS(name, text, blocks) blocks,
    static const bool have[] = {GPURING_PLAN_COLLECTIVES(GPURING_PLAN_BLOCKS)};
#undef GPURING_PLAN_BLOCKS

    return have[collective];
}
static inline bool gpuring_collective_reduces(enum gpuring_collective collective)
{
    return collective == GPURING_COLLECTIVE_ALLREDUCE || collective == GPURING_COLLECTIVE_REDUCE ||
           collective == GPURING_COLLECTIVE_SCAN || collective == GPURING_COLLECTIVE_EXSCAN ||
           collective == GPURING_COLLECTIVE_REDUCE_SCATTER;
}
const char *gpuring_algorithm_text(enum gpuring_algorithm algorithm);

/* One end of a connection. */
struct gpuring_plan_conn {
    int peer;     /* rank of the other end */
    uint32_t key; /* distinguishes connections of the same pair and direction */
};

struct gpuring_plan_lane {
    uint32_t part_begin, part_end; /* share of the vector in units of plan->weight */
    uint32_t nchunks;              /* chunks per window */
    uint32_t nsteps;               /* rings store fewer: gpuring_lane_step() */
    uint32_t nrefs;
    uint32_t first_recv, nrecvs; /* this lane's connections: plan->recvs[first_recv + ref] */
    uint32_t first_send, nsends;
    const struct gpuring_step *steps; /* in the plan's lists */
    const uint16_t *refs;
};

struct gpuring_plan {
    enum gpuring_collective collective;
    enum gpuring_algorithm algorithm; /* that of the base plan, if there is one */
    int rank, nranks, root;
    bool in_order;   /* contributions are folded one by one in rank order: ((x0 op x1) op x2) .. */
    uint32_t weight; /* parts are intervals of [0, weight] */
    uint32_t parts;  /* units of weight in a channel */
    int node_ranks;  /* that of the input */
    uint32_t nlanes, nrecvs, nsends;
    uint32_t nsteps, nrefs; /* length of the lists below, which hold lane after lane */
    struct gpuring_plan_lane *lanes;
    struct gpuring_plan_conn *recvs;
    struct gpuring_plan_conn *sends;
    struct gpuring_step *steps;
    uint16_t *refs;
};

/* Return step `k` of a lane and set *chunk to the chunk that it handles. */
static inline const struct gpuring_step *gpuring_lane_step(const struct gpuring_plan_lane *lane,
                                                           uint32_t k, uint32_t *chunk)
{
    return &lane->steps[gpuring_step_at(lane->steps, k, lane->nchunks, chunk)];
}

/* Input of the builders. */
struct gpuring_plan_input {
    int rank, nranks;                       /* nranks >= 2 */
    const struct gpuring_channel *channels; /* max(nrings, ntrees) elements */
    uint32_t nrings, ntrees;
    /* Stripes of direct and of two-shot, which are equal parts of the vector; ntwo_shot 0: ndirect.
     * Between nodes, two-shot has ndirect stripes with one part per rank of a node. */
    uint32_t ndirect, ntwo_shot;
    /* Lanes per stripe of direct in plans with a block for each peer; 0 means 1. */
    uint32_t direct_lanes;

    bool in_order; /* fold in rank order: build chains instead of the channels' trees */

    /* For nodes of hosts. The lists have nranks elements. */
    /* Number of nodes if all nodes have the same number of ranks, for two-shot; otherwise 0 or
     * 1. */
    int nnodes;
    const int *by_node; /* ranks by node */
    const int *node;    /* node of each rank; only gpuring_plan_build reads it */
    bool doubling;      /* let the plan of direct be an allreduce by doubling */
    bool exchange;      /* let the plan of two-shot be an alltoall by node */

    /* Ranks of each node if all nodes have the same number of ranks, two or more, and the ranks of
     * a node follow each other. Otherwise 0. For alltoalls by node. */
    int node_ranks;

    /* For plans on a base plan: */
    const struct gpuring_plan *base; /* this rank's base plan, which lists the connections */
    const uint16_t *order; /* order[c * nranks + index] is the rank at a position of ring c. After
                              all rings, order[(nrings + t) * nranks + rank] is the parent of a rank
                              in tree t of 2 * ntrees; the top is its own parent. */
    int root;              /* of rooted collectives */
};

/*
 * Build the base plan of an algorithm: its allreduce. Direct exchanges between more than
 * GPURING_DIRECT_MAX_VECTOR_RANKS ranks have no allreduce, so their base plan is the alltoall. That
 * of an alltoall by node is the plan with GPURING_ROOT_BETWEEN_NODES.
 * Returns 0 and sets *plan to a new plan, or returns GPURING_ERR_ARG or GPURING_ERR_NOMEM after a
 * log line and leaves *plan untouched. Time and memory per rank are O(channels) for rings and trees
 * and O(nranks) for exchanges.
 */
int gpuring_plan_build(enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                       struct gpuring_plan **plan);

/* Build the plan of any other collective on the connections of input->base. Returns as above, and
 * GPURING_ERR_UNSUPPORTED without a log line if this algorithm cannot perform the collective. */
int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan);

/* Up to this number of ranks, direct exchanges also serve collectives on vectors. Between more
 * ranks they serve scans and collectives with blocks only, because sending a whole vector to every
 * other rank would take too long. */
#define GPURING_DIRECT_MAX_VECTOR_RANKS 16

/* Maximum number of ranks of a direct exchange, which connects every rank with every other one. */
#define GPURING_DIRECT_MAX_RANKS 1024

/* Maximum number of nodes of an alltoall by node, in which a rank is connected with every other
 * node. */
#define GPURING_EXCHANGE_MAX_NODES 4096

/*
 * A root of an alltoall: its plan is for messages between some of the ranks. Each message has a
 * lane in every stripe, so that none waits for another one. There is no block for the own rank, no
 * MPI_IN_PLACE, and each connection carries two blocks: block nranks + peer, and then block `peer`.
 * The first one is for a header of at most GPURING_PART_BYTES, and the second one for the data.
 */
#define GPURING_ROOT_MESSAGES (-1)

/*
 * Roots of an alltoall by node (build_exchange.c), which runs two plans one after the other. The
 * blocks of the first one are joined: a block is for a node, and consists of those for its ranks.
 * The second one runs in place, on the output of the first one.
 */
#define GPURING_ROOT_BETWEEN_NODES (-2)
#define GPURING_ROOT_WITHIN_NODES  (-3)

static inline int gpuring_plan_blocks(const struct gpuring_plan *plan)
{
    return plan->root == GPURING_ROOT_MESSAGES        ? 2 * plan->nranks
           : plan->root == GPURING_ROOT_BETWEEN_NODES ? plan->nranks / plan->node_ranks
                                                      : plan->nranks;
}

/* Return true if a collective of `nranks` ranks can run on the connections of an algorithm. With
 * in_order, reductions fold in rank order and trees are chains. Rings never fold in rank order. */
bool gpuring_plan_exists(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                         bool in_order, int nranks);

/* Return true if gpuring_plan_build_on can build a plan of a collective on a base plan. */
bool gpuring_plan_exists_on(enum gpuring_collective collective, const struct gpuring_plan *base,
                            bool in_order);

/* Return the channel of a connection, or its stripe in plans without channels. */
uint32_t gpuring_plan_channel(const struct gpuring_plan *plan, uint32_t key);

void gpuring_plan_free(struct gpuring_plan *plan); /* NULL is allowed */

/*
 * Return the number of lanes that serve the first `channels` channels (rings, pairs of trees, or
 * stripes) of a plan, and set *parts to the weight that these lanes cover. Small vectors use these
 * lanes alone, as if the plan had been built with that number of channels.
 */
uint32_t gpuring_plan_first_lanes(const struct gpuring_plan *plan, uint32_t channels,
                                  uint32_t *parts);

/* Return the number of channels of a plan. */
uint32_t gpuring_plan_channels(const struct gpuring_plan *plan);

/*
 * Run the plans of all ranks symbolically and prove that
 *  - the parts tile the vector and the collective's postcondition holds: each chunk that a rank
 *    must hold is stored once and contains each contribution exactly once, and nothing else is
 *    stored,
 *  - all ranks that hold the same result have folded it in the same order, so their bits are equal;
 *    plans with in_order fold in rank order,
 *  - no rank reads its input after overwriting it, so MPI_IN_PLACE is safe. Lanes of a rank are
 *    ordered only by the data that flows between them,
 *  - a lane flagged GPURING_STEP_SINGLE_USE uses each connection at most once per window,
 *  - sends and receives match, chunk by chunk, and nothing deadlocks with `slots` FIFO slots per
 *    connection.
 *
 * Running one window in one order proves all orders. Lanes are processes of a Kahn network: each
 * waits for one thing at a time and never polls, so all orders have the same result. (A bounded
 * FIFO is a second connection that returns free slots.) The check requires that the FIFOs are empty
 * at the end of the window. Running the windows one after another is then a possible order, and
 * orders in which some lanes run ahead have the same result.
 *
 * Returns 0, GPURING_ERR_DATA with the first violation in text[0..size-1], or GPURING_ERR_NOMEM.
 */
int gpuring_plan_check(const struct gpuring_plan *const *plans, int nranks, uint32_t slots,
                       char *text, size_t size);

#endif
