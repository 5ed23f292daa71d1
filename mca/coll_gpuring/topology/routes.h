/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * By which network device data enter and leave this node on each channel: names that the topology
 * engine chose (found with the node's channels), then numbers of the devices of the net that the
 * communicator uses. Both are this node's own affair; other nodes need not know. No MPI.
 */
#ifndef GPURING_TOPOLOGY_ROUTES_H
#define GPURING_TOPOLOGY_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/params.h"
#include "mca/topo_pci/search/pci_channels.h"

enum { GPURING_ROUTE_IN, GPURING_ROUTE_OUT, GPURING_ROUTE_WAYS };

struct gpuring_route_port {
    char name[32]; /* empty: not known */
    int port;
};

/* A NIC of this node, and whether it may reach the memory of this rank's GPU directly. */
#define GPURING_ROUTE_NICS 64
struct gpuring_route_nic {
    struct gpuring_route_port port;
    bool direct[GPURING_ROUTE_WAYS];
};

struct gpuring_routes {
    uint32_t nnics; /* 0: the topology says nothing of NICs; beyond the room: not told */
    struct gpuring_route_nic nic[GPURING_ROUTE_NICS];
    uint32_t nrings, ntrees; /* 0: the topology says nothing of NICs */
    struct gpuring_route_port ring[PCI_CHANNELS_MAX][GPURING_ROUTE_WAYS];
    struct gpuring_route_port tree[PCI_CHANNELS_MAX][GPURING_ROUTE_WAYS];
};

/* The NICs of the channels of a node; local: number of this rank's GPU. */
void gpuring_routes_find(const struct pci_graph *graph, int local, const struct pci_channels *ring,
                         const struct pci_channels *tree, struct gpuring_routes *routes);

/* May this device reach the GPU's memory? unknown: the answer where the topology has none. */
bool gpuring_routes_direct(const struct gpuring_routes *routes,
                           const struct gpuring_net_device *device, int way, bool unknown);

/* Numbers of devices, for each channel of a communicator. */
struct gpuring_route_devices {
    uint8_t ring[GPURING_MAX_CHANNELS][GPURING_ROUTE_WAYS];
    uint8_t tree[GPURING_MAX_CHANNELS][GPURING_ROUTE_WAYS];
};

/*
 * nrings, ntrees: channels that the nodes have in common; beyond, they are used again. swap: this
 * node uses ring c^1 for ring c (see pci_connect.h). routes may be NULL: the channels take the
 * devices in turn, and so do channels whose NIC the net does not have.
 */
void gpuring_routes_devices(const struct gpuring_routes *routes, uint32_t nrings, uint32_t ntrees,
                            bool swap, const struct gpuring_net_device *devices, int ndevices,
                            struct gpuring_route_devices *result);

#endif
