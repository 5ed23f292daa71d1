/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/nic_select.h"

#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/util/log.h"

/* Get the NICs of the channels by their numbers in the graph. */
static void find_nics(const struct pci_channels *channels, uint32_t (*numbers)[GPURING_NIC_WAYS])
{
    for (uint32_t c = 0; c < channels->nchannels && c < PCI_CHANNELS_MAX; c++) {
        for (int way = 0; way < GPURING_NIC_WAYS; way++) {
            numbers[c][way] = channels->nets != NULL ? channels->nets[c][way] : PCI_NO_NET;
        }
    }
}

/* List the NICs, and find out which of them may access the memory of this rank's GPU. The rules are
 * those of the engine: GPU and NIC support this, and the path between them is within
 * coll_gpuring_gdr_level. */
static void find_reach(const struct pci_graph *graph, int local, struct gpuring_nic_select *nics)
{
    uint32_t ngpus = pci_graph_count(graph, PCI_NODE_GPU), gpu = 0;
    uint32_t nnets = pci_graph_count(graph, PCI_NODE_NET), near[GPURING_NIC_SELECT_NICS], count;

    while (gpu < ngpus && pci_graph_node(graph, PCI_NODE_GPU, gpu)->gpu.rank != local) {
        gpu++;
    }
    for (uint32_t n = 0; gpu < ngpus && n < nnets && n < GPURING_NIC_SELECT_NICS; n++) {
        const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, n);
        struct gpuring_nic_reach *nic = &nics->nic[nics->nnics++];

        snprintf(nic->name, sizeof nic->name, "%s", net->net.name);
        nic->port = net->net.port;
        nic->direct[GPURING_NIC_IN] = pci_graph_gdr(graph, gpu, n, false);
        nic->direct[GPURING_NIC_OUT] = pci_graph_gdr(graph, gpu, n, true);
    }
    count = gpu < ngpus && nnets <= GPURING_NIC_SELECT_NICS ? pci_graph_local_nets(graph, gpu, near)
                                                            : 0;
    nics->own = count > 0 ? near[gpu % count] : PCI_NO_NET;
}

void gpuring_nic_select_find(const struct pci_graph *graph, int local,
                             const struct pci_channels *ring, const struct pci_channels *tree,
                             struct gpuring_nic_select *nics)
{
    memset(nics, 0, sizeof *nics);
    find_reach(graph, local, nics);
    nics->nrings = ring->nchannels;
    nics->ntrees = tree->nchannels;
    find_nics(ring, nics->ring);
    find_nics(tree, nics->tree);
}

/*
 * Compare a port of the topology with a device. Return 2 if the name and the port match, or the
 * name matches and the topology does not know the port (0). Return 1 if only the name matches, and
 * 0 otherwise. A different port may be the right one: NCCL's files count the ports of all functions
 * of a card, but each function is a device with one port.
 */
static int fit(const struct gpuring_net_device *device, const struct gpuring_nic_reach *nic)
{
    if (strcmp(device->name, nic->name) != 0) {
        return 0;
    }
    return nic->port == 0 || device->port == nic->port ? 2 : 1;
}

bool gpuring_nic_select_direct(const struct gpuring_nic_select *nics,
                               const struct gpuring_net_device *device, int way, bool unknown)
{
    int best = 0;

    for (uint32_t n = 0; n < nics->nnics; n++) {
        int fits = fit(device, &nics->nic[n]);

        if (fits > best) {
            best = fits;
            unknown = nics->nic[n].direct[way];
        }
    }
    return unknown;
}

/* Return the device of a NIC, or -1. */
static int device_of(const struct gpuring_nic_select *nics, uint32_t number,
                     const struct gpuring_net_device *devices, int ndevices)
{
    int found = -1, best = 0;

    for (int i = 0; i < ndevices && number < nics->nnics; i++) {
        int fits = fit(&devices[i], &nics->nic[number]);

        if (fits > best) {
            best = fits;
            found = i;
        }
    }
    return found;
}

