/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compute a lower bound of the cost of a channel at given prices, for any number of GPUs. */
#include "mca/topo_pci/search/search.h"

#include <math.h>

/* Find the cheapest way into each GPU, or out of each GPU, and their sum. */
static double least_ways(const struct problem *problem, bool into, double *least)
{
    uint32_t n = problem->fabric->ngpus;
    double sum = 0;

    for (uint32_t g = 0; g < n; g++) {
        least[g] = INFINITY;
        for (uint32_t other = 0; other < n; other++) {
            size_t at = into ? (size_t) other * n + g : (size_t) g * n + other;

            least[g] = fmin(least[g], problem->tour.arc[at]);
        }
        sum += least[g];
    }
    return sum;
}

/* Return the minimum over all GPUs of the cost of NIC NET at this GPU (SHARE_IN on the way in,
 * SHARE_OUT on the way out), minus the cost of the way that the NIC replaces. */
static double least_at(const struct problem *problem, uint32_t net, double share_in,
                       double share_out, const double *spared)
{
    uint32_t n = problem->fabric->ngpus;
    double least = INFINITY;

    for (uint32_t g = 0; g < n; g++) {
        size_t at = (size_t) net * n + g;
        double cost = spared ? -spared[g] : 0;

        cost += share_in > 0 ? share_in * problem->in[at] : 0;
        cost += share_out > 0 ? share_out * problem->out[at] : 0;
        if (cost < least) { /* GCC 12 for aarch64 fails to compile fmin() here at -O3 */
            least = cost;
        }
    }
    return least;
}

/* Return this minimum for the ends of a whole channel. INTO: the ways into GPUs were counted. */
static double least_ends(const struct problem *problem, bool into, const double *spared)
{
    bool ring = problem->pattern == PCI_PATTERN_RING;
    double first_out = ring ? 0 : problem->pattern == PCI_PATTERN_TREE ? 1 : 0.5;
    double enter = INFINITY, leave = INFINITY, both = INFINITY;

    for (uint32_t net = 0; net < problem->fabric->nnets; net++) {
        double in = least_at(problem, net, 1, first_out, into ? spared : NULL);
        double out =
            first_out >= 1 ? 0 : least_at(problem, net, 0, 1 - first_out, into ? NULL : spared);

        enter = fmin(enter, in);
        leave = fmin(leave, out);
        both = fmin(both, in + out);
    }
    return problem->swap ? enter + leave : both;
}

double pci_problem_least(struct problem *problem)
{
    uint32_t n = problem->fabric->ngpus;
    double *least = problem->tour.least;
    double into = least_ways(problem, true, least), cost, out;

    if (n < 2 || !(into < INFINITY)) {
        return 0;
    }
    if (problem->nets) {
        cost = into + least_ends(problem, true, least);
    } else if (problem->pattern == PCI_PATTERN_RING) {
        cost = into;
    } else {
        double most = 0;

        for (uint32_t g = 0; g < n; g++) {
            most = fmax(most, least[g]);
        }
        cost = into - most;
    }
    if (problem->pattern != PCI_PATTERN_RING) {
        return cost;
    }
    out = least_ways(problem, false, least);
    return fmax(cost, problem->nets ? out + least_ends(problem, false, least) : out);
}
