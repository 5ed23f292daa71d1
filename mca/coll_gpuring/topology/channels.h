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
    uint32_t ndirect, ntwo_shot;              /* stripes */
    uint32_t direct_lanes;                    /* see struct gpuring_plan_input */
    const struct gpuring_model_choice *model; /* of the engine's channels, or NULL */
};

/*
 * Create the channels, which are equal on all ranks. wires: the wires of all ranks, by rank, or
 * NULL. Without wires, if a rank has no topology, or if the wires contradict each other (which is
 * logged), the channels are in rank order. model: the choices that all ranks agree on, or NULL. The
 * caller must keep wires and model as long as the channels.
 */
void gpuring_channels_init(struct gpuring_channels *channels, const struct gpuring_gpu_parts *gpus,
                           const struct gpuring_node_map *map, const struct pci_wire *wires,
                           const struct gpuring_model_choice *model);
void gpuring_channels_fini(struct gpuring_channels *channels);

/*
 * Take the wires of all ranks, by rank, from the blocks of AllGather 2. They reuse the memory of
 * the blocks, and the caller frees them. Sets *same_model to true if all ranks have the same model
 * choices.
 */
struct pci_wire *gpuring_channels_gathered(struct gpuring_gathered *blocks, bool *same_model);

/*
 * Replace the number of the part in each wire by the number of the rank's node in the map. If nodes
 * have parts, *parts becomes a map in which each part is a node, the wires get its numbers, and the
 * caller must use it instead of the map. Otherwise *parts has no ranks. Returns 0 or
 * GPURING_ERR_NOMEM.
 */
int gpuring_channels_divide(const struct gpuring_node_map *map, struct pci_wire *wires,
                            struct gpuring_node_map *parts);

/* Get the positions of `rank` in max(nrings, ntrees) channels. The last channels lack a ring or a
 * tree if there are fewer of them. */
void gpuring_channels_of(const struct gpuring_channels *channels, int rank,
                         struct gpuring_channel *result);

/* Get the network devices through which the topology engine's channels enter and leave the node of
 * `rank`. */
void gpuring_channels_nics(const struct gpuring_channels *channels, int rank,
                           const struct gpuring_nic_select *nics,
                           const struct gpuring_net_device *devices, int ndevices,
                           struct gpuring_channel_nics *result);

/* Write all channels as XML to coll_gpuring_graph_dump_file. Failures are reported. */
void gpuring_channels_dump(const struct gpuring_channels *channels);

#endif
