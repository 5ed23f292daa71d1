/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The network devices through which each channel enters and leaves this node. The topology engine
 * chooses them by name together with the node's channels. The names are then converted to device
 * numbers of the communicator's net. Other nodes need neither names nor numbers. No MPI.
 */
#ifndef GPURING_TOPOLOGY_NIC_SELECT_H
#define GPURING_TOPOLOGY_NIC_SELECT_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/params.h"
#include "mca/topo_pci/search/pci_channels.h"

enum { GPURING_NIC_IN, GPURING_NIC_OUT, GPURING_NIC_WAYS };

/* A NIC of this node, and whether it may access the memory of this rank's GPU directly. */
#define GPURING_NIC_SELECT_NICS 64
struct gpuring_nic_reach {
    char name[32];
    int port; /* 0: unknown */
    bool direct[GPURING_NIC_WAYS];
};

/* The NICs of a node and of its channels. `own`, `ring` and `tree` contain numbers of NICs; if a
 * number is not below nnics, the NIC is unknown. */
struct gpuring_nic_select {
    uint32_t nnics; /* 0: the topology has no NICs; NICs for which there is no room are unknown */
    struct gpuring_nic_reach nic[GPURING_NIC_SELECT_NICS];
    uint32_t own;            /* the NIC nearest to this rank's GPU; if several are, GPUs use them
                                in turn */
    uint32_t nrings, ntrees; /* 0: the topology has no NICs */
    uint32_t ring[PCI_CHANNELS_MAX][GPURING_NIC_WAYS];
    uint32_t tree[PCI_CHANNELS_MAX][GPURING_NIC_WAYS];
};

/* Find the NICs of the channels of a node. local: number of this rank's GPU. */
void gpuring_nic_select_find(const struct pci_graph *graph, int local,
                             const struct pci_channels *ring, const struct pci_channels *tree,
                             struct gpuring_nic_select *nics);

/* Return true if this device may access the GPU's memory. unknown: the result if the topology does
 * not contain the device. */
bool gpuring_nic_select_direct(const struct gpuring_nic_select *nics,
                               const struct gpuring_net_device *device, int way, bool unknown);

/* Numbers of devices for each channel of a communicator. */
struct gpuring_channel_nics {
    uint8_t ring[GPURING_MAX_CHANNELS][GPURING_NIC_WAYS];
    uint8_t tree[GPURING_MAX_CHANNELS][GPURING_NIC_WAYS];
    uint8_t own[GPURING_NIC_WAYS]; /* for exchanges; that of the first ring if the nearest NIC is
                                      unknown */
};

/*
 * Assign devices to channels. nrings, ntrees: number of channels that all nodes have; further
 * channels repeat them. swap: this node uses ring c^1 for ring c (see pci_connect.h). Channels
 * whose NIC does not belong to the net use the net's devices in turn.
 */
void gpuring_nic_select_channels(const struct gpuring_nic_select *nics, uint32_t nrings,
                                 uint32_t ntrees, bool swap,
                                 const struct gpuring_net_device *devices, int ndevices,
                                 struct gpuring_channel_nics *result);

/*
 * The choice of devices for connections if no topology has chosen them: the devices near the cores
 * of this process, in turn for the ranks of the node and for the channels. If the devices are on
 * several networks, both ends of a connection must choose the same number instead, because a net
 * lists its devices in the order of their networks.
 */
struct gpuring_nic_turns {
    bool one_net;
    int ndevices;
    int local; /* number of earlier ranks of this node */
    int turn;  /* number of the earlier ranks that are near one of our devices, too */
    int nnear;
    uint8_t near[GPURING_NIC_SELECT_NICS]; /* numbers of devices; all if none is known to be near */
};

/* root: "/sys" outside of tests. cores: the cores of the ranks of this node up to and including
 * this one. */
void gpuring_nic_turns_find(const char *root, const struct gpuring_net_devices *devices,
                            const cpu_set_t *cores, int local, bool one_net,
                            struct gpuring_nic_turns *turns);

/* Return the number of the device for a channel to the rank that is number `peer` of its node, or 0
 * if there are no devices. */
int gpuring_nic_turns_device(const struct gpuring_nic_turns *turns, int peer, uint32_t channel);

#endif
