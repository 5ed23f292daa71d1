/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test that the checker accepts the plans of every builder for 2..64 ranks, and refuses plans with
 * one error, for every kind of error that it detects.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/plans.h"

static void accepts(enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels,
                    uint32_t slots)
{
    struct test_plans plans;
    char text[256] = "";

    test_plans_build(&plans, algorithm, nranks, nchannels);
    if (test_plans_check(&plans, slots, text, sizeof text) != GPURING_OK) {
        fail_msg("algorithm %d, %d ranks, %u channels, %u slots: %s", (int) algorithm, nranks,
                 nchannels, slots, text);
    }
    test_plans_free(&plans);
}

static void accepts_all(enum gpuring_algorithm algorithm, int most_ranks, uint32_t most_channels)
{
    for (int nranks = 2; nranks <= most_ranks; nranks++) {
        for (uint32_t nchannels = 1; nchannels <= most_channels; nchannels++) {
            accepts(algorithm, nranks, nchannels, 2 + nchannels % 7);
        }
    }
}

TEST(test_ring)
{
    accepts_all(GPURING_ALGORITHM_RING, 64, 16);
}

TEST(test_tree)
{
    accepts_all(GPURING_ALGORITHM_TREE, 64, 16);
}

TEST(test_two_shot)
{
    struct test_plans plans;
    char text[256] = "";

    accepts_all(GPURING_ALGORITHM_TWO_SHOT, GPURING_STEP_REFS / 2, 4);
    /* A connection carries two chunks of a window. */
    test_plans_build(&plans, GPURING_ALGORITHM_TWO_SHOT, 3, 1);
    assert_int_equal(test_plans_check(&plans, 1, text, sizeof text), GPURING_ERR_DATA);
    assert_non_null(strstr(text, "deadlock"));
    assert_int_equal(plans.plans[0]->nlanes, 1);
    assert_int_equal(plans.plans[0]->lanes[0].nsteps, 3);
    assert_int_equal(plans.plans[0]->nsends, 2);
    test_plans_free(&plans);
}

TEST(test_direct)
{
    for (int nranks = 2; nranks <= 64; nranks++) {
        accepts(GPURING_ALGORITHM_DIRECT, nranks, 1, 1);
    }
}

/* The ranges of lanes cover the vector, are equal for equal shares, and are aligned. */
TEST(test_lane_range)
{
    static const uint64_t totals[] = {0, 1, 2, 31, 32, 33, 1000003, UINT64_C(1) << 60};
    struct test_plans plans;

    test_plans_build(&plans, GPURING_ALGORITHM_TREE, 5, 3);
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        for (int rank = 0; rank < 5; rank++) {
            uint64_t sum = 0, first, count;

            for (uint32_t lane = 0; lane < plans.plans[rank]->nlanes; lane++) {
                const struct gpuring_plan_lane *of = &plans.plans[rank]->lanes[lane];

                gpuring_part_range(totals[t], of->part_begin, of->part_end,
                                   plans.plans[rank]->weight, 32, &first, &count);
                assert_int_equal(first % 32 == 0 || count == 0, 1);
                /* Each part has an up lane; down lanes repeat it. */
                sum += of->nsends == 0 || (of->steps[0].flags & GPURING_STEP_STORE) ? count : 0;
            }
            assert_int_equal(sum, totals[t]);
        }
    }
    test_plans_free(&plans);
}

TEST(test_bad_arguments)
{
    struct gpuring_channel channel = {.ring = {1, 1, 0}, .tree = {{-1, {1, -1, -1}}, {-1, {-1}}}};
    struct gpuring_plan_input input = {.rank = 0, .nranks = 1, .channels = &channel};
    struct gpuring_plan *plan = NULL;

    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) { /* one rank; a rank that is none */
        enum gpuring_algorithm algorithm = (enum gpuring_algorithm) i;

        input.nrings = input.ntrees = input.ndirect = 1;
        input.nranks = 1;
        assert_int_equal(gpuring_plan_build(algorithm, &input, &plan), GPURING_ERR_ARG);
        input.nranks = input.rank = 2;
        assert_int_equal(gpuring_plan_build(algorithm, &input, &plan), GPURING_ERR_ARG);
        input.rank = 0;
        input.nrings = input.ntrees = input.ndirect = 0;
        assert_int_equal(gpuring_plan_build(algorithm, &input, &plan), GPURING_ERR_ARG);
    }
    input.nranks = 1 << 16;
    assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_DIRECT, &input, &plan), GPURING_ERR_ARG);
    assert_null(plan);
}

