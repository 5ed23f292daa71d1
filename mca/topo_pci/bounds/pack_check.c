/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The proof of a packing, independent of how it was found. */
#include "mca/topo_pci/bounds/pack.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/topo_pci/graph/internal.h"

/* Rates are whole units, sums of doubles are not exact: what a thousandth of a unit is. */
#define CHECK_ROUNDING (1e-3 / PCI_FLOW_UNITS)

/* Each GPU reaches the root within ngpus - 1 steps: a tree that spans. */
static int check_shape(const struct pci_pack *pack, uint32_t t, char *why, size_t size)
{
    const struct pci_pack_tree *tree = &pack->trees[t];
    uint32_t depth = 0;

    if (tree->root >= pack->ngpus || PCI_PACK_ROOT != tree->parent[tree->root]) {
        return pci_refuse(why, size, "tree %u: GPU %u is not its root", t, tree->root);
    }
    for (uint32_t v = 0; v < pack->ngpus; v++) {
        uint32_t steps = 0;

        for (uint32_t at = v; at != tree->root; at = (uint32_t) tree->parent[at]) {
            if (tree->parent[at] < 0 || (uint32_t) tree->parent[at] >= pack->ngpus) {
                return pci_refuse(why, size, "tree %u: GPU %u has no parent", t, at);
            }
            if (++steps >= pack->ngpus) {
                return pci_refuse(why, size, "tree %u: GPU %u is on a cycle", t, v);
            }
        }
        depth = steps > depth ? steps : depth;
    }
    return depth == tree->depth
               ? 0
               : pci_refuse(why, size, "tree %u: depth %u, stated %u", t, depth, tree->depth);
}

/* Add the tree's rate to the rows it uses. */
static int add_load(const struct pack_problem *problem, const struct pci_pack *pack, uint32_t t,
                    double *load, char *why, size_t size)
{
    const struct pci_pack_tree *tree = &pack->trees[t];

    for (uint32_t v = 0; v < pack->ngpus; v++) {
        uint32_t e;

        if (v == tree->root) {
            continue;
        }
        e = problem->edge_of[v * pack->ngpus + (uint32_t) tree->parent[v]];
        if (PACK_NO_EDGE == e) {
            return pci_refuse(why, size, "tree %u: no route between GPUs %u and %d", t, v,
                              (int) tree->parent[v]);
        }
        for (uint32_t h = 0; h < problem->edges[e].hops; h++) {
            uint32_t at = problem->edges[e].first + h;

            load[problem->route[at]] += tree->gbps * problem->route_load[at];
        }
    }
    return 0;
}

static int check_sums(const struct pci_pack *pack, char *why, size_t size)
{
    double algbw = 0;
    uint64_t shares = 0;

    for (uint32_t t = 0; t < pack->ntrees; t++) {
        if (!(pack->trees[t].gbps > 0)) {
            return pci_refuse(why, size, "tree %u: no rate", t);
        }
        algbw += pack->trees[t].gbps;
        shares += pack->trees[t].share;
    }
    if (fabs(algbw - pack->algbw) > CHECK_ROUNDING) {
        return pci_refuse(why, size, "rates add up to %.9g GB/s, stated %.9g", algbw, pack->algbw);
    }
    if (PCI_PACK_SHARES != shares) {
        return pci_refuse(why, size, "shares add up to %llu of %u", (unsigned long long) shares,
                          PCI_PACK_SHARES);
    }
    return 0;
}

static int check_loads(const struct pack_problem *problem, const struct pci_pack *pack, char *why,
                       size_t size)
{
    double *load = calloc(problem->nrows + 1, sizeof(*load));
    int rc = NULL == load ? -ENOMEM : 0;

    for (uint32_t t = 0; 0 == rc && t < pack->ntrees; t++) {
        rc = check_shape(pack, t, why, size);
        if (0 == rc) {
            rc = add_load(problem, pack, t, load, why, size);
        }
    }
    for (uint32_t r = 0; 0 == rc && r < problem->nrows; r++) {
        if (load[r] > problem->capacity[r] + CHECK_ROUNDING) {
            rc = pci_refuse(why, size, "link %u carries %.9g of %.9g GB/s", r, load[r],
                            problem->capacity[r]);
        }
    }
    free(load);
    return rc;
}

int pci_pack_check(const struct pci_flow *flow, const struct pci_pack *pack, char *why, size_t size)
{
    struct pack_problem problem;
    int rc;

    if (size > 0) {
        why[0] = '\0';
    }
    if (pack->ngpus != flow->ngpus || pack->ntrees > PCI_PACK_MAX_TREES) {
        return pci_refuse(why, size, "%u GPUs and %u trees for a network of %u GPUs", pack->ngpus,
                          pack->ntrees, flow->ngpus);
    }
    if (0 == pack->ntrees) {
        return 0;
    }
    rc = check_sums(pack, why, size);
    if (0 != rc) {
        return rc;
    }
    rc = pack_problem_init(&problem, flow);
    if (0 != rc) {
        return rc;
    }
    rc = check_loads(&problem, pack, why, size);
    pack_problem_fini(&problem);
    return rc;
}
