/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the collectives other than allreduce, on the connections of base plans. The checker proves
 * them for all roots and refuses them if a step is changed. The host executor runs them with each
 * protocol, with even and uneven blocks, in place and out of place.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/block_threads.h"
#include "test/unit/calls.h"
#include "test/unit/collective_calls.h"
#include "test/unit/fabric.h"
#include "test/unit/plans.h"

/* The basis of plans: reductions in rank order, which need chains instead of trees, or in any
 * order; and the number of ranks. Those of two-shot are on two or more nodes of two or more. */
static const struct base {
    enum gpuring_algorithm algorithm;
    bool in_order;
    int least, most;
} bases[] = {
    {GPURING_ALGORITHM_RING, false, 2, 64},
    {GPURING_ALGORITHM_DIRECT, true, 2, GPURING_DIRECT_MAX_VECTOR_RANKS},
    {GPURING_ALGORITHM_DIRECT, false, GPURING_DIRECT_MAX_VECTOR_RANKS + 1, GPURING_STEP_REFS},
    {GPURING_ALGORITHM_DIRECT, false, GPURING_STEP_REFS + 1, 2 * GPURING_STEP_REFS},
    {GPURING_ALGORITHM_TREE, true, 2, 64},
    {GPURING_ALGORITHM_TREE, false, 2, 64},
    {GPURING_ALGORITHM_TWO_SHOT, false, 4, 64}};
#define NBASES (sizeof bases / sizeof *bases)

/* Use few ranks under the thread sanitizer, because it is slow, and few ranks have the same
 * interactions of threads. */
#if defined __SANITIZE_THREAD__
#define MORE_RANKS 5 /* than the least of a base, at most */
#else
#define MORE_RANKS COLLECTIVE_RANKS
#endif

/* Return the number of nodes, or 0 if this number of ranks cannot be on nodes of the same size. */
static int nodes_of(const struct base *base, int nranks)
{
    int nnodes = 2 + nranks / 4 % 2;

    return base->algorithm != GPURING_ALGORITHM_TWO_SHOT  ? 1
           : nranks % nnodes == 0 && nranks >= 2 * nnodes ? nnodes
           : nranks % 2 == 0                              ? 2
                                                          : 0;
}

static bool base_has(enum gpuring_collective collective, const struct base *base, int nranks)
{
    bool blocks = collective == GPURING_COLLECTIVE_ALLGATHER ||
                  collective == GPURING_COLLECTIVE_REDUCE_SCATTER;

    return base->algorithm == GPURING_ALGORITHM_TWO_SHOT
               ? blocks && nodes_of(base, nranks) > 0
               : gpuring_plan_exists(collective, base->algorithm, base->in_order, base->least);
}

static void build(struct test_plans *plans, enum gpuring_collective collective,
                  const struct base *base, int nranks, uint32_t nchannels, int root)
{
    if (base->algorithm == GPURING_ALGORITHM_TWO_SHOT) {
        test_plans_build_nodes_on(plans, collective, nranks, nodes_of(base, nranks), nchannels);
    } else {
        test_plans_build_on(plans, collective, base->algorithm, nranks, nchannels, root,
                            base->in_order);
    }
}

/* Direct exchanges between few ranks always fold in order. */
static bool is_in_order(enum gpuring_collective collective, const struct base *base, int nranks)
{
    return base->algorithm != GPURING_ALGORITHM_DIRECT
               ? base->in_order
               : gpuring_plan_exists(collective, base->algorithm, true, nranks);
}

static int roots_of(enum gpuring_collective collective, int nranks)
{
    return collective == GPURING_COLLECTIVE_BCAST || collective == GPURING_COLLECTIVE_REDUCE ||
                   collective == GPURING_COLLECTIVE_GATHER ||
                   collective == GPURING_COLLECTIVE_SCATTER
               ? nranks
               : 1;
}

