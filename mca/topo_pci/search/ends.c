/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Choose NICs for the ends of channels at given prices. */
#include "mca/topo_pci/search/search.h"

#include <math.h>
#include <string.h>

#define PAIRS_ALL 8192u /* choices of two ends and a NIC; of more, those near the NIC are made */
#define NEAR_GPUS 4u

/* Return the cost of traffic that enters at A through the NIC IN and leaves through OUT. It leaves
 * from B in a ring, from A in a tree, and half from each in a balanced tree. */
static double ends_cost(const struct problem *problem, uint32_t in, uint32_t out, uint32_t a,
                        uint32_t b)
{
    uint32_t n = problem->fabric->ngpus;
    double enter = problem->in[(size_t) in * n + a];
    double leave_a = problem->out[(size_t) out * n + a];
    double leave_b = problem->out[(size_t) out * n + b];

    if (problem->pattern == PCI_PATTERN_RING) {
        return enter + leave_b;
    }
    return enter + (problem->pattern == PCI_PATTERN_TREE ? leave_a : (leave_a + leave_b) / 2);
}

/* Take NICs IN and OUT for number AT of the tour's ends if they are cheaper. */
static void end_offer(struct problem *problem, size_t at, uint32_t in, uint32_t out, double cost)
{
    if (cost < problem->tour.ends[at]) {
        problem->tour.ends[at] = cost;
        problem->ends_net[at][0] = in;
        problem->ends_net[at][1] = out;
    }
}

/* Find the best NICs for these ends, and store them as number AT of the tour's ends. */
static void price_end(struct problem *problem, size_t at, uint32_t a, uint32_t b,
                      const uint32_t *swapped)
{
    uint32_t nnets = problem->fabric->nnets;

    if (swapped != NULL) {
        problem->tour.ends[at] = ends_cost(problem, swapped[0], swapped[1], a, b);
        memcpy(problem->ends_net[at], swapped, sizeof problem->ends_net[at]);
        return;
    }
    for (uint32_t net = 0; net < nnets; net++) {
        end_offer(problem, at, net, net, ends_cost(problem, net, net, a, b));
    }
    problem->steps += nnets;
}

/* Return the cheapest NIC at GPU G. */
static uint32_t cheapest_net(const struct problem *problem, const double *costs, uint32_t g)
{
    uint32_t n = problem->fabric->ngpus, best = 0;

    for (uint32_t net = 1; net < problem->fabric->nnets; net++) {
        if (costs[(size_t) net * n + g] < costs[(size_t) best * n + g]) {
            best = net;
        }
    }
    return best;
}

/* Find the NICs of a ring whose ends may use any two NICs. */
static void price_free_pairs(struct problem *problem)
{
    uint32_t n = problem->fabric->ngpus;

    for (uint32_t a = 0; a < n; a++) {
        uint32_t in = cheapest_net(problem, problem->in, a);

        for (uint32_t b = 0; b < n; b++) {
            size_t at = (size_t) a * n + b;

            problem->ends_net[at][0] = in;
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        uint32_t out = cheapest_net(problem, problem->out, b);

        for (uint32_t a = 0; a < n; a++) {
            size_t at = (size_t) a * n + b;
            uint32_t in = problem->ends_net[at][0];

            if (a != b || n == 1) {
                end_offer(problem, at, in, out, ends_cost(problem, in, out, a, b));
            }
        }
    }
    problem->steps += (size_t) 2 * n * problem->fabric->nnets + n * n;
}

/* Find the GPUs at which a NIC costs least. IN and OUT are the shares of the traffic that enters
 * and leaves there. */
static uint32_t nearest_gpus(const struct problem *problem, uint32_t net, double in, double out,
                             uint32_t *near)
{
    uint32_t n = problem->fabric->ngpus, count = 0;
    double cost[NEAR_GPUS + 1];

    for (uint32_t g = 0; g < n; g++) {
        size_t at = (size_t) net * n + g;
        double now = (in > 0 ? in * problem->in[at] : 0) + (out > 0 ? out * problem->out[at] : 0);
        uint32_t i = count < NEAR_GPUS ? count++ : NEAR_GPUS;

        for (; i > 0 && cost[i - 1] > now; i--) {
            cost[i] = cost[i - 1];
            near[i] = near[i - 1];
        }
        cost[i] = now;
        near[i] = g;
    }
    return count;
}

/* With many GPUs and NICs, offer each NIC only to the GPUs where it costs least. */
static void price_near_pairs(struct problem *problem)
{
    uint32_t n = problem->fabric->ngpus, nnets = problem->fabric->nnets;
    bool ring = problem->pattern == PCI_PATTERN_RING;

    for (uint32_t net = 0; net < nnets; net++) {
        uint32_t first[NEAR_GPUS + 1], second[NEAR_GPUS + 1];
        uint32_t firsts = nearest_gpus(problem, net, 1, ring ? 0 : 0.5, first);
        uint32_t seconds = nearest_gpus(problem, net, 0, ring ? 1 : 0.5, second);

        for (uint32_t i = 0; i < firsts * seconds; i++) {
            uint32_t a = first[i / seconds], b = second[i % seconds];

            if (a != b) {
                end_offer(problem, (size_t) a * n + b, net, net,
                          ends_cost(problem, net, net, a, b));
            }
        }
    }
    problem->steps += (size_t) 8 * n * nnets;
}

static void price_pairs(struct problem *problem, const uint32_t *swapped)
{
    uint32_t n = problem->fabric->ngpus;
    size_t choices = (size_t) n * n * problem->fabric->nnets;

    if (swapped == NULL && problem->swap) {
        price_free_pairs(problem);
        return;
    }
    if (swapped == NULL && choices > PAIRS_ALL && !problem->tour.exact) {
        price_near_pairs(problem);
        return;
    }
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            if (a != b || n == 1) {
                price_end(problem, (size_t) a * n + b, a, b, swapped);
            }
        }
    }
}

void pci_problem_price_ends(struct problem *problem, const uint32_t *swapped)
{
    uint32_t n = problem->fabric->ngpus;

    for (size_t i = 0; i < (size_t) n * n; i++) {
        problem->tour.ends[i] = problem->nets ? INFINITY : 0;
    }
    if (!problem->nets) {
        return;
    }
    for (uint32_t a = 0; problem->tour.kind == TOUR_FIRST && a < n; a++) {
        price_end(problem, a, a, a, swapped);
    }
    if (problem->tour.kind != TOUR_FIRST) {
        price_pairs(problem, swapped);
    }
}
