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
 * the channel's share; packed trees get shares by weight.
 *
 * In place is safe though two lanes touch a chunk: it comes down only after it has gone up.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/plan/writer.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A rank's place in one tree, whatever kind of tree it is. */
struct place {
    enum gpuring_algorithm algorithm;
    uint32_t index; /* of the tree, over all channels */
    uint64_t begin, end;
    int up;
    const int *down;
    int ndown;
};

static int peer_valid(int peer, int rank, int nranks)
{
    return peer >= 0 && peer < nranks && peer != rank;
}

static int place_check(int rank, int nranks, const struct place *place)
{
    int valid = (place->up == -1 || peer_valid(place->up, rank, nranks)) && place->ndown >= 0 &&
                place->ndown < (int) GPURING_REF_INPUT - 1 && (place->up != -1 || place->ndown > 0);

    for (int i = 0; valid && i < place->ndown; i++) {
        valid = peer_valid(place->down[i], rank, nranks) && place->down[i] != place->up;
    }
    if (!valid) {
        gpuring_error("tree %u of rank %d of %d is invalid: parent %d, %d children; report the "
                      "topology (gpuring-topo report)",
                      place->index, rank, nranks, place->up, place->ndown);
        return GPURING_ERR_ARG;
    }
    return GPURING_OK;
}

/* The lane that folds what the children send with the own input; at the root it also answers. */
static void add_up_lane(struct gpuring_writer *writer, const struct place *place, uint16_t *refs)
{
    uint32_t up_key = gpuring_writer_key(place->algorithm, place->index, 0);
    uint32_t down_key = gpuring_writer_key(place->algorithm, place->index, 1);
    size_t n = 0, nsends = 0;

    gpuring_writer_lane_begin(writer, place->begin, place->end, 1);
    for (int i = 0; i < place->ndown; i++) {
        refs[n++] = gpuring_writer_recv(writer, place->down[i], up_key);
    }
    refs[n++] = GPURING_REF_INPUT;
    if (place->up != -1) {
        refs[n + nsends++] = gpuring_writer_send(writer, place->up, up_key);
    } else {
        for (int i = 0; i < place->ndown; i++) {
            refs[n + nsends++] = gpuring_writer_send(writer, place->down[i], down_key);
        }
    }
    gpuring_writer_step(writer, 0, place->up == -1 ? GPURING_STEP_STORE : 0, refs, n, nsends);
    gpuring_writer_lane_end(writer);
}

static void add_down_lane(struct gpuring_writer *writer, const struct place *place, uint16_t *refs)
{
    uint32_t down_key = gpuring_writer_key(place->algorithm, place->index, 1);
    size_t nsends = 0;

    gpuring_writer_lane_begin(writer, place->begin, place->end, 1);
    refs[0] = gpuring_writer_recv(writer, place->up, down_key);
    for (int i = 0; i < place->ndown; i++) {
        refs[1 + nsends++] = gpuring_writer_send(writer, place->down[i], down_key);
    }
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE, refs, 1, nsends);
    gpuring_writer_lane_end(writer);
}

static void add_tree(struct gpuring_writer *writer, const struct place *place)
{
    /* Up to ndown + 1 operands and ndown destinations. */
    uint16_t *refs = malloc((2 * (size_t) place->ndown + 2) * sizeof *refs);

    if (refs == NULL) {
        if (writer->status == GPURING_OK) {
            gpuring_error("out of memory for a tree plan");
            writer->status = GPURING_ERR_NOMEM;
        }
        return;
    }
    add_up_lane(writer, place, refs);
    if (place->up != -1) {
        add_down_lane(writer, place, refs);
    }
    free(refs);
}

static int arguments_check(int rank, int nranks, uint32_t ntrees)
{
    if (nranks < 2 || rank < 0 || rank >= nranks || ntrees == 0) {
        gpuring_error("no tree of %d ranks (rank %d) and %u channels", nranks, rank, ntrees);
        return GPURING_ERR_ARG;
    }
    return GPURING_OK;
}

static struct place binary_place(const struct gpuring_channel *channels, uint32_t tree)
{
    const struct gpuring_tree_place *given = &channels[tree / 2].tree[tree % 2];
    struct place place = {.algorithm = GPURING_ALGORITHM_TREE,
                          .index = tree,
                          .begin = tree,
                          .end = tree + 1,
                          .up = given->up,
                          .down = given->down};

    while (place.ndown < GPURING_CHANNEL_MAX_DOWN && given->down[place.ndown] != -1) {
        place.ndown++;
    }
    return place;
}

int gpuring_plan_build_tree(int rank, int nranks, const struct gpuring_channel *channels,
                            uint32_t nchannels, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;
    int status = arguments_check(rank, nranks, nchannels);

    for (uint32_t tree = 0; status == GPURING_OK && tree < 2 * nchannels; tree++) {
        struct place place = binary_place(channels, tree);

        status = place_check(rank, nranks, &place);
    }
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_writer_open(&writer, GPURING_ALGORITHM_TREE, rank, nranks, 2 * (uint64_t) nchannels);
    for (uint32_t tree = 0; tree < 2 * nchannels; tree++) {
        struct place place = binary_place(channels, tree);

        add_tree(&writer, &place);
    }
    return gpuring_writer_finish(&writer, plan);
}

int gpuring_plan_build_packed(int rank, int nranks, const struct gpuring_packed_place *places,
                              uint32_t ntrees, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;
    uint64_t weight = 0, begin = 0;
    int status = arguments_check(rank, nranks, ntrees);

    for (uint32_t tree = 0; status == GPURING_OK && tree < ntrees; tree++) {
        struct place place = {.index = tree,
                              .up = places[tree].up,
                              .down = places[tree].down,
                              .ndown = places[tree].ndown};

        status = place_check(rank, nranks, &place);
        weight += places[tree].weight;
    }
    if (status == GPURING_OK && weight == 0) {
        gpuring_error("packed trees of rank %d have no weight", rank);
        status = GPURING_ERR_ARG;
    }
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_writer_open(&writer, GPURING_ALGORITHM_PACKED, rank, nranks, weight);
    for (uint32_t tree = 0; tree < ntrees; tree++) {
        struct place place = {.algorithm = GPURING_ALGORITHM_PACKED,
                              .index = tree,
                              .begin = begin,
                              .end = begin + places[tree].weight,
                              .up = places[tree].up,
                              .down = places[tree].down,
                              .ndown = places[tree].ndown};

        begin = place.end;
        if (places[tree].weight > 0) {
            add_tree(&writer, &place);
        }
    }
    return gpuring_writer_finish(&writer, plan);
}
