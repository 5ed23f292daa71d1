/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/plans.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

/* Make a permutation of the ranks from a seed. Seed 0 gives the order of ranks. */
static void permute(int *order, int n, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 1;

    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int i = n - 1; seed != 0 && i > 0; i--) {
        int j, swap = order[i];

        state = state * 1664525u + 1013904223u;
        j = (int) ((state >> 8) % (uint32_t) (i + 1));
        order[i] = order[j];
        order[j] = swap;
    }
}

static int position_of(const int *order, int n, int rank)
{
    int i = 0;

    while (i < n && order[i] != rank) {
        i++;
    }
    return i;
}

/* Return the parent in a k-ary heap over order[]: the parent of position p is (p - 1) / k. */
static int heap_parent(const int *order, int position, int k)
{
    return position == 0 ? -1 : order[(position - 1) / k];
}

static int heap_children(const int *order, int n, int position, int k, int *children)
{
    int count = 0;

    for (int i = k * position + 1; i <= k * position + k && i < n; i++) {
        children[count++] = order[i];
    }
    return count;
}

static void reverse(int *order, int n)
{
    for (int i = 0; i < n / 2; i++) {
        int swap = order[i];

        order[i] = order[n - 1 - i];
        order[n - 1 - i] = swap;
    }
}

/* Fill in a channel. The second tree uses the reversed order, so its inner ranks are leaves of the
 * first. */
static void channel_fill(struct gpuring_channel *channel, int rank, int n, uint32_t seed,
                         int *order)
{
    int arity = seed % 2 == 0 ? 2 : GPURING_CHANNEL_MAX_DOWN;
    int at;

    permute(order, n, seed);
    at = position_of(order, n, rank);
    channel->ring = (struct gpuring_ring_position){
        .prev = order[(at + n - 1) % n], .next = order[(at + 1) % n], .index = at};
    for (int tree = 0; tree < 2; tree++) {
        memset(channel->tree[tree].down, -1, sizeof channel->tree[tree].down);
        at = position_of(order, n, rank);
        channel->tree[tree].up = heap_parent(order, at, arity);
        heap_children(order, n, at, arity, channel->tree[tree].down);
        reverse(order, n);
    }
}

static void build_rank(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                       struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    struct gpuring_plan *base;

    if (collective == GPURING_COLLECTIVE_ALLREDUCE) {
        assert_int_equal(gpuring_plan_build(algorithm, input, plan), GPURING_OK);
        return;
    }
    assert_int_equal(gpuring_plan_build(algorithm, input, &base), GPURING_OK);
    input->base = base;
    assert_int_equal(gpuring_plan_build_on(collective, input, plan), GPURING_OK);
    gpuring_plan_free(base);
}

static void build_all(struct test_plans *plans, enum gpuring_collective collective,
                      enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels, int root,
                      bool in_order, int nnodes)
{
    struct gpuring_channel *channels = calloc(nchannels, sizeof *channels);
    uint16_t *orders = calloc(3 * nchannels * (size_t) nranks, sizeof *orders);
    uint16_t *parents = orders + nchannels * (size_t) nranks;
    int *order = calloc(2 * (size_t) nranks, sizeof *order), *by_node = order + nranks;

    assert_non_null(channels);
    assert_non_null(orders);
    assert_non_null(order);
    for (uint32_t c = 0; c < nchannels; c++) {
        permute(order, nranks, c);
        for (int i = 0; i < nranks; i++) {
            orders[c * (size_t) nranks + (size_t) i] = (uint16_t) order[i];
        }
    }
    for (size_t at = 0; at < 2 * nchannels * (size_t) nranks; at++) {
        int rank = (int) (at % (size_t) nranks), tree = (int) (at / (size_t) nranks), up;

        channel_fill(channels, rank, nranks, (uint32_t) tree / 2, order);
        up = channels[0].tree[tree % 2].up;
        parents[at] = (uint16_t) (up >= 0 ? up : rank);
    }
    permute(by_node, nranks, nchannels - 1);
    plans->nranks = nranks;
    plans->plans = calloc((size_t) nranks, sizeof *plans->plans);
    assert_non_null(plans->plans);
    for (int rank = 0; rank < nranks; rank++) {
        struct gpuring_plan_input input = {.rank = rank,
                                           .nranks = nranks,
                                           .channels = channels,
                                           .nrings = nchannels,
                                           .ntrees = nchannels,
                                           .ndirect = nchannels,
                                           .in_order = in_order,
                                           .direct_lanes = 1 + (uint32_t) nranks % 4,
                                           .order = orders,
                                           .nnodes = nnodes,
                                           .by_node = by_node,
                                           .root = root};

        for (uint32_t c = 0; c < nchannels; c++) {
            channel_fill(&channels[c], rank, nranks, c, order);
        }
        build_rank(collective, algorithm, &input, &plans->plans[rank]);
    }
    free(channels);
    free(orders);
    free(order);
}

