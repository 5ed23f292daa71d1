/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Plans of all ranks for the tests of plans and executors. Channels are made up here: each has a
 * pseudo-random order of the ranks, so that nothing works only because ranks are in order.
 */
#ifndef GPURING_TEST_PLANS_H
#define GPURING_TEST_PLANS_H

#include "mca/coll_gpuring/plan/plan.h"

struct test_plans {
    int nranks;
    struct gpuring_plan **plans; /* [nranks] */
};

/* Build plans of `algorithm` on `nchannels` channels (stripes for direct and two-shot).
 * Fail the test if a builder refuses. */
void test_plans_build(struct test_plans *plans, enum gpuring_algorithm algorithm, int nranks,
                      uint32_t nchannels);
/* Build plans of two-shot between nodes with the same number of ranks. With one stripe, the ranks
 * of a node follow each other. test_plans_build_nodes builds those of allreduce. */
void test_plans_build_nodes_on(struct test_plans *plans, enum gpuring_collective collective,
                               int nranks, int nnodes, uint32_t nstripes);
void test_plans_build_nodes(struct test_plans *plans, int nranks, int nnodes, uint32_t nstripes);
/* Build plans of a stage of an alltoall between `nnodes` nodes of `size` ranks; see
 * GPURING_ROOT_BETWEEN_NODES. */
void test_plans_build_exchange(struct test_plans *plans, int nnodes, int size, uint32_t nstripes,
                               int root);
/* Build plans of trees that are chains in rank order. */
void test_plans_build_chains(struct test_plans *plans, int nranks, uint32_t nchannels);
/* Build plans of another collective on the connections of such plans. If in_order, trees are
 * chains. */
void test_plans_build_on(struct test_plans *plans, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels, int root,
                         bool in_order);
void test_plans_free(struct test_plans *plans);

/* Store the steps of rings one by one with separate references, so that each can be changed. */
void test_plans_store_steps(struct test_plans *plans);
/* Allocate a list that replaces one of a plan's until test_plans_lists_free frees all of them. */
void *test_plans_list(size_t count, size_t size);
void test_plans_lists_free(void);

/* Return the result of the checker. */
int test_plans_check(const struct test_plans *plans, uint32_t slots, char *text, size_t size);

#endif
