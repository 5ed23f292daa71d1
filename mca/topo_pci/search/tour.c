/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Find the cheapest order of few GPUs exactly, over all subsets. */
#include "mca/topo_pci/search/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pci_tour_init(struct tour *tour, uint32_t n, struct pci_arena *arena)
{
    bool exact = n <= TOUR_EXACT_GPUS;
    size_t subsets = exact ? (size_t) 1 << n : 0;

    *tour = (struct tour){
        .n = n,
        .exact = exact,
        .arc = pci_arena_array(arena, (size_t) n * n, sizeof *tour->arc),
        .ends = pci_arena_array(arena, (size_t) n * n, sizeof *tour->ends),
        .best = pci_arena_array(arena, subsets * n, sizeof *tour->best),
        .from = pci_arena_array(arena, subsets * n, sizeof *tour->from),
        .rest = pci_arena_array(arena, subsets, sizeof *tour->rest),
        .least = pci_arena_array(arena, n, sizeof *tour->least),
        .sums = pci_arena_array(arena, (size_t) 2 * n, sizeof *tour->sums),
        .trial = pci_arena_array(arena, n, sizeof *tour->trial),
        .moved = pci_arena_array(arena, n, sizeof *tour->moved),
    };
}

/* Compute a lower bound of the cost of the GPUs outside each subset: the sum of the cheapest ways
 * into each. */
static void exact_rest(struct tour *tour)
{
    uint32_t n = tour->n, all = (1u << n) - 1;

    tour->rest[all] = 0;
    for (uint32_t set = all; set-- > 0;) {
        uint32_t g = (uint32_t) __builtin_ctz(~set);

        tour->rest[set] = tour->rest[set | 1u << g] + tour->least[g];
    }
    tour->steps += all / 2;
}

/* Extend the best orders of all subsets that contain MUST by one GPU at a time. Skip orders that
 * cannot be completed and ended (at a cost of END) for less than BOUND. */
static void exact_extend(struct tour *tour, uint32_t must, double end, double bound)
{
    uint32_t n = tour->n, all = (1u << n) - 1;

    for (uint32_t set = must; set < all; set = (set + 1) | must) {
        double most = bound - end - tour->rest[set];

        tour->steps += (uint32_t) __builtin_popcount(set);
        for (uint32_t rest = set; rest != 0; rest &= rest - 1) {
            uint32_t last = (uint32_t) __builtin_ctz(rest);
            double cost = tour->best[(size_t) set * n + last];
            const double *arc = tour->arc + (size_t) last * n;

            if (!(cost < most)) {
                continue;
            }
            for (uint32_t open = all & ~set; open != 0; open &= open - 1) {
                uint32_t next = (uint32_t) __builtin_ctz(open);
                size_t to = (size_t) (set | 1u << next) * n + next;

                if (cost + arc[next] < tour->best[to]) {
                    tour->best[to] = cost + arc[next];
                    tour->from[to] = (uint8_t) last;
                }
                tour->steps++;
            }
        }
    }
}

static void exact_reset(struct tour *tour)
{
    size_t count = ((size_t) 1 << tour->n) * tour->n;

    for (size_t i = 0; i < count; i++) {
        tour->best[i] = INFINITY;
    }
    tour->steps += count / 5;
}

static void exact_order(const struct tour *tour, uint32_t last, uint32_t *order)
{
    uint32_t set = (1u << tour->n) - 1;

    for (uint32_t i = tour->n; i > 0; i--) {
        uint32_t before = tour->from[(size_t) set * tour->n + last];

        order[i - 1] = last;
        set &= ~(1u << last);
        last = before;
    }
}

/* Find the best of all orders that begin with FIRST (for open kinds: with any first GPU that was
 * set up). */
static double exact_finish(const struct tour *tour, uint32_t first, double bound, uint32_t *order)
{
    const double *best = tour->best + (size_t) ((1u << tour->n) - 1) * tour->n;
    uint32_t last = UINT32_MAX;

    for (uint32_t g = 0; g < tour->n; g++) {
        double cost = best[g] + pci_tour_closing(tour, first, g);

        if (cost < bound) {
            bound = cost;
            last = g;
        }
    }
    if (last != UINT32_MAX) {
        exact_order(tour, last, order);
    }
    return bound;
}

/* Return the minimum cost of ending an order that began at FIRST. */
static double least_end(const struct tour *tour, uint32_t first)
{
    double least = INFINITY;

    if (tour->kind == TOUR_CYCLE) {
        return tour->least[first];
    }
    for (uint32_t last = 0; last < tour->n; last++) {
        least = fmin(least, tour->ends[(size_t) first * tour->n + last]);
    }
    return least;
}

static double exact_closed(struct tour *tour, uint32_t *order)
{
    uint32_t starts = tour->kind == TOUR_CYCLE ? 1 : tour->n;
    double bound = INFINITY;

    for (uint32_t first = 0; first < starts; first++) {
        double end = least_end(tour, first);

        if (end + tour->rest[1u << first] < bound) {
            exact_reset(tour);
            tour->best[((size_t) 1 << first) * tour->n + first] = 0;
            exact_extend(tour, 1u << first, end, bound);
            bound = exact_finish(tour, first, bound, order);
        }
    }
    return bound;
}

static double exact_open(struct tour *tour, uint32_t *order)
{
    uint32_t n = tour->n;

    exact_reset(tour);
    for (uint32_t first = 0; first < n; first++) {
        if (tour->kind == TOUR_FIRST) {
            tour->best[((size_t) 1 << first) * n + first] = tour->ends[first];
            continue;
        }
        for (uint32_t second = 0; second < n; second++) {
            if (second != first) {
                size_t to = (((size_t) 1 << first) | ((size_t) 1 << second)) * n + second;

                tour->best[to] = tour->ends[(size_t) first * n + second] +
                                 tour->arc[(size_t) first * n + second];
                tour->from[to] = (uint8_t) first;
            }
        }
    }
    exact_extend(tour, 0, 0, INFINITY);
    return exact_finish(tour, 0, INFINITY, order);
}

static void least_find(struct tour *tour)
{
    uint32_t n = tour->n;

    for (uint32_t to = 0; to < n; to++) {
        tour->least[to] = INFINITY;
        for (uint32_t from = 0; from < n; from++) {
            tour->least[to] = fmin(tour->least[to], tour->arc[(size_t) from * n + to]);
        }
    }
}

double pci_tour_search(struct tour *tour, uint32_t *order)
{
    if (tour->n == 1) {
        order[0] = 0;
        return tour->kind == TOUR_CYCLE ? 0 : tour->ends[0];
    }
    if (!tour->exact) {
        return pci_tour_approach(tour, order);
    }
    least_find(tour);
    exact_rest(tour);
    return tour->kind == TOUR_CYCLE || tour->kind == TOUR_CLOSED ? exact_closed(tour, order)
                                                                 : exact_open(tour, order);
}
