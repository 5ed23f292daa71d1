/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Rings: one lane per channel.
 *
 * The allreduce has n chunks per window. Chunk c starts at the rank with index c and collects one
 * contribution per hop until it is complete at index c - 1. It then continues around the ring until
 * all ranks have it. Rank i handles chunk i - k (modulo n) in its step k:
 *
 *   k          0         1 .. n-2           n-1                n .. 2n-3        2n-2
 *   step    input>send  recv+input>send  recv+input>out+send  recv>out+send   recv>out
 *
 * Each rank sends and receives 2(n-1)/n of the vector, which is the minimum. The two halves of this
 * schedule are collectives of their own:
 *
 *   reduce-scatter  block of index i-1-k:  input>send | recv+input>send .. | recv+input>out
 *   allgather       block of index i-k:    input>out+send | recv>out+send .. | recv>out
 *
 * Chains along the ring keep every link busy with large data. A broadcast begins at the root, and a
 * reduction begins at the root's successor:
 *
 *   bcast   root: input>send              others: recv>out+send     predecessor: recv>out
 *   reduce  successor: input>send         others: recv+input>send   root: recv+input>out
 */
#include "mca/coll_gpuring/plan/build.h"

/* Parts of a step: operands, store and destination. */
enum {
    STORE = GPURING_STEP_STORE,
    RING = GPURING_STEP_RING,
    FROM = 1 << 8,
    INPUT = 1 << 9,
    TO = 1 << 10,
};

static void add_step(struct gpuring_writer *writer, uint32_t channel, int chunk, int what)
{
    const struct gpuring_ring_position *ring = &writer->input->channels[channel].ring;
    uint32_t key = gpuring_plan_key(writer->plan, channel, false);

    gpuring_writer_step(writer, (uint32_t) chunk, what & (STORE | RING));
    if (what & FROM) {
        gpuring_writer_from(writer, ring->prev, key);
    }
    if (what & INPUT) {
        gpuring_writer_input(writer);
    }
    if (what & TO) {
        gpuring_writer_to(writer, ring->next, key);
    }
}

static void add_allreduce(struct gpuring_writer *writer, uint32_t channel)
{
    gpuring_writer_lane(writer, channel, channel + 1, writer->plan->nranks);
    /* The five stored steps of GPURING_STEP_RING. Their chunks follow from the first step's chunk.
     */
    add_step(writer, channel, writer->input->channels[channel].ring.index, INPUT | TO | RING);
    add_step(writer, channel, 0, FROM | INPUT | TO);
    add_step(writer, channel, 0, FROM | INPUT | TO | STORE);
    add_step(writer, channel, 0, FROM | TO | STORE);
    add_step(writer, channel, 0, FROM | STORE);
}

static void add_bcast(struct gpuring_writer *writer, uint32_t channel)
{
    int root = writer->plan->root, next = writer->input->channels[channel].ring.next;

    gpuring_writer_lane(writer, channel, channel + 1, 1);
    add_step(writer, channel, 0,
             writer->plan->rank == root ? INPUT | TO : FROM | STORE | (next != root ? TO : 0));
}

static void add_reduce(struct gpuring_writer *writer, uint32_t channel)
{
    int root = writer->plan->root, prev = writer->input->channels[channel].ring.prev;

    gpuring_writer_lane(writer, channel, channel + 1, 1);
    add_step(writer, channel, 0,
             (prev != root ? FROM : 0) | INPUT | (writer->plan->rank == root ? STORE : TO));
}

/* Return the block of the rank k positions before this one in the ring. */
static int block_before(const struct gpuring_writer *writer, uint32_t channel, int k)
{
    int n = writer->plan->nranks, index = writer->input->channels[channel].ring.index;

    return writer->input->order[(int) channel * n + (index + 2 * n - k) % n];
}

static void add_allgather(struct gpuring_writer *writer, uint32_t channel)
{
    int last = writer->plan->nranks - 1;

    gpuring_writer_lane(writer, channel, channel + 1, last + 1);
    for (int k = 0; k <= last; k++) {
        add_step(writer, channel, block_before(writer, channel, k),
                 (k > 0 ? FROM : INPUT) | STORE | (k < last ? TO : 0));
    }
}

static void add_reduce_scatter(struct gpuring_writer *writer, uint32_t channel)
{
    int last = writer->plan->nranks - 1;

    gpuring_writer_lane(writer, channel, channel + 1, last + 1);
    for (int k = 0; k <= last; k++) {
        add_step(writer, channel, block_before(writer, channel, k + 1),
                 (k > 0 ? FROM : 0) | INPUT | (k < last ? TO : STORE));
    }
}

gpuring_builder *const gpuring_ring_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = add_allreduce,
    [GPURING_COLLECTIVE_BCAST] = add_bcast,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
};
