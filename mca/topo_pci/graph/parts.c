/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Parts of a node: where the NICs near two GPUs are faster than the way between the GPUs, as
 * between sockets, the two belong to different parts, which NICs join as they join nodes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/internal.h"

/* What each GPU reaches of the network without passing a CPU, in GB/s. */
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

static bool apart(const struct pci_graph *graph, const double *speed, uint32_t a, uint32_t b)
{
    const struct pci_path *path = pci_graph_route(graph, PCI_NODE_GPU, a, PCI_NODE_GPU, b);
    return path->class >= PCI_PATH_NET || (speed[a] > path->bw && speed[b] > path->bw);
}

/* Numbers GPU START, and all that are not apart from it or from one of those, as PART. */
static void spread(const struct pci_graph *graph, const double *speed, uint32_t start,
                   uint32_t number, uint32_t *part, uint32_t *queue)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), head = 0, tail = 0;
    part[start] = number;
    queue[tail++] = start;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t g = 0; g < n; g++) {
            if (part[g] == PCI_NONE &&
                (!apart(graph, speed, at, g) || !apart(graph, speed, g, at))) {
                part[g] = number;
                queue[tail++] = g;
            }
        }
    }
}

int pci_graph_parts(const struct pci_graph *graph, uint32_t *part, uint32_t *nparts)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), count = 0;
    double *speed = calloc((size_t) n + 1, sizeof(*speed));
    uint32_t *queue = calloc((size_t) n + 1, sizeof(*queue));
    int rc = speed && queue ? 0 : -ENOMEM;
    if (!rc) {
        net_speeds(graph, speed);
        memset(part, 0xff, n * sizeof(*part));
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

/* Who is apart, for the rules of a part's graph. */
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
    rc = pci_graph_trim(*result, first, true, NULL, error);
    (*result)->rules = graph->rules; /* the division ends here */
    if (rc) {
        pci_graph_free(*result);
    }
    return rc;
}
