/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Collectives on the connections of direct, which join each rank with each other: one hop, and no
 * rank handles what others need. A stripe has its part of all blocks; each rank begins with the
 * rank behind it, so that not all write to one.
 *
 * A stripe has one lane; but where a rank has steps of their own for each peer, it may have
 * several, each for some of the peers: stripes take memory for connections, lanes do not, and a
 * thread block carries far less than the links. In place, a lane that sends a block to a peer is
 * the one that overwrites it with the peer's.
 *
 * Nobody waits for a slot before it has read what others wait for: in each window a rank sends
 * first, and what it sends in window w needs the slots of window w - slots, which their receiver
 * has read before it sent its window w - slots + 1, or does not send at all.
 *
 * Between more than GPURING_DIRECT_AT_ONCE ranks, vectors go by trees (build_on_tree.c), but for
 * scans, which go from rank to rank:
 *
 *   scan     before + input > output, send to the next rank
 *   exscan   before + input > send to the next rank, which folds it, and to the one behind that;
 *            it comes back from there, to be stored: a chunk that has come is used once
 */
#include <stdlib.h>

#include "mca/coll_gpuring/plan/build_on.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A lane under construction. */
struct lane {
    struct gpuring_writer *writer;
    enum gpuring_collective collective;
    int rank, nranks, root;
    int group, groups; /* of the peers, each in a lane of its own */
    uint32_t key;
    uint16_t *refs; /* room for the longest step */
};

static int behind(const struct lane *lane, int i)
{
    return (lane->rank + i) % lane->nranks;
}

/* The lane's peers: behind(lane, first) .. behind(lane, end - 1). */
static int first_peer(const struct lane *lane)
{
    return 1 + lane->group * (lane->nranks - 1) / lane->groups;
}

static int end_peer(const struct lane *lane)
{
    return 1 + (lane->group + 1) * (lane->nranks - 1) / lane->groups;
}

/* Step: the input's block goes to one rank. */
static void send_block(const struct lane *lane, uint32_t block, int to)
{
    uint16_t refs[] = {GPURING_REF_INPUT, gpuring_writer_send(lane->writer, to, lane->key)};

    gpuring_writer_step(lane->writer, block, 0, refs, 1, 1);
}

/* Step: a block comes from one rank. */
static void receive_block(const struct lane *lane, uint32_t block, int from)
{
    uint16_t ref = gpuring_writer_recv(lane->writer, from, lane->key);

    gpuring_writer_step(lane->writer, block, GPURING_STEP_STORE, &ref, 1, 0);
}

/* Step: the input's block goes to `count` ranks, the next of which is `first`; and to the output,
 * with flag STORE. */
static void send_to_others(const struct lane *lane, uint32_t block, uint32_t flags, int first,
                           int count)
{
    lane->refs[0] = GPURING_REF_INPUT;
    for (int i = 0; i < count; i++) {
        lane->refs[1 + i] =
            gpuring_writer_send(lane->writer, (first + i) % lane->nranks, lane->key);
    }
    gpuring_writer_step(lane->writer, block, flags, lane->refs, 1, (size_t) count);
}

/* Step: what the first `count` ranks send is folded in their order; this rank's is its input. */
static void fold_block(const struct lane *lane, uint32_t block, int count)
{
    for (int peer = 0; peer < count; peer++) {
        lane->refs[peer] = peer == lane->rank ? GPURING_REF_INPUT
                                              : gpuring_writer_recv(lane->writer, peer, lane->key);
    }
    gpuring_writer_step(lane->writer, block, GPURING_STEP_STORE, lane->refs, (size_t) count, 0);
}

/* The own block, in one of the lanes. */
static void copy_block(const struct lane *lane)
{
    if (lane->group == 0) {
        send_to_others(lane, (uint32_t) lane->rank, GPURING_STEP_STORE, 0, 0);
    }
}

static void send_blocks(const struct lane *lane)
{
    for (int i = first_peer(lane); i < end_peer(lane); i++) {
        send_block(lane, (uint32_t) behind(lane, i), behind(lane, i));
    }
}

