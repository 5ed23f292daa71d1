/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Reductions in rank order on the connections of trees that are chains (build_tree.c), for any
 * number of ranks. "before" is the value received from rank - 1: the contributions of all lower
 * ranks, folded in rank order.
 *
 *   scan      before + input > output, send to the next rank
 *   exscan    before + input > send to the next rank twice: one copy is folded there, one is stored
 *   reduce    up lane:    before + input > send to the next rank
 *             down lane:  the result > send to rank - 1; the root: > output
 *             the last rank has one lane for both: before + input > send to rank - 1, or output
 *
 * Reduce-scatter is one reduce per block, with the block's rank as root. MPI_IN_PLACE is safe,
 * because a result is sent down only after this rank has sent its own contribution to that block
 * and to all earlier blocks.
 */
#include "mca/coll_gpuring/plan/build.h"

static bool is_last(const struct gpuring_writer *writer)
{
    return writer->plan->rank == writer->plan->nranks - 1;
}

/* Add a step whose operands are the value from rank - 1, if there is one, and the input. */
static void fold_step(struct gpuring_writer *writer, uint32_t tree, int block, uint32_t flags)
{
    gpuring_writer_step(writer, (uint32_t) block, flags);
    if (writer->plan->rank > 0) {
        gpuring_writer_from(writer, writer->plan->rank - 1,
                            gpuring_plan_key(writer->plan, tree, false));
    }
    gpuring_writer_input(writer);
}

static void send_up(struct gpuring_writer *writer, uint32_t tree)
{
    gpuring_writer_to(writer, writer->plan->rank + 1, gpuring_plan_key(writer->plan, tree, false));
}

static void send_down(struct gpuring_writer *writer, uint32_t tree)
{
    gpuring_writer_to(writer, writer->plan->rank - 1, gpuring_plan_key(writer->plan, tree, true));
}

/* Return the rank that gets the result of a block. */
static int root_of(const struct gpuring_plan *plan, int block)
{
    return gpuring_collective_has_blocks(plan->collective) ? block : plan->root;
}

/* Fold a block into the value from rank - 1. The last rank then has the result and sends it down
 * towards the root. */
static void fold_up(struct gpuring_writer *writer, uint32_t tree, int block)
{
    bool stores = is_last(writer) && root_of(writer->plan, block) == writer->plan->rank;

    fold_step(writer, tree, block, stores ? GPURING_STEP_STORE : 0);
    if (!is_last(writer)) {
        send_up(writer, tree);
    } else if (!stores) {
        send_down(writer, tree);
    }
}

/* Receive a result from rank + 1. Store it if this rank is its root, otherwise send it down. */
static void pass_down(struct gpuring_writer *writer, uint32_t tree, int block)
{
    bool stores = root_of(writer->plan, block) == writer->plan->rank;

    gpuring_writer_step(writer, (uint32_t) block, stores ? GPURING_STEP_STORE : GPURING_STEP_INPUT);
    gpuring_writer_from(writer, writer->plan->rank + 1, gpuring_plan_key(writer->plan, tree, true));
    if (!stores) {
        send_down(writer, tree);
    }
}

static void add_reduce(struct gpuring_writer *writer, uint32_t tree)
{
    const struct gpuring_plan *plan = writer->plan;
    int nblocks = gpuring_collective_has_blocks(plan->collective) ? plan->nranks : 1;

    gpuring_writer_lane(writer, tree, tree + 1, nblocks);
    for (int b = 0; b < nblocks; b++) {
        fold_up(writer, tree, b);
    }
    if (is_last(writer) || root_of(plan, 0) > plan->rank) {
        return;
    }
    gpuring_writer_lane(writer, tree, tree + 1, nblocks);
    for (int b = 0; b < nblocks && root_of(plan, b) <= plan->rank; b++) {
        pass_down(writer, tree, b);
    }
}

static void add_scan(struct gpuring_writer *writer, uint32_t tree)
{
    gpuring_writer_lane(writer, tree, tree + 1, 1);
    fold_step(writer, tree, 0, GPURING_STEP_STORE);
    if (!is_last(writer)) {
        send_up(writer, tree);
    }
}

/* Use both chains of a channel, which are identical: values on the first chain are folded, values
 * on the second are stored. */
static void add_exscan(struct gpuring_writer *writer, uint32_t tree)
{
    const struct gpuring_plan *plan = writer->plan;

    if (tree % 2 != 0) {
        return;
    }
    gpuring_writer_lane(writer, tree, tree + 2, 1);
    if (!is_last(writer)) {
        fold_step(writer, tree, 0, 0);
        if (plan->rank + 2 < plan->nranks) { /* the last rank folds nothing */
            send_up(writer, tree);
        }
        send_up(writer, tree + 1);
    }
    if (plan->rank > 0) {
        gpuring_writer_step(writer, 0, GPURING_STEP_STORE);
        gpuring_writer_from(writer, plan->rank - 1, gpuring_plan_key(plan, tree + 1, false));
    }
}

gpuring_builder *const gpuring_chain_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = gpuring_tree_allreduce,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce,
    [GPURING_COLLECTIVE_SCAN] = add_scan,
    [GPURING_COLLECTIVE_EXSCAN] = add_exscan,
};
