/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Number the nodes and links of a graph, and sort its links in the order in which paths try them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

/* Move the link towards the CPU to the end: down the PCI tree first, then up. */
static void up_link_last(struct pci_node *node)
{
    const struct pci_node *up = pci_vertex_of(node)->up;
    uint32_t at = 0;
    while (at < node->nlinks && node->links[at]->to != up) {
        at++;
    }
    if (!up || at == node->nlinks) {
        return;
    }
    struct pci_link *link = node->links[at];
    memmove(node->links + at, node->links + at + 1,
            (node->nlinks - at - 1) * sizeof(struct pci_link *));
    node->links[node->nlinks - 1] = link;
}

/* Pair a link with its other direction. Search the end that has fewer links. */
static void pair(struct pci_link *link)
{
    const struct pci_node *to = link->to;
    if (link->reverse || to->nlinks > link->from->nlinks) {
        return;
    }
    for (uint32_t i = 0; i < to->nlinks; i++) {
        struct pci_link *other = to->links[i];
        if (other->to == link->from && other->type == link->type && !other->reverse) {
            link->reverse = other;
            other->reverse = link;
            return;
        }
    }
}

static int number_nodes(struct pci_graph *graph)
{
    uint32_t n = 0, nlinks = 0;
    for (int type = 0; type < PCI_NODE_TYPE_COUNT; type++) {
        n += graph->nodes[type].count;
    }
    struct pci_node **vertices = reallocarray(graph->vertices, n + 1, sizeof *vertices);
    if (!vertices) {
        return -ENOMEM;
    }
    graph->vertices = vertices;
    graph->nvertices = 0;
    for (int type = 0; type < PCI_NODE_TYPE_COUNT; type++) {
        for (uint32_t i = 0; i < graph->nodes[type].count; i++) {
            struct pci_node *node = graph->nodes[type].node[i];
            node->index = i;
            node->vertex = graph->nvertices;
            vertices[graph->nvertices++] = node;
            nlinks += node->nlinks;
            up_link_last(node);
        }
    }
    graph->nlinks = nlinks;
    return 0;
}

static int number_links(struct pci_graph *graph, struct pci_error *error)
{
    struct pci_link **links = reallocarray(graph->links, (size_t) graph->nlinks + 1, sizeof *links);
    if (!links) {
        return pci_error_memory(error);
    }
    graph->links = links;
    uint32_t id = 0;
    for (uint32_t v = 0; v < graph->nvertices; v++) {
        for (uint32_t i = 0; i < graph->vertices[v]->nlinks; i++) {
            struct pci_link *link = graph->vertices[v]->links[i];
            link->id = id;
            link->reverse = NULL;
            links[id++] = link;
        }
    }
    for (id = 0; id < graph->nlinks; id++) {
        pair(links[id]);
    }
    for (id = 0; id < graph->nlinks; id++) {
        if (!links[id]->reverse) {
            return pci_error_set(error, -EINVAL, "link from %s %s to %s %s has no way back",
                                 pci_node_type_name(links[id]->from->type), links[id]->from->busid,
                                 pci_node_type_name(links[id]->to->type), links[id]->to->busid);
        }
    }
    return 0;
}

static int by_sequence(const void *a, const void *b)
{
    const struct pci_vertex *x = *(struct pci_vertex *const *) a;
    const struct pci_vertex *y = *(struct pci_vertex *const *) b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* List the indexes of the nodes of a kind in the order of the document. */
static int order_nodes(const struct pci_nodes *nodes, uint32_t **order)
{
    size_t n = nodes->count;
    struct pci_node **sorted = calloc(n + 1, sizeof *sorted);
    uint32_t *made = reallocarray(*order, n + 1, sizeof **order);
    if (made) {
        *order = made;
    }
    if (!sorted || !made) {
        free(sorted);
        return -ENOMEM;
    }
    if (n) {
        memcpy(sorted, nodes->node, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_sequence);
    }
    for (size_t i = 0; i < n; i++) {
        made[i] = sorted[i]->index;
    }
    free(sorted);
    return 0;
}

int pci_graph_number(struct pci_graph *graph, struct pci_error *error)
{
    if (number_nodes(graph) || order_nodes(&graph->nodes[PCI_NODE_GPU], &graph->gpu_order) ||
        order_nodes(&graph->nodes[PCI_NODE_NET], &graph->net_order)) {
        return pci_error_memory(error);
    }
    return number_links(graph, error);
}

int pci_graph_listed(const struct pci_graph *graph, enum pci_node_type type, uint32_t position)
{
    const uint32_t *order = type == PCI_NODE_GPU   ? graph->gpu_order
                            : type == PCI_NODE_NET ? graph->net_order
                                                   : NULL;
    return order && position < graph->nodes[type].count ? (int) order[position] : -1;
}
