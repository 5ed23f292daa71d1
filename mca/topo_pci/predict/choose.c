/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * More bandwidth does not always save time: LL128 cannot use paths that split 128-byte stores, and
 * a tree whose chain begins at its NIC is slower than a balanced one. Therefore each search also
 * tries channels without these paths or trees, and the cost model chooses among the results.
 */
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "mca/topo_pci/xml/doc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES 4u
#define LOSS_MOST  1.02 /* maximum factor by which any size may be slower ... */
#define GAIN_LARGE 1.25 /* ... unless the largest size is faster by at least this factor */

struct candidates {
    uint32_t count;
    struct pci_channels set[CANDIDATES];
};

static void candidates_fini(struct candidates *candidates)
{
    for (uint32_t i = 0; i < candidates->count; i++) {
        pci_channels_fini(&candidates->set[i]);
    }
}

static bool whole(const struct pci_fabric *fabric, const struct pci_channels *channels)
{
    return pci_ll128_whole(fabric->sm, channels->type_intra, channels->type_inter);
}

/* Search, and keep the result if it is usable. */
static int candidate_add(const struct pci_fabric *fabric, const struct pci_search *search,
                         struct candidates *candidates)
{
    struct pci_channels *set = &candidates->set[candidates->count];
    int rc = pci_channels_search(fabric, search, set);

    if (rc != 0) {
        return rc;
    }
    if (candidates->count > 0 &&
        (pci_channels_no_nic(set) || set->bw_intra <= PCI_CHANNELS_BW_UNREACHABLE)) {
        pci_channels_fini(set);
    } else {
        candidates->count++;
    }
    return 0;
}

/* Add the channels with the most bandwidth and, for trees between nodes, also balanced ones. */
static int candidates_within(const struct pci_fabric *fabric, const struct pci_search *search,
                             struct candidates *candidates)
{
    struct pci_search balanced = *search;
    uint32_t before = candidates->count;
    int rc = candidate_add(fabric, search, candidates);

    balanced.balanced = true;
    balanced.max_steps /= 4;
    return rc == 0 && candidates->count > before && fabric->ngpus > 1 &&
                   candidates->set[before].pattern == PCI_PATTERN_TREE
               ? candidate_add(fabric, &balanced, candidates)
               : rc;
}

static int candidates_find(const struct pci_fabric *fabric, const struct pci_search *search,
                           struct candidates *candidates)
{
    struct pci_search near = *search;
    int rc = candidates_within(fabric, search, candidates);

    if (rc != 0 || fabric->ngpus == 0 || whole(fabric, &candidates->set[0]) ||
        !pci_ll128_whole(fabric->sm, PCI_PATH_NVL, PCI_PATH_LOC)) {
        return rc;
    }
    near.max_steps /= 3;
    while (near.max_intra > PCI_PATH_NVL &&
           !pci_ll128_whole(fabric->sm, near.max_intra, PCI_PATH_LOC)) {
        near.max_intra--;
    }
    while (near.max_inter > PCI_PATH_PIX &&
           !pci_ll128_whole(fabric->sm, PCI_PATH_NVL, near.max_inter)) {
        near.max_inter--;
    }
    return candidates_within(fabric, &near, candidates);
}

void pci_predict_curve(const struct pci_costs *costs, const struct pci_job *job,
                       struct pci_curve *curve)
{
    struct pci_costs formula = *costs;

    memset(formula.gpu, 0, sizeof formula.gpu);
    for (unsigned i = 0; i < PCI_CURVE_SIZES; i++) {
        struct pci_choice choice = {.us = INFINITY};

        (void) pci_predict_best(&formula, job, 1u << PCI_ALGORITHM_RING | 1u << PCI_ALGORITHM_TREE,
                                UINT64_C(1) << (PCI_CURVE_FIRST + i), &choice);
        curve->us[i] = choice.us;
    }
}

bool pci_curve_better(const struct pci_curve *curve, const struct pci_curve *than)
{
    double gains = 0, least = INFINITY, last = 0;

    for (unsigned i = 0; i < PCI_CURVE_SIZES; i++) {
        last = than->us[i] / curve->us[i];
        gains += log(last);
        least = fmin(least, last);
    }
    return gains > 1e-9 && (least * LOSS_MOST >= 1 || last >= GAIN_LARGE);
}

