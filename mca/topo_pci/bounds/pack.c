/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The search for few trees: generate, shrink, exchange edges, round. */
#include "mca/topo_pci/bounds/pack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACK_GAP  1e-6 /* a tree that gains less than this ends the generation */
#define PACK_LOSS 0.03 /* of the optimum, given up for fewer trees */
#define PACK_EVEN 1e-7 /* relative difference of totals that counts as none */

/* Solutions of more than this many times the trees allowed lose the slowest ones unseen. */
#define PACK_SHRINK 3u

/* Limits in elementary steps, about one per nanosecond: generation, then all improvements. */
#define PACK_WORK_GENERATE 10000000u
#define PACK_WORK_IMPROVE  10000000u

struct pack_search {
    struct pack_problem problem;
    struct pack_pool pool;
    struct pack_lp lp;
    uint32_t set[PACK_MAX_COLUMNS]; /* the trees in use */
    uint32_t count;
    double total;   /* rate of the set */
    double optimum; /* rate of all trees that exist, as far as generated */
};

static void search_free(struct pack_search *search)
{
    pack_lp_fini(&search->lp);
    pack_problem_fini(&search->problem);
    free(search->pool.loads);
    free(search);
}

static int search_new(const struct pci_flow *flow, struct pack_search **out)
{
    struct pack_search *search = calloc(1, sizeof(*search));
    size_t rows;
    int rc;

    if (NULL == search) {
        return -ENOMEM;
    }
    rc = pack_problem_init(&search->problem, flow);
    if (0 != rc) {
        free(search);
        return rc;
    }
    rows = search->problem.nrows + 1;
    search->pool.loads = calloc((PACK_MAX_COLUMNS + 1) * rows, sizeof(*search->pool.loads));
    rc = NULL == search->pool.loads ? -ENOMEM : pack_lp_init(&search->lp, search->problem.nrows);
    if (0 != rc) {
        search_free(search);
        return rc;
    }
    for (size_t i = 0; i <= PACK_MAX_COLUMNS; i++) {
        search->pool.columns[i].load = search->pool.loads + i * rows;
    }
    *out = search;
    return 0;
}

static bool in_basis(const struct pack_lp *lp, uint32_t column)
{
    for (uint32_t r = 0; r < lp->nrows; r++) {
        if (lp->basic[r] == (int32_t) column) {
            return true;
        }
    }
    return false;
}

static void swap_columns(struct pack_pool *pool, uint32_t a, uint32_t b)
{
    struct pack_column keep = pool->columns[a];

    pool->columns[a] = pool->columns[b];
    pool->columns[b] = keep;
}

/* Make room in the pool: forget the trees that are not in the basis. */
static void pool_compact(struct pack_pool *pool, struct pack_lp *lp)
{
    uint32_t kept = 0;

    for (uint32_t c = 0; c < pool->count; c++) {
        if (!in_basis(lp, c)) {
            continue;
        }
        for (uint32_t r = 0; r < lp->nrows; r++) {
            if (lp->basic[r] == (int32_t) c) {
                lp->basic[r] = (int32_t) kept;
            }
        }
        swap_columns(pool, kept++, c);
    }
    pool->count = kept;
}

/* Put the trial column of the pool's end into the pool. Returns false when it is full or known. */
static bool pool_add(struct pack_search *search)
{
    struct pack_pool *pool = &search->pool;

    if (pool->count == PACK_MAX_COLUMNS) {
        return false;
    }
    for (uint32_t c = 0; c < pool->count; c++) {
        if (pack_column_equal(&search->problem, &pool->columns[c], &pool->columns[pool->count])) {
            return false;
        }
    }
    pool->count++;
    return true;
}

/* Shallow trees to begin with, where every pair has a route: stars around each GPU, or around
 * chains of hubs when there are more GPUs than trees allowed. They are optimal on switches and
 * meshes. */
static void add_hub_trees(struct pack_search *search, uint32_t max_trees)
{
    uint32_t n = search->problem.ngpus;
    uint32_t hubs = (n + max_trees - 1) / max_trees;

    for (uint32_t first = 0; first < n; first += hubs) {
        if (pack_column_hubs(&search->problem, first, first + hubs <= n ? hubs : n - first,
                             &search->pool.columns[search->pool.count])) {
            pool_add(search);
        }
    }
}

