/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * By which network device data enter and leave this node on each channel: names that the topology
 * engine chose (found with the node's channels), then numbers of the devices of the net that the
 * communicator uses. Other nodes need not know either. No MPI.
 */
#ifndef GPURING_TOPOLOGY_NIC_SELECT_H
#define GPURING_TOPOLOGY_NIC_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/params.h"
#include "mca/topo_pci/search/pci_channels.h"

enum { GPURING_NIC_IN, GPURING_NIC_OUT, GPURING_NIC_WAYS };

/* A NIC of this node, and whether it may reach the memory of this rank's GPU directly. */
#define GPURING_NIC_SELECT_NICS 64
struct gpuring_nic_reach {
    char name[32];
    int port; /* 0: not known */
    bool direct[GPURING_NIC_WAYS];
};

/* Below nnics own, ring and tree are numbers of NICs; else the NIC is not known. */
struct gpuring_nic_select {
    uint32_t nnics; /* 0: the topology says nothing of NICs; beyond the room: not known */
    struct gpuring_nic_reach nic[GPURING_NIC_SELECT_NICS];
    uint32_t own;            /* the nearest to this rank's GPU, or its turn of several */
    uint32_t nrings, ntrees; /* 0: the topology says nothing of NICs */
    uint32_t ring[PCI_CHANNELS_MAX][GPURING_NIC_WAYS];
    uint32_t tree[PCI_CHANNELS_MAX][GPURING_NIC_WAYS];
};

/* The NICs of the channels of a node; local: number of this rank's GPU. */
void gpuring_nic_select_find(const struct pci_graph *graph, int local,
                             const struct pci_channels *ring, const struct pci_channels *tree,
                             struct gpuring_nic_select *nics);

/* May this device reach the GPU's memory? unknown: the answer where the topology has none. */
bool gpuring_nic_select_direct(const struct gpuring_nic_select *nics,
                               const struct gpuring_net_device *device, int way, bool unknown);

/* Numbers of devices, for each channel of a communicator. */
struct gpuring_channel_nics {
    uint8_t ring[GPURING_MAX_CHANNELS][GPURING_NIC_WAYS];
    uint8_t tree[GPURING_MAX_CHANNELS][GPURING_NIC_WAYS];
    uint8_t own[GPURING_NIC_WAYS]; /* of exchanges: not known, that of the first ring */
};

/*
 * nrings, ntrees: channels that the nodes have in common; beyond, they are used again. swap: this
 * node uses ring c^1 for ring c (see pci_connect.h). nics may be NULL: the channels take the
 * devices in turn, and so do channels whose NIC the net does not have.
 */
void gpuring_nic_select_channels(const struct gpuring_nic_select *nics, uint32_t nrings,
                                 uint32_t ntrees, bool swap,
                                 const struct gpuring_net_device *devices, int ndevices,
                                 struct gpuring_channel_nics *result);

#endif
