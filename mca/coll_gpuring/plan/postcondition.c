/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/postcondition.h"

/* In the second stage of an alltoall by node, ranks l and k of a node exchange their blocks k and l
 * of each node. A rank's own blocks are already in place. */
static struct gpuring_expected within_nodes(int size, int rank, int chunk)
{
    int from = rank - rank % size + chunk % size;

    return from == rank ? (struct gpuring_expected){0, 0, 0}
                        : (struct gpuring_expected){
                              from, from + 1, (uint64_t) (chunk - chunk % size + rank % size)};
}

struct gpuring_expected gpuring_plan_expected(const struct gpuring_plan *plan, int rank,
                                              uint64_t chunk)
{
    const struct gpuring_expected all = {0, plan->nranks, chunk}, nothing = {0, 0, 0};
    const struct gpuring_expected of_chunk = {(int) chunk, (int) chunk + 1, chunk};
    const struct gpuring_expected of_root = {plan->root, plan->root + 1, chunk};

    switch (plan->collective) {
    case GPURING_COLLECTIVE_ALLREDUCE:
        return all;
    case GPURING_COLLECTIVE_BCAST: /* the root has it */
        return rank != plan->root ? of_root : nothing;
    case GPURING_COLLECTIVE_REDUCE:
        return rank == plan->root ? all : nothing;
    case GPURING_COLLECTIVE_SCAN:
        return (struct gpuring_expected){0, rank + 1, chunk};
    case GPURING_COLLECTIVE_EXSCAN:
        return (struct gpuring_expected){0, rank, chunk};
    case GPURING_COLLECTIVE_ALLGATHER:
        return of_chunk;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
        return chunk == (uint64_t) rank ? all : nothing;
    case GPURING_COLLECTIVE_ALLTOALL:
        if (plan->root == GPURING_ROOT_MESSAGES) {
            int from = (int) (chunk % (uint64_t) plan->nranks);

            return from == rank ? nothing
                                : (struct gpuring_expected){
                                      from, from + 1, chunk - (uint64_t) from + (uint64_t) rank};
        }
        if (plan->root == GPURING_ROOT_BETWEEN_NODES) {
            int from = (int) chunk * plan->node_ranks + rank % plan->node_ranks;

            return (struct gpuring_expected){from, from + 1, (uint64_t) (rank / plan->node_ranks)};
        }
        if (plan->root == GPURING_ROOT_WITHIN_NODES) {
            return within_nodes(plan->node_ranks, rank, (int) chunk);
        }
        return (struct gpuring_expected){(int) chunk, (int) chunk + 1, (uint64_t) rank};
    case GPURING_COLLECTIVE_GATHER:
        return rank == plan->root ? of_chunk : nothing;
    case GPURING_COLLECTIVE_SCATTER:
        return chunk == (uint64_t) rank ? of_root : nothing;
    case GPURING_COLLECTIVE_COUNT:
        break;
    }
    return nothing;
}

uint64_t gpuring_plan_overwrites(const struct gpuring_plan *plan, int rank, uint64_t chunk)
{
    return plan->root == GPURING_ROOT_MESSAGES                     ? (uint64_t) rank
           : plan->collective == GPURING_COLLECTIVE_REDUCE_SCATTER ? 0
                                                                   : chunk;
}
