/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Find paths without the rules: between all endpoints, the path with the fewest hops, and the
 * widest among these.
 *
 * A breadth-first search starts at each destination and proceeds level by level. A node keeps the
 * first of the widest links from the level before. Because a level is complete before the next one
 * begins, the predecessors form the path. A GPU forwards only NVLink traffic to a GPU, and only if
 * it is next to the destination, so at most one GPU is in between (class NVB). The bandwidth is
 * that of the links in the direction of the search, which is opposite to that of the path.
 *
 * Time O(endpoints x (nodes + links)), memory O(endpoints^2 x hops).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

#define PCI_POOL_BLOCK 4096u

/* State of a node during one search. */
struct label {
    double bw;
    uint32_t hops;
    uint32_t listed; /* the level in whose list it already is */
    enum pci_path_class class;
    struct pci_link *link; /* the first one of the way to the destination */
};

struct search {
    struct pci_graph *graph;
    struct label *labels;
    uint32_t *now; /* vertices of this level, in the order in which they were found */
    uint32_t *then;
    uint32_t nthen;
};

struct pci_link **pci_pool_take(struct pci_graph *graph, size_t n)
{
    struct pci_pool *pool = graph->pool;
    if (!pool || pool->size - pool->used < n) {
        size_t size = n > PCI_POOL_BLOCK ? n : PCI_POOL_BLOCK;
        pool = malloc(sizeof *pool + size * sizeof pool->links[0]);
        if (!pool) {
            return NULL;
        }
        *pool = (struct pci_pool){.next = graph->pool, .size = size};
        graph->pool = pool;
    }
    pool->used += n;
    return pool->links + pool->used - n;
}

/* Return the class of a path after a step over LINK from NODE, whose path has CLASS. */
static enum pci_path_class class_over(enum pci_path_class class, uint32_t hops,
                                      const struct pci_link *link)
{
    static const enum pci_path_class of_link[] = {
        [PCI_LINK_LOC] = PCI_PATH_LOC, [PCI_LINK_NVL] = PCI_PATH_NVL, [PCI_LINK_C2C] = PCI_PATH_C2C,
        [PCI_LINK_PCI] = PCI_PATH_PIX, [PCI_LINK_SYS] = PCI_PATH_SYS, [PCI_LINK_NET] = PCI_PATH_LOC,
    };
    enum pci_path_class step = of_link[link->type];
    if (link->from->type == PCI_NODE_PCI && link->to->type == PCI_NODE_PCI) {
        step = PCI_PATH_PXB;
    }
    if (link->type == PCI_LINK_PCI &&
        (link->from->type == PCI_NODE_CPU || link->to->type == PCI_NODE_CPU)) {
        step = PCI_PATH_PHB;
    }
    if (link->from->type == PCI_NODE_GPU && class == PCI_PATH_NVL && step == PCI_PATH_NVL &&
        hops > 0) {
        step = PCI_PATH_NVB;
    }
    return step > class ? step : class;
}

static bool may_forward(const struct search *search, const struct label *label,
                        const struct pci_link *link)
{
    return !label->hops || link->from->type != PCI_NODE_GPU ||
           (search->graph->rules.nvb && link->type == PCI_LINK_NVL &&
            link->to->type == PCI_NODE_GPU && label->hops == 1);
}

static void relax(struct search *search, const struct pci_link *link)
{
    const struct label *here = &search->labels[link->from->vertex];
    struct label *there = &search->labels[link->to->vertex];
    double bw = here->bw < link->bw ? here->bw : link->bw;
    if (!may_forward(search, here, link) || there->bw >= bw ||
        (there->bw > 0 && there->hops <= here->hops)) {
        return;
    }
    there->bw = bw;
    there->hops = here->hops + 1;
    there->class = class_over(here->class, here->hops, link);
    there->link = link->reverse;
    if (there->listed != there->hops) {
        there->listed = there->hops;
        search->then[search->nthen++] = link->to->vertex;
    }
}