/* A mutation changes new plans in one place. */
typedef void (*mutation_fn)(struct test_plans *plans);

static struct gpuring_step *step_of(struct test_plans *plans, int rank, uint32_t lane,
                                    uint32_t step)
{
    assert_true(lane < plans->plans[rank]->nlanes);
    assert_true(step < plans->plans[rank]->lanes[lane].nsteps);
    return (struct gpuring_step *) &plans->plans[rank]->lanes[lane].steps[step];
}

static uint16_t *refs_of(struct test_plans *plans, int rank, uint32_t lane, uint32_t step)
{
    return (uint16_t *) &plans->plans[rank]
        ->lanes[lane]
        .refs[step_of(plans, rank, lane, step)->refs];
}

static void step_drop(struct test_plans *plans, int rank, uint32_t lane, uint32_t step)
{
    struct gpuring_step *dropped = step_of(plans, rank, lane, step);
    uint32_t nsteps = plans->plans[rank]->lanes[lane].nsteps--;

    memmove(dropped, dropped + 1, (nsteps - step - 1) * sizeof *dropped);
}

static void steps_swap(struct test_plans *plans, int rank, uint32_t a, uint32_t b)
{
    struct gpuring_step swap = *step_of(plans, rank, 0, a);

    *step_of(plans, rank, 0, a) = *step_of(plans, rank, 0, b);
    *step_of(plans, rank, 0, b) = swap;
}

/* Rings of 4 ranks, in the order of ranks; steps 0..6, see build_ring.c. */
static void ring_drop_first(struct test_plans *plans)
{
    step_drop(plans, 1, 0, 0);
}

static void ring_drop_last(struct test_plans *plans)
{
    step_drop(plans, 1, 0, 6);
}

static void ring_wrong_chunk(struct test_plans *plans)
{
    step_of(plans, 2, 0, 1)->chunk ^= 1;
}

static void ring_chunk_out_of_range(struct test_plans *plans)
{
    step_of(plans, 2, 0, 1)->chunk = 4;
}

static void ring_no_reduce(struct test_plans *plans)
{
    step_of(plans, 2, 0, 2)->noperands = 1; /* input taken for a destination: out of range */
}

static void ring_forgets_input(struct test_plans *plans)
{
    struct gpuring_step *step = step_of(plans, 2, 0, 2);

    refs_of(plans, 2, 0, 2)[1] = refs_of(plans, 2, 0, 2)[2];
    step->noperands = 1;
}

static void ring_no_store(struct test_plans *plans)
{
    step_of(plans, 3, 0, 5)->flags = 0;
}

static void ring_early_store(struct test_plans *plans)
{
    step_of(plans, 3, 0, 1)->flags = GPURING_STEP_STORE;
}

static void ring_double_input(struct test_plans *plans)
{
    refs_of(plans, 0, 0, 1)[0] = GPURING_REF_INPUT; /* no receive: own contribution twice */
}

static void ring_swapped_order(struct test_plans *plans)
{
    steps_swap(plans, 2, 1, 2);
}

static void ring_store_before_read(struct test_plans *plans)
{
    /* The own chunk is read in step 0; reading it again in the last step is after the store. */
    step_of(plans, 1, 0, 5)->chunk = step_of(plans, 1, 0, 3)->chunk;
}

static void ring_send_missing(struct test_plans *plans)
{
    step_of(plans, 1, 0, 5)->nsends = 0;
}

static void ring_send_surplus(struct test_plans *plans)
{
    /* The last step has no following reference list, so use the list of the previous step. */
    step_of(plans, 1, 0, 6)->refs = step_of(plans, 1, 0, 5)->refs;
    step_of(plans, 1, 0, 6)->nsends = 1;
}

