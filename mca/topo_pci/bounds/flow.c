/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/topo_pci/bounds/pci_bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int pci_flow_init(struct pci_flow *flow, uint32_t ngpus)
{
    if (0 == ngpus) {
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
    free(flow->routes);
    free(flow->route_vertices);
    free(flow->route_loads);
    memset(flow, 0, sizeof(*flow));
}

int pci_flow_add_relay(struct pci_flow *flow, uint32_t *vertex)
{
    if (flow->nvertices >= PCI_FLOW_MAX_VERTICES) {
        return -E2BIG;
    }
    *vertex = flow->nvertices++;
    return 0;
}

static int links_grow(struct pci_flow *flow)
{
    size_t room = 0 == flow->links_room ? 32 : 2 * flow->links_room;
    struct pci_flow_link *links = realloc(flow->links, room * sizeof(*links));

    if (NULL == links) {
        return -ENOMEM;
    }
    flow->links = links;
    flow->links_room = room;
    return 0;
}

int pci_flow_add_link(struct pci_flow *flow, uint32_t from, uint32_t to, double gbps)
{
    uint64_t capacity;
    int rc;

    if (from >= flow->nvertices || to >= flow->nvertices || from == to || !(gbps >= 0.0) ||
        gbps > PCI_FLOW_MAX_GBPS) {
        return -EINVAL;
    }
    capacity = (uint64_t) llround(gbps * PCI_FLOW_UNITS);
    if (0 == capacity) {
        return 0;
    }
    if (flow->nlinks == flow->links_room) {
        rc = links_grow(flow);
        if (0 != rc) {
            return rc;
        }
    }
    flow->links[flow->nlinks++] = (struct pci_flow_link){from, to, capacity};
    return 0;
}

int pci_flow_add_duplex(struct pci_flow *flow, uint32_t a, uint32_t b, double gbps)
{
    int rc = pci_flow_add_link(flow, a, b, gbps);

    return 0 != rc ? rc : pci_flow_add_link(flow, b, a, gbps);
}

/* Room for one more route of hops+1 vertices. */
static int routes_grow(struct pci_flow *flow, uint32_t hops)
{
    if (flow->nroutes == flow->routes_room) {
        size_t room = 2 * flow->routes_room + 16;
        struct pci_flow_route *routes = realloc(flow->routes, room * sizeof(*routes));

        if (NULL == routes) {
            return -ENOMEM;
        }
        flow->routes = routes;
        flow->routes_room = room;
    }
    if (flow->hops_room - flow->nhops < hops + 1u) {
        size_t room = 2 * flow->hops_room + hops + 64;
        uint32_t *vertices = realloc(flow->route_vertices, room * sizeof(*vertices));
        double *loads;

        if (NULL == vertices) {
            return -ENOMEM;
        }
        flow->route_vertices = vertices;
        loads = realloc(flow->route_loads, room * sizeof(*loads));
        if (NULL == loads) {
            return -ENOMEM;
        }
        flow->route_loads = loads;
        flow->hops_room = room;
    }
    return 0;
}

int pci_flow_add_route(struct pci_flow *flow, const uint32_t *vertices, const double *loads,
                       uint32_t hops)
{
    int rc;

    if (0 == hops || vertices[0] >= flow->ngpus || vertices[hops] >= flow->ngpus ||
        vertices[0] == vertices[hops]) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < hops; i++) {
        if (vertices[i] >= flow->nvertices || !(loads[i] > 0) || !isfinite(loads[i])) {
            return -EINVAL;
        }
    }
    rc = routes_grow(flow, hops);
    if (0 != rc) {
        return rc;
    }
    memcpy(flow->route_vertices + flow->nhops, vertices, (hops + 1u) * sizeof(*vertices));
    memcpy(flow->route_loads + flow->nhops, loads, hops * sizeof(*loads));
    flow->routes[flow->nroutes++] =
        (struct pci_flow_route){vertices[0], vertices[hops], hops, flow->nhops};
    flow->nhops += hops + 1u;
    return 0;
}

int pci_flow_add_any_route(struct pci_flow *flow, uint32_t a, uint32_t b)
{
    int rc;

    if (a >= flow->ngpus || b >= flow->ngpus || a == b) {
        return -EINVAL;
    }
    rc = routes_grow(flow, 0);
    if (0 == rc) {
        flow->routes[flow->nroutes++] = (struct pci_flow_route){.a = a, .b = b};
    }
    return rc;
}

static int link_compare(const void *left, const void *right)
{
    const struct pci_flow_link *a = left, *b = right;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

/* Add up the parallel links of a sorted list; returns how many remain. */
static size_t links_merge(struct pci_flow_link *links, size_t nlinks)
{
    size_t kept = 0;

    for (size_t i = 0; i < nlinks; i++) {
        if (kept > 0 && 0 == link_compare(&links[kept - 1], &links[i])) {
            links[kept - 1].capacity += links[i].capacity;
        } else {
            links[kept++] = links[i];
        }
    }
    return kept;
}

/* Limit each link of a sorted, merged list to what its reverse has. A pair's second link meets the
 * first one already limited, which gives the same minimum; links without a reverse get 0. */
static void links_balance(struct pci_flow_link *links, size_t nlinks)
{
    for (size_t i = 0; i < nlinks; i++) {
        struct pci_flow_link key = {.from = links[i].to, .to = links[i].from};
        const struct pci_flow_link *back = bsearch(&key, links, nlinks, sizeof(key), link_compare);
        uint64_t most = NULL == back ? 0 : back->capacity;

        links[i].capacity = links[i].capacity < most ? links[i].capacity : most;
    }
}

int pci_flow_symmetric(const struct pci_flow *flow, struct pci_flow *even)
{
    struct pci_flow copy = {.ngpus = flow->ngpus, .nvertices = flow->nvertices};
    size_t kept = 0;

    copy.nlinks = flow->nlinks;
    copy.links_room = flow->nlinks + 1;
    copy.links = malloc(copy.links_room * sizeof(*copy.links));
    if (NULL == copy.links) {
        return -ENOMEM;
    }
    if (flow->nlinks > 0) {
        memcpy(copy.links, flow->links, flow->nlinks * sizeof(*copy.links));
        qsort(copy.links, copy.nlinks, sizeof(*copy.links), link_compare);
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
