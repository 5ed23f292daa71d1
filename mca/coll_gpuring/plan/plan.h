/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Plans: one algorithm for one rank, as data. Built by plan/build*.c from channels, proven by
 * plan/check.c, executed by kernels/.
 *
 * Connections are named by (sender, receiver, key), unique within a plan: the sender's plan lists
 * {peer, key} among its sends, the receiver's plan among its receives; the transport creates one
 * FIFO for each such triple of each plan. A connection belongs to exactly one lane at each end.
 *
 * A communicator has the connections of its base plans, one for each algorithm: the allreduce, or
 * the alltoall of direct between many ranks. The plans of the other collectives, for each root, run
 * on these, one operation after the other: such a plan is built upon the base whose connections it
 * uses, and lists the same connections, of which a lane has those of the base's lanes for the same
 * part.
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
 * The collectives that plans perform: X(NAME, text, blocks). blocks: input or output have a
 * block for each rank; else both are one vector. Calls whose blocks differ in size
 * (MPI_Allgatherv) are the same collective with other extents. What a rank holds in the end is
 * stated in postcondition.c; check.c proves it.
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
bool gpuring_collective_reduces(enum gpuring_collective collective);
const char *gpuring_algorithm_text(enum gpuring_algorithm algorithm);

/* One end of a connection. */
struct gpuring_plan_conn {
    int peer;     /* rank of the other end */
    uint32_t key; /* distinguishes connections of the same pair and direction */
};

struct gpuring_plan_lane {
    uint64_t part_begin, part_end; /* share of the vector in units of plan->weight */
    uint32_t nchunks;              /* chunks per window */
    uint32_t nsteps;               /* not all are stored: gpuring_lane_step() */
    uint32_t nrefs;
    uint32_t first_recv, nrecvs; /* this lane's connections: plan->recvs[first_recv + ref] */
    uint32_t first_send, nsends;
    const struct gpuring_step *steps; /* in the plan's lists */
    const uint16_t *refs;
};

struct gpuring_plan {
    enum gpuring_collective collective;
    enum gpuring_algorithm algorithm; /* of the base, if it has one */
    int rank, nranks, root;
    bool in_order;   /* operands are folded one by one in the order of the ranks that they are of:
                        ((x0 op x1) op x2) op .. */
    uint64_t weight; /* unit of part_begin/part_end: parts of all lanes lie in [0, weight] */
    uint32_t nlanes, nrecvs, nsends;
    uint32_t nsteps, nrefs; /* of all lanes, lane after lane; of steps those that are stored */
    struct gpuring_plan_lane *lanes;
    struct gpuring_plan_conn *recvs;
    struct gpuring_plan_conn *sends;
    struct gpuring_step *steps;
    uint16_t *refs;
};

/* Step K of a lane, and the chunk that it handles. */
static inline const struct gpuring_step *gpuring_lane_step(const struct gpuring_plan_lane *lane,
                                                           uint32_t k, uint32_t *chunk)
{
    return &lane->steps[gpuring_step_at(lane->steps, k, lane->nchunks, chunk)];
}

/* Does a lane with these steps use each of its connections once a window (GPURING_STEP_ONCE)? Not
 * of rings, which are stored shorter. */
bool gpuring_steps_use_once(const struct gpuring_step *steps, uint32_t nsteps,
                            const uint16_t *refs);

/* What builders work from: this rank's places in the channels, and how many of them there are. */
struct gpuring_plan_input {
    int rank, nranks;                       /* nranks >= 2 */
    const struct gpuring_channel *channels; /* the greater number of rings and trees */
    uint32_t nrings, ntrees;
    uint32_t ndirect, nstripes; /* stripes of direct and of two-shot: equal cuts of the vector, with
                                   two-shot each with a part for every rank */
    uint32_t direct_lanes; /* of a stripe of direct, where there are steps for each peer; 0: one */

    bool in_order; /* reductions fold in the order of the ranks: trees are chains, whatever the
                      channels say */