/* From the rank before this one on, which has begun with this one. */
static void receive_blocks(const struct lane *lane)
{
    for (int i = end_peer(lane) - 1; i >= first_peer(lane); i--) {
        receive_block(lane, (uint32_t) behind(lane, i), behind(lane, i));
    }
}

static void add_bcast(const struct lane *lane)
{
    if (lane->rank == lane->root) {
        send_to_others(lane, 0, 0, behind(lane, 1), lane->nranks - 1);
    } else {
        receive_block(lane, 0, lane->root);
    }
}

static void add_reduce(const struct lane *lane)
{
    if (lane->rank == lane->root) {
        fold_block(lane, 0, lane->nranks);
    } else {
        send_block(lane, 0, lane->root);
    }
}

/* Each rank sends to all behind it, and folds what those before it have sent. */
static void add_scan(const struct lane *lane)
{
    if (lane->rank + 1 < lane->nranks) {
        send_to_others(lane, 0, 0, lane->rank + 1, lane->nranks - lane->rank - 1);
    }
    fold_block(lane, 0, lane->rank + 1);
}

static void add_exscan(const struct lane *lane)
{
    if (lane->rank + 1 < lane->nranks) {
        send_to_others(lane, 0, 0, lane->rank + 1, lane->nranks - lane->rank - 1);
    }
    if (lane->rank > 0) {
        fold_block(lane, 0, lane->rank);
    }
}

/* What comes from the rank before, if there is one, and the input. Returns how many operands. */
static size_t chain_operands(const struct lane *lane)
{
    size_t n = 0;

    if (lane->rank > 0) {
        lane->refs[n++] = gpuring_writer_recv(lane->writer, lane->rank - 1, lane->key);
    }
    lane->refs[n++] = GPURING_REF_INPUT;
    return n;
}

static void chain_scan(const struct lane *lane)
{
    size_t n = chain_operands(lane);
    bool goes = lane->rank + 1 < lane->nranks;

    if (goes) {
        lane->refs[n] = gpuring_writer_send(lane->writer, lane->rank + 1, lane->key);
    }
    gpuring_writer_step(lane->writer, 0, GPURING_STEP_STORE, lane->refs, n, goes);
}

static void chain_exscan(const struct lane *lane)
{
    int rank = lane->rank, last = lane->nranks - 1;

    if (rank < last) {
        size_t n = chain_operands(lane), nsends = rank + 1 < last ? 2 : 1;

        for (size_t i = 0; i < nsends; i++) {
            lane->refs[n + i] = gpuring_writer_send(lane->writer, rank + 1 + (int) i, lane->key);
        }
        gpuring_writer_step(lane->writer, 0, 0, lane->refs, n, nsends);
    }
    if (rank >= 2) { /* the rank before has its part from here */
        uint16_t refs[] = {gpuring_writer_recv(lane->writer, rank - 2, lane->key),
                           gpuring_writer_send(lane->writer, rank - 1, lane->key)};

        gpuring_writer_step(lane->writer, 0, GPURING_STEP_INPUT, refs, 1, 1);
    }
    if (rank > 0) {
        receive_block(lane, 0, rank < last ? rank + 1 : rank - 1);
    }
}

static void add_allgather(const struct lane *lane)
{
    if (lane->group == 0) {
        send_to_others(lane, (uint32_t) lane->rank, GPURING_STEP_STORE, behind(lane, 1),
                       lane->nranks - 1);
    }
    receive_blocks(lane);
}

static void add_reduce_scatter(const struct lane *lane)
{
    send_blocks(lane);
    fold_block(lane, (uint32_t) lane->rank, lane->nranks);
}

static void add_alltoall(const struct lane *lane)
{
    send_blocks(lane);
    copy_block(lane);
    receive_blocks(lane);
}

static void add_gather(const struct lane *lane)
{
    if (lane->rank != lane->root) {
        send_block(lane, (uint32_t) lane->rank, lane->root);
        return;
    }
    copy_block(lane);
    receive_blocks(lane);
}

