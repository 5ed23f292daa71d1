/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Broadcom PCI switches of generations 4 and 5 appear as two levels, although all their ports share
 * one crossbar. Merge the two levels into one node, so that paths inside such a switch have class
 * PIX (one switch) and the bandwidth of the ports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

/*
 * The generation of a two-level switch, 0 for other devices. A device is vendor, device, subsystem
 * vendor and subsystem device; the last 12 bits vary. Generation 4 has the same number on both
 * levels, generation 5 has one number for each (LEVEL 0 and 1).
 */
static int generation(uint64_t device, uint64_t level)
{
    uint64_t family = device & ~UINT64_C(0xfff);
    if (family == UINT64_C(0x1000c0101000a000)) {
        return 4;
    }
    return family == (UINT64_C(0x1000c03010000000) | level << 12) ? 5 : 0;
}

/* Move the devices below SUB to TOP, and remove SUB. */
static int absorb(struct pci_graph *graph, struct pci_node *top, struct pci_node *sub,
                  struct pci_error *error)
{
    struct pci_vertex *vertex = pci_vertex_of(top);
    uint32_t kept = 0;
    if (pci_array_reserve(&top->links, &vertex->links_capacity, (size_t) top->nlinks + sub->nlinks,
                          sizeof *top->links)) {
        return pci_error_memory(error);
    }
    for (uint32_t i = 0; i < sub->nlinks; i++) {
        struct pci_link *link = sub->links[i];
        struct pci_node *far = link->to;
        if (far == top) {
            sub->links[kept++] = link;
            continue;
        }
        link->from = top;
        top->links[top->nlinks++] = link;
        for (uint32_t j = 0; j < far->nlinks; j++) {
            if (far->links[j]->to == sub && far->links[j]->type == link->type) {
                far->links[j]->to = top;
                break;
            }
        }
        if (pci_vertex_of(far)->up == sub) {
            pci_vertex_of(far)->up = top;
        }
    }
    sub->nlinks = kept;
    pci_node_remove(graph, sub);
    return 0;
}

/* Absorb the sub-switches of TOP. Switches that move up in the meantime are below TOP and stay. */
static int flatten(struct pci_graph *graph, struct pci_node *top, struct pci_error *error)
{
    int gen = generation(top->device, 0), rc = 0;
    size_t nsubs = 0;
    if (!gen) {
        return 0;
    }
    struct pci_node **subs = calloc((size_t) top->nlinks + 1, sizeof *subs);
    if (!subs) {
        return pci_error_memory(error);
    }
    for (uint32_t i = 0; i < top->nlinks; i++) {
        struct pci_node *sub = top->links[i]->to;
        if (sub->type == PCI_NODE_PCI && pci_vertex_of(sub)->up == top &&
            top->links[i]->type == PCI_LINK_PCI && generation(sub->device, 1) == gen) {
            subs[nsubs++] = sub;
        }
    }
    for (size_t i = 0; i < nsubs && !rc; i++) {
        rc = absorb(graph, top, subs[i], error);
    }
    free(subs);
    return rc;
}

int pci_graph_flatten(struct pci_graph *graph, struct pci_error *error)
{
    /* Switches precede the nodes below them, and only nodes after the current one are removed. */
    for (uint32_t i = 0; i < graph->nodes[PCI_NODE_PCI].count; i++) {
        int rc = flatten(graph, graph->nodes[PCI_NODE_PCI].node[i], error);
        if (rc) {
            return rc;
        }
    }
    return 0;
}