static void ring_ref_out_of_range(struct test_plans *plans)
{
    refs_of(plans, 1, 0, 1)[0] = 1;
}

static void ring_refs_beyond_list(struct test_plans *plans)
{
    step_of(plans, 1, 0, 1)->refs = plans->plans[1]->lanes[0].nrefs - 1;
}

static void ring_wrong_peer(struct test_plans *plans)
{
    plans->plans[1]->sends[0].peer = 3;
}

static void ring_wrong_key(struct test_plans *plans)
{
    plans->plans[1]->recvs[0].key ^= 1;
}

static void ring_wrong_rank(struct test_plans *plans)
{
    plans->plans[1]->rank = 2;
}

static void ring_wrong_part(struct test_plans *plans)
{
    plans->plans[1]->lanes[0].part_end = 2;
    plans->plans[1]->weight = 2;
}

static void ring_wrong_nchunks(struct test_plans *plans)
{
    plans->plans[1]->lanes[0].nchunks = 5;
}

static void ring_part_missing(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        plans->plans[rank]->weight = 2;
    }
}

static void ring_lane_conns(struct test_plans *plans)
{
    plans->plans[1]->lanes[0].nsends = 2;
}

/* Every rank waits for its predecessor before it sends anything. */
static void ring_all_wait(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        steps_swap(plans, rank, 0, 1);
    }
}

/* Direct, 3 ranks: step 0 sends, step 1 folds. */
static void operands_swap(struct test_plans *plans, int rank, int a, int b)
{
    uint16_t *refs = refs_of(plans, rank, 0, 1), swap = refs[a];

    refs[a] = refs[b];
    refs[b] = swap;
}

static void direct_other_order(struct test_plans *plans)
{
    operands_swap(plans, 1, 0, 2);
}

static void direct_same_operand(struct test_plans *plans)
{
    refs_of(plans, 1, 0, 1)[2] = refs_of(plans, 1, 0, 1)[0];
}

static void direct_send_twice(struct test_plans *plans)
{
    refs_of(plans, 1, 0, 0)[2] = refs_of(plans, 1, 0, 0)[1];
}

static void direct_ahead_late(struct test_plans *plans)
{
    steps_swap(plans, 1, 0, 1);
}

static void direct_store_first(struct test_plans *plans)
{
    step_of(plans, 1, 0, 0)->flags &= (uint16_t) ~GPURING_STEP_AHEAD;
    steps_swap(plans, 1, 0, 1);
}

/* All ranks fold in one order, but not in that of the ranks. */
static void direct_same_other_order(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        operands_swap(plans, rank, 0, 1);
    }
}

/* Two-shot, 3 ranks: step 0 sends a chunk to each peer, step 1 folds, step 2 receives from each. */
static void two_shot_owner_does_not_store(struct test_plans *plans)
{
    step_of(plans, 1, 0, 1)->flags = 0;
}

static void two_shot_same_operand(struct test_plans *plans)
{
    refs_of(plans, 1, 0, 1)[2] = refs_of(plans, 1, 0, 1)[0];
}

static void two_shot_same_peer(struct test_plans *plans)
{
    refs_of(plans, 1, 0, 0)[2] = refs_of(plans, 1, 0, 0)[1];
}

static void two_shot_input_stored(struct test_plans *plans)
{
    step_of(plans, 1, 0, 0)->flags |= GPURING_STEP_STORE;
}

static void two_shot_not_sent_back(struct test_plans *plans)
{
    step_of(plans, 1, 0, 1)->nsends--;
}

/* Ranks send the chunks of each other's peers. */
static void two_shot_wrong_chunks(struct test_plans *plans)
{
    step_of(plans, 1, 0, 0)->chunk = 1;
}

/* All chunks are sent to all peers, as if the step had one chunk. */
static void two_shot_one_chunk(struct test_plans *plans)
{
    step_of(plans, 1, 0, 0)->flags &= (uint16_t) ~GPURING_STEP_EACH;
}