/* Find the best pair of rings and trees. The last candidates use the nearest paths, and others are
 * only selected if they are better. If there is only one pair, select it. */
static int judge_candidates(const struct pci_graph *graph, const struct pci_costs *costs,
                            uint32_t nodes, const struct candidates *rings,
                            const struct candidates *trees, uint32_t best[2])
{
    uint32_t pairs = rings->count * trees->count;
    struct pci_curve least;

    best[0] = best[1] = 0;
    for (uint32_t i = pairs; i > 0 && pairs > 1; i--) {
        uint32_t r = (i - 1) / trees->count, t = (i - 1) % trees->count;
        const struct pci_channels *ring = &rings->set[r], *tree = &trees->set[t];
        uint32_t most = ring->nchannels > tree->nchannels ? ring->nchannels : tree->nchannels;
        struct pci_curve curve;
        struct pci_job job;
        int rc = pci_job_of_graph(graph, nodes, ring, tree, 2 * most, &job);

        if (rc != 0) {
            return rc;
        }
        pci_predict_curve(costs, &job, &curve);
        if (i == pairs || pci_curve_better(&curve, &least)) {
            least = curve;
            best[0] = r;
            best[1] = t;
        }
    }
    return 0;
}

/* Search for several rings and trees within LIMITS, and return those with the shortest times. */
static int channels_choose(const struct pci_graph *graph, const struct pci_costs *costs,
                           const struct pci_search *limits, struct pci_channels *ring,
                           struct pci_channels *tree)
{
    struct candidates rings = {.count = 0}, trees = {.count = 0};
    struct pci_search search = *limits;
    struct pci_fabric fabric;
    uint32_t best[2] = {0};
    int rc = pci_fabric_from_graph(graph, &fabric);

    if (rc != 0) {
        return rc;
    }
    search.pattern = PCI_PATTERN_RING;
    rc = candidates_find(&fabric, &search, &rings);
    if (rc == 0) {
        search.pattern = PCI_PATTERN_BALANCED_TREE;
        search.prefer_channels = rings.set[0].nchannels;
        rc = candidates_find(&fabric, &search, &trees);
    }
    if (rc == 0) {
        rc = judge_candidates(graph, costs, search.nodes, &rings, &trees, best);
    }
    if (rc == 0) {
        *ring = rings.set[best[0]];
        *tree = trees.set[best[1]];
        rings.set[best[0]] = trees.set[best[1]] = (struct pci_channels){.intra = NULL};
    }
    candidates_fini(&rings);
    candidates_fini(&trees);
    pci_fabric_fini(&fabric);
    return rc;
}

int pci_channels_of_graph(const struct pci_graph *graph, uint32_t nodes, struct pci_channels *ring,
                          struct pci_channels *tree)
{
    struct pci_search limits;
    struct pci_costs costs;
    int rc = pci_costs_gpu(&costs);

    pci_search_init(&limits);
    limits.nodes = nodes;
    return rc == 0 ? channels_choose(graph, &costs, &limits, ring, tree) : rc;
}

/* ---- Parts of a node ---- */

/* Describe a job with all parts as nodes and the minimum of their figures (like pci_agreed). */
static int chosen_job(struct pci_chosen *chosen, uint32_t nodes)
{
    uint32_t ranks = 0;

    for (uint32_t p = 0; p < chosen->nparts; p++) {
        const struct pci_part *part = &chosen->part[p];
        struct pci_job job;
        int rc = pci_job_of_graph(part->graph, nodes * chosen->nparts, &part->ring, &part->tree, 1,
                                  &job);

        if (rc != 0) {
            return rc;
        }
        ranks += nodes * part->ring.ngpus;
        if (p > 0) {
            pci_job_join(&chosen->job, &job);
        } else {
            chosen->job = job;
        }
    }
    chosen->job.ranks = ranks;
    chosen->job.channels =
        2 * (chosen->job.ring.channels > chosen->job.tree.channels ? chosen->job.ring.channels
                                                                   : chosen->job.tree.channels);
    return 0;
}

