/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Every rank exchanges data directly with every other rank, so data takes one hop and no rank
 * forwards data for others. Each rank starts with its successor (rank + 1), so that not all ranks
 * write to the same one. Operands are folded in rank order.
 *
 * direct: the allreduce is one-shot. It has one lane per stripe and two steps, and every rank folds
 * the whole vector:
 *
 *   input > send to all others
 *   recv 0 + .. + input (at the own position) + .. + recv n-1 > output
 *
 * This trades n - 1 times the traffic for one hop of latency, which pays for small vectors.
 *
 * Blocks are exchanged in steps with GPURING_STEP_EACH, one to send and one to receive. Each stripe
 * covers its part of all blocks and has one lane. If each peer has its own block, a stripe may have
 * several lanes, each for some of the peers: a thread block moves far less data than the links can,
 * and additional lanes need no memory for connections, unlike additional stripes. With
 * MPI_IN_PLACE, the lane that sends a block to a peer is also the lane that overwrites this block
 * with the peer's data.
 *
 * This cannot deadlock. In each window a rank sends first. Its sends in window w need the slots of
 * window w - slots. The receiver has read these slots before it sends its own window
 * w - slots + 1, if it sends at all.
 *
 * Between more than GPURING_DIRECT_MAX_VECTOR_RANKS ranks, collectives on vectors use trees
 * (build_tree.c), except for scans, which use doubling: at distance d = 1, 2, 4 .. a rank has the
 * sum of itself and of the d - 1 ranks before it, and sends this sum to rank + d. Its output holds
 * the sum in the meantime. In an exclusive scan each rank except the last one does the same, and
 * sends its scan to the next rank:
 *
 *   input > send to rank + 1
 *   recv rank - 1 + input > output, send to rank + 2
 *   recv rank - 2 + output > output, send to rank + 4 ..
 *   exscan: recv rank - 1 > output
 *
 * A reduce-scatter between more ranks than a step can have operands folds in several steps.
 *
 * two-shot: a reduce-scatter followed by an allgather. A window has one chunk per rank, which that
 * rank folds for all ranks. There is one lane per stripe:
 *
 *   input > send the chunk of each other rank to this rank
 *   recv 0 + .. + input + .. + recv n-1 > output, send to all others
 *   recv the chunk of each other rank > output
 *
 * This takes two hops and 2 (n - 1) / n times the traffic, which is the minimum. A connection
 * carries two chunks per window, so it needs two slots: with one, two ranks whose second chunk
 * waits for the slot of the first would wait for each other.
 */
#include "mca/coll_gpuring/plan/build.h"

/* A lane of a stripe. Its peers are `first` to `end - 1` ranks after this one. */
struct lane {
    struct gpuring_writer *writer;
    uint32_t key;
    int rank, nranks, root;
    int first, end;
    uint32_t single_use; /* GPURING_STEP_SINGLE_USE or 0 */
};

/* Return the number of lanes per stripe if there are separate steps for each peer. */
static int count_lanes(const struct gpuring_plan_input *input)
{
    int most = input->nranks - 1, count = input->direct_lanes > 1 ? (int) input->direct_lanes : 1;

    return count < most ? count : most;
}

/* Begin lane `number` of the stripe's `count`. It uses each connection once, except in two-shot. */
static struct lane lane_begin(struct gpuring_writer *writer, uint32_t stripe, int number, int count)
{
    const struct gpuring_plan *plan = writer->plan;
    bool twice = plan->algorithm == GPURING_ALGORITHM_TWO_SHOT;
    bool chunks = twice || gpuring_collective_has_blocks(plan->collective);
    bool once = !twice && plan->nranks <= GPURING_ONCE_MOST + 1;
    int others = plan->nranks - 1;

    gpuring_writer_lane(writer, stripe, stripe + 1, chunks ? gpuring_plan_blocks(plan) : 1);
    return (struct lane){.writer = writer,
                         .key = gpuring_plan_key(plan, stripe, false),
                         .rank = plan->rank,
                         .nranks = plan->nranks,
                         .root = plan->root,
                         .first = 1 + number * others / count,
                         .end = 1 + (number + 1) * others / count,
                         .single_use = once ? GPURING_STEP_SINGLE_USE : 0};
}