/* Direct and chains need one slot. Steps of rings and trees receive and send, so they need two. */
static void prove(enum gpuring_collective collective, const struct base *base, int n, int root)
{
    uint32_t slots = base->in_order || base->algorithm == GPURING_ALGORITHM_DIRECT ? 1 : 2;
    struct test_plans plans;
    char text[256] = "";

    build(&plans, collective, base, n, 1 + (uint32_t) n % 3, root);
    if (test_plans_check(&plans, slots, text, sizeof text) != GPURING_OK) {
        fail_msg("%s by %s, %d ranks, root %d: %s", gpuring_collective_text(collective),
                 gpuring_algorithm_text(base->algorithm), n, root, text);
    }
    assert_int_equal(plans.plans[0]->in_order, is_in_order(collective, base, n));
    test_plans_free(&plans);
}

/* Prove all plans, and those of reductions in rank order except on rings and trees, for each root
 * between few ranks, and for some roots between many. */
TEST(test_proven)
{
    int proven = 0;

    for (size_t at = 0; at < NBASES * GPURING_COLLECTIVE_COUNT; at++) {
        enum gpuring_collective collective = (enum gpuring_collective)(at / NBASES);
        const struct base *base = &bases[at % NBASES];
        bool each = base->least > 2 && base->most <= GPURING_STEP_REFS; /* number of ranks */
        bool any = collective != GPURING_COLLECTIVE_ALLREDUCE;

        for (int n = base->least; any && n <= base->most; n += n < 17 || each ? 1 : 47) {
            bool has = base_has(collective, base, n);
            int step = n < 17 || (each && n % 16 < 2) ? 1 : n <= GPURING_STEP_REFS ? 9 : 60;

            for (int root = 0; has && root < roots_of(collective, n); root += step) {
                prove(collective, base, n, root);
                proven++;
            }
        }
    }
    assert_true(proven > 1000);
}

/* Prove plans for messages as well. They are refused if a lane sends another block. */
TEST(test_messages)
{
    for (int n = 2; n <= 40; n += n < 9 ? 1 : 31) {
        struct test_plans plans;
        char text[256] = "";

        test_plans_build_on(&plans, GPURING_COLLECTIVE_ALLTOALL, GPURING_ALGORITHM_DIRECT, n,
                            1 + (uint32_t) n % 3, GPURING_ROOT_MESSAGES, false);
        assert_int_equal(plans.plans[0]->nlanes, 2 * (n - 1) * (1 + n % 3));
        if (test_plans_check(&plans, 2, text, sizeof text) != GPURING_OK) {
            fail_msg("messages between %d ranks: %s", n, text);
        }
        plans.plans[n - 1]->steps[0].chunk = 0;
        assert_int_equal(test_plans_check(&plans, 2, text, sizeof text), GPURING_ERR_DATA);
        test_plans_free(&plans);
    }
}

/* Chains, direct and two-shot fold in rank order and set in_order. */
TEST(test_in_order)
{
    struct test_plans plans;
    char text[256] = "";

    for (int nranks = 2; nranks <= 64; nranks++) {
        for (uint32_t nchannels = 1; nchannels <= 4; nchannels++) {
            test_plans_build_chains(&plans, nranks, nchannels);
            assert_true(plans.plans[0]->in_order);
            if (test_plans_check(&plans, 1, text, sizeof text) != GPURING_OK) {
                fail_msg("chains, %d ranks, %u channels: %s", nranks, nchannels, text);
            }
            test_plans_free(&plans);
        }
    }
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        test_plans_build(&plans, (enum gpuring_algorithm) i, 5, 1);
        assert_int_equal(plans.plans[0]->in_order,
                         i == GPURING_ALGORITHM_DIRECT || i == GPURING_ALGORITHM_TWO_SHOT);
        if (!plans.plans[0]->in_order) { /* a plan without in_order must not claim it */
            for (int rank = 0; rank < 5; rank++) {
                plans.plans[rank]->in_order = true;
            }
            assert_int_equal(test_plans_check(&plans, 4, text, sizeof text), GPURING_ERR_DATA);
            assert_non_null(strstr(text, "another order than that of the ranks"));
        }
        test_plans_free(&plans);
    }
}

