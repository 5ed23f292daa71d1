/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_MAP_INTERNAL_H
#define TOPO_PCI_MAP_INTERNAL_H

/* Shared by the files of the mapper (map*.c); not for its users. */

#include "mca/topo_pci/map/pci_map.h"
#include "mca/topo_pci/xml/doc.h"

/*
 * The processes sorted by host, then domain, then rank: slots.  Hosts and domains are numbered in
 * the order of their first process, so a numbering that is already compact stays as it is.
 *
 *     slot      0 1 2 3 | 4 5 6 7 |          host_first   = {0, 4, ..., slots}
 *     domain    0 0 1 1 | 2 2 3 3 |          domain_first = {0, 2, 4, 6, ..., slots}
 */
struct map_slots {
    uint32_t count;
    uint32_t hosts;
    uint32_t domains;
    uint32_t *proc;         /* [count] the process of a slot */
    uint32_t *slot;         /* [count] the slot of the i-th process of the list */
    uint32_t *host_of;      /* [count] host of a slot */
    uint32_t *domain_of;    /* [count] domain of a slot, numbered over all hosts */
    uint32_t *host_first;   /* [hosts + 1] */
    uint32_t *domain_first; /* [domains + 1] */
};

/* Build the slots of PROCS (COUNT processes, ascending; NULL: 0 .. COUNT - 1), with memory of the
 * arena. */
int map_slots_build(uint32_t count, const uint32_t *procs, const struct pci_map_location *locations,
                    struct pci_arena *arena, struct map_slots *slots);

/* For qsort: uint32_t, ascending. */
int map_by_number(const void *a, const void *b);

int map_cut_less(struct pci_map_cut a, struct pci_map_cut b);

/* Compute a candidate: order[slot] = node. */
int map_order_grow(const struct pci_map_graph *graph, const struct map_slots *slots,
                   uint32_t *order);
int map_order_blocks(int ndims, const int *dims, uint32_t host_size, uint32_t domain_size,
                     uint32_t *order);
int map_order_bisect(int ndims, const int *dims, uint32_t host_size, uint32_t *order);

/* Improve slot_of with swaps of two nodes, first between hosts, then between domains of a host. */
int map_refine(const struct pci_map_graph *graph, const struct map_slots *slots, uint32_t *slot_of);

/*
 * Choose among the identity, the growth and the CANDIDATES orders, and refine the best one. Keep
 * each node on the process with the same number if that costs nothing. IDENTITY[node] is the slot
 * of the node without reordering.
 */
int map_choose(const struct pci_map_graph *graph, const struct map_slots *slots,
               const uint32_t *identity, uint32_t candidates, uint32_t *const *orders,
               uint32_t *slot_of, struct pci_map_result *result);

#endif
