/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/plans.h"

#include <stdlib.h>
#include <unistd.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static int value_or_auto(int value)
{
    return value - 1; /* 0 is auto; the other values have the core's order */
}
_Static_assert(GPURING_PARAM_ALGORITHM_RING - 1 == (int) GPURING_ALGORITHM_RING &&
                   GPURING_PARAM_ALGORITHM_PREVIOUS - 1 == GPURING_SELECT_PREVIOUS &&
                   GPURING_PARAM_PROTOCOL_SIMPLE - 1 == (int) GPURING_PROTOCOL_SIMPLE &&
                   GPURING_PARAM_PROTOCOL_LL128 - 1 == (int) GPURING_PROTOCOL_LL128,
               "choices of the parameters in the order of the core");

/* Return the set of algorithms that the parameter, the tuning file or the cost model select for
 * allreduce. */
static uint32_t wanted_algorithms(int asked, const struct gpuring_tuning *tuning,
                                  const struct gpuring_model_choice *model)
{
    uint32_t wanted = asked >= 0 ? 1u << asked : 0;

    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        wanted |= gpuring_tuning_names(tuning, GPURING_COLLECTIVE_ALLREDUCE, i + 1) ? 1u << i : 0;
    }
    for (int i = 0; model != NULL && model->known && i < GPURING_MODEL_CHOICE_SIZES; i++) {
        int algorithm = model->entry[GPURING_COLLECTIVE_ALLREDUCE][i].algorithm;

        wanted |= algorithm >= 0 ? 1u << algorithm : 0;
    }
    return wanted;
}

/*
 * Return the protocols that no rule selects. Inside a node, and between GPUs whose cost model is
 * known, calls may use any protocol. Otherwise calls between nodes use Simple, unless a parameter
 * or the tuning file selects another one.
 */
static uint32_t unused_protocols(int asked, const struct gpuring_tuning *tuning, bool all)
{
    uint32_t unused = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT && !all; p++) {
        unused |= p != GPURING_PROTOCOL_SIMPLE && p != asked &&
                          !gpuring_tuning_names_protocol(tuning, p + 1)
                      ? 1u << p
                      : 0;
    }
    return unused;
}

/* Return true if any rank has this capability. */
static bool any_has(const struct gpuring_gathered *rank_infos, uint32_t capability)
{
    for (int rank = 0; rank < rank_infos->nranks; rank++) {
        if ((gpuring_rank_info_of(rank_infos, rank)->capabilities & capability) != 0) {
            return true;
        }
    }
    return false;
}

struct gpuring_plans_facts gpuring_plans_facts(const struct gpuring_gathered *rank_infos,
                                               const struct gpuring_node_map *map, int rank)
{
    const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, rank);

    return (struct gpuring_plans_facts){
        .algorithm = value_or_auto((int) rank_info->shared[GPURING_SHARED_algorithm]),
        .protocol = value_or_auto((int) rank_info->shared[GPURING_SHARED_protocol]),
        .oversubscribed =
            gpuring_node_ranks_of(rank_infos, map, rank).count > sysconf(_SC_NPROCESSORS_ONLN),
        .shared_gpu = gpuring_node_map_sharing(rank_infos, rank) > 1,
        .mps = rank_info->device.mps,
        .emulated = any_has(rank_infos, GPURING_CAPABILITY_RDMA_EMULATED),
        .large = any_has(rank_infos, GPURING_CAPABILITY_LARGE_CALL),
        .gpus = gpuring_node_map_parts(rank_infos, map),
    };
}

/* Return gpuring_plan_input.node_ranks. */
static int node_ranks_of(const struct gpuring_node_map *map)
{
    int size = map->nnodes > 1 ? gpuring_node_map_size(map) : 0;

    for (int i = 0; i < map->nranks; i++) {
        size = map->order[i] == i ? size : 0;
    }
    return size > 1 ? size : 0;
}

struct gpuring_engine_config gpuring_plans_config(const struct gpuring_channels *channels,
                                                  const struct gpuring_plans_facts *facts,
                                                  const struct gpuring_tuning *tuning, int rank,
                                                  struct gpuring_channel *positions)
{
    const struct gpuring_node_map *map = channels->map;
    struct gpuring_engine_config config = {
        .input = {.rank = rank,
                  .nranks = map->nranks,
                  .channels = positions,
                  .nrings = channels->nrings,
                  .ntrees = channels->ntrees,
                  .ndirect = channels->ndirect,
                  .ntwo_shot = channels->ntwo_shot,
                  .direct_lanes = channels->direct_lanes,
                  .in_order = gpuring_params.deterministic != 0},
        .select = {.algorithm = facts->algorithm,
                   .protocol = facts->protocol,
                   .nranks = map->nranks,
                   .nnodes = map->nnodes,
                   .agree_size = gpuring_params.agree_size,
                   .in_order = gpuring_params.deterministic != 0,
                   .offloads = !facts->emulated,
                   .gpu_blocks = facts->gpus.blocks,
                   .time_sliced_ranks = facts->gpus.time_sliced_ranks,
                   .min_channels = (uint32_t) gpuring_params.min_channels,
                   .chunk_bytes = gpuring_params.chunk_size},
        .oversubscribed = facts->oversubscribed,
        .shared_gpu = facts->shared_gpu,
        .mps = facts->mps,
        .large = facts->large,
        .patience_us = gpuring_params.patience,
        .linger_us = gpuring_params.linger,
        .buffer_bytes = gpuring_params.buffer_size,
        .late = map->nranks > gpuring_params.direct_ranks && map->nranks <= GPURING_DIRECT_MAX_RANKS
                    ? 1u << GPURING_ALGORITHM_DIRECT
                    : 0,
    };

    if (facts->gpus.blocks == 0 && map->nnodes > 1) {
        config.input.nnodes = gpuring_node_map_size(map) > 1 ? map->nnodes : 0;
        config.input.by_node = map->order;
        config.input.node = map->node;
    }
    config.input.node_ranks = node_ranks_of(map);
    gpuring_channels_of(channels, rank, positions);
    if (channels->model != NULL) {
        config.select.model = *channels->model;
    }
    config.wanted = wanted_algorithms(config.select.algorithm, tuning, channels->model);
    config.unused_protocols =
        unused_protocols(config.select.protocol, tuning,
                         map->nnodes == 1 || (facts->gpus.blocks > 0 && channels->model != NULL));
    return config;
}

int gpuring_plans_order(const struct gpuring_channels *channels, uint16_t **order)
{
    size_t n = (size_t) channels->map->nranks;
    struct gpuring_channel positions[GPURING_MAX_CHANNELS];

    *order = NULL;
    if (n > GPURING_PLANS_ORDER_RANKS) {
        return GPURING_OK;
    }
    *order = calloc(n * (channels->nrings + 2 * channels->ntrees) + 1, sizeof **order);
    if (*order == NULL) {
        gpuring_error("out of memory for the channels of %zu ranks", n);
        return GPURING_ERR_NOMEM;
    }
    for (size_t rank = 0; rank < n; rank++) {
        gpuring_channels_of(channels, (int) rank, positions);
        for (uint32_t c = 0; c < channels->nrings; c++) {
            (*order)[c * n + (size_t) positions[c].ring.index] = (uint16_t) rank;
        }
        for (uint32_t t = 0; t < 2 * channels->ntrees; t++) {
            int up = positions[t / 2].tree[t % 2].up;

            (*order)[(channels->nrings + t) * n + rank] = (uint16_t) (up >= 0 ? up : (int) rank);
        }
    }
    return GPURING_OK;
}
