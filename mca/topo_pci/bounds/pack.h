/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the parts of the tree packing share. Internal.
 *
 * A problem has rows (undirected links, each with the smaller of its two capacities in GB/s) and
 * edges (pairs of GPUs that have a route; a route is a list of rows, each with the load that a byte
 * puts on it). A column is a spanning tree:
 * its edges and the load that one GB/s of it puts on each row.
 */
#ifndef TOPO_PCI_BOUNDS_PACK_H
#define TOPO_PCI_BOUNDS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/bounds/pci_pack.h"

#define PACK_MAX_ROWS    1024u /* rows of a problem; more are refused */
#define PACK_MAX_COLUMNS 192u  /* trees that are kept during one search */
#define PACK_NO_EDGE     UINT32_MAX

struct pack_edge {
    uint32_t a, b;
    uint32_t first; /* its rows are route[first .. first+hops-1] */
    uint32_t hops;
};

struct pack_problem {
    uint32_t ngpus;
    uint32_t nrows;
    uint32_t nedges;
    double *capacity; /* row -> GB/s */
    struct pack_edge *edges;
    uint32_t *edge_of;  /* a * ngpus + b -> edge or PACK_NO_EDGE */
    uint32_t *route;    /* rows */
    double *route_load; /* load on each of them */
    uint32_t route_used, route_room;
};

struct pack_column {
    uint32_t edges[PCI_PACK_MAX_GPUS - 1];
    uint32_t depth; /* of the tree rooted at its centre */
    double *load;   /* row -> GB/s per GB/s of the tree; owned by the pool */
};

struct pack_pool {
    uint32_t count;
    struct pack_column columns[PACK_MAX_COLUMNS + 1]; /* the last one is for trials */
    double *loads;
};

/* A primal simplex over the rows: maximise the sum of the chosen columns' rates. */
struct pack_lp {
    uint32_t nrows;
    double *inverse; /* of the basis, nrows x nrows */
    double *rate;    /* of the basic variables */
    int32_t *basic;  /* row of the basis -> column, or -1 - row for a slack */
    double *price;   /* row -> price of one GB/s of it */
    double *entering;
    uint64_t work; /* elementary steps since pack_lp_init() */
};

/* pack_routes.c: rows, edges and routes of a network. */
int pack_problem_init(struct pack_problem *problem, const struct pci_flow *flow);
void pack_problem_fini(struct pack_problem *problem);

/* pack_tree.c: trees. */

/* Set load and depth from the edges; depth is UINT32_MAX when they do not span. */
void pack_column_finish(const struct pack_problem *problem, struct pack_column *column);

/* Cost of one GB/s over an edge, and the cheapest spanning tree; false: the GPUs are not connected.
 */
double pack_edge_cost(const struct pack_problem *problem, const double *price, uint32_t e);
bool pack_column_cheapest(const struct pack_problem *problem, const double *price,
                          struct pack_column *column, double *cost);

/* A chain of hubs first_hub .. first_hub+hubs-1 with all other GPUs as leaves, spread evenly;
 * false: some pair has no route. */
bool pack_column_hubs(const struct pack_problem *problem, uint32_t first_hub, uint32_t hubs,
                      struct pack_column *column);

/* The parents of the tree rooted at its centre; returns its depth. */
uint32_t pack_column_root(const struct pack_problem *problem, const struct pack_column *column,
                          int32_t *parent, uint32_t *root);

/* A tree with one edge replaced; false: that is no tree. */
bool pack_column_exchange(const struct pack_problem *problem, const struct pack_column *from,
                          uint32_t position, uint32_t edge, struct pack_column *to);

bool pack_column_equal(const struct pack_problem *problem, const struct pack_column *a,
                       const struct pack_column *b);

/* pack_lp.c: the simplex. */
int pack_lp_init(struct pack_lp *lp, uint32_t nrows);
void pack_lp_fini(struct pack_lp *lp);

/* Begin with all links idle. */
void pack_lp_start(struct pack_lp *lp, const struct pack_problem *problem);

/* What one GB/s of a tree would gain at the prices of the last pack_lp_price(). */
void pack_lp_price(struct pack_lp *lp);
double pack_lp_gain(const struct pack_lp *lp, const struct pack_column *column);

/* One improvement by the best of the pool's columns set[0 .. count-1] (NULL: its first count ones)
 * or by a slack; false when nothing gains. The prices are then those of the optimum. */
bool pack_lp_step(struct pack_lp *lp, const struct pack_pool *pool, const uint32_t *set,
                  uint32_t count);

/* Sum of all rates; and the optimum of a set of columns, from the start. */
double pack_lp_total(const struct pack_lp *lp);
double pack_lp_solve(struct pack_lp *lp, const struct pack_problem *problem,
                     const struct pack_pool *pool, const uint32_t *set, uint32_t count);

#endif /* TOPO_PCI_BOUNDS_PACK_H */