static void search_from(struct search *search, const struct pci_node *base)
{
    struct pci_graph *graph = search->graph;
    uint32_t n = 1;
    memset(search->labels, 0, graph->nvertices * sizeof *search->labels);
    search->labels[base->vertex].bw = PCI_BW_LOC;
    search->now[0] = base->vertex;
    while (n) {
        search->nthen = 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct pci_node *node = graph->vertices[search->now[i]];
            for (uint32_t l = 0; l < node->nlinks; l++) {
                relax(search, node->links[l]);
            }
        }
        uint32_t *swap = search->now;
        search->now = search->then;
        search->then = swap;
        n = search->nthen;
    }
}

/* Store the path from NODE, which the search has reached. */
static int store(struct search *search, const struct pci_node *node, struct pci_path *path)
{
    const struct label *label = &search->labels[node->vertex];
    struct pci_link **links = pci_pool_take(search->graph, label->hops);
    if (!links) {
        return -ENOMEM;
    }
    *path = (struct pci_path){label->class, label->hops, label->bw, links};
    for (uint32_t i = 0; i < path->hops; i++) {
        links[i] = search->labels[node->vertex].link;
        node = links[i]->to;
    }
    return 0;
}

static const enum pci_node_type end_types[] = {PCI_NODE_GPU, PCI_NODE_CPU, PCI_NODE_NVS,
                                               PCI_NODE_NET};
#define PCI_END_TYPES (sizeof end_types / sizeof end_types[0])

static int store_all(struct search *search, const struct pci_node *base)
{
    struct pci_graph *graph = search->graph;
    for (size_t t = 0; t < PCI_END_TYPES; t++) {
        for (uint32_t i = 0; i < graph->nodes[end_types[t]].count; i++) {
            const struct pci_node *node = graph->nodes[end_types[t]].node[i];
            if (search->labels[node->vertex].bw > 0 &&
                store(search, node, pci_path_at(graph, node->type, i, base->type, base->index))) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

/* Return true for the second entry of a net that is listed twice. Paths lead to the first entry. */
static bool is_second(const struct pci_graph *graph, const struct pci_node *node)
{
    return node->type == PCI_NODE_NET && node->index &&
           pci_node_find(graph, PCI_NODE_NET, node->host, node->id) != node;
}

static int search_all(struct search *search)
{
    struct pci_graph *graph = search->graph;
    for (size_t t = 0; t < PCI_END_TYPES; t++) {
        for (uint32_t i = 0; i < graph->nodes[end_types[t]].count; i++) {
            const struct pci_node *base = graph->nodes[end_types[t]].node[i];
            if (is_second(graph, base)) {
                continue;
            }
            search_from(search, base);
            int rc = store_all(search, base);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

static int make_table(struct pci_graph *graph)
{
    uint32_t n = 0;
    for (int type = 0; type < PCI_NODE_TYPE_COUNT; type++) {
        graph->first_end[type] = PCI_NONE;
    }
    for (size_t t = 0; t < PCI_END_TYPES; t++) {
        graph->first_end[end_types[t]] = n;
        n += graph->nodes[end_types[t]].count;
    }
    graph->nends = n;
    graph->paths = calloc((size_t) n * n + 1, sizeof *graph->paths);
    if (!graph->paths) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < (size_t) n * n; i++) {
        graph->paths[i].class = PCI_PATH_DIS;
    }
    return 0;
}

int pci_paths_search(struct pci_graph *graph, struct pci_error *error)
{
    size_t n = (size_t) graph->nvertices + 1;
    struct search search = {.graph = graph,
                            .labels = calloc(n, sizeof *search.labels),
                            .now = calloc(n, sizeof *search.now),
                            .then = calloc(n, sizeof *search.then)};
    pci_paths_free(graph);
    int rc = search.labels && search.now && search.then ? make_table(graph) : -ENOMEM;
    rc = rc ? rc : search_all(&search);
    free(search.labels);
    free(search.now);
    free(search.then);
    return rc ? pci_error_memory(error) : 0;
}
