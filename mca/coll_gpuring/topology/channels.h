/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The channels of a communicator: rings and trees over its ranks, by the topology engine where
 * there is a topology of GPUs, else over the ranks in the order of their nodes.
 *
 * local_channels.c finds the channels inside of this node (before AllGather 2), this file joins
 * those of all nodes (after it). No MPI.
 */
#ifndef GPURING_TOPOLOGY_CHANNELS_H
#define GPURING_TOPOLOGY_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/topology/model_choice.h"
#include "mca/coll_gpuring/topology/nic_select.h"
#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/topo_pci/search/pci_connect.h"

struct gpuring_channels {
    const struct gpuring_node_map *map;
    bool engine;                /* positions come from `connect` */
    struct pci_connect connect; /* keeps pointing to the wires of all ranks */
    uint32_t nrings, ntrees;
    uint32_t ndirect, nstripes;               /* of direct and of two-shot */
    uint32_t direct_lanes;                    /* see struct gpuring_plan_input */
    const struct gpuring_model_choice *model; /* with the engine's channels, or NULL */
};

/*
 * wires: of all ranks by rank, kept while the channels live, or NULL: simple channels. So it is,
 * too, if any rank has no topology or they contradict each other (logged). The same on all ranks.
 * model: the choices that all ranks agree on, kept likewise, or NULL.
 */
void gpuring_channels_init(struct gpuring_channels *channels, const struct gpuring_gpu_parts *gpus,
                           const struct gpuring_node_map *map, const struct pci_wire *wires,
                           const struct gpuring_model_choice *model);
void gpuring_channels_fini(struct gpuring_channels *channels);

/*
 * From all ranks' blocks of AllGather 2, whose memory becomes the result: the wires of all ranks by
 * rank, to be freed. *same_model: they have the same model choices.
 */
struct pci_wire *gpuring_channels_gathered(struct gpuring_gathered *blocks, bool *same_model);

/*
 * Number the nodes in the wires as the map does. Where nodes are in parts, *parts is a map with
 * each part as a node, which replaces the map; else it has no ranks. 0 or
 * GPURING_ERR_NOMEM.
 */
int gpuring_channels_divide(const struct gpuring_node_map *map, struct pci_wire *wires,
                            struct gpuring_node_map *parts);

/* The positions of `rank`: max(nrings, ntrees) channels; rings or trees beyond their number: unset.
 */
void gpuring_channels_of(const struct gpuring_channels *channels, int rank,
                         struct gpuring_channel *result);

/* Which of the net's devices carry the channels in and out of the node of `rank`. */
void gpuring_channels_nics(const struct gpuring_channels *channels, int rank,
                           const struct gpuring_nic_select *nics,
                           const struct gpuring_net_device *devices, int ndevices,
                           struct gpuring_channel_nics *result);

/* Write all channels as XML to coll_gpuring_graph_dump_file; failures are reported. */
void gpuring_channels_dump(const struct gpuring_channels *channels);

#endif
