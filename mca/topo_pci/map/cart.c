/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Map Cartesian grids: build the stencil graph, and select the processes that take part. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/map_internal.h"

struct grid {
    int ndims;
    const int *dims;
    const int *periods;
    uint32_t cells;
};

static int grid_init(struct grid *grid, int ndims, const int *dims, const int *periods,
                     uint32_t procs)
{
    uint64_t cells = 1;

    for (int d = 0; d < ndims; d++) {
        if (dims[d] <= 0) {
            return -EINVAL;
        }
        cells *= (uint64_t) dims[d];
        if (cells > procs) {
            return -EINVAL;
        }
    }
    if (ndims < 0 || cells > procs) {
        return -EINVAL;
    }
    *grid = (struct grid){ndims, dims, periods, (uint32_t) cells};
    return 0;
}

/* Add the edge from each cell to the next one along dimension D, whose stride is STRIDE. */
static size_t edges_enter(const struct grid *grid, int d, uint32_t stride, uint32_t *source,
                          uint32_t *target, size_t at)
{
    uint32_t length = (uint32_t) grid->dims[d];

    for (uint32_t cell = 0; length > 1 && cell < grid->cells; cell++) {
        uint32_t along = cell / stride % length;

        if (along + 1 < length) {
            source[at] = cell;
            target[at++] = cell + stride;
        } else if (grid->periods[d]) {
            source[at] = cell;
            target[at++] = cell - along * stride;
        }
    }
    return at;
}

static int grid_graph(const struct grid *grid, struct pci_map_graph *graph)
{
    size_t room = (size_t) grid->cells * (size_t) grid->ndims + 1, edges = 0;
    struct pci_arena arena = {.last = NULL};
    uint32_t *source = pci_arena_array(&arena, room, sizeof *source);
    uint32_t *target = pci_arena_array(&arena, room, sizeof *target);
    uint32_t stride = 1;
    int rc = arena.failed ? -ENOMEM : 0;

    for (int d = grid->ndims - 1; rc == 0 && d >= 0; d--) {
        edges = edges_enter(grid, d, stride, source, target, edges);
        stride *= (uint32_t) grid->dims[d];
    }
    if (rc == 0) {
        rc = pci_map_graph_build(grid->cells, edges, source, target, NULL, graph);
    }
    pci_arena_free(&arena);
    return rc;
}

/* Return the size that all parts have, or 0. */
static uint32_t size_common(const uint32_t *first, uint32_t parts)
{
    for (uint32_t p = 1; p < parts; p++) {
        if (first[p + 1] - first[p] != first[1] - first[0]) {
            return 0;
        }
    }
    return parts > 0 ? first[1] - first[0] : 0;
}

/* Map the grid onto the processes PROCS, one for each cell, and set node_of[proc]. */
static int grid_map(const struct grid *grid, const struct pci_map_graph *graph,
                    const uint32_t *procs, const struct pci_map_location *locations,
                    uint32_t *node_of, struct pci_map_result *result)
{
    size_t n = (size_t) grid->cells + 1;
    struct pci_arena arena = {.last = NULL};
    uint32_t *blocks = pci_arena_array(&arena, n, sizeof *blocks);
    uint32_t *halves = pci_arena_array(&arena, n, sizeof *halves);
    uint32_t *slot_of = pci_arena_array(&arena, n, sizeof *slot_of), *orders[2];
    struct map_slots slots;
    uint32_t host_size, count = 0;
    int rc = map_slots_build(grid->cells, procs, locations, &arena, &slots);

    if (rc == 0) {
        host_size = size_common(slots.host_first, slots.hosts);
        orders[count++] = halves;
        rc = map_order_bisect(grid->ndims, grid->dims, host_size ? host_size : slots.host_first[1],
                              halves);
        if (rc == 0 && host_size) {
            rc = map_order_blocks(grid->ndims, grid->dims, host_size,
                                  size_common(slots.domain_first, slots.domains), blocks);
            orders[count] = blocks;
            count += rc == 0;
            rc = rc == -EDOM ? 0 : rc;
        }
    }
    if (rc == 0) {
        rc = map_choose(graph, &slots, slots.slot, count, orders, slot_of, result);
    }
    for (uint32_t v = 0; rc == 0 && v < grid->cells; v++) {
        node_of[slots.proc[slot_of[v]]] = v;
    }
    pci_arena_free(&arena);
    return rc;
}

/* Select CELLS processes on as few hosts as possible, in the order of the hosts. Store them in
 * PROCS, ascending. */
static int procs_of_whole_hosts(uint32_t cells, uint32_t procs,
                                const struct pci_map_location *locations, uint32_t *chosen)
{
    struct pci_arena arena = {.last = NULL};
    struct map_slots slots;
    int rc = map_slots_build(procs, NULL, locations, &arena, &slots);

    if (rc == 0) {
        memcpy(chosen, slots.proc, cells * sizeof *chosen);
        qsort(chosen, cells, sizeof *chosen, map_by_number);
    }
    pci_arena_free(&arena);
    return rc;
}

/* For a smaller grid, the processes of a few whole hosts may be better than the lowest ranks. */
static int grid_try_hosts(const struct grid *grid, const struct pci_map_graph *graph,
                          uint32_t procs, const struct pci_map_location *locations,
                          uint32_t *node_of, struct pci_map_result *result)
{
    struct pci_arena arena = {.last = NULL};
    uint32_t *chosen = pci_arena_array(&arena, procs, sizeof *chosen);
    uint32_t *trial = pci_arena_array(&arena, procs, sizeof *trial);
    struct pci_map_result other;
    int rc = arena.failed ? -ENOMEM : procs_of_whole_hosts(grid->cells, procs, locations, chosen);

    if (rc == 0) {
        memset(trial, 0xff, procs * sizeof *trial);
        rc = grid_map(grid, graph, chosen, locations, trial, &other);
    }
    if (rc == 0 && map_cut_less(other.after, result->after)) {
        memcpy(node_of, trial, procs * sizeof *trial);
        result->after = other.after;
    }
    pci_arena_free(&arena);
    return rc;
}

int pci_map_cart(int ndims, const int *dims, const int *periods, uint32_t procs,
                 const struct pci_map_location *locations, uint32_t *node_of,
                 struct pci_map_result *result)
{
    struct pci_map_graph graph = {0};
    struct pci_map_result mine;
    struct grid grid;
    int rc = grid_init(&grid, ndims, dims, periods, procs);

    if (rc == 0) {
        rc = grid_graph(&grid, &graph);
    }
    if (rc == 0) {
        memset(node_of, 0xff, procs * sizeof *node_of);
        rc = grid_map(&grid, &graph, NULL, locations, node_of, &mine);
    }
    if (rc == 0 && grid.cells < procs) {
        rc = grid_try_hosts(&grid, &graph, procs, locations, node_of, &mine);
    }
    if (rc == 0 && result) {
        *result = mine;
    }
    pci_map_graph_free(&graph);
    return rc;
}
