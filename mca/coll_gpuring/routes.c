/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/routes.h"

#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"

static void find(const struct pci_graph *graph, const struct pci_channels *channels,
                 struct gpuring_route_port (*ports)[GPURING_ROUTE_WAYS])
{
    for (uint32_t c = 0; c < channels->nchannels && c < PCI_CHANNELS_MAX; c++) {
        for (int way = 0; way < GPURING_ROUTE_WAYS && channels->nets != NULL; way++) {
            const struct pci_node *net =
                channels->nets[c][way] == PCI_NO_NET
                    ? NULL
                    : pci_graph_node(graph, PCI_NODE_NET, channels->nets[c][way]);

            if (net != NULL) {
                snprintf(ports[c][way].name, sizeof ports[c][way].name, "%s", net->net.name);
                ports[c][way].port = net->net.port;
            }
        }
    }
}

void gpuring_routes_find(const struct pci_graph *graph, const struct pci_channels *ring,
                         const struct pci_channels *tree, struct gpuring_routes *routes)
{
    memset(routes, 0, sizeof *routes);
    routes->nrings = ring->nchannels;
    routes->ntrees = tree->nchannels;
    find(graph, ring, routes->ring);
    find(graph, tree, routes->tree);
}

/* The device of a name and port; a port that is not told (0) is any. -1: there is none. */
static int device_of(const struct gpuring_route_port *port,
                     const struct gpuring_net_device *devices, int ndevices)
{
    for (int i = 0; i < ndevices; i++) {
        if (port->name[0] != '\0' && strcmp(devices[i].name, port->name) == 0 &&
            (port->port == 0 || devices[i].port == port->port)) {
            return i;
        }
    }
    return -1;
}

static void choose(const struct gpuring_route_port (*ports)[GPURING_ROUTE_WAYS], uint32_t nports,
                   uint32_t count, bool swap, const struct gpuring_net_device *devices,
                   int ndevices, uint8_t (*result)[GPURING_ROUTE_WAYS])
{
    for (uint32_t c = 0; c < GPURING_MAX_CHANNELS; c++) {
        uint32_t own = count > 0 ? c % count : c;

        own = swap ? own ^ 1 : own;
        for (int way = 0; way < GPURING_ROUTE_WAYS; way++) {
            int device = own < nports ? device_of(&ports[own][way], devices, ndevices) : -1;

            result[c][way] = (uint8_t) (device >= 0 ? (uint32_t) device : c % (uint32_t) ndevices);
            if (device < 0 && own < nports && c < count && ports[own][way].name[0] != '\0') {
                gpuring_debug("channel %u: the network has no device %s port %d, it uses %s port "
                              "%d",
                              c, ports[own][way].name, ports[own][way].port,
                              devices[result[c][way]].name, devices[result[c][way]].port);
            }
        }
    }
}

void gpuring_routes_devices(const struct gpuring_routes *routes, uint32_t nrings, uint32_t ntrees,
                            bool swap, const struct gpuring_net_device *devices, int ndevices,
                            struct gpuring_route_devices *result)
{
    static const struct gpuring_routes unknown;

    memset(result, 0, sizeof *result);
    if (ndevices <= 0 || ndevices > UINT8_MAX) {
        return;
    }
    routes = routes != NULL ? routes : &unknown;
    choose(routes->ring, routes->nrings, nrings, swap, devices, ndevices, result->ring);
    choose(routes->tree, routes->ntrees, ntrees, false, devices, ndevices, result->tree);
}