/* Solve over all trees. Returns whether the GPUs are connected. */
static bool generate(struct pack_search *search)
{
    struct pack_pool *pool = &search->pool;
    struct pack_lp *lp = &search->lp;
    uint64_t n = search->problem.ngpus;
    double cost = 0;

    pack_lp_start(lp, &search->problem);
    while (lp->work < PACK_WORK_GENERATE) {
        if (pack_lp_step(lp, pool, NULL, pool->count)) {
            continue;
        }
        if (pool->count == PACK_MAX_COLUMNS) {
            pool_compact(pool, lp);
        }
        if (pool->count == PACK_MAX_COLUMNS) {
            break;
        }
        lp->work += n * n * (n * n + search->problem.nedges);
        if (!pack_column_cheapest(&search->problem, lp->price, &pool->columns[pool->count],
                                  &cost)) {
            return false;
        }
        if (1 - cost < PACK_GAP || !pool_add(search)) {
            break;
        }
    }
    search->optimum = pack_lp_total(lp);
    for (uint32_t r = 0; r < lp->nrows; r++) {
        if (lp->basic[r] >= 0 && lp->rate[r] > PACK_GAP * search->optimum) {
            search->set[search->count++] = (uint32_t) lp->basic[r];
        }
    }
    search->total = search->optimum;
    return true;
}

static double solve_set(struct pack_search *search, const uint32_t *set, uint32_t count)
{
    return pack_lp_solve(&search->lp, &search->problem, &search->pool, set, count);
}

/* Rate of a column in the present solution. */
static double column_rate(const struct pack_lp *lp, uint32_t column)
{
    for (uint32_t r = 0; r < lp->nrows; r++) {
        if (lp->basic[r] == (int32_t) column) {
            return lp->rate[r];
        }
    }
    return 0;
}

/* Drop the slowest trees of the present solution until at most 'most' are left. */
static void drop_slowest(struct pack_search *search, uint32_t most)
{
    while (search->count > most) {
        uint32_t slowest = 0;

        for (uint32_t i = 1; i < search->count; i++) {
            if (column_rate(&search->lp, search->set[i]) <
                column_rate(&search->lp, search->set[slowest])) {
                slowest = i;
            }
        }
        search->set[slowest] = search->set[--search->count];
    }
}

/* Drop trees: while there are too many, or the loss stays small. */
static void shrink(struct pack_search *search, uint32_t max_trees)
{
    while (search->count > 1) {
        uint32_t set[PACK_MAX_COLUMNS], best = 0;
        double most = -1;

        for (uint32_t i = 0; i < search->count; i++) {
            double total;

            memcpy(set, search->set, search->count * sizeof(*set));
            set[i] = set[search->count - 1];
            total = solve_set(search, set, search->count - 1);
            if (total > most) {
                most = total;
                best = i;
            }
        }
        if (search->count <= max_trees && most < (1 - PACK_LOSS) * search->optimum) {
            return;
        }
        search->set[best] = search->set[--search->count];
        search->total = most;
    }
}

/* Try the trial column in the place of one tree: keep it when the total grows, or stays and the
 * tree is shallower. */
static bool try_replace(struct pack_search *search, uint32_t i)
{
    struct pack_pool *pool = &search->pool;
    uint32_t kept = search->set[i];
    bool shallower = pool->columns[pool->count].depth < pool->columns[kept].depth;
    double total;

    search->set[i] = pool->count;
    total = solve_set(search, search->set, search->count);
    search->set[i] = kept;
    if (total > search->total * (1 + PACK_EVEN) ||
        (shallower && total > search->total * (1 - PACK_EVEN))) {
        swap_columns(pool, kept, pool->count);
        search->total = total;
        return true;
    }
    return false;
}

/* Is it worth solving for the tree with this edge exchanged? It gains only if it is no dearer at
 * the present prices, and a tree of the set costs what it earns. */
static bool exchange_pays(struct pack_search *search, uint32_t i, uint32_t position, uint32_t edge)
{
    const struct pack_problem *problem = &search->problem;
    const struct pack_column *tree = &search->pool.columns[search->set[i]];
    struct pack_column *trial = &search->pool.columns[search->pool.count];
    double saved = pack_edge_cost(problem, search->lp.price, tree->edges[position]) -
                   pack_edge_cost(problem, search->lp.price, edge);

    search->lp.work += problem->edges[edge].hops + 1;
    if (saved < -PACK_GAP) {
        return false;
    }
    search->lp.work += (uint64_t) problem->ngpus * problem->ngpus * problem->ngpus;
    return pack_column_exchange(problem, tree, position, edge, trial) &&
           (saved > PACK_GAP || trial->depth < tree->depth);
}

