/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Broadcasts and reductions on the connections of the double binary trees, which lead both ways
 * between parent and child. From any rank one neighbour leads to the root:
 *
 *   bcast           from there > output, send to the other neighbours       root: input > send
 *   reduce          the other neighbours + input > send there               root: .. > output
 *
 * A window is one chunk. Each of the two trees of a channel carries half of its share.
 */
#include "mca/coll_gpuring/plan/build_on.h"
#include "mca/coll_gpuring/util/status.h"

/* The neighbour that leads to the root, -1 at the root: the one below this rank on the root's way
 * up, if that passes here, else the parent. */
static int next_to_root(const struct gpuring_plan_input *input, const uint16_t *parents)
{
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

/* The lane of a tree; keys of connections are those of build_tree.c: 0 up, 1 down. */
static void add_lane(struct gpuring_writer *writer, const struct gpuring_plan_input *input,
                     uint32_t tree, bool bcast)
{
    const struct gpuring_tree_position *position = &input->channels[tree / 2].tree[tree % 2];
    const uint16_t *parents = input->order + (input->nrings + tree) * (size_t) input->nranks;
    uint32_t up = gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, 0);
    uint32_t down = gpuring_writer_key(GPURING_ALGORITHM_TREE, tree, 1);
    int to_root = next_to_root(input, parents);
    uint16_t refs[GPURING_CHANNEL_MAX_DOWN + 2], sends[GPURING_CHANNEL_MAX_DOWN + 1];
    size_t n = 0, nsends = 0;

    for (int i = -1; i < GPURING_CHANNEL_MAX_DOWN; i++) {
        int peer = i < 0 ? position->up : position->down[i];

        if (peer >= 0 && (peer == to_root) == bcast) {
            refs[n++] = gpuring_writer_recv(writer, peer, i < 0 ? down : up);
        } else if (peer >= 0) {
            sends[nsends++] = gpuring_writer_send(writer, peer, i < 0 ? up : down);
        }
    }
    if (!bcast || to_root < 0) {
        refs[n++] = GPURING_REF_INPUT;
    }
    for (size_t i = 0; i < nsends; i++) {
        refs[n + i] = sends[i];
    }
    gpuring_writer_step(writer, 0, bcast == (to_root >= 0) ? GPURING_STEP_STORE : 0, refs, n,
                        nsends);
}

bool gpuring_on_tree_exists(enum gpuring_collective collective)
{
    return collective == GPURING_COLLECTIVE_BCAST || collective == GPURING_COLLECTIVE_REDUCE;
}

int gpuring_on_tree_build(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;

    gpuring_writer_open_on(&writer, collective, input);
    for (uint32_t tree = 0; writer.status == GPURING_OK && tree < input->base->weight; tree++) {
        gpuring_writer_lane_begin(&writer, tree, tree + 1, 1);
        add_lane(&writer, input, tree, collective == GPURING_COLLECTIVE_BCAST);
        gpuring_writer_lane_end(&writer);
    }
    return gpuring_writer_finish(&writer, plan);
}
