/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Find the nets nearest to a GPU, the GPUs nearest to a net, and the GPU that uses each net. The
 * lists are kept, because the rules for relay GPUs need them repeatedly while they change paths.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

/* Maximum number of channels that are tried to find the GPU of a net (NCCL's MAXCHANNELS). */
#define PCI_LOCAL_CHANNELS 64u

int pci_local_init(struct pci_graph *graph, struct pci_error *error)
{
    size_t gpus = graph->nodes[PCI_NODE_GPU].count, nets = graph->nodes[PCI_NODE_NET].count;
    struct pci_local *local = &graph->local;
    pci_local_free(graph);
    local->nets = calloc(gpus * nets + 1, sizeof *local->nets);
    local->gpus = calloc(gpus * nets + 1, sizeof *local->gpus);
    local->nnets = malloc((gpus + 1) * sizeof *local->nnets);
    local->ngpus = malloc((nets + 1) * sizeof *local->ngpus);
    local->relay = calloc(nets + 1, sizeof *local->relay);
    local->version = calloc(nets + 1, sizeof *local->version);
    local->now = 1;
    if (!local->nets || !local->gpus || !local->nnets || !local->ngpus || !local->relay ||
        !local->version) {
        pci_local_free(graph);
        return pci_error_memory(error);
    }
    memset(local->nnets, 0xff, (gpus + 1) * sizeof *local->nnets);
    memset(local->ngpus, 0xff, (nets + 1) * sizeof *local->ngpus);
    return 0;
}

void pci_local_changed(struct pci_graph *graph, uint32_t gpu, uint32_t net)
{
    graph->local.nnets[gpu] = PCI_NONE;
    graph->local.ngpus[net] = PCI_NONE;
    graph->local.now++;
}

/* List the nodes of kind TO that are best for FROM: those with the highest bandwidth, and of these
 * the nearest class. */
static uint32_t list_best(const struct pci_graph *graph, const struct pci_node *from,
                          enum pci_node_type to, const uint32_t *order, uint32_t *list)
{
    double bw = 0;
    enum pci_path_class class = PCI_PATH_DIS;
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->nodes[to].count; i++) {
        const struct pci_path *path = pci_graph_route(graph, from->type, from->index, to, order[i]);
        if (path->class == PCI_PATH_DIS || path->bw < bw ||
            (path->bw == bw && path->class > class)) {
            continue;
        }
        if (path->bw > bw || path->class < class) {
            bw = path->bw;
            class = path->class;
            n = 0;
        }
        list[n++] = order[i];
    }
    return n;
}

static const uint32_t *nets_of(struct pci_graph *graph, uint32_t gpu, uint32_t *n)
{
    uint32_t *list = graph->local.nets + (size_t) gpu * graph->nodes[PCI_NODE_NET].count;
    if (graph->local.nnets[gpu] == PCI_NONE) {
        graph->local.nnets[gpu] = list_best(graph, graph->nodes[PCI_NODE_GPU].node[gpu],
                                            PCI_NODE_NET, graph->net_order, list);
    }
    *n = graph->local.nnets[gpu];
    return list;
}

static const uint32_t *gpus_of(struct pci_graph *graph, uint32_t net, uint32_t *n)
{
    uint32_t *list = graph->local.gpus + (size_t) net * graph->nodes[PCI_NODE_GPU].count;
    if (graph->local.ngpus[net] == PCI_NONE) {
        graph->local.ngpus[net] = list_best(graph, graph->nodes[PCI_NODE_NET].node[net],
                                            PCI_NODE_GPU, graph->gpu_order, list);
    }
    *n = graph->local.ngpus[net];
    return list;
}

void pci_local_refresh(struct pci_graph *graph)
{
    uint32_t n;
    for (uint32_t i = 0; i < graph->nodes[PCI_NODE_GPU].count; i++) {
        nets_of(graph, i, &n);
    }
    for (uint32_t i = 0; i < graph->nodes[PCI_NODE_NET].count; i++) {
        gpus_of(graph, i, &n);
    }
    for (uint32_t i = 0; i < graph->nodes[PCI_NODE_NET].count; i++) {
        pci_local_relay(graph, i);
    }
}

/* Reverse the bits of VALUE below the power of two COUNT, so that the results of consecutive values
 * are far apart. */
static uint32_t reversed(uint32_t value, uint32_t count)
{
    uint32_t result = 0;
    for (uint32_t bit = 1, mirror = count >> 1; bit < count; bit <<= 1, mirror >>= 1) {
        result |= value & bit ? mirror : 0;
    }
    return result;
}

/* Return the number of nets that each GPU of a group uses in turn, or 0 if there is none. */
static uint32_t nets_in_turn(struct pci_graph *graph, uint32_t gpu)
{
    uint32_t nnets, ngpus;
    const uint32_t *nets = nets_of(graph, gpu, &nnets);
    if (!nnets) {
        return 0;
    }
    gpus_of(graph, nets[0], &ngpus);
    return ngpus ? (nnets + ngpus - 1) / ngpus : 1;
}

static int net_for(struct pci_graph *graph, uint32_t gpu, uint32_t channel)
{
    uint32_t nnets;
    uint32_t turns = nets_in_turn(graph, gpu);
    const uint32_t *nets = nets_of(graph, gpu, &nnets);
    if (!turns) {
        return -1;
    }
    uint32_t start = (uint32_t) graph->nodes[PCI_NODE_GPU].node[gpu]->gpu.dev;
    if (!(nnets & (nnets - 1))) {
        start = reversed(start, nnets);
    }
    return (int) nets[((uint64_t) start + channel % turns) % nnets];
}

static bool same_net(const struct pci_graph *graph, int a, uint32_t b)
{
    const struct pci_nodes *nets = &graph->nodes[PCI_NODE_NET];
    return a >= 0 && nets->node[a]->id == nets->node[b]->id &&
           nets->node[a]->host == nets->node[b]->host;
}

static int find_relay(struct pci_graph *graph, uint32_t net)
{
    uint32_t ngpus, turns = 0;
    const uint32_t *gpus = gpus_of(graph, net, &ngpus);
    for (uint32_t i = 0; i < ngpus; i++) {
        uint32_t own = nets_in_turn(graph, gpus[i]);
        turns = own > turns ? own : turns;
    }
    for (uint32_t c = 0; c < turns && c < PCI_LOCAL_CHANNELS; c++) {
        for (uint32_t i = 0; i < ngpus; i++) {
            if (same_net(graph, net_for(graph, gpus[i], c), net)) {
                return (int) gpus[i];
            }
        }
    }
    return -1;
}

int pci_local_relay(struct pci_graph *graph, uint32_t net)
{
    struct pci_local *local = &graph->local;
    if (local->version[net] != local->now) {
        local->relay[net] = find_relay(graph, net);
        local->version[net] = local->now;
    }
    return local->relay[net];
}

/* This only reads, because each list exists after a recomputation (pci_local_refresh). */
uint32_t pci_graph_local_nets(const struct pci_graph *graph, uint32_t gpu, uint32_t *nets)
{
    uint32_t n = 0;
    if (graph->local.nets && gpu < graph->nodes[PCI_NODE_GPU].count) {
        const uint32_t *list = nets_of((struct pci_graph *) graph, gpu, &n);
        memcpy(nets, list, n * sizeof *nets);
    }
    return n;
}