static void add_step(const struct lane *lane, int block, uint32_t flags)
{
    gpuring_writer_step(lane->writer, (uint32_t) block, flags | lane->single_use);
}

/* Return the i-th rank after this one, modulo the number of ranks. */
static int behind(const struct lane *lane, int i)
{
    return (lane->rank + i) % lane->nranks;
}

/* Send a block of the input to the ranks behind(1) .. behind(count), in as many steps as that
 * takes. With flag STORE, the last of these steps also stores the block in the output. It must be
 * the last one because that overwrites the input with MPI_IN_PLACE. */
static void send_to_others(const struct lane *lane, int block, uint32_t flags, int count)
{
    int sent = 0;

    do {
        int end = count - sent > GPURING_WRITER_SENDS ? sent + GPURING_WRITER_SENDS : count;

        add_step(lane, block, end == count ? flags : 0);
        gpuring_writer_input(lane->writer);
        while (sent < end) {
            gpuring_writer_to(lane->writer, behind(lane, ++sent), lane->key);
        }
    } while (sent < count);
}

/* Add a step that sends a block of the input to one rank. */
static void send_block(const struct lane *lane, int block, int to)
{
    add_step(lane, block, 0);
    gpuring_writer_input(lane->writer);
    gpuring_writer_to(lane->writer, to, lane->key);
}

/* Add a step that receives a block from one rank and stores it. */
static void receive_block(const struct lane *lane, int block, int from)
{
    add_step(lane, block, GPURING_STEP_STORE);
    gpuring_writer_from(lane->writer, from, lane->key);
}

/* Add a step that folds the contributions of the ranks 0 .. count - 1 in this order and stores the
 * result. This rank's contribution is its input. */
static void fold_block(const struct lane *lane, int block, int count)
{
    add_step(lane, block, GPURING_STEP_STORE);
    for (int peer = 0; peer < count; peer++) {
        if (peer == lane->rank) {
            gpuring_writer_input(lane->writer);
        } else {
            gpuring_writer_from(lane->writer, peer, lane->key);
        }
    }
}

/* Copy this rank's own block to the output. The first lane of the stripe does it. */
static void copy_block(const struct lane *lane)
{
    if (lane->first == 1) {
        send_to_others(lane, lane->rank, GPURING_STEP_STORE, 0);
    }
}

/* Send each peer of the lane its block, in several steps if one is not enough. */
static void send_blocks(const struct lane *lane)
{
    for (int i = lane->first; i < lane->end; i++) {
        if ((i - lane->first) % GPURING_WRITER_SENDS == 0) {
            add_step(lane, behind(lane, i), GPURING_STEP_EACH);
            gpuring_writer_input(lane->writer);
        }
        gpuring_writer_to(lane->writer, behind(lane, i), lane->key);
    }
}

/* Receive the block of each peer. Start with the last peers, because they send to this rank first.
 */
static void receive_blocks(const struct lane *lane)
{
    for (int end = lane->end, first; end > lane->first; end = first) {
        first = end - lane->first > GPURING_STEP_REFS ? end - GPURING_STEP_REFS : lane->first;
        add_step(lane, behind(lane, first), GPURING_STEP_EACH | GPURING_STEP_STORE);
        for (int i = first; i < end; i++) {
            gpuring_writer_from(lane->writer, behind(lane, i), lane->key);
        }
    }
}

/* List the connections from all other ranks in the same order as the connections to them. */
static void list_recvs(const struct lane *lane)
{
    for (int i = 1; i < lane->nranks; i++) {
        gpuring_writer_recv(lane->writer, behind(lane, i), lane->key);
    }
}

static void add_allreduce(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);

    send_to_others(&lane, 0, 0, lane.nranks - 1);
    list_recvs(&lane);
    fold_block(&lane, 0, lane.nranks);
}

