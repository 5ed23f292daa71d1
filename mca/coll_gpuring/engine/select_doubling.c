/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Limits of allreduces by doubling between nodes of hosts; see select.h and plan/build_nodes.c. */
#include "mca/coll_gpuring/engine/select.h"

/* In bytes, from the model of doc/results/scale.md. */
#define STRIPE_BYTES (1 << 10)  /* for which another stripe is worthwhile */
#define MOST_STRIPES 3          /* with more stripes, the limit does not increase */
#define LEAST_BYTES  (16 << 10) /* limit between any nodes */

/* Limits with one stripe, for which the leader of a node of r ranks copies the vector r times in
 * each direction. A hop by a message of MPI takes longer than one of the model, as measured with
 * TCP (doc/results/ucx.md). */
#define LEADER_BYTES        (64 << 10)
#define LEADER_BYTES_BY_MPI (192 << 10)
#define ALONE_BYTES_BY_MPI  (192 << 10) /* the same between two or three nodes of one rank each */
#define UNEQUAL_BYTES       (32 << 10) /* limit for nodes of different sizes, with several stripes */

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return the maximum number of stripes. Each stripe has messages of its own, so there is only one
 * if processors transfer them. */
static uint64_t most_stripes(const struct gpuring_select_config *config)
{
    return config->offloads ? config->channels[GPURING_SET_DOUBLING] : 1;
}

/* Return the number of hops between nodes. In each of them, a node sends at most one vector. */
static uint64_t count_hops(const struct gpuring_select_config *config)
{
    int hops = 0;

    while (2 << hops <= config->nnodes) {
        hops++;
    }
    return (uint64_t) hops + (1 << hops < config->nnodes ? 2 : 0);
}

/*
 * Two-shot takes 2 (N - 1) hops. In each hop of doubling, a rank copies its stripe, whereas its
 * copies in two-shot do not depend on N. In the model, both take the same time at this size.
 */
uint64_t gpuring_select_doubling_limit(const struct gpuring_select_config *config, bool nodewise)
{
    uint64_t stripes = most_stripes(config), hops = count_hops(config);
    uint64_t saved = 2 * (uint64_t) config->nnodes - 1 - hops, limit;

    if (config->any_memory && config->nnodes == config->nranks) {
        /* More ranks use trees for vectors that MPI does not send eagerly. */
        return config->nranks < GPURING_SELECT_TREE_RANKS_BY_MPI ? ALONE_BYTES_BY_MPI
                                                                 : GPURING_FIFO_WANTED;
    }
    if (stripes <= 1) {
        return (uint64_t) (config->any_memory ? LEADER_BYTES_BY_MPI : LEADER_BYTES) /
               (1 + (uint64_t) gpuring_select_node_ranks(config));
    }
    limit = nodewise ? saved * GPURING_SELECT_FAR_BYTES * min_of(stripes, MOST_STRIPES) / hops
                     : UNEQUAL_BYTES;
    return limit > LEAST_BYTES ? limit : LEAST_BYTES;
}

/* A direct exchange takes one hop, in which a node of r ranks sends r r (N - 1) vectors. Doubling
 * takes two more hops in the node. */
uint32_t gpuring_select_stripes(const struct gpuring_select_config *config, uint64_t bytes)
{
    uint64_t r = (uint64_t) gpuring_select_node_ranks(config), hops = count_hops(config);
    uint64_t sent = r * r * ((uint64_t) config->nnodes - 1); /* with direct_first, r > 1 */
    uint64_t stripes = min_of(bytes / STRIPE_BYTES, most_stripes(config));

    if (config->direct_first &&
        bytes <= ((hops - 1) * GPURING_SELECT_FAR_BYTES + 2 * GPURING_SELECT_NEAR_BYTES) /
                     (sent - hops)) {
        return 0;
    }
    return stripes > 0 ? (uint32_t) stripes : 1;
}
