/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Both bounds are minima of a fraction, the capacity of a cut divided by a count. Newton's method
 * for fractions (Dinkelbach) finds them. For the current fraction p/q, minimum cuts determine
 * whether a better set exists, which is one with q x capacity - p x count < 0. If so, its fraction
 * is the next one. Each step lowers the fraction, and if no better set exists, the fraction is
 * minimal.
 */
#include "mca/topo_pci/bounds/maxflow.h"
#include "mca/topo_pci/bounds/pci_bound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static struct pci_ratio ratio_make(uint64_t num, uint64_t den)
{
    uint64_t divisor = common_divisor(num, den);

    return (struct pci_ratio){.num = num / divisor,
                              .den = den / divisor,
                              .gbps = (double) num / (double) den / PCI_FLOW_UNITS};
}

/* Return true if all products of capacities and counts fit well into 63 bits. */
static bool sums_fit(const struct pci_flow *flow)
{
    uint64_t total = 0;
    uint64_t limit = (uint64_t) PCI_MAXFLOW_INF / (4 * (uint64_t) flow->ngpus);

    for (size_t i = 0; i < flow->nlinks; i++) {
        if (flow->links[i].capacity > limit - total) {
            return false;
        }
        total += flow->links[i].capacity;
    }
    return true;
}

/* ---- AG -------------------------------------------------------------------------------------- */

struct ag_search {
    const struct pci_flow *flow;
    struct pci_maxflow mf; /* edges: the links in order, then source -> GPU in order */
    uint32_t source;
    uint64_t capacity; /* of the best set so far: capacity leaving it / GPUs inside */
    uint64_t gpus;
};

static void ag_set_capacities(struct ag_search *ag)
{
    const struct pci_flow *flow = ag->flow;

    for (size_t i = 0; i < flow->nlinks; i++) {
        pci_maxflow_set(&ag->mf, i, (int64_t) (flow->links[i].capacity * ag->gpus));
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        pci_maxflow_set(&ag->mf, flow->nlinks + v, (int64_t) ag->capacity);
    }
}

/* Take the source side of the last cut as the best set. */
static void ag_take_cut(struct ag_search *ag)
{
    const struct pci_flow *flow = ag->flow;

    ag->capacity = 0;
    ag->gpus = 0;
    for (size_t i = 0; i < flow->nlinks; i++) {
        if (pci_maxflow_source_side(&ag->mf, flow->links[i].from) &&
            !pci_maxflow_source_side(&ag->mf, flow->links[i].to)) {
            ag->capacity += flow->links[i].capacity;
        }
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        ag->gpus += pci_maxflow_source_side(&ag->mf, v) ? 1 : 0;
    }
}

/* Find the best set without the GPU `sink`, and keep it if it is better than the best one so
 * far. */
static void ag_improve(struct ag_search *ag, uint32_t sink)
{
    for (;;) {
        int64_t all = (int64_t) (ag->capacity * ag->flow->ngpus);

        ag_set_capacities(ag);
        if (pci_maxflow_run(&ag->mf, ag->source, sink) >= all) {
            return;
        }
        ag_take_cut(ag);
    }
}

static int ag_compute(const struct pci_flow *flow, struct pci_ratio *bound)
{
    struct ag_search ag = {.flow = flow, .source = flow->nvertices, .gpus = 1};
    int rc = pci_maxflow_init(&ag.mf, flow->nvertices + 1, flow->nlinks + flow->ngpus);

    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < flow->nlinks; i++) {
        pci_maxflow_edge(&ag.mf, flow->links[i].from, flow->links[i].to);
        ag.capacity += flow->links[i].from == 0 ? flow->links[i].capacity : 0;
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        pci_maxflow_edge(&ag.mf, ag.source, v);
    }
    for (uint32_t sink = 0; sink < flow->ngpus; sink++) {
        ag_improve(&ag, sink);
    }
    *bound = ratio_make(ag.capacity * flow->ngpus, 2 * ag.gpus);
    pci_maxflow_fini(&ag.mf);
    return 0;
}

/* ---- AR -------------------------------------------------------------------------------------- */

/*
 * For a fraction r = p/q of "sum of cut(V_i)" and "parts - 1", a better partition exists if the sum
 * of (q cut(V_i) - p) is less than -p. A greedy algorithm finds the minimum of this sum over all
 * partitions (Dilworth truncation). For one GPU after another, x(i) is the minimum of q cut(S) - p
 * - x(S \ {i}) over the sets S of GPUs 0..i that contain i. The minimum of the sum is the sum of
 * all x, and the partition consists of the minimising sets, of which those that overlap are merged.
 * Each x(i) is one minimum cut with these edges: source -> i (infinite); j -> sink (infinite) for j
 * > i; for j < i the weight |x(j)|, as source -> j if x(j) > 0, so that j in S lowers the sum, and
 * as j -> sink otherwise.
 */
struct ar_search {
    const struct pci_flow *flow; /* with equal directions */
    struct pci_maxflow mf;       /* edges: links, then source -> GPU, then GPU -> sink */
    uint32_t source;
    uint32_t sink;
    uint64_t capacity; /* p */
    uint64_t parts;    /* q + 1 */
    int64_t *x;
    uint32_t *block; /* GPU -> the representative of its part */
};