static void add_bcast(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);

    if (lane.rank == lane.root) {
        send_to_others(&lane, 0, 0, lane.nranks - 1);
    } else {
        receive_block(&lane, 0, lane.root);
    }
}

static void add_reduce(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);

    if (lane.rank == lane.root) {
        fold_block(&lane, 0, lane.nranks);
    } else {
        send_block(&lane, 0, lane.root);
    }
}

/* Each rank sends its input to all higher ranks and folds the contributions of all lower ranks. An
 * inclusive scan also folds the rank's own input. */
static void add_scan(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);
    int count = lane.rank + (writer->plan->collective == GPURING_COLLECTIVE_SCAN);

    if (lane.rank + 1 < lane.nranks) {
        send_to_others(&lane, 0, 0, lane.nranks - 1 - lane.rank);
    }
    if (count > 0) {
        fold_block(&lane, 0, count);
    }
}

/* Send the partial sum to rank + distance. Once the prefix is complete, also send it to rank plus
 * 2, 4, .. times that distance. */
static void send_sum(const struct lane *lane, int distance, int nranks)
{
    bool scan = distance > lane->rank;

    while (lane->rank + distance < nranks) {
        gpuring_writer_to(lane->writer, lane->rank + distance, lane->key);
        distance = scan ? 2 * distance : nranks;
    }
}

static void add_scan_by_doubling(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);
    bool before = writer->plan->collective == GPURING_COLLECTIVE_EXSCAN;
    int rank = lane.rank, nranks = before ? lane.nranks - 1 : lane.nranks; /* number of ranks that
                                                                              compute sums */

    lane.single_use = before ? 0 : lane.single_use; /* the scan is also sent to rank + 1 */
    if (rank + 1 < nranks) {
        add_step(&lane, 0, rank == 0 && !before ? GPURING_STEP_STORE : 0);
        gpuring_writer_input(writer);
        send_sum(&lane, 1, nranks);
    }
    for (int distance = 1; distance <= rank && rank < nranks; distance *= 2) {
        bool scan = 2 * distance > rank;
        /* Rank 1 has only one sum, which an exclusive scan sends without storing it. */
        uint32_t partial = rank > 1 ? GPURING_STEP_STORE | GPURING_STEP_PARTIAL : 0;

        add_step(&lane, 0, scan && !before ? GPURING_STEP_STORE : partial);
        gpuring_writer_from(writer, rank - distance, lane.key);
        if (distance == 1) {
            gpuring_writer_input(writer);
        } else {
            gpuring_writer_output(writer);
        }
        send_sum(&lane, 2 * distance, nranks);
        if (scan && before) {
            gpuring_writer_to(writer, rank + 1, lane.key);
        }
    }
    if (before && rank == 0) {
        send_block(&lane, 0, 1);
    } else if (before) {
        receive_block(&lane, 0, rank - 1);
    }
}

static void add_allgather(struct gpuring_writer *writer, uint32_t stripe)
{
    int count = count_lanes(writer->input);

    for (int i = 0; i < count; i++) {
        struct lane lane = lane_begin(writer, stripe, i, count);

        if (lane.first == 1) {
            send_to_others(&lane, lane.rank, GPURING_STEP_STORE, lane.nranks - 1);
        }
        receive_blocks(&lane);
    }
}

/* Fold this rank's block in several steps, because a single step cannot have that many operands. */
static void fold_block_in_steps(const struct lane *lane)
{
    for (int i = lane->nranks - 1, room = 0; i > 0; i--, room--) {
        if (room == 0) {
            bool last = i < GPURING_STEP_REFS;

            add_step(lane, lane->rank, GPURING_STEP_STORE | (last ? 0 : GPURING_STEP_PARTIAL));
            if (i == lane->nranks - 1) {
                gpuring_writer_input(lane->writer);
            } else {
                gpuring_writer_output(lane->writer);
            }
            room = GPURING_STEP_REFS - 1;
        }
        gpuring_writer_from(lane->writer, behind(lane, i), lane->key);
    }
}

