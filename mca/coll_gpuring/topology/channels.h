/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The channels of a communicator: rings and trees over its ranks. They come from the topology
 * engine if there is a topology of GPUs, and otherwise follow the ranks in the order of their
 * nodes.
 *
 * local_channels.c finds the channels inside this node before AllGather 2, and job_channels.c
 * connects those of all nodes after it. No MPI.
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
    struct pci_connect connect; /* points to the wires of all ranks */
    uint32_t nrings, ntrees;
    uint32_t ndirect;                         /* stripes of direct and of two-shot */
    uint32_t direct_lanes;                    /* see struct gpuring_plan_input */
    const struct gpuring_model_choice *model; /* with the engine's channels, or NULL */
};

/*
 * Create the channels, which are equal on all ranks. wires: those of all ranks by rank. NULL
 * creates channels in rank order, and so do a rank without topology and a contradiction (logged).
 * model: the choices that all ranks agree on, or NULL. The caller keeps wires and model as long as
 * the channels.
 */
void gpuring_channels_init(struct gpuring_channels *channels, const struct gpuring_gpu_parts *gpus,
                           const struct gpuring_node_map *map, const struct pci_wire *wires,
                           const struct gpuring_model_choice *model);
void gpuring_channels_fini(struct gpuring_channels *channels);

/*
 * Return the wires of all ranks by rank from the blocks of AllGather 2. They reuse the memory of
 * the blocks and must be freed. *same_model: all ranks have the same model choices.
 */
struct pci_wire *gpuring_channels_gathered(struct gpuring_gathered *blocks, bool *same_model);

/*
 * Give the nodes in the wires the numbers of the map. If nodes have parts, *parts is a map with
 * each part as a node, which replaces the map. Otherwise it has no ranks. Returns 0 or
 * GPURING_ERR_NOMEM.
 */
int gpuring_channels_divide(const struct gpuring_node_map *map, struct pci_wire *wires,
                            struct gpuring_node_map *parts);

/* Get the positions of `rank` in max(nrings, ntrees) channels. Rings and trees beyond their number
 * are not set. */
void gpuring_channels_of(const struct gpuring_channels *channels, int rank,
                         struct gpuring_channel *result);

/* Get the net's devices through which the channels of the topology engine enter and leave the node
 * of `rank`. */
void gpuring_channels_nics(const struct gpuring_channels *channels, int rank,
                           const struct gpuring_nic_select *nics,
                           const struct gpuring_net_device *devices, int ndevices,
                           struct gpuring_channel_nics *result);

/* Write all channels as XML to coll_gpuring_graph_dump_file. Failures are reported. */
void gpuring_channels_dump(const struct gpuring_channels *channels);

#endif
