/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Add and remove nodes and links of a graph, number them, and access them. */
#define _GNU_SOURCE /* asprintf, vasprintf */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

#define PCI_REMARKS_MAX 64u

void pci_graph_remark_add(struct pci_graph *graph, const char *format, ...)
{
    char *text;
    va_list args;
    if (graph->nremarks >= PCI_REMARKS_MAX ||
        pci_array_reserve(&graph->remarks, &graph->remarks_capacity, graph->nremarks + 1,
                          sizeof *graph->remarks)) {
        return;
    }
    if (graph->nremarks == PCI_REMARKS_MAX - 1) {
        format = "more remarks are omitted";
    }
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    for (size_t i = 0; i < graph->nremarks; i++) {
        if (!strcmp(graph->remarks[i], text)) {
            free(text); /* an earlier computation has added the same remark */
            return;
        }
    }
    graph->remarks[graph->nremarks++] = text;
}

bool pci_graph_remark(const struct pci_graph *graph, size_t index, const char **text)
{
    if (index >= graph->nremarks) {
        return false;
    }
    *text = graph->remarks[index];
    return true;
}

static uint32_t limit_of(enum pci_node_type type)
{
    return type == PCI_NODE_GPU   ? PCI_GRAPH_MAX_GPUS
           : type == PCI_NODE_NET ? PCI_GRAPH_MAX_NETS
           : type == PCI_NODE_CPU ? PCI_GRAPH_MAX_CPUS
                                  : PCI_GRAPH_MAX_NODES;
}

int pci_node_add(struct pci_graph *graph, enum pci_node_type type, uint64_t host, uint64_t id,
                 const char *busid, struct pci_node **node, struct pci_error *error)
{
    struct pci_nodes *nodes = &graph->nodes[type];
    if (nodes->count >= limit_of(type)) {
        return pci_error_set(error, -E2BIG, "the topology has more than %u nodes of kind %s",
                             limit_of(type), pci_node_type_name(type));
    }
    struct pci_vertex *vertex = calloc(1, sizeof *vertex);
    char *copy = strdup(busid ? busid : "");
    if (!vertex || !copy ||
        pci_array_reserve(&nodes->node, &nodes->capacity, nodes->count + 1, sizeof *nodes->node)) {
        free(vertex);
        free(copy);
        return pci_error_memory(error);
    }
    vertex->busid = copy;
    vertex->sequence = graph->sequence++;
    vertex->node.type = type;
    vertex->node.host = host;
    vertex->node.id = id;
    vertex->node.busid = copy;
    vertex->node.index = nodes->count;
    nodes->node[nodes->count++] = &vertex->node;
    *node = &vertex->node;
    return 0;
}

struct pci_node *pci_node_find(const struct pci_graph *graph, enum pci_node_type type,
                               uint64_t host, uint64_t id)
{
    const struct pci_nodes *nodes = &graph->nodes[type];
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->node[i]->id == id && nodes->node[i]->host == host) {
            return nodes->node[i];
        }
    }
    return NULL;
}

static void node_free(struct pci_node *node)
{
    struct pci_vertex *vertex = pci_vertex_of(node);
    for (uint32_t i = 0; i < node->nlinks; i++) {
        free(node->links[i]);
    }
    free(node->links);
    free(vertex->text);
    free(vertex->busid);
    free(vertex);
}

/* Remove all links of NODE that lead to GONE. */
static void links_forget(struct pci_node *node, const struct pci_node *gone)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->nlinks; i++) {
        if (node->links[i]->to == gone) {
            free(node->links[i]);
        } else {
            node->links[kept++] = node->links[i];
        }
    }
    node->nlinks = kept;
}

void pci_node_remove(struct pci_graph *graph, struct pci_node *node)
{
    struct pci_nodes *nodes = &graph->nodes[node->type];
    for (uint32_t i = 0; i < node->nlinks; i++) {
        links_forget(node->links[i]->to, node);
    }
    nodes->count--;
    for (uint32_t i = node->index; i < nodes->count; i++) {
        nodes->node[i] = nodes->node[i + 1];
        nodes->node[i]->index = i;
    }
    node_free(node);
}

static int link_push(struct pci_node *from, struct pci_node *to, enum pci_link_type type,
                     struct pci_error *error)
{
    struct pci_vertex *vertex = pci_vertex_of(from);
    struct pci_edge *edge = calloc(1, sizeof *edge);
    if (!edge || pci_array_reserve(&from->links, &vertex->links_capacity, (size_t) from->nlinks + 1,
                                   sizeof *from->links)) {
        free(edge);
        return pci_error_memory(error);
    }
    edge->link.type = type;
    edge->link.from = from;
    edge->link.to = to;
    from->links[from->nlinks++] = &edge->link;
    return 0;
}

/* Move the link at PLACE forward, before the links with less bandwidth. */
static void link_sort(struct pci_node *node, uint32_t at)
{
    struct pci_link *link = node->links[at];
    while (at && node->links[at - 1]->bw < link->bw) {
        node->links[at] = node->links[at - 1];
        at--;
    }
    node->links[at] = link;
}

