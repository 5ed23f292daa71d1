/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Pure functions of AllGather 1: which ranks share a node, do all agree, and the channels that
 * follow where no topology is known: rings and double binary trees over the ranks, ordered so
 * that those of a node are neighbours.
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

/* 0 and filled map (freed by gpuring_node_map_clear), or GPURING_ERR_NOMEM. */
int gpuring_node_map_find(const struct gpuring_gathered *rank_infos, struct gpuring_node_map *map);
void gpuring_node_map_clear(struct gpuring_node_map *map);

/* The same with each part of a node (format.h) as a node of its own. */
int gpuring_node_map_divide(const struct gpuring_node_map *map, const struct pci_wire *wires,
                            struct gpuring_node_map *parts);

/* The ranks of one node, in their order. */
struct gpuring_node_ranks {
    const struct gpuring_gathered *rank_infos;
    const int *rank;
    int count;
    int self; /* which of them is the rank that was asked for */
};
struct gpuring_node_ranks gpuring_node_ranks_of(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map, int rank);
static inline const struct gpuring_rank_info *gpuring_node_ranks_rank_info(
    const struct gpuring_node_ranks *ranks, int i)
{
    return gpuring_rank_info_of(ranks->rank_infos, ranks->rank[i]);
}

/* The node's channels are known: keep of all ranks what connecting them needs (format.h). */
void gpuring_rank_info_compact(struct gpuring_gathered *rank_infos);

/* Number of ranks, this one included, that work with the same GPU; 1 without GPUs. */
int gpuring_node_map_sharing(const struct gpuring_gathered *rank_infos, int rank);

/* What the ranks' GPUs carry, equal on all ranks. */
struct gpuring_gpu_parts {
    uint32_t blocks;       /* thread blocks beside each other, the least of all ranks; 0: no GPUs */
    uint32_t capability;   /* the lowest */
    bool shared;           /* some GPU is shared by ranks */
    int time_sliced_ranks; /* so many of which take turns on it, without MPS, the most on any GPU;
                              0: none do */
};
struct gpuring_gpu_parts gpuring_node_map_parts(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map);

/* How many channels there should be where `found` of them carry `gbps` in all: so many that their
 * thread blocks move that, as far as the GPUs' parts go. */
uint32_t gpuring_node_map_lanes(const struct gpuring_gpu_parts *parts, uint32_t found, double gbps);

/* What the ranks disagree in, with the lowest rank that differs from rank 0. */
enum gpuring_disagreement {
    GPURING_AGREED,
    GPURING_DISAGREE_PARAMETER, /* *parameter: index among the shared ones */
    GPURING_DISAGREE_TUNING,    /* the rules of their tuning files */
};
enum gpuring_disagreement gpuring_node_map_compare(const struct gpuring_gathered *rank_infos,
                                                   int *rank, int *parameter);

/* The positions of `rank` in nchannels equal channels. */
void gpuring_node_map_channels(const struct gpuring_node_map *map, int rank, uint32_t nchannels,
                               struct gpuring_channel *channels);

#endif