static void two_shot_received_first(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        steps_swap(plans, rank, 0, 2);
    }
}

/* Every rank sends twice to the next rank, with one key. */
static void direct_conn_twice(struct test_plans *plans)
{
    for (int rank = 0; rank < plans->nranks; rank++) {
        struct gpuring_plan *plan = plans->plans[rank];

        plan->sends[1] = plan->sends[0];
        plan->recvs[0].peer = plan->recvs[1].peer = (rank + 2) % 3;
    }
}

/* Tree, 3 ranks: rank 0 is the root of the first tree; lanes of rank 1: up, down. */
static void tree_down_reads_input(struct test_plans *plans)
{
    refs_of(plans, 1, 1, 0)[0] = GPURING_REF_INPUT;
}

static void tree_child_missing(struct test_plans *plans)
{
    struct gpuring_step *step = step_of(plans, 0, 0, 0);
    uint16_t *refs = refs_of(plans, 0, 0, 0);

    memmove(refs, refs + 1, (size_t) (step->noperands + step->nsends - 1) * sizeof *refs);
    step->noperands--;
}

static void tree_down_not_sent(struct test_plans *plans)
{
    step_of(plans, 0, 0, 0)->nsends--;
}

/* The up lane reads its input a second time, in a step that nothing orders before the store. */
static void tree_late_read(struct test_plans *plans)
{
    struct gpuring_plan_lane *up = &plans->plans[1]->lanes[0], *down = &plans->plans[1]->lanes[1];
    struct gpuring_step *steps = test_plans_list(2, sizeof *steps);

    assert_int_equal(down->nsteps, 1);
    steps[0] = steps[1] = up->steps[0];
    steps[0].nsends = 0; /* an idle read */
    up->steps = steps;
    up->nsteps = 2;
}

static const struct mutation {
    const char *name;
    mutation_fn mutate;
    enum gpuring_algorithm algorithm;
    int nranks;
    const char *words; /* that the verdict must contain */
} mutations[] = {
#define RING(name, words)                             \
    {                                                 \
#name, name, GPURING_ALGORITHM_RING, 4, words \
    }
#define DIRECT(name, words)                             \
    {                                                   \
#name, name, GPURING_ALGORITHM_DIRECT, 3, words \
    }
#define TWO_SHOT(name, words)                             \
    {                                                     \
#name, name, GPURING_ALGORITHM_TWO_SHOT, 3, words \
    }
#define TREE(name, words)                             \
    {                                                 \
#name, name, GPURING_ALGORITHM_TREE, 3, words \
    }
    RING(ring_drop_first, "another chunk"),
    RING(ring_drop_last, "more to rank 1"),
    RING(ring_wrong_chunk, "another chunk"),
    RING(ring_chunk_out_of_range, "out of range"),
    RING(ring_no_reduce, "out of range"),
    RING(ring_forgets_input, "without the contribution of rank 2"),
    RING(ring_no_store, "not stored"),
    RING(ring_early_store, "without the contribution"),
    RING(ring_double_input, "twice"),
    RING(ring_swapped_order, "another chunk"),
    RING(ring_store_before_read, "another chunk"),
    RING(ring_send_missing, "waits for data"),
    RING(ring_send_surplus, "more to rank 2"),
    RING(ring_ref_out_of_range, "out of range"),
    RING(ring_refs_beyond_list, "out of range"),
    RING(ring_wrong_peer, "only the"),
    RING(ring_wrong_key, "only the"),
    RING(ring_wrong_rank, "plan is of rank 2"),
    RING(ring_wrong_part, "weight 2"),
    RING(ring_wrong_nchunks, "number of chunks"),
    RING(ring_part_missing, "parts end at"),
    RING(ring_lane_conns, "out of range"),
    RING(ring_all_wait, "deadlock"),
    DIRECT(direct_other_order, "another order"),
    DIRECT(direct_same_other_order, "than that of the ranks"),
    DIRECT(direct_same_operand, "uses a connection twice"),
    DIRECT(direct_send_twice, "uses a connection twice"),
    DIRECT(direct_ahead_late, "cannot run ahead"),
    DIRECT(direct_store_first, "overwritten"),
    DIRECT(direct_conn_twice, "twice"),
    TWO_SHOT(two_shot_owner_does_not_store, "not stored"),
    TWO_SHOT(two_shot_same_operand, "uses a connection twice"),
    TWO_SHOT(two_shot_same_peer, "uses a connection twice"),
    TWO_SHOT(two_shot_input_stored, "neither sends a chunk to each peer nor receives"),
    TWO_SHOT(two_shot_not_sent_back, "waits for data"),
    TWO_SHOT(two_shot_wrong_chunks, "sends another chunk"),
    TWO_SHOT(two_shot_one_chunk, "sends another chunk"),
    TWO_SHOT(two_shot_received_first, "deadlock"),
    TREE(tree_down_reads_input, "without the contribution"),
    TREE(tree_child_missing, "without the contribution"),
    TREE(tree_down_not_sent, "waits for data"),
    TREE(tree_late_read, "may read the input later"),
#undef RING
#undef DIRECT
#undef TWO_SHOT
#undef TREE
};

