/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Trees. Parent and child are connected in both directions, so that any rank can be the root. Each
 * other rank has exactly one neighbour that is nearer to the root ("there"):
 *
 *   reduce          the other neighbours + input > send there           root: .. > output
 *   bcast           from there > output, send to the other neighbours   root: input > send
 *
 * The allreduce is a reduction to the tree's top and a broadcast back, pipelined window by window.
 * A rank has one lane for each, so that both directions work at the same time. The top has one lane
 * for both:
 *
 *   children.. + input > output, send to the children
 *
 * MPI_IN_PLACE is safe although two lanes access a chunk, because the result of a chunk is received
 * only after the chunk was sent up.
 *
 * A window is one chunk. Each of the two trees of a channel carries half of the channel's share. If
 * results must be folded in rank order, each tree is a chain from rank 0 to the last rank, which is
 * the top. Each hop then folds the received value first and its own input second.
 */
#include "mca/coll_gpuring/plan/build.h"

/* One tree, as this rank sees it. */
struct tree {
    struct gpuring_writer *writer;
    uint32_t number;
    struct gpuring_tree_position at;
    int to_root; /* the neighbour nearer to the root, or -1 if this rank is the root */
};

/* Return the neighbour that is nearer to the root, or -1 if this rank is the root. If the root's
 * path to the top passes through this rank, this is the child on that path, otherwise the
 * parent. */
static int next_to_root(const struct gpuring_plan_input *input, uint32_t tree)
{
    const uint16_t *parents = input->order + (input->nrings + tree) * (size_t) input->nranks;
    int at = input->root;

    if (input->rank == input->root) {
        return -1;
    }
    for (int i = 0; i < input->nranks && parents[at] != at; i++) {
        if (parents[at] == input->rank) {
            return at;
        }
        at = parents[at];
    }
    return parents[input->rank];
}

/* Begin a lane, and return this rank's view of the tree. */
static struct tree tree_begin(struct gpuring_writer *writer, uint32_t number)
{
    const struct gpuring_plan_input *input = writer->input;
    struct tree tree = {.writer = writer, .number = number};
    int next = input->rank + 1;

    if (input->in_order) {
        tree.at = (struct gpuring_tree_position){.up = next < input->nranks ? next : -1,
                                                 .down = {input->rank - 1, -1, -1}};
    } else {
        tree.at = input->channels[number / 2].tree[number % 2];
    }
    tree.to_root = writer->base == NULL ? tree.at.up : next_to_root(input, number);
    gpuring_writer_lane(writer, number, number + 1, 1);
    return tree;
}

static void add_from(const struct tree *tree, int peer)
{
    bool down = peer == tree->at.up;

    gpuring_writer_from(tree->writer, peer,
                        gpuring_plan_key(tree->writer->plan, tree->number, down));
}

static void add_to(const struct tree *tree, int peer)
{
    bool down = peer != tree->at.up;

    gpuring_writer_to(tree->writer, peer, gpuring_plan_key(tree->writer->plan, tree->number, down));
}

/* Add each neighbour that is not nearer to the root as an operand or as a destination. */
static void add_others(const struct tree *tree, void (*add)(const struct tree *tree, int peer))
{
    for (int i = -1; i < GPURING_CHANNEL_MAX_DOWN; i++) {
        int peer = i < 0 ? tree->at.up : tree->at.down[i];

        if (peer >= 0 && peer != tree->to_root) {
            add(tree, peer);
        }
    }
}

static void reduce_step(const struct tree *tree)
{
    gpuring_writer_step(tree->writer, 0, tree->to_root < 0 ? GPURING_STEP_STORE : 0);
    add_others(tree, add_from);
    gpuring_writer_input(tree->writer);
    if (tree->to_root >= 0) {
        add_to(tree, tree->to_root);
    }
}

static void bcast_step(const struct tree *tree)
{
    gpuring_writer_step(tree->writer, 0, tree->to_root < 0 ? 0 : GPURING_STEP_STORE);
    if (tree->to_root >= 0) {
        add_from(tree, tree->to_root);
    } else {
        gpuring_writer_input(tree->writer);
    }
    add_others(tree, add_to);
}

static void add_reduce(struct gpuring_writer *writer, uint32_t number)
{
    struct tree tree = tree_begin(writer, number);

    reduce_step(&tree);
}

static void add_bcast(struct gpuring_writer *writer, uint32_t number)
{
    struct tree tree = tree_begin(writer, number);

    bcast_step(&tree);
}

void gpuring_tree_allreduce(struct gpuring_writer *writer, uint32_t number)
{
    struct tree tree = tree_begin(writer, number);

    reduce_step(&tree);
    if (tree.to_root < 0) {
        add_others(&tree, add_to);
    } else {
        add_bcast(writer, number);
    }
}

gpuring_builder *const gpuring_tree_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = gpuring_tree_allreduce,
    [GPURING_COLLECTIVE_BCAST] = add_bcast,
    [GPURING_COLLECTIVE_REDUCE] = add_reduce,
};
