/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Derive the configuration of one rank's engine from the channels of a communicator. No MPI. */
#ifndef GPURING_WIREUP_PLANS_H
#define GPURING_WIREUP_PLANS_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/topology/channels.h"

/* Facts from AllGather 1 that a rank's engine needs. Collect them before the blocks are
 * compacted. */
struct gpuring_plans_facts {
    int algorithm, protocol; /* as compared by AllGather 1; the parameters may have changed since */
    bool oversubscribed, shared_gpu, mps;
    bool emulated;                 /* the RDMA devices of a rank's host are emulated by software */
    bool large;                    /* see gpuring_engine_config */
    struct gpuring_gpu_parts gpus; /* for gpuring_channels_init */
};
struct gpuring_plans_facts gpuring_plans_facts(const struct gpuring_gathered *rank_infos,
                                               const struct gpuring_node_map *map, int rank);

/* Return the configuration of the engine of `rank`. positions must have GPURING_MAX_CHANNELS
 * elements. */
struct gpuring_engine_config gpuring_plans_config(const struct gpuring_channels *channels,
                                                  const struct gpuring_plans_facts *facts,
                                                  const struct gpuring_tuning *tuning, int rank,
                                                  struct gpuring_channel *positions);

/*
 * Compute the order of the ranks in each ring and tree (plan.h), which all collectives other than
 * allreduce need. Sets it to NULL for more than GPURING_PLANS_ORDER_RANKS ranks; these collectives
 * then do not use rings and trees. Returns 0 or GPURING_ERR_NOMEM.
 */
#define GPURING_PLANS_ORDER_RANKS 1024
int gpuring_plans_order(const struct gpuring_channels *channels, uint16_t **order);

#endif