TEST(test_mutations)
{
    int failures = 0;

    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        const struct mutation *mutation = &mutations[i];
        struct test_plans plans;
        char text[256] = "accepted";
        int status;

        test_plans_build(&plans, mutation->algorithm, mutation->nranks, 1);
        assert_int_equal(test_plans_check(&plans, 4, text, sizeof text), GPURING_OK);
        test_plans_store_steps(&plans);
        mutation->mutate(&plans);
        status = test_plans_check(&plans, 4, text, sizeof text);
        if (status != GPURING_ERR_DATA || strstr(text, mutation->words) == NULL) {
            print_error("%s: status %d: %s\n", mutation->name, status, text);
            failures++;
        }
        test_plans_free(&plans);
        test_plans_lists_free();
    }
    assert_int_equal(failures, 0);
}

/* Both ranks send twice before their first receive, which needs two slots. */
TEST(test_slots)
{
    struct test_plans plans;
    char text[256];

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 2, 1);
    test_plans_store_steps(&plans);
    for (int rank = 0; rank < 2; rank++) {
        struct gpuring_plan_lane *lane = &plans.plans[rank]->lanes[0];
        struct gpuring_step *steps = test_plans_list(6, sizeof *steps);

        /* Like direct, with two chunks: both are sent, and then both are folded. */
        steps[0] = steps[1] = lane->steps[0];
        steps[2] = lane->steps[1];
        steps[2].nsends = 0;
        steps[2].refs = lane->steps[1].refs;
        steps[3] = steps[2];
        for (uint32_t chunk = 0; chunk < 2; chunk++) {
            steps[chunk].chunk = steps[2 + chunk].chunk = chunk;
        }
        if (rank == 1) {
            /* Fold in rank order. */
            uint16_t *refs = (uint16_t *) lane->refs + steps[2].refs;

            assert_int_equal(refs[1], GPURING_REF_INPUT);
        } else {
            uint16_t *refs = (uint16_t *) lane->refs + steps[2].refs, swap = refs[0];

            refs[0] = refs[1];
            refs[1] = swap;
        }
        lane->steps = steps;
        lane->nsteps = 4;
    }
    assert_int_equal(test_plans_check(&plans, 2, text, sizeof text), GPURING_OK);
    assert_int_equal(test_plans_check(&plans, 1, text, sizeof text), GPURING_ERR_DATA);
    assert_non_null(strstr(text, "free slot"));
    test_plans_free(&plans);
    test_plans_lists_free();

    /* A step of the ring receives and sends, so with one slot all ranks wait for each other. */
    test_plans_build(&plans, GPURING_ALGORITHM_RING, 3, 1);
    assert_int_equal(test_plans_check(&plans, 1, text, sizeof text), GPURING_ERR_DATA);
    assert_non_null(strstr(text, "free slot"));
    test_plans_free(&plans);
}

TEST_GROUP(quiet_log, NULL)
