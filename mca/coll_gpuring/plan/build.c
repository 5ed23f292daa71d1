/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Selects the builder of a plan and calls it for each part. */
#include "mca/coll_gpuring/plan/build.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Return the number of parts of a channel, and set *channels. Trees are in pairs, and a stripe of
 * two-shot between nodes has one part of a vector for each rank of a node. */
static uint32_t parts_of(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                         const struct gpuring_plan_input *input, uint32_t *channels)
{
    switch (algorithm) {
    case GPURING_ALGORITHM_RING:
        *channels = input->nrings;
        return 1;
    case GPURING_ALGORITHM_TREE:
        *channels = input->ntrees;
        return 2;
    case GPURING_ALGORITHM_DIRECT:
        *channels = input->ndirect;
        return 1;
    default:
        *channels = input->nnodes > 1 || input->ntwo_shot == 0 ? input->ndirect : input->ntwo_shot;
        return input->nnodes > 1 && !gpuring_collective_has_blocks(collective)
                   ? (uint32_t) (input->nranks / input->nnodes)
                   : 1;
    }
}

static bool is_in_order(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                        const struct gpuring_plan_input *input)
{
    switch (algorithm) {
    case GPURING_ALGORITHM_TREE:
        return input->in_order;
    case GPURING_ALGORITHM_DIRECT:
        return gpuring_direct_in_order(collective, input->nranks) && !input->doubling;
    default:
        return algorithm == GPURING_ALGORITHM_TWO_SHOT && input->nnodes <= 1;
    }
}

static int build_plan(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                      gpuring_builder *builder, const struct gpuring_plan_input *input,
                      const struct gpuring_plan *base, struct gpuring_plan **plan)
{
    struct gpuring_writer writer = {.input = input, .base = base};
    uint32_t channels, parts = parts_of(collective, algorithm, input, &channels);

    if (base != NULL) {
        channels = gpuring_plan_channels(base);
    }
    gpuring_writer_open(&writer, collective, algorithm, channels, parts,
                        is_in_order(collective, algorithm, input));
    for (uint32_t part = 0; writer.status == GPURING_OK && part < writer.plan->weight; part++) {
        builder(&writer, part);
    }
    return gpuring_writer_finish(&writer, plan);
}

static gpuring_builder *const *const all[GPURING_ALGORITHM_COUNT] = {
    [GPURING_ALGORITHM_RING] = gpuring_ring_builders,
    [GPURING_ALGORITHM_TREE] = gpuring_tree_builders,
    [GPURING_ALGORITHM_DIRECT] = gpuring_direct_builders,
    [GPURING_ALGORITHM_TWO_SHOT] = gpuring_two_shot_builders,
};

/* Return the builder of a collective for the connections of an algorithm, or NULL. */
static gpuring_builder *builder_on(enum gpuring_collective collective,
                                   enum gpuring_algorithm algorithm, bool in_order, int nranks)
{
    if (algorithm == GPURING_ALGORITHM_DIRECT && nranks > GPURING_DIRECT_MAX_VECTOR_RANKS) {
        bool ordered =
            !gpuring_collective_reduces(collective) || gpuring_direct_in_order(collective, nranks);

        return ordered || !in_order ? gpuring_direct_many_builders[collective] : NULL;
    }
    return algorithm == GPURING_ALGORITHM_TREE && in_order ? gpuring_chain_builders[collective]
                                                           : all[algorithm][collective];
}

static enum gpuring_collective base_of(enum gpuring_algorithm algorithm, int nranks)
{
    return algorithm == GPURING_ALGORITHM_DIRECT && nranks > GPURING_DIRECT_MAX_VECTOR_RANKS
               ? GPURING_COLLECTIVE_ALLTOALL
               : GPURING_COLLECTIVE_ALLREDUCE;
}

int gpuring_plan_build(enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                       struct gpuring_plan **plan)
{
    enum gpuring_collective collective = base_of(algorithm, input->nranks);
    gpuring_builder *builder = all[algorithm][collective];

    if (algorithm == GPURING_ALGORITHM_TWO_SHOT && input->exchange) {
        collective = GPURING_COLLECTIVE_ALLTOALL;
        builder = gpuring_exchange_between;
    } else if (algorithm == GPURING_ALGORITHM_TWO_SHOT && input->nnodes > 1) {
        builder = gpuring_nodes_builders[collective];
    } else if (algorithm == GPURING_ALGORITHM_DIRECT && input->doubling) {
        collective = GPURING_COLLECTIVE_ALLREDUCE;
        builder = gpuring_doubling_allreduce;
    }
    return build_plan(collective, algorithm, builder, input, NULL, plan);
}

bool gpuring_plan_exists(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                         bool in_order, int nranks)
{
    return builder_on(collective, algorithm, in_order, nranks) != NULL;
}

/* Return true if a base plan is that of two-shot between nodes. Its parts are for the ranks of a
 * node. */
static bool is_between_nodes(const struct gpuring_plan *base)
{
    return base->algorithm == GPURING_ALGORITHM_TWO_SHOT && base->parts > 1;
}

/* In a reduce-scatter between nodes, a sum cannot take several steps, because the output has room
 * for one block only. */
bool gpuring_plan_exists_on(enum gpuring_collective collective, const struct gpuring_plan *base,
                            bool in_order)
{
    if (is_between_nodes(base)) {
        return gpuring_nodes_builders[collective] != NULL &&
               (collective != GPURING_COLLECTIVE_REDUCE_SCATTER ||
                base->parts + 2 <= GPURING_STEP_REFS);
    }
    return gpuring_plan_exists(collective, base->algorithm, in_order, base->nranks);
}

int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    const struct gpuring_plan *base = input->base;
    gpuring_builder *builder = input->root == GPURING_ROOT_WITHIN_NODES ? gpuring_exchange_within
                               : is_between_nodes(base) ? gpuring_nodes_builders[collective]
                                                        : builder_on(collective, base->algorithm,
                                                                     input->in_order, base->nranks);

    return builder != NULL && collective != GPURING_COLLECTIVE_ALLREDUCE
               ? build_plan(collective, base->algorithm, builder, input, base, plan)
               : GPURING_ERR_UNSUPPORTED;
}