/* One change in one step. */
enum change { DROP, NO_STORE, STORE, PARTIAL, ONCE, OTHER_CHUNK, CHANGES };

/* Return true if there are more uses of connections than connections. */
static bool uses_twice(const struct gpuring_plan_lane *lane)
{
    uint32_t uses = 0, chunk;

    for (uint32_t k = 0; k < lane->nsteps; k++) {
        const struct gpuring_step *step = gpuring_lane_step(lane, k, &chunk);

        for (uint32_t i = 0; i < (uint32_t) (step->noperands + step->nsends); i++) {
            uses += !gpuring_ref_own(lane->refs[step->refs + i]);
        }
    }
    return uses > lane->nrecvs + lane->nsends;
}

/* Returns 0 if this change changes nothing. */
static int change_step(struct gpuring_plan_lane *lane, uint32_t k, enum change change)
{
    struct gpuring_step *step = (struct gpuring_step *) (uintptr_t) &lane->steps[k];

    switch (change) {
    case DROP:
        memmove(step, step + 1, (lane->nsteps - k - 1) * sizeof *step);
        lane->nsteps--;
        return 1;
    case NO_STORE:
        if ((step->flags & GPURING_STEP_STORE) == 0 || lane->nsteps == 0) {
            return 0;
        }
        step->flags = (uint16_t) (step->flags & ~GPURING_STEP_STORE);
        return 1;
    case STORE:
        if (step->flags & GPURING_STEP_STORE) {
            return 0;
        }
        step->flags |= GPURING_STEP_STORE;
        return 1;
    case PARTIAL:
        if ((step->flags & GPURING_STEP_STORE) == 0 || lane->nsteps == 0) {
            return 0;
        }
        step->flags ^= GPURING_STEP_PARTIAL;
        return 1;
    case ONCE:
        if (k > 0 || !uses_twice(lane)) {
            return 0;
        }
        step->flags |= GPURING_STEP_SINGLE_USE;
        return 1;
    default:
        if (lane->nchunks == 1) {
            return 0;
        }
        step->chunk = (step->chunk + 1) % lane->nchunks;
        return 1;
    }
}

/* Check that every change of every step of every rank is refused. */
TEST(test_changed)
{
    int changed = 0;

    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        for (size_t at = 0; at < NBASES * CHANGES * 4; at++) {
            enum gpuring_collective collective = (enum gpuring_collective) c;
            const struct base *base = &bases[at % NBASES];
            enum change change = (enum change)(at / NBASES % CHANGES);
            int nranks = base->least > 4 ? base->least : 4;
            int rank = (int) (at / NBASES / CHANGES), root = 2;
            /* with many ranks only the collectives that differ there */
            bool more = base_has(collective, base, nranks) &&
                        (nranks <= GPURING_STEP_REFS ||
                         (collective == GPURING_COLLECTIVE_REDUCE_SCATTER && rank == 2));

            rank = rank < 3 ? rank : nranks - 1;

            for (uint32_t k = 0; more; k++) {
                struct test_plans plans;
                char text[256] = "accepted";

                build(&plans, collective, base, nranks, 1, root);
                more = k < plans.plans[rank]->lanes[0].nsteps;
                if (more && change_step(&plans.plans[rank]->lanes[0], k, change)) {
                    if (test_plans_check(&plans, 4, text, sizeof text) != GPURING_ERR_DATA) {
                        fail_msg("%s by %s, rank %d step %u, change %d: %s",
                                 gpuring_collective_text(collective),
                                 gpuring_algorithm_text(base->algorithm), rank, k, (int) change,
                                 text);
                    }
                    changed++;
                }
                test_plans_free(&plans);
            }
        }
    }
    assert_true(changed > 200);
}