int pci_link_add(struct pci_node *from, struct pci_node *to, enum pci_link_type type,
                 uint64_t count, double unit, struct pci_error *error)
{
    uint32_t at = 0;
    while (at < from->nlinks && (from->links[at]->to != to || from->links[at]->type != type)) {
        at++;
    }
    if (at == from->nlinks) {
        int rc = link_push(from, to, type, error);
        if (rc) {
            return rc;
        }
    }
    struct pci_edge *edge = (struct pci_edge *) from->links[at];
    edge->count += count;
    edge->unit = unit;
    /* Multiply instead of adding, so that the order of the elements does not affect the last
     * bits. */
    edge->link.bw = (double) edge->count * unit;
    if (edge->link.bw > PCI_BW_MAX) {
        return pci_error_set(error, -EINVAL,
                             "link from %s to %s of %g GB/s: above what any link has (%g)",
                             from->busid, to->busid, edge->link.bw, PCI_BW_MAX);
    }
    link_sort(from, at);
    return 0;
}

int pci_link_join(struct pci_node *from, struct pci_node *to, enum pci_link_type type, double bw,
                  struct pci_error *error)
{
    int rc = link_push(from, to, type, error);
    if (!rc) {
        from->links[from->nlinks - 1]->bw = bw;
        link_sort(from, from->nlinks - 1);
    }
    return rc;
}

void pci_local_free(struct pci_graph *graph)
{
    free(graph->local.nets);
    free(graph->local.nnets);
    free(graph->local.gpus);
    free(graph->local.ngpus);
    free(graph->local.relay);
    free(graph->local.version);
    graph->local = (struct pci_local){0};
}

void pci_paths_free(struct pci_graph *graph)
{
    while (graph->pool) {
        struct pci_pool *next = graph->pool->next;
        free(graph->pool);
        graph->pool = next;
    }
    free(graph->paths);
    graph->paths = NULL;
    graph->nends = 0;
    pci_local_free(graph);
}

void pci_graph_free(struct pci_graph *graph)
{
    if (!graph) {
        return;
    }
    pci_paths_free(graph);
    for (int type = 0; type < PCI_NODE_TYPE_COUNT; type++) {
        for (uint32_t i = 0; i < graph->nodes[type].count; i++) {
            node_free(graph->nodes[type].node[i]);
        }
        free(graph->nodes[type].node);
    }
    for (size_t i = 0; i < graph->nremarks; i++) {
        free(graph->remarks[i]);
    }
    free(graph->remarks);
    free(graph->vertices);
    free(graph->links);
    free(graph->gpu_order);
    free(graph->net_order);
    free(graph);
}

uint32_t pci_graph_count(const struct pci_graph *graph, enum pci_node_type type)
{
    return (unsigned) type < PCI_NODE_TYPE_COUNT ? graph->nodes[type].count : 0;
}

uint32_t pci_graph_vertices(const struct pci_graph *graph)
{
    return graph->nvertices;
}

uint32_t pci_graph_links(const struct pci_graph *graph)
{
    return graph->nlinks;
}

struct pci_node *pci_graph_node(const struct pci_graph *graph, enum pci_node_type type,
                                uint32_t index)
{
    return index < pci_graph_count(graph, type) ? graph->nodes[type].node[index] : NULL;
}

struct pci_node *pci_graph_vertex(const struct pci_graph *graph, uint32_t vertex)
{
    return vertex < graph->nvertices ? graph->vertices[vertex] : NULL;
}

struct pci_link *pci_graph_link(const struct pci_graph *graph, uint32_t id)
{
    return id < graph->nlinks ? graph->links[id] : NULL;
}

const struct pci_node *pci_graph_cpu(const struct pci_graph *graph)
{
    return pci_graph_node(graph, PCI_NODE_CPU, 0);
}

uint32_t pci_graph_port(const struct pci_graph *graph, uint32_t net)
{
    const struct pci_node *node = pci_graph_node(graph, PCI_NODE_NET, net);
    for (uint32_t i = 0; node->net.guid && i < net; i++) {
        const struct pci_node *other = pci_graph_node(graph, PCI_NODE_NET, i);
        if (other->net.guid == node->net.guid && other->net.port == node->net.port &&
            other->host == node->host) {
            return i;
        }
    }
    return net;
}

struct pci_path *pci_path_at(const struct pci_graph *graph, enum pci_node_type from, uint32_t ifrom,
                             enum pci_node_type to, uint32_t ito)
{
    if (!graph->paths || ifrom >= pci_graph_count(graph, from) ||
        ito >= pci_graph_count(graph, to) || graph->first_end[from] == PCI_NONE ||
        graph->first_end[to] == PCI_NONE) {
        return NULL;
    }
    return graph->paths + (size_t) (graph->first_end[from] + ifrom) * graph->nends +
           graph->first_end[to] + ito;
}

const struct pci_path *pci_graph_route(const struct pci_graph *graph, enum pci_node_type from,
                                       uint32_t ifrom, enum pci_node_type to, uint32_t ito)
{
    static const struct pci_path none = {.class = PCI_PATH_DIS};
    const struct pci_path *path = pci_path_at(graph, from, ifrom, to, ito);
    return path ? path : &none;
}

const struct pci_path *pci_graph_path(const struct pci_graph *graph, const struct pci_node *from,
                                      const struct pci_node *to)
{
    return pci_graph_route(graph, from->type, from->index, to->type, to->index);
}
