/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Maximum flow with integer capacities (Dinic's algorithm), for networks that are solved many times
 * with other capacities. Internal to the topology engine.
 *
 * The caller adds the edges once. It may then repeat any number of times: set capacities, run, and
 * query on which side of the minimum cut a vertex is. The time of a run is O(vertices^2 x edges)
 * for all capacities. One object must not be used concurrently.
 */
#ifndef TOPO_PCI_BOUNDS_MAXFLOW_H
#define TOPO_PCI_BOUNDS_MAXFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/xml/doc.h"

/* An infinite capacity. The sums of finite capacities must be less. */
#define PCI_MAXFLOW_INF (INT64_MAX / 4)

struct pci_maxflow {
    uint32_t nvertices;
    size_t nedges;
    /* Half edges are pairs: 2e (forward) and 2e+1 (residual of e). */
    uint32_t *head;    /* half edge -> vertex it leads to */
    int64_t *residual; /* half edge -> residual capacity */
    size_t *next;      /* half edge -> next half edge of the same vertex, or SIZE_MAX */
    size_t *first;     /* vertex -> first half edge, or SIZE_MAX */
    size_t *current;   /* vertex -> half edge to try next in this phase */
    size_t *path;      /* half edges of the path under construction */
    uint32_t *level;   /* vertex -> distance from the source in this phase, UINT32_MAX: unreached */
    uint32_t *queue;
    struct pci_arena arena; /* of the arrays */
};

/* Prepare for nvertices vertices and at most max_edges edges. 0 or -ENOMEM. */
int pci_maxflow_init(struct pci_maxflow *mf, uint32_t nvertices, size_t max_edges);
void pci_maxflow_fini(struct pci_maxflow *mf);

/* Add an edge without capacity and return its number. The caller must not add more than
 * max_edges. */
size_t pci_maxflow_edge(struct pci_maxflow *mf, uint32_t from, uint32_t to);

/* Set an edge's capacity (0 .. PCI_MAXFLOW_INF), and reset its flow. */
void pci_maxflow_set(struct pci_maxflow *mf, size_t edge, int64_t capacity);

/* Push as much as possible from source to sink and return the amount. All capacities must have been
 * set since the last run. */
int64_t pci_maxflow_run(struct pci_maxflow *mf, uint32_t source, uint32_t sink);

/* After a run, return true if the vertex is on the source's side of the smallest minimum cut. */
bool pci_maxflow_source_side(const struct pci_maxflow *mf, uint32_t vertex);

#endif /* TOPO_PCI_BOUNDS_MAXFLOW_H */
