/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The two stages of an alltoall by node. */
#include "test/unit/plans.h"
#include "test/unit/unit.h"

#include <string.h>

#include "mca/coll_gpuring/plan/postcondition.h"
#include "mca/coll_gpuring/util/status.h"

static void prove(int nnodes, int size, uint32_t nstripes, int root)
{
    struct test_plans plans;
    char text[256] = "";

    test_plans_build_exchange(&plans, nnodes, size, nstripes, root);
    assert_int_equal(plans.plans[0]->root, root);
    if (test_plans_check(&plans, 2, text, sizeof text) != GPURING_OK) {
        fail_msg("%d nodes of %d ranks, %u stripes, root %d: %s", nnodes, size, nstripes, root,
                 text);
    }
    test_plans_free(&plans);
}

TEST(stages_are_proven)
{
    for (int nnodes = 2; nnodes <= 16; nnodes++) {
        for (int size = 2; size <= 8; size++) {
            prove(nnodes, size, 1 + (uint32_t) size % 3, GPURING_ROOT_BETWEEN_NODES);
            prove(nnodes, size, 1 + (uint32_t) size % 3, GPURING_ROOT_WITHIN_NODES);
        }
    }
    /* more nodes, or ranks of a node, than fit into a step */
    prove(70, 2, 1, GPURING_ROOT_BETWEEN_NODES);
    prove(70, 2, 1, GPURING_ROOT_WITHIN_NODES);
    prove(2, 70, 1, GPURING_ROOT_BETWEEN_NODES);
    prove(2, 70, 1, GPURING_ROOT_WITHIN_NODES);
}

/* Both stages together give block `from` of a rank's output the block of rank `from` for it. */
TEST(stages_are_an_alltoall)
{
    for (int nnodes = 2; nnodes <= 5; nnodes++) {
        for (int size = 2; size <= 4; size++) {
            int nranks = nnodes * size;
            struct gpuring_plan first = {.collective = GPURING_COLLECTIVE_ALLTOALL,
                                         .nranks = nranks,
                                         .node_ranks = size,
                                         .root = GPURING_ROOT_BETWEEN_NODES};
            struct gpuring_plan second = first;

            second.root = GPURING_ROOT_WITHIN_NODES;
            for (int i = 0; i < nranks * nranks; i++) {
                int rank = i / nranks, from = i % nranks, at = rank, block = from;
                struct gpuring_expected moved =
                    gpuring_plan_expected(&second, rank, (uint64_t) from);

                if (moved.end > moved.first) {
                    at = moved.first;
                    block = (int) moved.from;
                }
                moved = gpuring_plan_expected(&first, at, (uint64_t) (block / size));
                assert_int_equal(moved.first, from);
                assert_int_equal(moved.from * (uint64_t) size + (uint64_t) (block % size), rank);
            }
        }
    }
}

TEST(ranks_have_few_connections)
{
    struct test_plans plans;
    uint32_t remote = 0;

    test_plans_build_exchange(&plans, 8, 4, 1, GPURING_ROOT_BETWEEN_NODES);
    for (int rank = 0; rank < 32; rank++) {
        const struct gpuring_plan *plan = plans.plans[rank];

        assert_int_equal(plan->nsends, 7 + 3);
        assert_int_equal(plan->nrecvs, 7 + 3);
        for (uint32_t i = 0; i < plan->nsends; i++) {
            assert_true(plan->sends[i].peer / 4 == rank / 4 || plan->sends[i].peer % 4 == rank % 4);
            remote += plan->sends[i].peer / 4 != rank / 4;
        }
    }
    assert_int_equal(remote, 32 * 7);
    test_plans_free(&plans);
}

/* Both stages need as many slots as the checker says. */
TEST(one_slot_is_too_few_in_a_node)
{
    struct test_plans plans;
    char text[256] = "";

    test_plans_build_exchange(&plans, 2, 2, 1, GPURING_ROOT_WITHIN_NODES);
    assert_int_equal(test_plans_check(&plans, 1, text, sizeof text), GPURING_ERR_DATA);
    assert_non_null(strstr(text, "free slot"));
    test_plans_free(&plans);
}

/* A rank that sends a block after it has received the one that replaces it is refused. */
TEST(order_is_safe_in_place)
{
    static const int roots[] = {GPURING_ROOT_BETWEEN_NODES, GPURING_ROOT_WITHIN_NODES};

    for (int i = 0; i < 2; i++) {
        struct test_plans plans;
        struct gpuring_step *steps, send;
        uint32_t k = (uint32_t) i, nsteps;
        char text[256] = "";

        test_plans_build_exchange(&plans, 2, 2, 1, roots[i]);
        nsteps = plans.plans[0]->lanes[0].nsteps;
        assert_int_equal(nsteps, 3 + k);
        steps = (struct gpuring_step *) plans.plans[0]->lanes[0].steps;
        send = steps[k];
        for (; k + 1 < nsteps; k++) {
            steps[k] = steps[k + 1];
        }
        steps[k] = send;
        for (k = 0; k < nsteps; k++) {
            steps[k].flags &= (uint16_t) ~GPURING_STEP_AHEAD;
        }
        assert_int_equal(test_plans_check(&plans, 2, text, sizeof text), GPURING_ERR_DATA);
        assert_non_null(strstr(text, "has overwritten"));
        test_plans_free(&plans);
    }
}

/* A lane with too many connections, counting those that only the second stage uses, is not flagged.
 */
TEST(lanes_of_single_use_have_few_connections)
{
    for (int size = 2; size <= 70; size++) {
        struct gpuring_plan_input input = {
            .nranks = 30 * size, .ndirect = 1, .node_ranks = size, .exchange = true};
        struct gpuring_plan *plan;

        assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_TWO_SHOT, &input, &plan), GPURING_OK);
        assert_int_equal(plan->lanes[0].nsends, 29 + size - 1);
        assert_int_equal((plan->lanes[0].steps[0].flags & GPURING_STEP_SINGLE_USE) != 0,
                         29 + size - 1 <= GPURING_ONCE_MOST);
        gpuring_plan_free(plan);
    }
}