/* Find the channels of each part. Returns 0 with no parts if a part has no usable NIC. */
static int parts_choose(const struct pci_graph *graph, const struct pci_doc *doc,
                        const struct pci_costs *costs, const struct pci_search *limits,
                        const uint32_t *number, uint32_t nparts, struct pci_chosen *chosen,
                        struct pci_error *error)
{
    struct pci_search within = *limits;

    within.nodes = limits->nodes * nparts;
    within.max_inter = PCI_PATH_PXB;
    within.max_steps /= nparts;
    chosen->part = calloc(nparts, sizeof *chosen->part);
    if (chosen->part == NULL) {
        return pci_error_memory(error);
    }
    for (uint32_t p = 0; p < nparts; p++) {
        struct pci_part *part = &chosen->part[p];
        int rc = pci_graph_of_part(graph, doc, number, p, &part->own, error);

        if (rc != 0) {
            pci_chosen_fini(chosen);
            return rc;
        }
        chosen->nparts = p + 1;
        part->graph = part->own;
        rc = channels_choose(part->graph, costs, &within, &part->ring, &part->tree);
        if (rc != 0 || pci_channels_no_nic(&part->ring) || pci_channels_no_nic(&part->tree)) {
            pci_chosen_fini(chosen);
            return rc;
        }
    }
    return chosen_job(chosen, limits->nodes);
}

void pci_chosen_fini(struct pci_chosen *chosen)
{
    for (uint32_t p = 0; p < chosen->nparts; p++) {
        pci_channels_fini(&chosen->part[p].ring);
        pci_channels_fini(&chosen->part[p].tree);
        pci_graph_free(chosen->part[p].own);
    }
    free(chosen->part);
    memset(chosen, 0, sizeof *chosen);
}

/* Replace the whole node by its parts, unless the whole node is better. */
static int parts_try(const struct pci_graph *graph, const struct pci_doc *doc,
                     const struct pci_costs *costs, const struct pci_search *limits,
                     const uint32_t *number, uint32_t nparts, struct pci_chosen *chosen,
                     struct pci_error *error)
{
    struct pci_chosen divided = {.nparts = 0};
    struct pci_curve whole, parts;
    int rc = parts_choose(graph, doc, costs, limits, number, nparts, &divided, error);

    if (rc == 0 && divided.nparts > 0) {
        pci_predict_curve(costs, &chosen->job, &whole);
        pci_predict_curve(costs, &divided.job, &parts);
        if (!pci_curve_better(&whole, &parts)) {
            pci_chosen_fini(chosen);
            *chosen = divided;
            return 0;
        }
    }
    pci_chosen_fini(&divided);
    return rc;
}

int pci_choose(const struct pci_graph *graph, const struct pci_doc *doc,
               const struct pci_costs *costs, const struct pci_search *limits,
               struct pci_chosen *chosen, struct pci_error *error)
{
    uint32_t *number = calloc(pci_graph_count(graph, PCI_NODE_GPU) + 1u, sizeof *number);
    uint32_t nparts = 1;
    struct pci_chosen result = {.part = calloc(1, sizeof *result.part)};
    struct pci_search within = *limits;
    int rc = number == NULL || result.part == NULL ? pci_error_memory(error) : 0;

    if (rc == 0 && doc != NULL) {
        rc = pci_graph_parts(graph, number, &nparts);
    }
    if (rc == 0) {
        within.max_steps /= nparts > 1 ? 2 : 1;
        result.nparts = 1;
        result.part->graph = graph;
        rc = channels_choose(graph, costs, &within, &result.part->ring, &result.part->tree);
    }
    rc = rc == 0 ? chosen_job(&result, limits->nodes) : rc;
    if (rc == 0 && nparts > 1) {
        rc = parts_try(graph, doc, costs, &within, number, nparts, &result, error);
    }
    free(number);
    if (rc != 0) {
        pci_chosen_fini(&result);
        return rc;
    }
    *chosen = result;
    return 0;
}
