/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Build the flow networks of a machine's graph. */
#include "mca/topo_pci/bounds/pci_bound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_VERTEX UINT32_MAX

/* The part of a machine that a network contains. */
enum scope {
    SCOPE_NVLINK, /* NVLink and NVSwitch alone */
    SCOPE_ALL     /* all links between the GPUs: also PCI, chip to chip, and between CPUs, and NICs
                     where they join parts of the node (pci_graph_parts()) */
};

/* A graph under translation. */
struct extract {
    const struct pci_graph *graph;
    enum scope scope;
    struct pci_flow *flow;
    uint32_t *vertex_of; /* vertex of the graph -> vertex of the network, or NO_VERTEX */
    bool nics;           /* NICs join parts of the node */
};

static bool takes_part(const struct extract *extract, enum pci_node_type type)
{
    switch (type) {
    case PCI_NODE_GPU:
    case PCI_NODE_NVS:
        return true;
    case PCI_NODE_PCI:
    case PCI_NODE_CPU:
        return extract->scope == SCOPE_ALL;
    default:
        return extract->nics;
    }
}

/* Return true if the node is a relay with at most one link to nodes that take part. */
static bool is_leaf(const struct pci_graph *graph, const bool *part, const uint32_t *degree,
                    uint32_t vertex)
{
    enum pci_node_type type = pci_graph_vertex(graph, vertex)->type;

    return part[vertex] && degree[vertex] <= 1 && type != PCI_NODE_GPU && type != PCI_NODE_NET;
}

/* Remove a leaf. Returns the node that it led to, or the leaf itself. */
static uint32_t leaf_remove(const struct pci_graph *graph, bool *part, uint32_t *degree,
                            uint32_t vertex)
{
    const struct pci_node *node = pci_graph_vertex(graph, vertex);
    uint32_t next = vertex;

    part[vertex] = false;
    for (uint32_t l = 0; l < node->nlinks; l++) {
        uint32_t to = node->links[l]->to->vertex;

        if (part[to]) {
            degree[to]--;
            next = to;
        }
    }
    return next;
}

/* Exclude relays that lead nowhere, such as empty slots and disks, of which a machine may have
 * thousands, and relays that lead nowhere after that. */
static int leave_out_leaves(const struct pci_graph *graph, bool *part)
{
    uint32_t count = pci_graph_vertices(graph);
    uint32_t *degree = calloc(count, sizeof *degree); /* links to what takes part */

    if (degree == NULL) {
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < count; v++) {
        const struct pci_node *node = pci_graph_vertex(graph, v);

        for (uint32_t l = 0; l < node->nlinks; l++) {
            degree[v] += part[node->links[l]->to->vertex];
        }
    }
    for (uint32_t v = 0; v < count; v++) {
        uint32_t at = v;

        while (is_leaf(graph, part, degree, at)) {
            at = leaf_remove(graph, part, degree, at);
        }
    }
    free(degree);
    return 0;
}

/* GPUs become vertices from 0 on, in their order. All other nodes that take part become relays. */
static int extract_vertices(struct extract *extract, bool *part)
{
    uint32_t count = pci_graph_vertices(extract->graph);
    int rc;

    for (uint32_t v = 0; v < count; v++) {
        part[v] = takes_part(extract, pci_graph_vertex(extract->graph, v)->type);
    }
    rc = leave_out_leaves(extract->graph, part);
    for (uint32_t v = 0; rc == 0 && v < count; v++) {
        const struct pci_node *node = pci_graph_vertex(extract->graph, v);

        extract->vertex_of[v] = NO_VERTEX;
        if (node->type == PCI_NODE_GPU) {
            extract->vertex_of[v] = node->index;
        } else if (part[v]) {
            rc = pci_flow_add_relay(extract->flow, &extract->vertex_of[v]);
        }
    }
    return rc;
}

/* An NVLink takes part if a path between GPUs uses it in either direction, because a link to a GPU
 * that the driver makes unreachable is useless. */
static void mark_used(const struct extract *extract, bool *used)
{
    uint32_t n = pci_graph_count(extract->graph, PCI_NODE_GPU);

    for (uint32_t pair = 0; pair < n * n; pair++) {
        const struct pci_path *path =
            pci_graph_route(extract->graph, PCI_NODE_GPU, pair / n, PCI_NODE_GPU, pair % n);

        for (uint32_t i = 0;
             i < path->hops && (extract->scope == SCOPE_ALL || path->class <= PCI_PATH_NVB); i++) {
            used[path->links[i]->id] = used[path->links[i]->reverse->id] = true;
        }
    }
}