static void add_reduce_scatter(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);

    send_blocks(&lane);
    if (lane.nranks <= GPURING_STEP_REFS) {
        fold_block(&lane, lane.rank, lane.nranks);
    } else {
        fold_block_in_steps(&lane);
    }
}

/* Add a lane that sends to a peer, and one that receives from it. See GPURING_ROOT_MESSAGES. */
static void add_messages(struct gpuring_writer *writer, uint32_t stripe)
{
    for (int i = 1; i < writer->plan->nranks; i++) {
        struct lane lane = lane_begin(writer, stripe, 0, 1);
        int peer = behind(&lane, i);

        lane.single_use = 0;
        send_block(&lane, lane.nranks + peer, peer);
        send_block(&lane, peer, peer);
        lane = lane_begin(writer, stripe, 0, 1);
        lane.single_use = 0;
        receive_block(&lane, lane.nranks + peer, peer);
        receive_block(&lane, peer, peer);
    }
}

static void add_alltoall(struct gpuring_writer *writer, uint32_t stripe)
{
    int count = count_lanes(writer->input);

    if (writer->plan->root == GPURING_ROOT_MESSAGES) {
        add_messages(writer, stripe);
        return;
    }

    for (int i = 0; i < count; i++) {
        struct lane lane = lane_begin(writer, stripe, i, count);

        send_blocks(&lane);
        copy_block(&lane);
        receive_blocks(&lane);
    }
}

static void add_gather(struct gpuring_writer *writer, uint32_t stripe)
{
    bool root = writer->plan->rank == writer->plan->root;
    int count = root ? count_lanes(writer->input) : 1;

    for (int i = 0; i < count; i++) {
        struct lane lane = lane_begin(writer, stripe, i, count);

        if (root) {
            copy_block(&lane);
            receive_blocks(&lane);
        } else {
            send_block(&lane, lane.rank, lane.root);
        }
    }
}

static void add_scatter(struct gpuring_writer *writer, uint32_t stripe)
{
    bool root = writer->plan->rank == writer->plan->root;
    int count = root ? count_lanes(writer->input) : 1;

    for (int i = 0; i < count; i++) {
        struct lane lane = lane_begin(writer, stripe, i, count);

        if (root) {
            send_blocks(&lane);
            copy_block(&lane);
        } else {
            receive_block(&lane, lane.rank, lane.root);
        }
    }
}

gpuring_builder *const gpuring_direct_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = add_allreduce,
    [GPURING_COLLECTIVE_BCAST] = add_bcast,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
    [GPURING_COLLECTIVE_SCAN] = add_scan,
    [GPURING_COLLECTIVE_EXSCAN] = add_scan,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
    [GPURING_COLLECTIVE_ALLTOALL] = add_alltoall,
    [GPURING_COLLECTIVE_GATHER] = add_gather,
    [GPURING_COLLECTIVE_SCATTER] = add_scatter,
};

gpuring_builder *const gpuring_direct_many_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_SCAN] = add_scan_by_doubling,
    [GPURING_COLLECTIVE_EXSCAN] = add_scan_by_doubling,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
    [GPURING_COLLECTIVE_ALLTOALL] = add_alltoall,
    [GPURING_COLLECTIVE_GATHER] = add_gather,
    [GPURING_COLLECTIVE_SCATTER] = add_scatter,
};

bool gpuring_direct_in_order(enum gpuring_collective collective, int nranks)
{
    switch (collective) {
    case GPURING_COLLECTIVE_SCAN:
    case GPURING_COLLECTIVE_EXSCAN:
        return nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
        return nranks <= GPURING_STEP_REFS;
    default:
        return true;
    }
}

static void add_two_shot(struct gpuring_writer *writer, uint32_t stripe)
{
    struct lane lane = lane_begin(writer, stripe, 0, 1);

    send_blocks(&lane);
    list_recvs(&lane);
    fold_block(&lane, lane.rank, lane.nranks);
    for (int i = 1; i < lane.nranks; i++) {
        gpuring_writer_to(writer, behind(&lane, i), lane.key);
    }
    receive_blocks(&lane);
}

gpuring_builder *const gpuring_two_shot_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = add_two_shot,
};
