/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Pure functions of the data of AllGather 1: the ranks of each node, disagreements between ranks,
 * and the channels if there is no topology. These are rings over the ranks in the order of their
 * nodes, so that the ranks of a node are neighbours, and double binary trees over the nodes, with a
 * tree inside each node.
 */
#ifndef GPURING_TOPOLOGY_NODE_MAP_H
#define GPURING_TOPOLOGY_NODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/topology/format.h"
#include "mca/topo_pci/search/pci_connect.h"

/* Nodes are numbered in the order of their first ranks. */
struct gpuring_node_map {
    int nranks, nnodes;
    int *node;     /* [nranks]: node of each rank */
    int *order;    /* [nranks]: ranks by node, then by rank */
    int *position; /* [nranks]: inverse of order */
};

/* Fill in the map. gpuring_node_map_clear() frees it. Return 0 or GPURING_ERR_NOMEM. */
int gpuring_node_map_find(const struct gpuring_gathered *rank_infos, struct gpuring_node_map *map);
void gpuring_node_map_clear(struct gpuring_node_map *map);

/* Return the number of ranks of each node, or 0 if the nodes differ in it. */
int gpuring_node_map_size(const struct gpuring_node_map *map);

/* Fill in a map in which each part of a node (format.h) is a separate node. Return 0 or
 * GPURING_ERR_NOMEM. */
int gpuring_node_map_divide(const struct gpuring_node_map *map, const struct pci_wire *wires,
                            struct gpuring_node_map *parts);

/* The ranks of one node, in their order. */
struct gpuring_node_ranks {
    const struct gpuring_gathered *rank_infos;
    const int *rank;
    int count;
    int self; /* index of the requested rank */
};
struct gpuring_node_ranks gpuring_node_ranks_of(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map, int rank);
static inline const struct gpuring_rank_info *gpuring_node_ranks_rank_info(
    const struct gpuring_node_ranks *ranks, int i)
{
    return gpuring_rank_info_of(ranks->rank_infos, ranks->rank[i]);
}

/* Remove the data that is no longer needed once the node's channels are known (format.h). */
void gpuring_rank_info_compact(struct gpuring_gathered *rank_infos);

/* Return the number of ranks that use the same GPU as this rank, including this rank; 1 without
 * GPUs. */
int gpuring_node_map_sharing(const struct gpuring_gathered *rank_infos, int rank);

/* Limits of the ranks' GPUs. Equal on all ranks. */
struct gpuring_gpu_parts {
    uint32_t blocks;       /* co-resident thread blocks, the minimum of all ranks; 0: a rank has
                              no GPU */
    uint32_t capability;   /* the lowest compute capability */
    bool shared;           /* ranks share a GPU */
    int time_sliced_ranks; /* the largest number of ranks that share a GPU without MPS; 0: none
                              do */
};
struct gpuring_gpu_parts gpuring_node_map_parts(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map);

/* Return the number of channels if the engine has found `found` channels that carry `gbps` in
 * total: as many as the thread blocks need to reach this bandwidth, but not more than the ranks'
 * shares of the GPUs allow. */
uint32_t gpuring_node_map_lanes(const struct gpuring_gpu_parts *parts, uint32_t found, double gbps);

/* The kind of disagreement. *rank is the lowest rank that differs from rank 0. */
enum gpuring_disagreement {
    GPURING_AGREED,
    GPURING_DISAGREE_PARAMETER, /* *parameter: its index among the shared parameters */
    GPURING_DISAGREE_TUNING,    /* the rules of the tuning files */
};
enum gpuring_disagreement gpuring_node_map_compare(const struct gpuring_gathered *rank_infos,
                                                   int *rank, int *parameter);

/* Get the positions of `rank` in nchannels equal channels. */
void gpuring_node_map_channels(const struct gpuring_node_map *map, int rank, uint32_t nchannels,
                               struct gpuring_channel *channels);

#endif
