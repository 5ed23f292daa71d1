/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* From the channels of a communicator to the engine of one rank. No MPI. */
#ifndef GPURING_WIREUP_PLANS_H
#define GPURING_WIREUP_PLANS_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/topology/channels.h"

/* What a rank's engine needs of AllGather 1; found before its blocks are trimmed. */
struct gpuring_plans_facts {
    int algorithm, protocol; /* as they were compared: the parameters may have changed since */
    bool oversubscribed, shared_gpu, mps;
    bool second;                   /* it is for the second engine */
    struct gpuring_gpu_parts gpus; /* for gpuring_channels_init */
};
struct gpuring_plans_facts gpuring_plans_facts(const struct gpuring_gathered *hellos,
                                               const struct gpuring_node_map *map, int rank);

/* What the plans of `rank` are made from; positions: room for GPURING_MAX_CHANNELS. */
struct gpuring_engine_config gpuring_plans_config(const struct gpuring_channels *channels,
                                                  const struct gpuring_plans_facts *facts,
                                                  const struct gpuring_tuning *tuning, int rank,
                                                  struct gpuring_channel *positions);

/*
 * The order of the ranks in each ring and tree (plan.h), for the collectives other than allreduce.
 * NULL, with more than GPURING_PLANS_ORDER_RANKS ranks: these then do not run on them. 0 or
 * GPURING_ERR_NOMEM.
 */
#define GPURING_PLANS_ORDER_RANKS 1024
int gpuring_plans_order(const struct gpuring_channels *channels, uint16_t **order);

#endif
