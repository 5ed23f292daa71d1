/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Build the fabric of a machine's graph. */
#include "mca/topo_pci/search/pci_channels.h"

#include <errno.h>
#include <string.h>

/* Load of the opposite direction by traffic into a GPU before compute capability 8.0 (the
 * reference's figure). */
#define REVERSE_FACTOR (1.0 / 8.0)
#define REVERSE_SM     80

/* Add the load of one link of a path, in its own direction and in the opposite one. */
static int way_link(struct pci_fabric *fabric, struct pci_way *way, const struct pci_link *link,
                    double overhead, bool from_gpu)
{
    double factor = link->type == PCI_LINK_PCI ? overhead : 1;
    int rc = pci_fabric_use(fabric, way, link->id, factor);
    double back = 0;

    if (link->to->type == PCI_NODE_GPU && link->to->gpu.sm < REVERSE_SM && !from_gpu) {
        back += factor * REVERSE_FACTOR;
    }
    if (link->to->type == PCI_NODE_CPU && link->to->cpu.arch == PCI_ARCH_POWER &&
        link->type == PCI_LINK_NVL) {
        back += factor; /* NVLink to a POWER9 is charged in both directions */
    }
    if (rc == 0 && back > 0) {
        rc = pci_fabric_use(fabric, way, link->reverse->id, back);
    }
    return rc;
}

static int way_of(struct pci_fabric *fabric, struct pci_way *way, const struct pci_graph *graph,
                  const struct pci_node *from, const struct pci_node *to)
{
    const struct pci_path *path = pci_graph_path(graph, from, to);
    bool from_gpu = from->type == PCI_NODE_GPU;
    double overhead = from_gpu ? pci_path_pci_load(path) : 1;
    int rc = 0;

    if (path->class >= PCI_PATH_NET) {
        return 0;
    }
    pci_fabric_way(fabric, way, path->class, path->hops);
    for (uint32_t i = 0; rc == 0 && i < path->hops; i++) {
        rc = way_link(fabric, way, path->links[i], overhead, from_gpu);
    }
    return rc;
}

/* Add both directions between all GPUs and one NIC, and the two links of the NIC's port. */
static int net_ways(struct pci_fabric *fabric, const struct pci_graph *graph, uint32_t n)
{
    const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, n);
    uint32_t port = pci_graph_links(graph) + 2 * pci_graph_port(graph, n);
    int rc = 0;

    if (fabric->capacity[port] == 0) {
        fabric->capacity[port] = net->net.bw;
        fabric->capacity[port + 1] = net->net.bw;
    }
    for (uint32_t g = 0; rc == 0 && g < fabric->ngpus; g++) {
        const struct pci_node *gpu = pci_graph_node(graph, PCI_NODE_GPU, g);
        struct pci_way *in = &fabric->in[(size_t) n * fabric->ngpus + g];
        struct pci_way *out = &fabric->out[(size_t) g * fabric->nnets + n];

        rc = way_of(fabric, in, graph, net, gpu);
        if (rc == 0 && in->class != PCI_PATH_DIS) {
            rc = pci_fabric_use(fabric, in, port, 1);
        }
        if (rc == 0) {
            rc = way_of(fabric, out, graph, gpu, net);
        }
        if (rc == 0 && out->class != PCI_PATH_DIS) {
            rc = pci_fabric_use(fabric, out, port + 1, 1);
        }
    }
    return rc;
}

static int gpu_ways(struct pci_fabric *fabric, const struct pci_graph *graph, uint32_t g)
{
    const struct pci_node *gpu = pci_graph_node(graph, PCI_NODE_GPU, g);
    int rc = 0;

    if (fabric->sm == 0 || gpu->gpu.sm < fabric->sm) {
        fabric->sm = gpu->gpu.sm;
    }
    for (uint32_t to = 0; rc == 0 && to < fabric->ngpus; to++) {
        if (to != g) {
            rc = way_of(fabric, &fabric->gpus[(size_t) g * fabric->ngpus + to], graph, gpu,
                        pci_graph_node(graph, PCI_NODE_GPU, to));
        }
    }
    return rc;
}

int pci_fabric_from_graph(const struct pci_graph *graph, struct pci_fabric *fabric)
{
    uint32_t nlinks = pci_graph_links(graph);
    uint32_t nnets = pci_graph_count(graph, PCI_NODE_NET);
    struct pci_fabric result;
    int rc =
        pci_fabric_init(&result, pci_graph_count(graph, PCI_NODE_GPU), nnets, nlinks + 2 * nnets);

    if (rc != 0) {
        return rc;
    }
    for (uint32_t i = 0; i < nlinks; i++) {
        result.capacity[i] = pci_graph_link(graph, i)->bw;
    }
    for (uint32_t g = 0; rc == 0 && g < result.ngpus; g++) {
        rc = gpu_ways(&result, graph, g);
    }
    for (uint32_t n = 0; rc == 0 && n < nnets; n++) {
        rc = net_ways(&result, graph, n);
    }
    if (rc != 0) {
        pci_fabric_fini(&result);
        return rc;
    }
    *fabric = result;
    return 0;
}
