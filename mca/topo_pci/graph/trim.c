/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Removes what one job does not need from a graph. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/internal.h"

/*
 * Marks the GPUs that work together with START: directly or through others, but not over the
 * network alone. Both directions must be possible.
 */
static void mark_reachable(const struct pci_graph *graph, uint32_t start, bool *reached,
                           uint32_t *queue)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), head = 0, tail = 0;
    reached[start] = true;
    queue[tail++] = start;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t i = 0; i < n; i++) {
            if (!reached[i] &&
                pci_graph_route(graph, PCI_NODE_GPU, at, PCI_NODE_GPU, i)->class < PCI_PATH_NET &&
                pci_graph_route(graph, PCI_NODE_GPU, i, PCI_NODE_GPU, at)->class < PCI_PATH_NET) {
                reached[i] = true;
                queue[tail++] = i;
            }
        }
    }
}

static void remove_all(struct pci_graph *graph, enum pci_node_type type)
{
    while (graph->nodes[type].count) {
        pci_node_remove(graph, graph->nodes[type].node[graph->nodes[type].count - 1]);
    }
}

int pci_graph_trim(struct pci_graph *graph, uint32_t gpu, bool needs_net, uint32_t *removed,
                   struct pci_error *error)
{
    uint32_t n = pci_graph_count(graph, PCI_NODE_GPU), gone = 0;
    if (gpu >= n) {
        return pci_error_set(error, -EINVAL, "there is no GPU %u: the topology has %u GPUs", gpu,
                             n);
    }
    bool *reached = calloc(n, sizeof(*reached));
    uint32_t *queue = calloc(n, sizeof(*queue));
    if (!reached || !queue) {
        free(reached);
        free(queue);
        return pci_error_memory(error);
    }
    mark_reachable(graph, gpu, reached, queue);
    pci_paths_free(graph); /* paths point to links that go now */
    for (uint32_t i = n; i > 0; i--) {
        if (!reached[i - 1]) {
            pci_node_remove(graph, graph->nodes[PCI_NODE_GPU].node[i - 1]);
            gone++;
        }
    }
    free(reached);
    free(queue);
    if (!needs_net) {
        remove_all(graph, PCI_NODE_NET);
        remove_all(graph, PCI_NODE_NIC);
    }
    int rc = pci_graph_number(graph, error);
    rc = rc ? rc : pci_graph_recompute(graph, NULL, error);
    if (!rc && removed) {
        *removed = gone;
    }
    return rc;
}
