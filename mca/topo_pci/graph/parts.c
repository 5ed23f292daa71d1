/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Find the parts of a node. If the NICs near two GPUs are faster than the path between the GPUs, as
 * between sockets, the GPUs belong to different parts, which NICs connect like nodes. Also remove
 * GPUs that do not reach each other at all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

/* Compute the bandwidth of each GPU to the network without passing a CPU, in GB/s. */
static void net_speeds(const struct pci_graph *graph, double *speed)
{
    for (uint32_t g = 0; g < pci_graph_count(graph, PCI_NODE_GPU); g++) {
        for (uint32_t n = 0; n < pci_graph_count(graph, PCI_NODE_NET); n++) {
            const struct pci_path *path = pci_graph_route(graph, PCI_NODE_GPU, g, PCI_NODE_NET, n);
            if (path->class <= PCI_PATH_PXB && path->bw > speed[g]) {
                speed[g] = path->bw;
            }
        }
    }
}

static bool apart(const struct pci_path *path, double speed, double other)
{
    return path->class >= PCI_PATH_NET || (speed > path->bw && other > path->bw);
}

/* Return true if two GPUs belong to the same part. Without SPEED, return true if they reach each
 * other inside the node. */
static bool joined(const struct pci_graph *graph, const double *speed, uint32_t a, uint32_t b)
{
    const struct pci_path *there = pci_graph_route(graph, PCI_NODE_GPU, a, PCI_NODE_GPU, b);
    const struct pci_path *back = pci_graph_route(graph, PCI_NODE_GPU, b, PCI_NODE_GPU, a);
    return speed ? !apart(there, speed[a], speed[b]) || !apart(back, speed[a], speed[b])
                 : there->class < PCI_PATH_NET && back->class < PCI_PATH_NET;
}

/* Assign the number PART to GPU START and to all GPUs that are directly or indirectly in the same
 * part. */
static void spread(const struct pci_graph *graph, const double *speed, uint32_t start,
                   uint32_t number, uint32_t *part, uint32_t *queue)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), head = 0, tail = 0;
    part[start] = number;
    queue[tail++] = start;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t g = 0; g < n; g++) {
            if (part[g] == PCI_NONE && joined(graph, speed, at, g)) {
                part[g] = number;
                queue[tail++] = g;
            }
        }
    }
}

int pci_graph_parts(const struct pci_graph *graph, uint32_t *part, uint32_t *nparts)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), count = 0;
    double *speed = calloc((size_t) n + 1, sizeof *speed);
    uint32_t *queue = calloc((size_t) n + 1, sizeof *queue);
    int rc = speed && queue ? 0 : -ENOMEM;
    if (!rc) {
        net_speeds(graph, speed);
        memset(part, 0xff, n * sizeof *part);
        for (uint32_t g = 0; g < n; g++) {
            if (part[g] == PCI_NONE) {
                spread(graph, speed, g, count++, part, queue);
            }
        }
        *nparts = count;
    }
    free(speed);
    free(queue);
    return rc;
}

int pci_graph_trim(struct pci_graph *graph, uint32_t gpu, uint32_t *removed,
                   struct pci_error *error)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), gone = 0;
    if (gpu >= n) {
        return pci_error_set(error, -EINVAL, "there is no GPU %u: the topology has %u GPUs", gpu,
                             n);
    }
    uint32_t *part = calloc(n, sizeof *part), *queue = calloc(n, sizeof *queue);
    if (!part || !queue) {
        free(part);
        free(queue);
        return pci_error_memory(error);
    }
    memset(part, 0xff, n * sizeof *part);
    spread(graph, NULL, gpu, 0, part, queue);
    pci_paths_free(graph); /* paths point to links that are about to be removed */
    for (uint32_t i = n; i > 0; i--) {
        if (part[i - 1] == PCI_NONE) {
            pci_node_remove(graph, graph->nodes[PCI_NODE_GPU].node[i - 1]);
            gone++;
        }
    }
    free(part);
    free(queue);
    int rc = pci_graph_number(graph, error);
    rc = rc ? rc : pci_graph_recompute(graph, NULL, error);
    if (!rc && removed) {
        *removed = gone;
    }
    return rc;
}

/* The division into parts, used by the rules of a part's graph. */
struct division {
    const struct pci_graph *graph;
    const uint32_t *part;
};

/* GPUs are numbered in the order of their ranks. */
static uint32_t part_of(const struct division *division, uint32_t rank)
{
    uint32_t low = 0, high = pci_graph_count(division->graph, PCI_NODE_GPU);
    while (low + 1 < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((uint32_t) pci_graph_node(division->graph, PCI_NODE_GPU, mid)->gpu.rank <= rank) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return division->part[low];
}

static enum pci_peer peer_in_part(void *context, uint32_t a, uint32_t b)
{
    const struct division *division = context;
    const struct pci_path_rules *rules = &division->graph->rules;
    if (part_of(division, a) != part_of(division, b)) {
        return PCI_PEER_ISOLATED;
    }
    return rules->peer ? rules->peer(rules->context, a, b) : rules->all;
}

int pci_graph_of_part(const struct pci_graph *graph, const struct pci_doc *doc,
                      const uint32_t *part, uint32_t number, struct pci_graph **result,
                      struct pci_error *error)
{
    struct division division = {graph, part};
    struct pci_path_rules rules = graph->rules;
    uint32_t first = 0;
    rules.peer = peer_in_part;
    rules.context = &division;
    while (part[first] != number) {
        first++;
    }
    int rc = pci_graph_build(doc, &rules, result, error);
    if (rc) {
        return rc;
    }
    rc = pci_graph_trim(*result, first, NULL, error);
    (*result)->rules = graph->rules; /* the division ends here */
    if (rc) {
        pci_graph_free(*result);
    }
    return rc;
}
