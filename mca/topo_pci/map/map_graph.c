/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Build graphs in compressed rows, compute cuts, and choose the best of several placements. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/map_internal.h"

void pci_map_graph_free(struct pci_map_graph *graph)
{
    free(graph->first);
    free(graph->peer);
    free(graph->weight);
    memset(graph, 0, sizeof *graph);
}

static int edges_valid(uint32_t nodes, size_t count, const uint32_t *source, const uint32_t *target)
{
    for (size_t i = 0; i < count; i++) {
        if (source[i] >= nodes || target[i] >= nodes) {
            return 0;
        }
    }
    return count < SIZE_MAX / (4 * sizeof(uint32_t));
}

/* Add the edge at one of its ends. NEXT[node] is the first free entry of the row. */
static void edge_enter(struct pci_map_graph *graph, size_t *next, uint32_t from, uint32_t to,
                       uint32_t weight)
{
    size_t at = next[from]++;

    graph->peer[at] = to;
    graph->weight[at] = weight;
}

int pci_map_graph_build(uint32_t nodes, size_t count, const uint32_t *source,
                        const uint32_t *target, const uint32_t *weight, struct pci_map_graph *graph)
{
    struct pci_map_graph g = {.nodes = nodes};
    size_t *next;

    if (!edges_valid(nodes, count, source, target)) {
        return -EINVAL;
    }
    g.first = calloc((size_t) nodes + 1, sizeof *g.first);
    g.peer = malloc((2 * count + 1) * sizeof *g.peer);
    g.weight = malloc((2 * count + 1) * sizeof *g.weight);
    next = malloc(((size_t) nodes + 1) * sizeof *next);
    if (!g.first || !g.peer || !g.weight || !next) {
        pci_map_graph_free(&g);
        free(next);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        g.first[source[i] + 1]++;
        g.first[target[i] + 1]++;
    }
    for (uint32_t v = 0; v < nodes; v++) {
        g.first[v + 1] += g.first[v];
    }
    memcpy(next, g.first, ((size_t) nodes + 1) * sizeof *next);
    for (size_t i = 0; i < count; i++) {
        edge_enter(&g, next, source[i], target[i], weight ? weight[i] : 1);
        edge_enter(&g, next, target[i], source[i], weight ? weight[i] : 1);
    }
    free(next);
    *graph = g;
    return 0;
}

/* Compute the cut of the placement slot_of[node]. */
static struct pci_map_cut map_cut(const struct pci_map_graph *graph, const struct map_slots *slots,
                                  const uint32_t *slot_of)
{
    struct pci_map_cut cut = {0, 0};

    for (uint32_t v = 0; v < graph->nodes; v++) {
        for (size_t e = graph->first[v]; e < graph->first[v + 1]; e++) {
            uint32_t a = slot_of[v], b = slot_of[graph->peer[e]];
            uint64_t weight = graph->weight[e];

            if (slots->host_of[a] != slots->host_of[b]) {
                cut.hosts += weight;
            } else if (slots->domain_of[a] != slots->domain_of[b]) {
                cut.domains += weight;
            }
        }
    }
    return cut;
}

int map_cut_less(struct pci_map_cut a, struct pci_map_cut b)
{
    return a.hosts != b.hosts ? a.hosts < b.hosts : a.domains < b.domains;
}

/* Inside each domain, move a node back to its own process if that process is in the same domain. */
static int stay_at_home(const struct map_slots *slots, const uint32_t *identity, uint32_t *slot_of)
{
    uint32_t n = slots->count;
    uint32_t *node_at = malloc((n + (size_t) 1) * sizeof *node_at);

    if (!node_at) {
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < n; v++) {
        node_at[slot_of[v]] = v;
    }
    for (uint32_t v = 0; v < n; v++) {
        uint32_t here = slot_of[v], home = identity[v];

        if (here != home && slots->domain_of[here] == slots->domain_of[home]) {
            uint32_t guest = node_at[home];

            node_at[home] = v;
            node_at[here] = guest;
            slot_of[v] = home;
            slot_of[guest] = here;
        }
    }
    free(node_at);
    return 0;
}

/* Use ORDER as the placement if its cut is smaller than the best so far. */
static void order_try(const struct pci_map_graph *graph, const struct map_slots *slots,
                      const uint32_t *order, uint32_t *trial, uint32_t *slot_of,
                      struct pci_map_cut *best)
{
    struct pci_map_cut cut;

    for (uint32_t s = 0; s < slots->count; s++) {
        trial[order[s]] = s;
    }
    cut = map_cut(graph, slots, trial);
    if (map_cut_less(cut, *best)) {
        *best = cut;
        memcpy(slot_of, trial, slots->count * sizeof *slot_of);
    }
}

int map_choose(const struct pci_map_graph *graph, const struct map_slots *slots,
               const uint32_t *identity, uint32_t candidates, uint32_t *const *orders,
               uint32_t *slot_of, struct pci_map_result *result)
{
    uint32_t n = slots->count;
    struct pci_arena arena = {.last = NULL};
    uint32_t *trial = pci_arena_array(&arena, n, sizeof *trial);
    uint32_t *order = pci_arena_array(&arena, n, sizeof *order);
    int rc = arena.failed ? -ENOMEM : 0;

    if (rc == 0) {
        memcpy(slot_of, identity, n * sizeof *slot_of);
        result->before = result->after = map_cut(graph, slots, slot_of);
        for (uint32_t i = 0; i < candidates; i++) {
            order_try(graph, slots, orders[i], trial, slot_of, &result->after);
        }
        rc = map_order_grow(graph, slots, order);
    }
    if (rc == 0) {
        order_try(graph, slots, order, trial, slot_of, &result->after);
        rc = map_refine(graph, slots, slot_of);
    }
    if (rc == 0) {
        rc = stay_at_home(slots, identity, slot_of);
        result->after = map_cut(graph, slots, slot_of);
    }
    pci_arena_free(&arena);
    return rc;
}

int pci_map_graph(const struct pci_map_graph *graph, const struct pci_map_location *locations,
                  uint32_t *node_of, struct pci_map_result *result)
{
    uint32_t n = graph->nodes;
    struct pci_map_result unused;
    struct pci_arena arena = {.last = NULL};
    uint32_t *slot_of = pci_arena_array(&arena, n, sizeof *slot_of);
    struct map_slots slots;
    int rc = map_slots_build(n, NULL, locations, &arena, &slots);

    if (rc == 0) {
        rc = map_choose(graph, &slots, slots.slot, 0, NULL, slot_of, result ? result : &unused);
    }
    for (uint32_t v = 0; rc == 0 && v < n; v++) {
        node_of[slots.proc[slot_of[v]]] = v;
    }
    pci_arena_free(&arena);
    return rc;
}
