/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_MAP_PCI_MAP_H
#define TOPO_PCI_MAP_PCI_MAP_H

/*
 * Map a communication graph (a Cartesian grid, or any weighted graph) onto processes. The location
 * of a process is a host, and a domain in that host (a NUMA node or a GPU's root complex). The
 * topo/pci component renumbers ranks with this mapping. This file does not use MPI.
 *
 * Candidate placements (the identity, a tiling of the grid by blocks of one host's size, a
 * recursive bisection, a greedy growth) are compared by their cuts; the best one is improved by
 * swaps of two nodes. The identity is a candidate, so a result is never worse. The same input gives
 * the same output on every process: no clock, no random number, no address enters.
 *
 * All arrays belong to the caller. Reentrant. Returns 0, -EINVAL for a graph or a grid that is not
 * well formed, -ENOMEM. O((nodes + edges) log nodes) time and O(nodes + edges) memory.
 */

#include <stddef.h>
#include <stdint.h>

/* A process that takes no node (a grid smaller than the number of processes). */
#define PCI_MAP_NONE UINT32_MAX

/* Where a process runs.  Only equality matters; a domain is compared inside one host alone. */
struct pci_map_location {
    uint64_t host;
    uint64_t domain;
};

/*
 * A graph in compressed rows: the edges of node v are peer[first[v]] .. peer[first[v + 1] - 1],
 * each with its weight.  An edge is listed at both of its ends; loops are ignored.
 */
struct pci_map_graph {
    uint32_t nodes;
    size_t *first;
    uint32_t *peer;
    uint32_t *weight;
};

/* The cut of a placement: sums of the weights of the edge ends
 * whose nodes are on different hosts, and in different domains of one host. */
struct pci_map_cut {
    uint64_t hosts;
    uint64_t domains;
};

/* Before (the identity) and after the mapping. */
struct pci_map_result {
    struct pci_map_cut before;
    struct pci_map_cut after;
};

/*
 * Map the nodes of GRAPH. Process p gets node node_of[p]. There are as many processes as nodes, and
 * node_of becomes a permutation. RESULT may be NULL.
 */
int pci_map_graph(const struct pci_map_graph *graph, const struct pci_map_location *locations,
                  uint32_t *node_of, struct pci_map_result *result);

/*
 * Map a grid of DIMS (row-major, the last dimension fastest, as MPI numbers Cartesian ranks) with
 * PERIODS (not 0: the dimension is periodic) onto PROCS processes, at least as many as the grid has
 * cells. node_of[p] is the cell of process p, or PCI_MAP_NONE.
 */
int pci_map_cart(int ndims, const int *dims, const int *periods, uint32_t procs,
                 const struct pci_map_location *locations, uint32_t *node_of,
                 struct pci_map_result *result);

/* Build compressed rows from COUNT directed edges source[i] -> target[i] of weight[i] (NULL: 1)
 * between NODES nodes. Each edge is added at both ends. Free the graph with pci_map_graph_free. */
int pci_map_graph_build(uint32_t nodes, size_t count, const uint32_t *source,
                        const uint32_t *target, const uint32_t *weight,
                        struct pci_map_graph *graph);
void pci_map_graph_free(struct pci_map_graph *graph);

#endif