void test_plans_build_on(struct test_plans *plans, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels, int root,
                         bool in_order)
{
    build_all(plans, collective, algorithm, nranks, nchannels, root, in_order, 1);
}

void test_plans_build_chains(struct test_plans *plans, int nranks, uint32_t nchannels)
{
    build_all(plans, GPURING_COLLECTIVE_ALLREDUCE, GPURING_ALGORITHM_TREE, nranks, nchannels, 0,
              true, 1);
}

void test_plans_build(struct test_plans *plans, enum gpuring_algorithm algorithm, int nranks,
                      uint32_t nchannels)
{
    build_all(plans, GPURING_COLLECTIVE_ALLREDUCE, algorithm, nranks, nchannels, 0, false, 1);
}

void test_plans_build_nodes_on(struct test_plans *plans, enum gpuring_collective collective,
                               int nranks, int nnodes, uint32_t nstripes)
{
    build_all(plans, collective, GPURING_ALGORITHM_TWO_SHOT, nranks, nstripes, 0, false, nnodes);
}

void test_plans_build_nodes(struct test_plans *plans, int nranks, int nnodes, uint32_t nstripes)
{
    test_plans_build_nodes_on(plans, GPURING_COLLECTIVE_ALLREDUCE, nranks, nnodes, nstripes);
}

void test_plans_build_exchange(struct test_plans *plans, int nnodes, int size, uint32_t nstripes,
                               int root)
{
    plans->nranks = nnodes * size;
    plans->plans = calloc((size_t) plans->nranks, sizeof *plans->plans);
    assert_non_null(plans->plans);
    for (int rank = 0; rank < plans->nranks; rank++) {
        struct gpuring_plan_input input = {.rank = rank,
                                           .nranks = plans->nranks,
                                           .ndirect = nstripes,
                                           .node_ranks = size,
                                           .exchange = true};
        struct gpuring_plan *base;

        assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_TWO_SHOT, &input, &base), GPURING_OK);
        plans->plans[rank] = base;
        if (root == GPURING_ROOT_WITHIN_NODES) {
            input.base = base;
            input.root = root;
            input.exchange = false;
            assert_int_equal(
                gpuring_plan_build_on(GPURING_COLLECTIVE_ALLTOALL, &input, &plans->plans[rank]),
                GPURING_OK);
            gpuring_plan_free(base);
        }
    }
}

void test_plans_free(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        gpuring_plan_free(plans->plans[rank]);
    }
    free(plans->plans);
}

int test_plans_check(const struct test_plans *plans, uint32_t slots, char *text, size_t size)
{
    return gpuring_plan_check((const struct gpuring_plan *const *) plans->plans, plans->nranks,
                              slots, text, size);
}

static void *lists[256];
static size_t nlists;

void *test_plans_list(size_t count, size_t size)
{
    assert_true(nlists < sizeof lists / sizeof *lists);
    lists[nlists] = calloc(count, size);
    assert_non_null(lists[nlists]);
    return lists[nlists++];
}

void test_plans_lists_free(void)
{
    while (nlists > 0) {
        free(lists[--nlists]);
    }
}

static void store_steps(struct gpuring_plan_lane *lane)
{
    struct gpuring_step *steps = test_plans_list(lane->nsteps, sizeof *steps);
    uint16_t *refs = test_plans_list(3 * (size_t) lane->nsteps, sizeof *refs);

    lane->nrefs = 0;
    for (uint32_t k = 0; k < lane->nsteps; k++) {
        uint32_t chunk, used;
        const struct gpuring_step *step = gpuring_lane_step(lane, k, &chunk);

        steps[k] = *step;
        steps[k].chunk = chunk;
        steps[k].refs = lane->nrefs;
        steps[k].flags &= (uint16_t) ~GPURING_STEP_RING;
        used = (uint32_t) step->noperands + step->nsends;
        memcpy(refs + lane->nrefs, lane->refs + step->refs, used * sizeof *refs);
        lane->nrefs += used;
    }
    lane->steps = steps;
    lane->refs = refs;
}

void test_plans_store_steps(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        for (uint32_t l = 0; l < plans->plans[rank]->nlanes; l++) {
            struct gpuring_plan_lane *lane = &plans->plans[rank]->lanes[l];

            if (gpuring_steps_stored(lane->steps, lane->nsteps) < lane->nsteps ||
                (lane->steps[0].flags & GPURING_STEP_RING)) {
                store_steps(lane);
            }
        }
    }
}