    /* Of the other collectives: */
    const struct gpuring_plan *base; /* this rank's plan that names the connections */
    const uint16_t *order; /* the ranks of ring c, by index: order[c * nranks + index]; behind all
                              rings each rank's parent in tree t (of 2 * ntrees):
                              order[(nrings + t) * nranks + rank], the top's is itself */
    int root;              /* of rooted collectives */
};

/*
 * The base plan of an algorithm: the allreduce; of direct between more than GPURING_DIRECT_AT_ONCE
 * ranks, which has none, the alltoall. Returns 0 and a new plan in *plan, or GPURING_ERR_ARG /
 * GPURING_ERR_NOMEM with a log line, *plan untouched. Time and memory are O(channels) per rank for
 * rings and trees, O(nranks) for exchanges.
 */
int gpuring_plan_build(enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                       struct gpuring_plan **plan);

/* The same for any other collective, on input->base. GPURING_ERR_UNSUPPORTED, without a log line:
 * it is not made of this algorithm. */
int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan);

/* Up to so many ranks, direct serves vectors, too. Between more it serves blocks, and scans from
 * rank to rank: what a rank sends to all others is short, or each of them has its own part of it.
 */
#define GPURING_DIRECT_AT_ONCE 16

/* Direct connects at most so many ranks: each has a connection to and from every other one. */
#define GPURING_DIRECT_MOST 1024

/* Can a collective of so many ranks run on the connections of an algorithm? in_order: reductions
 * fold in the order of the ranks, and trees are chains; but on rings, which have no such order. */
bool gpuring_plan_exists(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                         bool in_order, int nranks);

/* The channel that a connection belongs to, or the stripe, for plans without channels. */
uint32_t gpuring_plan_channel(const struct gpuring_plan *plan, uint32_t key);

void gpuring_plan_free(struct gpuring_plan *plan); /* NULL is allowed */

/*
 * Small vectors use the first channels of a plan only (rings, pairs of trees or stripes): its first
 * lanes, as if it had been built with so few. Returns the number of these lanes; *parts: their part
 * of the weight.
 */
uint32_t gpuring_plan_first_lanes(const struct gpuring_plan *plan, uint32_t channels,
                                  uint64_t *parts);

/*
 * The elements [*first, *first + *count) of a vector of `total` elements that lane `lane` works
 * on, if so many parts of the weight are used. Bounds are rounded down to multiples of `align`
 * elements (the last part takes the rest), and are the same on every rank for equal shares.
 */
void gpuring_plan_lane_range(const struct gpuring_plan *plan, uint32_t lane, uint64_t parts,
                             uint64_t total, uint64_t align, uint64_t *first, uint64_t *count);

/* How many channels a plan has. */
uint32_t gpuring_plan_channels(const struct gpuring_plan *plan);

/*
 * The checker: runs the plans of all ranks symbolically and proves that
 *  - the parts tile the vector, and the postcondition of the plans' collective holds: each chunk
 *    that a rank must hold is stored once, and has each contribution exactly once, and nothing else
 *    is stored,
 *  - what several ranks hold was folded in the same order (equal bits everywhere), and if the plans
 *    say so, in the order of the ranks,
 *  - no rank reads its input after it overwrote it (MPI_IN_PLACE is safe); lanes of a rank are
 *    ordered by the data that flows between them alone,
 *  - a lane that says so uses each connection once,
 *  - sends and receives match, chunk by chunk, and nothing deadlocks with `slots` FIFO slots per
 *    connection.
 * One window in one order is a proof for all: lanes are processes that wait for one thing at a time
 * and never look whether something is there, so all orders end alike (a Kahn network; a bounded
 * FIFO is a second one that carries free slots back). The window must end with empty FIFOs; then
 * running window after window is one possible order, and those with lanes ahead end alike.
 * Returns 0, or GPURING_ERR_DATA with the first violation in text[0..size-1]; GPURING_ERR_NOMEM.
 */
int gpuring_plan_check(const struct gpuring_plan *const *plans, int nranks, uint32_t slots,
                       char *text, size_t size);

#endif