static void add_scatter(const struct lane *lane)
{
    if (lane->rank != lane->root) {
        receive_block(lane, (uint32_t) lane->rank, lane->root);
        return;
    }
    send_blocks(lane);
    copy_block(lane);
}

typedef void adder(const struct lane *lane);

static adder *const adders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_BCAST] = add_bcast,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
    [GPURING_COLLECTIVE_SCAN] = add_scan,
    [GPURING_COLLECTIVE_EXSCAN] = add_exscan,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
    [GPURING_COLLECTIVE_ALLTOALL] = add_alltoall,
    [GPURING_COLLECTIVE_GATHER] = add_gather,
    [GPURING_COLLECTIVE_SCATTER] = add_scatter,
};

/* Between many ranks. */
static adder *adder_of_many(enum gpuring_collective collective)
{
    return collective == GPURING_COLLECTIVE_SCAN       ? chain_scan
           : collective == GPURING_COLLECTIVE_EXSCAN   ? chain_exscan
           : gpuring_collective_has_blocks(collective) ? adders[collective]
                                                       : NULL;
}

/* Lanes of a stripe. */
static int groups_of(enum gpuring_collective collective, const struct gpuring_plan_input *input)
{
    int most = input->nranks - 1, groups = input->direct_lanes > 1 ? (int) input->direct_lanes : 1;

    switch (collective) {
    case GPURING_COLLECTIVE_GATHER:
    case GPURING_COLLECTIVE_SCATTER:
        most = input->rank == input->root ? most : 1;
        break;
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_ALLTOALL:
        break;
    default: /* a step has all peers, or what it stores in place is another's input */
        return 1;
    }
    return groups < most ? groups : most;
}

/* A lane has the connections with its peers; of an allgather the first one sends to all. */
static void begin_lane(const struct lane *lane, uint32_t stripe, uint32_t nchunks)
{
    uint32_t first = (uint32_t) first_peer(lane) - 1, end = (uint32_t) end_peer(lane) - 1;
    uint32_t all = (uint32_t) lane->nranks - 1, first_send = first, end_send = end;

    gpuring_writer_lane_begin(lane->writer, stripe, stripe + 1, nchunks);
    if (lane->collective == GPURING_COLLECTIVE_ALLGATHER) {
        first_send = lane->group == 0 ? 0 : all;
        end_send = all;
    }
    gpuring_writer_lane_narrow(lane->writer, first_send, end_send - first_send, first, end - first);
}

bool gpuring_on_direct_exists(enum gpuring_collective collective)
{
    return adders[collective] != NULL;
}

bool gpuring_on_direct_exists_many(enum gpuring_collective collective)
{
    return adder_of_many(collective) != NULL;
}

int gpuring_on_direct_build(enum gpuring_collective collective,
                            const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    uint32_t nchunks = gpuring_collective_has_blocks(collective) ? (uint32_t) input->nranks : 1;
    adder *add =
        input->nranks > GPURING_DIRECT_AT_ONCE ? adder_of_many(collective) : adders[collective];
    struct gpuring_writer writer;
    struct lane lane = {.writer = &writer,
                        .collective = collective,
                        .rank = input->rank,
                        .nranks = input->nranks,
                        .root = input->root,
                        .groups = groups_of(collective, input),
                        .refs = malloc(2 * (size_t) input->nranks * sizeof *lane.refs)};

    if (lane.refs == NULL) {
        gpuring_error("out of memory for a direct exchange of %d ranks", input->nranks);
        return GPURING_ERR_NOMEM;
    }
    gpuring_writer_open_on(&writer, collective, input);
    for (uint32_t stripe = 0; writer.status == GPURING_OK && stripe < input->base->weight;
         stripe++) {
        lane.key = gpuring_writer_key(GPURING_ALGORITHM_DIRECT, stripe, 0);
        for (lane.group = 0; lane.group < lane.groups; lane.group++) {
            begin_lane(&lane, stripe, nchunks);
            add(&lane);
            gpuring_writer_lane_end(&writer);
        }
    }
    free(lane.refs);
    return gpuring_writer_finish(&writer, plan);
}
