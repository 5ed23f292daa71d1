/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The channels of a communicator: rings and trees over its ranks, by the topology engine where
 * there is a topology of GPUs, else simple ones over the ranks in the order of their nodes.
 *
 * local_channels.c finds the channels inside of this node (before AllGather 2), layout.c joins
 * those of all nodes (after it). No MPI.
 */
#ifndef GPURING_TOPOLOGY_CHANNELS_H
#define GPURING_TOPOLOGY_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/topology/model_choice.h"
#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/topo_pci/search/pci_connect.h"

/* Write the topology to coll_gpuring_topo_dump_file; failures are reported. */
void gpuring_local_channels_dump(const struct pci_doc *doc);

/*
 * What this rank tells the others of its node's channels, by the node's topology (which is
 * changed): its GPU is the one at place `local` of `nlocal` (ranks that take a file's GPUs in their
 * order), or that of `identities` (one a local rank, in order); and what the topology advises
 * (zeroed where it cannot). peers: what is known of peer access between GPUs. A topology that
 * cannot be used is reported once, and wire->version is 0 then.
 */
void gpuring_local_channels_wire(struct pci_doc *doc, bool from_file, enum pci_peer peers,
                                 uint32_t node, int nnodes, int local, int nlocal,
                                 const struct gpuring_device_identity *identities,
                                 struct pci_wire *wire, struct gpuring_model_choice *advice);

struct gpuring_channels {
    const struct gpuring_node_map *members;
    bool engine;                /* places come from `connect` */
    struct pci_connect connect; /* keeps pointing to the wires of all ranks */
    uint32_t nrings, ntrees;
    const struct gpuring_model_choice *advice; /* with the engine's channels, or NULL */
};

/*
 * wires: of all ranks by rank, kept while the layout lives, or NULL: simple channels. So it is,
 * too, if any rank has no topology or they contradict each other (logged). The same on all ranks.
 * advice: that all ranks agree on, kept likewise, or NULL.
 */
void gpuring_channels_init(struct gpuring_channels *layout, const struct gpuring_node_map *members,
                           const struct pci_wire *wires, const struct gpuring_model_choice *advice);
void gpuring_channels_fini(struct gpuring_channels *layout);

/* The places of `rank`: max(nrings, ntrees) channels; rings or trees beyond their number: unset. */
void gpuring_channels_channels(const struct gpuring_channels *layout, int rank,
                               struct gpuring_channel *channels);

/* Which of the net's devices carry the channels in and out of the node of `rank`. */
void gpuring_channels_devices(const struct gpuring_channels *layout, int rank,
                              const struct gpuring_routes *routes,
                              const struct gpuring_net_device *devices, int ndevices,
                              struct gpuring_route_devices *result);

/* Write all channels as XML to coll_gpuring_graph_dump_file; failures are reported. */
void gpuring_channels_dump(const struct gpuring_channels *layout);

#endif
