/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/topo_pci/bounds/pci_bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

int pci_flow_init(struct pci_flow *flow, uint32_t ngpus)
{
    if (ngpus == 0) {
        return -EINVAL;
    }
    if (ngpus > PCI_FLOW_MAX_VERTICES) {
        return -E2BIG;
    }
    *flow = (struct pci_flow){.ngpus = ngpus, .nvertices = ngpus};
    return 0;
}

void pci_flow_fini(struct pci_flow *flow)
{
    free(flow->links);
    memset(flow, 0, sizeof *flow);
}

int pci_flow_add_relay(struct pci_flow *flow, uint32_t *vertex)
{
    if (flow->nvertices >= PCI_FLOW_MAX_VERTICES) {
        return -E2BIG;
    }
    *vertex = flow->nvertices++;
    return 0;
}

int pci_flow_add_link(struct pci_flow *flow, uint32_t from, uint32_t to, double gbps)
{
    uint64_t capacity;

    if (from >= flow->nvertices || to >= flow->nvertices || from == to || !(gbps >= 0.0) ||
        gbps > PCI_FLOW_MAX_GBPS) {
        return -EINVAL;
    }
    capacity = (uint64_t) llround(gbps * PCI_FLOW_UNITS);
    if (capacity == 0) {
        return 0;
    }
    if (pci_array_reserve(&flow->links, &flow->links_room, flow->nlinks + 1, sizeof *flow->links) !=
        0) {
        return -ENOMEM;
    }
    flow->links[flow->nlinks++] = (struct pci_flow_link){from, to, capacity};
    return 0;
}

static int link_compare(const void *left, const void *right)
{
    const struct pci_flow_link *a = left, *b = right;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

/* Merge the parallel links of a sorted list, and return the number of links that remain. */
static size_t links_merge(struct pci_flow_link *links, size_t nlinks)
{
    size_t kept = 0;

    for (size_t i = 0; i < nlinks; i++) {
        if (kept > 0 && link_compare(&links[kept - 1], &links[i]) == 0) {
            links[kept - 1].capacity += links[i].capacity;
        } else {
            links[kept++] = links[i];
        }
    }
    return kept;
}

/* Limit each link of a sorted, merged list to the capacity of its reverse, or to 0 if it has none.
 * The second link of a pair is compared with the limited first one, which results in the same
 * minimum. */
static void links_balance(struct pci_flow_link *links, size_t nlinks)
{
    for (size_t i = 0; i < nlinks; i++) {
        struct pci_flow_link key = {.from = links[i].to, .to = links[i].from};
        const struct pci_flow_link *back = bsearch(&key, links, nlinks, sizeof key, link_compare);
        uint64_t most = back == NULL ? 0 : back->capacity;

        links[i].capacity = links[i].capacity < most ? links[i].capacity : most;
    }
}

int pci_flow_symmetric(const struct pci_flow *flow, struct pci_flow *even)
{
    struct pci_flow copy = {.ngpus = flow->ngpus, .nvertices = flow->nvertices};
    size_t kept = 0;

    copy.nlinks = flow->nlinks;
    copy.links_room = flow->nlinks + 1;
    copy.links = malloc(copy.links_room * sizeof *copy.links);
    if (copy.links == NULL) {
        return -ENOMEM;
    }
    if (flow->nlinks > 0) {
        memcpy(copy.links, flow->links, flow->nlinks * sizeof *copy.links);
        qsort(copy.links, copy.nlinks, sizeof *copy.links, link_compare);
    }
    copy.nlinks = links_merge(copy.links, copy.nlinks);
    links_balance(copy.links, copy.nlinks);
    for (size_t i = 0; i < copy.nlinks; i++) {
        if (copy.links[i].capacity > 0) {
            copy.links[kept++] = copy.links[i];
        }
    }
    copy.nlinks = kept;
    *even = copy;
    return 0;
}
