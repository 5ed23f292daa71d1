/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Trees: reduce to the root and broadcast back, pipelined window by window. A rank has two lanes
 * for each tree, so that both directions flow at once; at the root they are one:
 *
 *   up lane:    children.. + input > send to the parent
 *   down lane:  parent             > output, send to the children
 *   root lane:  children.. + input > output, send to the children
 *
 * A window is one chunk. The double binary tree of a channel gives each of its two trees half of
 * the channel's share.
 *
 * In place is safe though two lanes touch a chunk: it comes down only after it has gone up.
 *
 * Where results are to be folded in rank order each tree is a chain, from rank 0 to the root, which
 * is the last rank: each hop folds what came with the own input, in this order.
 */
#include "mca/coll_gpuring/plan/writer.h"
#include "mca/coll_gpuring/util/status.h"

static int count_children(const struct gpuring_tree_position *position)
{
    int n = 0;

    while (n < GPURING_CHANNEL_MAX_DOWN && position->down[n] != -1) {
        n++;
    }
    return n;
}

/* The lane that folds what the children send with the own input; at the root it also answers. */
static void add_up_lane(struct gpuring_writer *writer, uint32_t tree,
                        const struct gpuring_tree_position *position)
{
    uint32_t up_key = gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, 0);
    uint32_t down_key = gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, 1);
    uint16_t refs[2 * GPURING_CHANNEL_MAX_DOWN + 1];
    int ndown = count_children(position);
    size_t n = 0, nsends = 0;

    gpuring_writer_lane_begin(writer, tree, tree + 1, 1);
    for (int i = 0; i < ndown; i++) {
        refs[n++] = gpuring_writer_recv(writer, position->down[i], up_key);
    }
    refs[n++] = GPURING_REF_INPUT;
    if (position->up != -1) {
        refs[n + nsends++] = gpuring_writer_send(writer, position->up, up_key);
    } else {
        for (int i = 0; i < ndown; i++) {
            refs[n + nsends++] = gpuring_writer_send(writer, position->down[i], down_key);
        }
    }
    gpuring_writer_step(writer, 0, position->up == -1 ? GPURING_STEP_STORE : 0, refs, n, nsends);
    gpuring_writer_lane_end(writer);
}

static void add_down_lane(struct gpuring_writer *writer, uint32_t tree,
                          const struct gpuring_tree_position *position)
{
    uint32_t down_key = gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, 1);
    uint16_t refs[GPURING_CHANNEL_MAX_DOWN + 1];
    int ndown = count_children(position);

    gpuring_writer_lane_begin(writer, tree, tree + 1, 1);
    refs[0] = gpuring_writer_recv(writer, position->up, down_key);
    for (int i = 0; i < ndown; i++) {
        refs[1 + i] = gpuring_writer_send(writer, position->down[i], down_key);
    }
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE, refs, 1, (size_t) ndown);
    gpuring_writer_lane_end(writer);
}

/* The rank's position in a chain in rank order. */
static struct gpuring_tree_position chain_position(const struct gpuring_plan_input *input)
{
    int next = input->rank + 1;

    return (struct gpuring_tree_position){.up = next < input->nranks ? next : -1,
                                          .down = {input->rank - 1, -1, -1}};
}

int gpuring_plan_build_tree(const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;
    uint32_t ntrees = 2 * input->ntrees; /* in pairs */
    const struct gpuring_tree_position chain = chain_position(input);

    gpuring_writer_open(&writer, GPURING_COLLECTIVE_ALLREDUCE, GPURING_ALGORITHM_TREE, input,
                        ntrees);
    for (uint32_t tree = 0; writer.status == GPURING_OK && tree < ntrees; tree++) {
        const struct gpuring_tree_position *position =
            input->in_order ? &chain : &input->channels[tree / 2].tree[tree % 2];

        add_up_lane(&writer, tree, position);
        if (position->up != -1) {
            add_down_lane(&writer, tree, position);
        }
    }
    return gpuring_writer_finish(&writer, plan);
}
