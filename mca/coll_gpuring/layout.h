/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The channels of a communicator: rings and trees over its ranks, by the topology engine where
 * there is a topology of GPUs, else simple ones over the ranks in the order of their nodes.
 *
 * machine.c finds the channels inside of this node (before AllGather 2), layout.c joins those of
 * all nodes (after it). No MPI.
 */
#ifndef GPURING_LAYOUT_H
#define GPURING_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/advice.h"
#include "mca/coll_gpuring/members.h"
#include "mca/topo_pci/pci_connect.h"

/* Write the topology to coll_gpuring_topo_dump_file; failures are reported. */
void gpuring_machine_dump(const struct pci_doc *doc);

/*
 * What this rank tells the others of its node's channels, by the node's topology (which is
 * changed): its GPU is the one at place `local` of `nlocal` (ranks that take a file's GPUs in their
 * order), or that of `identities` (one a local rank, in order); and what the topology advises
 * (zeroed where it cannot). peers: what is known of peer access between GPUs. A topology that
 * cannot be used is reported once, and wire->version is 0 then.
 */
void gpuring_machine_wire(struct pci_doc *doc, bool from_file, enum pci_peer peers, uint32_t node,
                          int nnodes, int local, int nlocal,
                          const struct gpuring_device_identity *identities, struct pci_wire *wire,
                          struct gpuring_advice *advice);

struct gpuring_layout {
    const struct gpuring_members *members;
    bool engine;                /* places come from `connect` */
    struct pci_connect connect; /* keeps pointing to the wires of all ranks */
    uint32_t nrings, ntrees;
    const struct gpuring_advice *advice; /* with the engine's channels, or NULL */
};

/*
 * wires: of all ranks by rank, kept while the layout lives, or NULL: simple channels. So it is,
 * too, if any rank has no topology or they contradict each other (logged). The same on all ranks.
 * advice: that all ranks agree on, kept likewise, or NULL.
 */
void gpuring_layout_init(struct gpuring_layout *layout, const struct gpuring_members *members,
                         const struct pci_wire *wires, const struct gpuring_advice *advice);
void gpuring_layout_fini(struct gpuring_layout *layout);

/* The places of `rank`: max(nrings, ntrees) channels; rings or trees beyond their number: unset. */
void gpuring_layout_channels(const struct gpuring_layout *layout, int rank,
                             struct gpuring_channel *channels);

/* Which of the net's devices carry the channels in and out of the node of `rank`. */
void gpuring_layout_devices(const struct gpuring_layout *layout, int rank,
                            const struct gpuring_routes *routes,
                            const struct gpuring_net_device *devices, int ndevices,
                            struct gpuring_route_devices *result);

/* Write all channels as XML to coll_gpuring_graph_dump_file; failures are reported. */
void gpuring_layout_dump(const struct gpuring_layout *layout);

#endif