static void ar_set_capacities(struct ar_search *ar, uint32_t i)
{
    const struct pci_flow *flow = ar->flow;
    size_t from_source = flow->nlinks, to_sink = from_source + flow->ngpus;

    for (size_t e = 0; e < flow->nlinks; e++) {
        pci_maxflow_set(&ar->mf, e, (int64_t) (flow->links[e].capacity * (ar->parts - 1)));
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        int64_t in = 0, out = 0;

        if (v == i) {
            in = PCI_MAXFLOW_INF;
        } else if (v > i) {
            out = PCI_MAXFLOW_INF;
        } else if (ar->x[v] > 0) {
            in = ar->x[v];
        } else {
            out = -ar->x[v];
        }
        pci_maxflow_set(&ar->mf, from_source + v, in);
        pci_maxflow_set(&ar->mf, to_sink + v, out);
    }
}

/* One greedy step: x(i), and the parts that its set joins. */
static void ar_step(struct ar_search *ar, uint32_t i)
{
    int64_t gain = 0;

    for (uint32_t v = 0; v < i; v++) {
        gain += ar->x[v] > 0 ? ar->x[v] : 0;
    }
    ar_set_capacities(ar, i);
    ar->x[i] = pci_maxflow_run(&ar->mf, ar->source, ar->sink) - gain - (int64_t) ar->capacity;
    ar->block[i] = i;
    for (uint32_t v = 0; v < i; v++) {
        if (pci_maxflow_source_side(&ar->mf, v) && ar->block[v] != ar->block[i]) {
            uint32_t old = ar->block[v];

            for (uint32_t w = 0; w <= i; w++) {
                if (ar->block[w] == old) {
                    ar->block[w] = i;
                }
            }
        }
    }
}

/* cut(V_i) of one part: the least capacity between its GPUs and all others. */
static uint64_t ar_part_cut(struct ar_search *ar, uint32_t part)
{
    const struct pci_flow *flow = ar->flow;
    size_t from_source = flow->nlinks, to_sink = from_source + flow->ngpus;

    for (size_t e = 0; e < flow->nlinks; e++) {
        pci_maxflow_set(&ar->mf, e, (int64_t) flow->links[e].capacity);
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        bool inside = ar->block[v] == part;

        pci_maxflow_set(&ar->mf, from_source + v, inside ? PCI_MAXFLOW_INF : 0);
        pci_maxflow_set(&ar->mf, to_sink + v, inside ? 0 : PCI_MAXFLOW_INF);
    }
    return (uint64_t) pci_maxflow_run(&ar->mf, ar->source, ar->sink);
}

/* Take the partition in block[] as the best one. */
static void ar_take_partition(struct ar_search *ar)
{
    ar->capacity = 0;
    ar->parts = 0;
    for (uint32_t v = 0; v < ar->flow->ngpus; v++) {
        if (ar->block[v] == v) {
            ar->capacity += ar_part_cut(ar, v);
            ar->parts++;
        }
    }
}

/* Find the best partition. */
static void ar_solve(struct ar_search *ar)
{
    for (uint32_t v = 0; v < ar->flow->ngpus; v++) {
        ar->block[v] = v;
    }
    ar_take_partition(ar);
    for (;;) {
        int64_t sum = 0;

        for (uint32_t i = 0; i < ar->flow->ngpus; i++) {
            ar_step(ar, i);
            sum += ar->x[i];
        }
        if (sum >= -(int64_t) ar->capacity) {
            return;
        }
        ar_take_partition(ar);
    }
}

static int ar_compute(const struct pci_flow *flow, struct pci_ratio *bound)
{
    struct ar_search ar = {.flow = flow, .source = flow->nvertices, .sink = flow->nvertices + 1};
    int rc = pci_maxflow_init(&ar.mf, flow->nvertices + 2, flow->nlinks + 2 * (size_t) flow->ngpus);

    if (rc != 0) {
        return rc;
    }
    ar.x = pci_arena_array(&ar.mf.arena, flow->ngpus, sizeof *ar.x);
    ar.block = pci_arena_array(&ar.mf.arena, flow->ngpus, sizeof *ar.block);
    if (ar.mf.arena.failed) {
        pci_maxflow_fini(&ar.mf);
        return -ENOMEM;
    }
    for (size_t e = 0; e < flow->nlinks; e++) {
        pci_maxflow_edge(&ar.mf, flow->links[e].from, flow->links[e].to);
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        pci_maxflow_edge(&ar.mf, ar.source, v);
    }
    for (uint32_t v = 0; v < flow->ngpus; v++) {
        pci_maxflow_edge(&ar.mf, v, ar.sink);
    }
    ar_solve(&ar);
    *bound = ratio_make(ar.capacity, 2 * (ar.parts - 1));
    pci_maxflow_fini(&ar.mf);
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool ratio_less(const struct pci_ratio *a, const struct pci_ratio *b)
{
    /* An exact comparison would need 128 bits. This order only has to be that of the reported
     * figures. */
    return a->gbps < b->gbps;
}

int pci_bound_compute(const struct pci_flow *flow, struct pci_bound *bound)
{
    struct pci_bound result = {.connected = false};
    struct pci_flow even = {0};
    int rc;

    if (flow->ngpus < 2) {
        return -EINVAL;
    }
    if (!sums_fit(flow)) {
        return -ERANGE;
    }
    rc = ag_compute(flow, &result.ag);
    if (rc != 0) {
        return rc;
    }
    rc = pci_flow_symmetric(flow, &even);
    if (rc == 0) {
        rc = ar_compute(&even, &result.ar);
    }
    pci_flow_fini(&even);
    if (rc != 0) {
        return rc;
    }
    result.connected = result.ag.num > 0;
    if (ratio_less(&result.ar, &result.ag)) {
        result.ar = result.ag;
    }
    *bound = result;
    return 0;
}