/* All exchanges of one edge of one tree. Returns whether one was kept. */
static bool exchange_edges(struct pack_search *search, uint32_t i, uint64_t work_end)
{
    for (uint32_t position = 0; position + 1 < search->problem.ngpus; position++) {
        for (uint32_t edge = 0; edge < search->problem.nedges; edge++) {
            if (search->lp.work > work_end) {
                return false;
            }
            if (!exchange_pays(search, i, position, edge)) {
                continue;
            }
            if (try_replace(search, i)) {
                return true;
            }
            solve_set(search, search->set, search->count);
        }
    }
    return false;
}

/* Is there nothing to gain: the optimum, by trees of at most two hops? */
static bool at_best(const struct pack_search *search)
{
    for (uint32_t i = 0; i < search->count; i++) {
        if (search->pool.columns[search->set[i]].depth > 2) {
            return false;
        }
    }
    return search->total >= search->optimum * (1 - PACK_EVEN);
}

/* Exchange single edges while that gains. */
static void improve(struct pack_search *search)
{
    uint64_t work_end = search->lp.work + PACK_WORK_IMPROVE;
    bool changed = !at_best(search);

    while (changed && search->lp.work < work_end) {
        changed = false;
        for (uint32_t i = 0; i < search->count; i++) {
            solve_set(search, search->set, search->count);
            changed = exchange_edges(search, i, work_end) || changed;
        }
    }
}

/* Largest rate first; equal ones keep their order. */
static void sort_trees(struct pci_pack *pack)
{
    for (uint32_t i = 1; i < pack->ntrees; i++) {
        struct pci_pack_tree tree = pack->trees[i];
        uint32_t j = i;

        for (; j > 0 && pack->trees[j - 1].gbps < tree.gbps; j--) {
            pack->trees[j] = pack->trees[j - 1];
        }
        pack->trees[j] = tree;
    }
}

/* Integer shares in proportion to the rates; what rounding leaves goes to the largest trees. */
static void set_shares(struct pci_pack *pack)
{
    uint32_t given = 0;

    for (uint32_t t = 0; t < pack->ntrees; t++) {
        pack->trees[t].share = (uint32_t) (pack->trees[t].gbps / pack->algbw * PCI_PACK_SHARES);
        given += pack->trees[t].share;
    }
    for (uint32_t t = 0; given < PCI_PACK_SHARES; t = (t + 1) % pack->ntrees) {
        pack->trees[t].share++;
        given++;
    }
}

/* Write the set's rates down, rounded to whole units so that no link is over its capacity by
 * rounding. Trees too slow for a share of their own are left out. */
static void result_fill(struct pack_search *search, struct pci_pack *pack)
{
    const struct pack_lp *lp = &search->lp;

    solve_set(search, search->set, search->count);
    pack->optimum = search->optimum;
    for (uint32_t r = 0; r < lp->nrows; r++) {
        double gbps = floor(lp->rate[r] * PCI_FLOW_UNITS) / PCI_FLOW_UNITS;
        struct pci_pack_tree *tree = &pack->trees[pack->ntrees];

        if (lp->basic[r] < 0 || gbps <= search->total / PCI_PACK_SHARES) {
            continue;
        }
        tree->gbps = gbps;
        tree->depth = pack_column_root(&search->problem, &search->pool.columns[lp->basic[r]],
                                       tree->parent, &tree->root);
        pack->algbw += gbps;
        pack->ntrees++;
    }
    sort_trees(pack);
    set_shares(pack);
}

int pci_pack_compute(const struct pci_flow *flow, uint32_t max_trees, struct pci_pack *pack)
{
    struct pack_search *search = NULL;
    int rc;

    if (0 == max_trees || max_trees > PCI_PACK_MAX_TREES) {
        return -EINVAL;
    }
    rc = search_new(flow, &search);
    if (0 != rc) {
        return rc;
    }
    memset(pack, 0, sizeof(*pack));
    pack->ngpus = flow->ngpus;
    add_hub_trees(search, max_trees);
    if (generate(search)) {
        drop_slowest(search, PACK_SHRINK * max_trees);
        shrink(search, max_trees);
        improve(search);
        result_fill(search, pack);
    }
    search_free(search);
    return 0;
}