/* ---- Execution ---- */

static int run_block(struct gpuring_work *work)
{
    return block_work_run(work, 2);
}

static void execute(struct collective_call *call, struct fabric *fabric, uint64_t chunk,
                    call_executor executor)
{
    collective_call_begin(fabric, call, chunk, 1);
    assert_int_equal(call_run_in_turn(fabric, executor), GPURING_OK);
    collective_call_end(call);
}

static uint32_t seed = 20261122;

static uint32_t draw(uint32_t end)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % end;
}

/* Return true if input and output of a collective may be the same buffer with the same blocks. */
static bool may_be_in_place(const struct collective_call *call)
{
    return call->collective != GPURING_COLLECTIVE_REDUCE_SCATTER &&
           call->collective != GPURING_COLLECTIVE_SCATTER &&
           call->collective != GPURING_COLLECTIVE_GATHER &&
           (call->collective != GPURING_COLLECTIVE_ALLTOALL || !call->uneven);
}

/* Run several operations of all sizes, one after another on the same connections. */
static void run_many(enum gpuring_collective collective, const struct base *base,
                     enum gpuring_protocol protocol, int nranks)
{
    struct collective_call call = {.collective = collective,
                                   .algorithm = base->algorithm,
                                   .protocol = protocol,
                                   .nranks = nranks};
    struct test_plans plans;
    struct fabric fabric;
    bool blocks;

    fabric_local = nranks % 2 == 0 ? GPURING_FIFO_NET : 0;
    call.root = (int) draw((uint32_t) nranks);
    build(&plans, collective, base, nranks, 2, call.root);
    /* Three ranks are blocks of threads, as on a GPU, and those of whose output is an operand;
     * their chunks have slices. */
    blocks = nranks == 3 ||
             (base->least == nranks && !gpuring_plan_exists(collective, base->algorithm, true, 17));
#if defined __SANITIZE_THREAD__
    if (!blocks) { /* all ranks run in one thread */
        test_plans_free(&plans);
        return;
    }
#endif
    fabric_create(&fabric, &plans, protocol, 2048, blocks ? FABRIC_SLICED : 4);
    for (int i = 0; i < (blocks && nranks > 3 ? 3 : 10); i++) {
        call.uneven = gpuring_collective_has_blocks(collective) && i % 2 == 1;
        call.count = i == 0 ? 1 : draw(i < 6 ? 700 : 12000);
        for (int s = 0; s < nranks; s++) {
            for (int r = 0; r < nranks; r++) {
                call.counts[s][r] = !call.uneven ? call.count : draw(3) == 0 ? 0 : draw(9000);
            }
        }
        call.in_place = i % 4 >= 2 && may_be_in_place(&call);
        if (call.in_place && collective == GPURING_COLLECTIVE_ALLGATHER) {
            call.in_place = false; /* its input is one of the blocks: tested through MPI */
        }
        execute(&call, &fabric, 32 * (1 + draw(blocks ? 64 : 20)),
                blocks ? run_block : gpuring_work_run_host);
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

TEST(test_execution)
{
    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        for (size_t a = 0; a < NBASES; a++) {
            for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
                for (int n = bases[a].least; n <= COLLECTIVE_RANKS && n <= bases[a].most &&
                                             n <= bases[a].least + MORE_RANKS;
                     n += n == 3    ? 4
                          : n == 7  ? COLLECTIVE_RANKS
                          : n >= 17 ? 16
                                    : 1) {
                    if (base_has((enum gpuring_collective) c, &bases[a], n)) {
                        run_many((enum gpuring_collective) c, &bases[a], (enum gpuring_protocol) p,
                                 n);
                    }
                }
            }
        }
    }
}

TEST_GROUP(quiet_log, NULL)

int main(void)
{
#if defined __SANITIZE_THREAD__
    cmocka_set_test_filter("test_execution"); /* the checker has one thread, and takes minutes */
#endif
    return unit_run();
}
