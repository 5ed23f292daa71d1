/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Greedy growth: a part begins with the lowest free node, and repeatedly adds the free node with
 * the strongest ties to the part. Nodes are assigned to hosts first, and then to the domains of
 * each host.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/map_internal.h"

/* A max-heap of (gain, node). Entries with an outdated gain are skipped when they reach the top. */
struct entry {
    uint64_t gain;
    uint32_t node;
};

struct heap {
    struct entry *entries;
    size_t count, room;
};

struct grow {
    const struct pci_map_graph *graph;
    struct heap heap;
    uint64_t *gain;  /* [nodes] tie to the part that grows */
    uint32_t *field; /* [nodes] which set a node may be taken from */
    uint8_t *taken;  /* [nodes] */
    uint32_t *out;   /* the order */
};

static int entry_before(struct entry a, struct entry b)
{
    return a.gain != b.gain ? a.gain > b.gain : a.node < b.node;
}

static int heap_push(struct heap *heap, struct entry entry)
{
    size_t at = heap->count;

    if (pci_array_reserve(&heap->entries, &heap->room, heap->count + 1, sizeof entry) != 0) {
        return -ENOMEM;
    }
    heap->count++;
    while (at > 0 && entry_before(entry, heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = entry;
    return 0;
}

static struct entry heap_pop(struct heap *heap)
{
    struct entry top = heap->entries[0], last = heap->entries[--heap->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count &&
            entry_before(heap->entries[child + 1], heap->entries[child])) {
            child++;
        }
        if (!entry_before(heap->entries[child], last)) {
            break;
        }
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = last;
    return top;
}

/* Add NODE to the part, and raise the gain of its free neighbours of the same field. */
static int node_take(struct grow *grow, uint32_t node)
{
    const struct pci_map_graph *graph = grow->graph;

    grow->taken[node] = 1;
    for (size_t e = graph->first[node]; e < graph->first[node + 1]; e++) {
        uint32_t peer = graph->peer[e];
        struct entry entry = {0, peer};

        if (grow->taken[peer] || grow->field[peer] != grow->field[node]) {
            continue;
        }
        grow->gain[peer] += graph->weight[e];
        entry.gain = grow->gain[peer];
        if (heap_push(&grow->heap, entry) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* Return the next node of the part: the best of the heap, or the lowest free one of MEMBERS. */
static uint32_t node_next(struct grow *grow, const uint32_t *members, uint32_t *scan)
{
    while (grow->heap.count > 0) {
        struct entry top = heap_pop(&grow->heap);

        if (!grow->taken[top.node] && grow->gain[top.node] == top.gain) {
            return top.node;
        }
    }
    while (grow->taken[members[*scan]]) {
        (*scan)++;
    }
    return members[*scan];
}

/* Fill the parts bounded by first[0 .. parts] (slots) with the nodes MEMBERS, all of one field. */
static int parts_grow(struct grow *grow, uint32_t *members, const uint32_t *first, uint32_t parts)
{
    uint32_t scan = 0, count = first[parts] - first[0];

    for (uint32_t i = 0; i < count; i++) {
        grow->taken[members[i]] = 0;
        grow->gain[members[i]] = 0;
    }
    for (uint32_t p = 0; p < parts; p++) {
        for (uint32_t s = first[p]; s < first[p + 1]; s++) {
            uint32_t node = node_next(grow, members, &scan);

            grow->out[s] = node;
            if (node_take(grow, node) != 0) {
                return -ENOMEM;
            }
        }
        /* The gains of the next part start at zero. */
        while (grow->heap.count > 0) {
            grow->gain[heap_pop(&grow->heap).node] = 0;
        }
    }
    return 0;
}

/* At the second level, distribute the nodes of a host over its domains. */
static int domains_grow(struct grow *grow, const struct map_slots *slots, uint32_t *members)
{
    for (uint32_t h = 0; h < slots->hosts; h++) {
        uint32_t s0 = slots->host_first[h], s1 = slots->host_first[h + 1];
        uint32_t d0 = slots->domain_of[s0], d1 = slots->domain_of[s1 - 1] + 1;

        if (d1 - d0 < 2) {
            continue;
        }
        memcpy(members, grow->out + s0, (s1 - s0) * sizeof *members);
        qsort(members, s1 - s0, sizeof *members, map_by_number);
        if (parts_grow(grow, members, slots->domain_first + d0, d1 - d0) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

int map_order_grow(const struct pci_map_graph *graph, const struct map_slots *slots,
                   uint32_t *order)
{
    size_t n = (size_t) graph->nodes + 1;
    struct pci_arena arena = {.last = NULL};
    uint32_t *members = pci_arena_array(&arena, n, sizeof *members);
    struct grow grow = {.graph = graph,
                        .out = order,
                        .gain = pci_arena_array(&arena, n, sizeof *grow.gain),
                        .field = pci_arena_array(&arena, n, sizeof *grow.field),
                        .taken = pci_arena_array(&arena, n, sizeof *grow.taken)};
    int rc = -ENOMEM;

    if (!arena.failed) {
        for (uint32_t v = 0; v < graph->nodes; v++) {
            members[v] = v;
        }
        rc = parts_grow(&grow, members, slots->host_first, slots->hosts);
    }
    if (rc == 0) {
        for (uint32_t s = 0; s < slots->count; s++) {
            grow.field[order[s]] = slots->host_of[s] + 1;
        }
        rc = domains_grow(&grow, slots, members);
    }
    pci_arena_free(&arena);
    free(grow.heap.entries);
    return rc;
}
