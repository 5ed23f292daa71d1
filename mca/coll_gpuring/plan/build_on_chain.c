/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Reductions in rank order on the connections of trees that are chains (build_tree.c), for any
 * number of ranks. The rank before sends what it and those before it have, folded in their order:
 *
 *   scan      before + input > output, send to the next rank
 *   exscan    before + input > send to the next rank, twice; one is folded there, the other stored
 *   reduce    up lane:    before + input > send to the next rank
 *             down lane:  the result > send to the rank before; the root: > output
 *             the last rank's lane joins both: before + input > send to the rank before, or output
 *
 * Reduce-scatter is a reduce for each block, whose root is the block's rank. In place is safe:
 * what comes down has gone up, and so have all blocks before.
 */
#include "mca/coll_gpuring/plan/build_on.h"
#include "mca/coll_gpuring/util/status.h"

/* A lane under construction. */
struct lane {
    struct gpuring_writer *writer;
    int rank, nranks;
    uint32_t tree;
};

static uint32_t key(uint32_t tree, bool down)
{
    return gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, down);
}

static bool is_last(const struct lane *lane)
{
    return lane->rank == lane->nranks - 1;
}

/* Append the operands of what goes up: what the rank before sends, and the input. */
static size_t add_operands(const struct lane *lane, uint16_t *refs)
{
    size_t n = 0;

    if (lane->rank > 0) {
        refs[n++] = gpuring_writer_recv(lane->writer, lane->rank - 1, key(lane->tree, false));
    }
    refs[n++] = GPURING_REF_INPUT;
    return n;
}

static uint16_t send_up(const struct lane *lane, uint32_t tree)
{
    return gpuring_writer_send(lane->writer, lane->rank + 1, key(tree, false));
}

/* Fold a block with what came up. The last rank has the result: it goes down to the root. */
static void fold_up(const struct lane *lane, uint32_t block, int root)
{
    uint16_t refs[3];
    size_t n = add_operands(lane, refs);
    bool stores = lane->rank == root && is_last(lane);

    if (!stores) {
        refs[n] = is_last(lane)
                      ? gpuring_writer_send(lane->writer, lane->rank - 1, key(lane->tree, true))
                      : send_up(lane, lane->tree);
    }
    gpuring_writer_step(lane->writer, block, stores ? GPURING_STEP_STORE : 0, refs, n, !stores);
}

/* A result that comes down: this rank's, or one before it has it. */
static void pass_down(const struct lane *lane, uint32_t block, int root)
{
    uint16_t refs[2] = {gpuring_writer_recv(lane->writer, lane->rank + 1, key(lane->tree, true))};
    bool stores = lane->rank == root;

    if (!stores) {
        refs[1] = gpuring_writer_send(lane->writer, lane->rank - 1, key(lane->tree, true));
    }
    gpuring_writer_step(lane->writer, block, stores ? GPURING_STEP_STORE : GPURING_STEP_INPUT, refs,
                        1, !stores);
}

/* A reduction of each block to its root: to `root`, or with blocks, of block b to rank b. */
static void add_reduce(const struct lane *lane, uint64_t nblocks, int root)
{
    struct gpuring_writer *writer = lane->writer;
    bool blocks = nblocks > 1, down = !is_last(lane) && (blocks || lane->rank >= root);

    writer->lane_by_lane = is_last(lane) || down;
    gpuring_writer_lane_begin(writer, lane->tree, lane->tree + 1, (uint32_t) nblocks);
    for (uint32_t b = 0; b < nblocks; b++) {
        fold_up(lane, b, blocks ? (int) b : root);
    }
    gpuring_writer_lane_end(writer);
    if (!down) {
        return;
    }
    gpuring_writer_lane_begin(writer, lane->tree, lane->tree + 1, (uint32_t) nblocks);
    for (uint32_t b = 0; b < nblocks && (!blocks || (int) b <= lane->rank); b++) {
        pass_down(lane, b, blocks ? (int) b : root);
    }
    gpuring_writer_lane_end(writer);
}

static void add_scan(const struct lane *lane)
{
    uint16_t refs[3];
    size_t n;

    gpuring_writer_lane_begin(lane->writer, lane->tree, lane->tree + 1, 1);
    n = add_operands(lane, refs);
    if (!is_last(lane)) {
        refs[n] = send_up(lane, lane->tree);
    }
    gpuring_writer_step(lane->writer, 0, GPURING_STEP_STORE, refs, n, !is_last(lane));
    gpuring_writer_lane_end(lane->writer);
}

/* On a channel's two chains, which are alike: what comes on the second is stored. */
static void add_exscan(const struct lane *lane)
{
    uint16_t refs[4];

    gpuring_writer_lane_begin(lane->writer, lane->tree, lane->tree + 2, 1);
    if (!is_last(lane)) {
        size_t n = add_operands(lane, refs), nsends = 0;

        if (lane->rank + 2 < lane->nranks) { /* the last rank folds nothing */
            refs[n + nsends++] = send_up(lane, lane->tree);
        }
        refs[n + nsends++] = send_up(lane, lane->tree + 1);
        gpuring_writer_step(lane->writer, 0, 0, refs, n, nsends);
    }
    if (lane->rank > 0) {
        refs[0] = gpuring_writer_recv(lane->writer, lane->rank - 1, key(lane->tree + 1, false));
        gpuring_writer_step(lane->writer, 0, GPURING_STEP_STORE, refs, 1, 0);
    }
    gpuring_writer_lane_end(lane->writer);
}

bool gpuring_on_chain_exists(enum gpuring_collective collective)
{
    return gpuring_collective_reduces(collective);
}

int gpuring_on_chain_build(enum gpuring_collective collective,
                           const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    bool pairs = collective == GPURING_COLLECTIVE_EXSCAN;
    struct gpuring_writer writer;
    struct lane lane = {.writer = &writer, .rank = input->rank, .nranks = input->nranks};

    gpuring_writer_open_on(&writer, collective, input);
    while (writer.status == GPURING_OK && lane.tree < input->base->weight) {
        if (collective == GPURING_COLLECTIVE_REDUCE) {
            add_reduce(&lane, 1, input->root);
        } else if (collective == GPURING_COLLECTIVE_REDUCE_SCATTER) {
            add_reduce(&lane, (uint64_t) input->nranks, 0);
        } else if (collective == GPURING_COLLECTIVE_SCAN) {
            add_scan(&lane);
        } else {
            add_exscan(&lane);
        }
        lane.tree += pairs ? 2 : 1;
    }
    return gpuring_writer_finish(&writer, plan);
}
