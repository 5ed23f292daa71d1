/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the cheapest orders of GPUs with all orders, at costs of which some are forbidden. */
#include "test/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/search/search.h"

#define MOST_GPUS 7u
#define TRIES     40u

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33) % below;
}

static double draw_cost(uint32_t forbidden)
{
    return draw(100) < forbidden ? INFINITY : 1 + draw(20);
}

static void draw_tour(struct tour *tour, uint32_t forbidden)
{
    size_t count = (size_t) tour->n * tour->n;

    for (size_t i = 0; i < count; i++) {
        tour->arc[i] = i / tour->n == i % tour->n ? INFINITY : draw_cost(forbidden);
        tour->ends[i] = draw_cost(forbidden);
    }
}

static double cost_of(const struct tour *tour, const uint32_t *order)
{
    uint32_t n = tour->n;
    double cost = pci_tour_closing(tour, order[0], order[n - 1]);

    if (TOUR_FIRST == tour->kind) {
        cost += tour->ends[order[0]];
    } else if (TOUR_PAIR == tour->kind) {
        cost += tour->ends[(size_t) order[0] * n + order[1]];
    }
    for (uint32_t i = 1; i < n; i++) {
        cost += tour->arc[(size_t) order[i - 1] * n + order[i]];
    }
    return cost;
}

/* Return the minimum cost of all orders that begin with USED GPUs of ORDER. */
static double least_of_all(const struct tour *tour, uint32_t *order, uint32_t used)
{
    double least = INFINITY;

    if (used == tour->n) {
        return cost_of(tour, order);
    }
    for (uint32_t i = used; i < tour->n; i++) {
        uint32_t next = order[i];

        order[i] = order[used];
        order[used] = next;
        least = fmin(least, least_of_all(tour, order, used + 1));
        order[used] = order[i];
        order[i] = next;
    }
    return least;
}

static void assert_order(const struct tour *tour, const uint32_t *order, double cost)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < tour->n; i++) {
        seen |= 1u << order[i];
    }
    assert_int_equal(seen, (1u << tour->n) - 1);
    assert_true(fabs(cost_of(tour, order) - cost) < 1e-9);
}

/* Returns how often the moves found the optimum. */
static uint32_t compare(struct tour *tour, uint32_t forbidden)
{
    uint32_t order[MOST_GPUS], all[MOST_GPUS] = {0, 1, 2, 3, 4, 5, 6}, optimal = 0;

    for (uint32_t k = 0; k < TRIES; k++) {
        double least, exact, near;

        draw_tour(tour, forbidden);
        least = least_of_all(tour, all, 0);
        exact = pci_tour_search(tour, order);
        if (!(least < INFINITY)) {
            assert_false(exact < INFINITY);
            continue;
        }
        assert_true(fabs(exact - least) < 1e-9);
        assert_order(tour, order, exact);
        near = pci_tour_approach(tour, order);
        if (near < INFINITY) {
            assert_order(tour, order, near);
            optimal += near < least + 1e-9;
            assert_true(near > least - 1e-9);
        }
    }
    return optimal;
}

TEST(test_orders)
{
    uint32_t optimal = 0, tours = 0;

    for (uint32_t n = 2; n <= MOST_GPUS; n++) {
        struct pci_arena arena = {.last = NULL};
        struct tour tour;

        pci_tour_init(&tour, n, &arena);
        assert_false(arena.failed);
        assert_true(tour.exact);
        for (enum tour_kind kind = TOUR_CYCLE; kind <= TOUR_PAIR; kind++) {
            tour.kind = kind;
            optimal += compare(&tour, 0);
            (void) compare(&tour, 30);
            tours += TRIES;
        }
        pci_arena_free(&arena);
    }
    assert_true(optimal >= tours * 7 / 10); /* moves alone find most of them */
}
