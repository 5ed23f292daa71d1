/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Collectives on the connections of rings: the halves of the ring allreduce, and chains along the
 * ring, which keep every link busy with large data. The rank with index i in a ring of n does in
 * its step k:
 *
 *   reduce-scatter  block of index i-1-k:  input>send | recv+input>send .. | recv+input>out
 *   allgather       block of index i-k:    input>out+send | recv>out+send .. | recv>out
 *
 * A broadcast begins at the root, and a reduction behind it:
 *
 *   bcast           root: input>send     others: recv>out+send     before the root: recv>out
 *   reduce          behind the root: input>send     others: recv+input>send     root:
 * recv+input>out
 */
#include "mca/coll_gpuring/plan/build_on.h"
#include "mca/coll_gpuring/util/status.h"

/* A lane under construction, of ring `ring`. */
struct lane {
    struct gpuring_writer *writer;
    const struct gpuring_plan_input *input;
    const struct gpuring_ring_position *ring;
    const uint16_t *order;
    uint16_t from, to;
};

/* A step that folds the input with what comes, if anything comes, and sends it on, if it goes on.
 */
static void fold_step(const struct lane *lane, uint32_t block, bool comes, bool goes)
{
    uint16_t refs[3];
    size_t n = 0;

    if (comes) {
        refs[n++] = lane->from;
    }
    refs[n++] = GPURING_REF_INPUT;
    refs[n] = lane->to;
    gpuring_writer_step(lane->writer, block, goes ? 0 : GPURING_STEP_STORE, refs, n, goes);
}

/* A step that stores what comes, or the input, and sends it on, if it goes on. */
static void copy_step(const struct lane *lane, uint32_t block, bool comes, bool goes)
{
    uint16_t refs[] = {comes ? lane->from : GPURING_REF_INPUT, lane->to};

    gpuring_writer_step(lane->writer, block, GPURING_STEP_STORE, refs, 1, goes);
}

/* The block of the rank that is k before this one. */
static uint32_t block_before(const struct lane *lane, int k)
{
    int n = lane->input->nranks;

    return lane->order[(lane->ring->index + 2 * n - k) % n];
}

static void add_bcast(const struct lane *lane)
{
    if (lane->input->rank == lane->input->root) {
        gpuring_writer_step(lane->writer, 0, 0, (const uint16_t[]){GPURING_REF_INPUT, lane->to}, 1,
                            1);
    } else {
        copy_step(lane, 0, true, lane->ring->next != lane->input->root);
    }
}

static void add_reduce(const struct lane *lane)
{
    fold_step(lane, 0, lane->ring->prev != lane->input->root,
              lane->input->rank != lane->input->root);
}

static void add_allgather(const struct lane *lane)
{
    for (int k = 0; k < lane->input->nranks; k++) {
        copy_step(lane, block_before(lane, k), k > 0, k < lane->input->nranks - 1);
    }
}

static void add_reduce_scatter(const struct lane *lane)
{
    for (int k = 0; k < lane->input->nranks; k++) {
        fold_step(lane, block_before(lane, k + 1), k > 0, k < lane->input->nranks - 1);
    }
}

static void (*const adders[GPURING_COLLECTIVE_COUNT])(const struct lane *) = {
    [GPURING_COLLECTIVE_BCAST] = add_bcast,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
};

bool gpuring_on_ring_exists(enum gpuring_collective collective)
{
    return adders[collective] != NULL;
}

int gpuring_on_ring_build(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    uint32_t nchunks = gpuring_collective_has_blocks(collective) ? (uint32_t) input->nranks : 1;
    struct gpuring_writer writer;

    gpuring_writer_open_on(&writer, collective, input);
    for (uint32_t c = 0; writer.status == GPURING_OK && c < input->base->weight; c++) {
        uint32_t key = gpuring_writer_key(GPURING_ALGORITHM_RING, c, 0);
        struct lane lane = {.writer = &writer,
                            .input = input,
                            .ring = &input->channels[c].ring,
                            .order = input->order + (size_t) c * (size_t) input->nranks};

        gpuring_writer_lane_begin(&writer, c, c + 1, nchunks);
        lane.from = gpuring_writer_recv(&writer, lane.ring->prev, key);
        lane.to = gpuring_writer_send(&writer, lane.ring->next, key);
        adders[collective](&lane);
        gpuring_writer_lane_end(&writer);
    }
    return gpuring_writer_finish(&writer, plan);
}