static int link_add(const struct extract *extract, uint32_t from, uint32_t to, double gbps)
{
    return pci_flow_add_link(extract->flow, from, to,
                             gbps < PCI_FLOW_MAX_GBPS ? gbps : PCI_FLOW_MAX_GBPS);
}

static int extract_links(struct extract *extract)
{
    uint32_t count = pci_graph_links(extract->graph);
    bool *used = calloc(count + 1u, sizeof *used);
    int rc = used == NULL ? -ENOMEM : 0;

    if (rc == 0) {
        mark_used(extract, used);
    }
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        const struct pci_link *link = pci_graph_link(extract->graph, i);
        uint32_t from = extract->vertex_of[link->from->vertex];
        uint32_t to = extract->vertex_of[link->to->vertex];
        bool wanted = link->type == PCI_LINK_NVL ? used[i] : extract->scope == SCOPE_ALL;

        if (from != NO_VERTEX && to != NO_VERTEX && from != to && wanted) {
            rc = link_add(extract, from, to, link->bw);
        }
    }
    free(used);
    return rc;
}

/* Add the network, to which each port leads. A net of a port that was listed before leads to that
 * port. */
static int extract_network(struct extract *extract)
{
    const struct pci_graph *graph = extract->graph;
    uint32_t network, count = extract->nics ? pci_graph_count(graph, PCI_NODE_NET) : 0;
    int rc = extract->nics ? pci_flow_add_relay(extract->flow, &network) : 0;

    for (uint32_t n = 0; rc == 0 && n < count; n++) {
        const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, n);
        uint32_t from = extract->vertex_of[net->vertex], first = pci_graph_port(graph, n);
        uint32_t to = first == n
                          ? network
                          : extract->vertex_of[pci_graph_node(graph, PCI_NODE_NET, first)->vertex];

        rc = link_add(extract, from, to, net->net.bw);
        rc = rc == 0 ? link_add(extract, to, from, net->net.bw) : rc;
    }
    return rc;
}

/* Find out whether NICs join parts of this node. */
static int find_nics(struct extract *extract)
{
    uint32_t n = pci_graph_count(extract->graph, PCI_NODE_GPU), nparts = 0;
    uint32_t *part = calloc(n + 1u, sizeof *part);
    int rc = part == NULL ? -ENOMEM : pci_graph_parts(extract->graph, part, &nparts);

    free(part);
    extract->nics = extract->scope == SCOPE_ALL && nparts > 1;
    return rc;
}

/* Build the network of all GPUs of a graph. */
static int flow_from_graph(const struct pci_graph *graph, enum scope scope, struct pci_flow *flow)
{
    struct pci_flow result;
    struct extract extract = {.graph = graph, .scope = scope, .flow = &result};
    bool *part;
    int rc = pci_flow_init(&result, pci_graph_count(graph, PCI_NODE_GPU));

    if (rc != 0) {
        return rc;
    }
    extract.vertex_of = calloc(pci_graph_vertices(graph), sizeof *extract.vertex_of);
    part = calloc(pci_graph_vertices(graph), sizeof *part);
    rc = extract.vertex_of == NULL || part == NULL ? -ENOMEM : find_nics(&extract);
    rc = rc == 0 ? extract_vertices(&extract, part) : rc;
    free(part);
    rc = rc == 0 ? extract_links(&extract) : rc;
    rc = rc == 0 ? extract_network(&extract) : rc;
    free(extract.vertex_of);
    if (rc != 0) {
        pci_flow_fini(&result);
        return rc;
    }
    *flow = result;
    return 0;
}

static int bound_of_scope(const struct pci_graph *graph, enum scope scope, struct pci_bound *bound)
{
    struct pci_flow flow;
    int rc = flow_from_graph(graph, scope, &flow);

    if (rc == 0) {
        rc = pci_bound_compute(&flow, bound);
        pci_flow_fini(&flow);
    }
    return rc;
}

int pci_bounds_of_graph(const struct pci_graph *graph, struct pci_bounds *bounds)
{
    const struct pci_bound none = {.ag = {.den = 1}, .ar = {.den = 1}};
    struct pci_bounds result = {none, none};
    int rc = 0;

    if (pci_graph_count(graph, PCI_NODE_GPU) >= 2) {
        rc = bound_of_scope(graph, SCOPE_NVLINK, &result.nvlink);
        if (rc == 0) {
            rc = bound_of_scope(graph, SCOPE_ALL, &result.all);
        }
    }
    if (rc == 0) {
        *bounds = result;
    }
    return rc;
}