static void choose_nics(const struct gpuring_nic_select *nics,
                        const uint32_t (*numbers)[GPURING_NIC_WAYS], uint32_t known, uint32_t count,
                        bool swap, const struct gpuring_net_device *devices, int ndevices,
                        uint8_t (*result)[GPURING_NIC_WAYS])
{
    for (uint32_t c = 0; c < GPURING_MAX_CHANNELS; c++) {
        uint32_t own = count > 0 ? c % count : c;

        own = swap ? own ^ 1 : own;
        for (int way = 0; way < GPURING_NIC_WAYS; way++) {
            uint32_t number = own < known ? numbers[own][way] : PCI_NO_NET;
            int device = device_of(nics, number, devices, ndevices);

            result[c][way] = (uint8_t) (device >= 0 ? (uint32_t) device : c % (uint32_t) ndevices);
            if (device < 0 && number < nics->nnics && c < count) {
                gpuring_debug("channel %u: the network has no device %s port %d, it uses %s port "
                              "%d",
                              c, nics->nic[number].name, nics->nic[number].port,
                              devices[result[c][way]].name, devices[result[c][way]].port);
            }
        }
    }
}

void gpuring_nic_select_channels(const struct gpuring_nic_select *nics, uint32_t nrings,
                                 uint32_t ntrees, bool swap,
                                 const struct gpuring_net_device *devices, int ndevices,
                                 struct gpuring_channel_nics *result)
{
    int own;

    memset(result, 0, sizeof *result);
    if (ndevices <= 0 || ndevices > UINT8_MAX) {
        return;
    }
    own = device_of(nics, nics->own, devices, ndevices);
    choose_nics(nics, nics->ring, nics->nrings, nrings, swap, devices, ndevices, result->ring);
    choose_nics(nics, nics->tree, nics->ntrees, ntrees, false, devices, ndevices, result->tree);
    for (int way = 0; way < GPURING_NIC_WAYS; way++) {
        result->own[way] = own >= 0 ? (uint8_t) own : result->ring[0][way];
    }
}

/* Return true if the device is near these cores, or if its location is unknown. */
static bool is_near(const char *root, const struct gpuring_net_device *device,
                    const cpu_set_t *cores)
{
    cpu_set_t near;

    gpuring_cores_near(root, device->pci_bus_id, &near);
    if (CPU_COUNT(&near) == 0) {
        return true;
    }
    CPU_AND(&near, &near, cores);
    return CPU_COUNT(&near) > 0;
}

void gpuring_nic_turns_find(const char *root, const struct gpuring_net_devices *devices,
                            const cpu_set_t *cores, int local, bool one_net,
                            struct gpuring_nic_turns *turns)
{
    bool all = true;

    *turns = (struct gpuring_nic_turns){.one_net = one_net,
                                        .ndevices = devices->count < GPURING_NIC_SELECT_NICS
                                                        ? devices->count
                                                        : GPURING_NIC_SELECT_NICS,
                                        .local = local};
    for (int i = 0; i < turns->ndevices; i++) {
        all = all && !is_near(root, &devices->device[i], &cores[local]);
    }
    for (int i = 0; i < turns->ndevices; i++) {
        if (all || is_near(root, &devices->device[i], &cores[local])) {
            turns->near[turns->nnear++] = (uint8_t) i;
        }
    }
    for (int rank = 0; rank < local; rank++) {
        bool shares = all;

        for (int i = 0; i < turns->nnear && !shares; i++) {
            shares = is_near(root, &devices->device[turns->near[i]], &cores[rank]);
        }
        turns->turn += shares;
    }
}

int gpuring_nic_turns_device(const struct gpuring_nic_turns *turns, int peer, uint32_t channel)
{
    if (turns->ndevices == 0) {
        return 0;
    }
    return turns->one_net ? turns->near[(turns->turn + (int) channel) % turns->nnear]
                          : (turns->local + peer + (int) channel) % turns->ndevices;
}
