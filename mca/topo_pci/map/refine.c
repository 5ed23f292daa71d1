/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Improve a placement with swaps. A node is exchanged with a node of the part to which it has the
 * strongest ties, if this lowers the cut. Parts keep their sizes. There are a few sweeps, and none
 * on graphs where a sweep would take too long.
 */

#include <errno.h>
#include <stdlib.h>

#include "mca/topo_pci/map/map_internal.h"

enum {
    SWEEPS = 8,
};

/* Maximum number of edges of a sweep, which takes about a second. Larger problems are not refined.
 */
#define SWEEP_EDGES 200000000u

struct refine {
    const struct pci_map_graph *graph;
    const uint32_t *part_of; /* [slots] */
    const uint32_t *within;  /* [slots] swaps stay inside this set; NULL: anywhere */
    const uint32_t *first;   /* [parts + 1] slots of a part */
    uint32_t *slot_of;       /* [nodes] */
    uint32_t *node_at;       /* [slots] */
    int64_t *tie;            /* [parts] scratch: a node's tie to each part */
};

/* Add (SIGN 1) or clear (SIGN 0) the ties of NODE to the parts of its neighbours. */
static void ties_set(struct refine *r, uint32_t node, int sign)
{
    for (size_t e = r->graph->first[node]; e < r->graph->first[node + 1]; e++) {
        uint32_t peer = r->graph->peer[e];
        uint32_t part = r->part_of[r->slot_of[peer]];

        if (!sign) {
            r->tie[part] = 0;
        } else if (peer != node) {
            r->tie[part] += r->graph->weight[e];
        }
    }
}

/* Return the tie of NODE to part TO minus that to part FROM. Subtract the edge to EXCEPT twice,
 * because it remains cut after the swap. */
static int64_t move_gain(const struct refine *r, uint32_t node, uint32_t from, uint32_t to,
                         uint32_t except)
{
    int64_t gain = 0;

    for (size_t e = r->graph->first[node]; e < r->graph->first[node + 1]; e++) {
        uint32_t peer = r->graph->peer[e];
        uint32_t part = r->part_of[r->slot_of[peer]];
        int64_t weight = r->graph->weight[e];

        if (peer == node) {
            continue;
        }
        if (peer == except) {
            gain -= 2 * weight;
        }
        gain += part == to ? weight : part == from ? -weight : 0;
    }
    return gain;
}

static void nodes_swap(struct refine *r, uint32_t a, uint32_t b)
{
    uint32_t slot = r->slot_of[a];

    r->slot_of[a] = r->slot_of[b];
    r->slot_of[b] = slot;
    r->node_at[r->slot_of[a]] = a;
    r->node_at[r->slot_of[b]] = b;
}

/* Return the part with the strongest ties to NODE, or the part of NODE if no ties are stronger. */
static uint32_t part_wanted(struct refine *r, uint32_t node, int64_t *gain)
{
    uint32_t slot = r->slot_of[node], own = r->part_of[slot], best = own;

    ties_set(r, node, 1);
    for (size_t e = r->graph->first[node]; e < r->graph->first[node + 1]; e++) {
        uint32_t there = r->slot_of[r->graph->peer[e]], part = r->part_of[there];

        if (r->within && r->within[there] != r->within[slot]) {
            continue;
        }
        if (part != own && (best == own || r->tie[part] > r->tie[best])) {
            best = part;
        }
    }
    *gain = r->tie[best] - r->tie[own];
    ties_set(r, node, 0);
    r->tie[own] = 0;
    return best;
}

/* Exchange NODE with the partner with the largest gain. Return 1 if there was one. */
static int node_improve(struct refine *r, uint32_t node)
{
    uint32_t own = r->part_of[r->slot_of[node]], partner = node;
    int64_t gain, best = 0;
    uint32_t wanted = part_wanted(r, node, &gain);

    if (wanted == own) {
        return 0;
    }
    for (uint32_t s = r->first[wanted]; s < r->first[wanted + 1]; s++) {
        int64_t both = gain + move_gain(r, r->node_at[s], wanted, own, node);

        if (both > best) {
            best = both;
            partner = r->node_at[s];
        }
    }
    if (partner == node) {
        return 0;
    }
    nodes_swap(r, node, partner);
    return 1;
}

/* Return true if a sweep is affordable. Each node examines the edges of the members of one part. */
static int sweep_affordable(const struct refine *r, uint32_t parts)
{
    uint64_t edges = r->graph->first[r->graph->nodes], largest = 0;

    for (uint32_t p = 0; p < parts; p++) {
        uint64_t size = r->first[p + 1] - r->first[p];

        largest = size > largest ? size : largest;
    }
    return parts > 1 && (largest == 0 || edges < SWEEP_EDGES / largest);
}

static int parts_refine(struct refine *r, uint32_t parts)
{
    int changed = 1;

    if (!sweep_affordable(r, parts)) {
        return 0;
    }
    r->tie = calloc(parts, sizeof *r->tie);
    if (!r->tie) {
        return -ENOMEM;
    }
    for (int sweep = 0; sweep < SWEEPS && changed; sweep++) {
        changed = 0;
        for (uint32_t v = 0; v < r->graph->nodes; v++) {
            changed |= node_improve(r, v);
        }
    }
    free(r->tie);
    return 0;
}

int map_refine(const struct pci_map_graph *graph, const struct map_slots *slots, uint32_t *slot_of)
{
    struct refine r = {.graph = graph, .slot_of = slot_of};
    int rc;

    r.node_at = malloc(((size_t) graph->nodes + 1) * sizeof *r.node_at);
    if (!r.node_at) {
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < graph->nodes; v++) {
        r.node_at[slot_of[v]] = v;
    }
    r.part_of = slots->host_of;
    r.first = slots->host_first;
    rc = parts_refine(&r, slots->hosts);
    if (rc == 0) {
        r.part_of = slots->domain_of;
        r.within = slots->host_of;
        r.first = slots->domain_first;
        rc = parts_refine(&r, slots->domains);
    }
    free(r.node_at);
    return rc;
}
