/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Spanning trees as columns of the packing problem. */
#include "mca/topo_pci/bounds/pack.h"

#include <string.h>

#define SAME_COST 1e-9 /* costs closer than this are equal: the shallower tree wins */

/* The GPU at the other end of a tree edge. */
static uint32_t other_end(const struct pack_edge *edge, uint32_t v)
{
    return edge->a == v ? edge->b : edge->a;
}

/* Root the tree at v: parents and the distance of each GPU. Returns the depth, or UINT32_MAX when
 * the edges do not span. */
static uint32_t root_at(const struct pack_problem *problem, const struct pack_column *column,
                        uint32_t v, int32_t *parent)
{
    uint32_t distance[PCI_PACK_MAX_GPUS], queue[PCI_PACK_MAX_GPUS];
    uint32_t done = 0, queued = 1, n = problem->ngpus;
    bool seen[PCI_PACK_MAX_GPUS] = {false};

    queue[0] = v;
    seen[v] = true;
    distance[v] = 0;
    parent[v] = PCI_PACK_ROOT;
    while (done < queued) {
        uint32_t at = queue[done++];

        for (uint32_t i = 0; i + 1 < n; i++) {
            const struct pack_edge *edge = &problem->edges[column->edges[i]];
            uint32_t to;

            if (edge->a != at && edge->b != at) {
                continue;
            }
            to = other_end(edge, at);
            if (!seen[to]) {
                seen[to] = true;
                parent[to] = (int32_t) at;
                distance[to] = distance[at] + 1;
                queue[queued++] = to;
            }
        }
    }
    return queued == n ? distance[queue[n - 1]] : UINT32_MAX;
}

uint32_t pack_column_root(const struct pack_problem *problem, const struct pack_column *column,
                          int32_t *parent, uint32_t *root)
{
    uint32_t least = UINT32_MAX;
    int32_t trial[PCI_PACK_MAX_GPUS];

    for (uint32_t v = 0; v < problem->ngpus; v++) {
        uint32_t depth = root_at(problem, column, v, trial);

        if (depth < least) {
            least = depth;
            *root = v;
            memcpy(parent, trial, problem->ngpus * sizeof(*parent));
        }
    }
    return least;
}

void pack_column_finish(const struct pack_problem *problem, struct pack_column *column)
{
    int32_t parent[PCI_PACK_MAX_GPUS];
    uint32_t root;

    memset(column->load, 0, problem->nrows * sizeof(*column->load));
    for (uint32_t i = 0; i + 1 < problem->ngpus; i++) {
        const struct pack_edge *edge = &problem->edges[column->edges[i]];

        for (uint32_t h = 0; h < edge->hops; h++) {
            column->load[problem->route[edge->first + h]] += problem->route_load[edge->first + h];
        }
    }
    column->depth = pack_column_root(problem, column, parent, &root);
}

double pack_edge_cost(const struct pack_problem *problem, const double *price, uint32_t e)
{
    const struct pack_edge *edge = &problem->edges[e];
    double cost = 0;

    for (uint32_t h = 0; h < edge->hops; h++) {
        cost += price[problem->route[edge->first + h]] * problem->route_load[edge->first + h];
    }
    return cost;
}

/* Grow a cheapest spanning tree from one GPU (Prim); among equally cheap edges the one whose inner
 * end is nearest to the start. Returns false when the edges do not connect the GPUs. */
static bool grow_from(const struct pack_problem *problem, const double *cost, uint32_t start,
                      uint32_t *edges, double *total)
{
    uint32_t distance[PCI_PACK_MAX_GPUS], n = problem->ngpus;
    bool inside[PCI_PACK_MAX_GPUS] = {false};

    inside[start] = true;
    distance[start] = 0;
    *total = 0;
    for (uint32_t count = 0; count + 1 < n; count++) {
        uint32_t best = PACK_NO_EDGE, best_from = 0;

        for (uint32_t e = 0; e < problem->nedges; e++) {
            const struct pack_edge *edge = &problem->edges[e];
            uint32_t from = inside[edge->a] ? edge->a : edge->b;

            if (inside[edge->a] == inside[edge->b]) {
                continue;
            }
            if (PACK_NO_EDGE == best || cost[e] < cost[best] - SAME_COST ||
                (cost[e] <= cost[best] + SAME_COST && distance[from] < distance[best_from])) {
                best = e;
                best_from = from;
            }
        }
        if (PACK_NO_EDGE == best) {
            return false;
        }
        edges[count] = best;
        *total += cost[best];
        best_from =
            inside[problem->edges[best].a] ? problem->edges[best].a : problem->edges[best].b;
        distance[other_end(&problem->edges[best], best_from)] = distance[best_from] + 1;
        inside[other_end(&problem->edges[best], best_from)] = true;
    }
    return true;
}

bool pack_column_cheapest(const struct pack_problem *problem, const double *price,
                          struct pack_column *column, double *cost)
{
    double edge_costs[PCI_PACK_MAX_GPUS * (PCI_PACK_MAX_GPUS - 1) / 2];
    struct pack_column trial = {.load = column->load};
    uint32_t depth = UINT32_MAX;

    for (uint32_t e = 0; e < problem->nedges; e++) {
        edge_costs[e] = pack_edge_cost(problem, price, e);
    }
    for (uint32_t start = 0; start < problem->ngpus; start++) {
        int32_t parent[PCI_PACK_MAX_GPUS];
        uint32_t root, d;
        double total;

        if (!grow_from(problem, edge_costs, start, trial.edges, &total)) {
            return false;
        }
        d = pack_column_root(problem, &trial, parent, &root);
        if (UINT32_MAX == depth || total < *cost - SAME_COST ||
            (total < *cost + SAME_COST && d < depth)) {
            *column = trial;
            *cost = total;
            depth = d;
        }
    }
    pack_column_finish(problem, column);
    return true;
}

bool pack_column_hubs(const struct pack_problem *problem, uint32_t first_hub, uint32_t hubs,
                      struct pack_column *column)
{
    uint32_t n = problem->ngpus, count = 0;

    for (uint32_t i = 1; i < hubs; i++) {
        column->edges[count++] = problem->edge_of[(first_hub + i - 1) * n + first_hub + i];
    }
    for (uint32_t v = 0; v < n; v++) {
        /* Two trees that are each other's leaves must use different edges: one of them turns by
         * one. */
        uint32_t hub = first_hub + (v < first_hub ? v + 1 : v) % hubs;

        if (v < first_hub || v >= first_hub + hubs) {
            column->edges[count++] = problem->edge_of[hub * n + v];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (PACK_NO_EDGE == column->edges[i]) {
            return false;
        }
    }
    pack_column_finish(problem, column);
    return true;
}

bool pack_column_exchange(const struct pack_problem *problem, const struct pack_column *from,
                          uint32_t position, uint32_t edge, struct pack_column *to)
{
    double *load = to->load;

    for (uint32_t i = 0; i + 1 < problem->ngpus; i++) {
        if (from->edges[i] == edge) {
            return false;
        }
    }
    *to = *from;
    to->load = load;
    to->edges[position] = edge;
    pack_column_finish(problem, to);
    return UINT32_MAX != to->depth;
}

bool pack_column_equal(const struct pack_problem *problem, const struct pack_column *a,
                       const struct pack_column *b)
{
    for (uint32_t i = 0; i + 1 < problem->ngpus; i++) {
        bool found = false;

        for (uint32_t j = 0; j + 1 < problem->ngpus; j++) {
            found = found || a->edges[i] == b->edges[j];
        }
        if (!found) {
            return false;
        }
    }
    return true;
}
