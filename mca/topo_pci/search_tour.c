/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Cheapest orders of GPUs: exact over subsets for few GPUs, otherwise nearest neighbours and moves
 * of short pieces. */
#include "search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GREEDY_STARTS  4u
#define IMPROVE_GPUS   32u /* more GPUs keep the greedy order */
#define IMPROVE_PASSES 4u
#define PIECE_MAX      3u

int tour_init(struct tour *tour, uint32_t n)
{
    size_t subsets = n <= TOUR_EXACT_GPUS ? (size_t) 1 << n : 1;
    struct tour result = {.n = n, .exact = n <= TOUR_EXACT_GPUS};

    result.arc = calloc((size_t) n * n + 1, sizeof(*result.arc));
    result.ends = calloc((size_t) n * n + 1, sizeof(*result.ends));
    result.best = calloc(subsets * n + 1, sizeof(*result.best));
    result.from = calloc(subsets * n + 1, sizeof(*result.from));
    result.trial = calloc((size_t) 3 * n + 1, sizeof(*result.trial));
    if (NULL == result.arc || NULL == result.ends || NULL == result.best || NULL == result.from ||
        NULL == result.trial) {
        tour_fini(&result);
        return -ENOMEM;
    }
    *tour = result;
    return 0;
}

void tour_fini(struct tour *tour)
{
    free(tour->arc);
    free(tour->ends);
    free(tour->best);
    free(tour->from);
    free(tour->trial);
    memset(tour, 0, sizeof(*tour));
}

/* Extend the best orders of all subsets that hold MUST, one GPU at a time; those that cost BOUND
 * already lead nowhere. */
static void exact_extend(struct tour *tour, uint32_t must, double bound)
{
    uint32_t n = tour->n, all = (1u << n) - 1;

    for (uint32_t set = must; set < all; set++) {
        if ((set & must) != must) {
            continue;
        }
        for (uint32_t rest = set; 0 != rest; rest &= rest - 1) {
            uint32_t last = (uint32_t) __builtin_ctz(rest);
            double cost = tour->best[(size_t) set * n + last];
            const double *arc = tour->arc + (size_t) last * n;

            if (cost >= bound) {
                continue;
            }
            for (uint32_t open = all & ~set; 0 != open; open &= open - 1) {
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
    tour->steps += count / 8;
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

/* Cost of ending an order that began at FIRST. */
static double closing(const struct tour *tour, uint32_t first, uint32_t last)
{
    if (TOUR_CYCLE == tour->kind) {
        return 1 == tour->n ? 0 : tour->arc[(size_t) last * tour->n + first];
    }
    return TOUR_CLOSED == tour->kind ? tour->ends[(size_t) first * tour->n + last] : 0;
}

/* The best of all orders that begin with FIRST (for open kinds: with what was set up). */
static double exact_finish(const struct tour *tour, uint32_t first, double bound, uint32_t *order)
{
    const double *best = tour->best + (size_t) ((1u << tour->n) - 1) * tour->n;
    uint32_t last = UINT32_MAX;

    for (uint32_t g = 0; g < tour->n; g++) {
        double cost = best[g] + closing(tour, first, g);

        if (cost < bound) {
            bound = cost;
            last = g;
        }
    }
    if (UINT32_MAX != last) {
        exact_order(tour, last, order);
    }
    return bound;
}

static double exact_closed(struct tour *tour, uint32_t *order)
{
    uint32_t starts = TOUR_CYCLE == tour->kind ? 1 : tour->n;
    double bound = INFINITY;

    for (uint32_t first = 0; first < starts; first++) {
        exact_reset(tour);
        tour->best[((size_t) 1 << first) * tour->n + first] = 0;
        exact_extend(tour, 1u << first, bound);
        bound = exact_finish(tour, first, bound, order);
    }
    return bound;
}

static double exact_open(struct tour *tour, uint32_t *order)
{
    uint32_t n = tour->n;

    exact_reset(tour);
    for (uint32_t first = 0; first < n; first++) {
        if (TOUR_FIRST == tour->kind) {
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
    exact_extend(tour, 0, INFINITY);
    return exact_finish(tour, 0, INFINITY, order);
}

/* In sums, a way that must not be used costs this much: fewer of them are better. */
#define COST_FORBIDDEN 1e30

static double countable(double cost)
{
    return cost < COST_FORBIDDEN ? cost : COST_FORBIDDEN;
}

static double order_cost(struct tour *tour, const uint32_t *order)
{
    uint32_t n = tour->n;
    double cost = countable(closing(tour, order[0], order[n - 1]));

    if (TOUR_FIRST == tour->kind) {
        cost += countable(tour->ends[order[0]]);
    } else if (TOUR_PAIR == tour->kind) {
        cost += countable(tour->ends[(size_t) order[0] * n + order[1]]);
    }
    for (uint32_t i = 1; i < n; i++) {
        cost += countable(tour->arc[(size_t) order[i - 1] * n + order[i]]);
    }
    tour->steps += n;
    return cost;
}

/* Nearest neighbours from order[0 .. used-1] on; LAST is kept for the end (UINT32_MAX: none). */
static void greedy_fill(struct tour *tour, uint32_t *order, uint32_t used, uint32_t last)
{
    uint32_t n = tour->n;
    uint32_t *taken = tour->trial + 2 * n;

    memset(taken, 0, n * sizeof(*taken));
    for (uint32_t i = 0; i < used; i++) {
        taken[order[i]] = 1;
    }
    while (used < n) {
        const double *arc = tour->arc + (size_t) order[used - 1] * n;
        uint32_t next = UINT32_MAX;

        for (uint32_t g = 0; g < n; g++) {
            if (0 == taken[g] && (g != last || used + 1 == n) &&
                (UINT32_MAX == next || arc[g] < arc[next])) {
                next = g;
            }
        }
        tour->steps += n;
        taken[next] = 1;
        order[used++] = next;
    }
}

/* The cheapest way to begin that costs more than *AFTER (or as much, with a higher number than
 * *NUMBER): first GPU and, where the kind knows it, the last or the second. */
static bool greedy_start(struct tour *tour, double *after, size_t *number)
{
    uint32_t n = tour->n;
    size_t count = TOUR_CLOSED == tour->kind || TOUR_PAIR == tour->kind ? (size_t) n * n : n;
    double best = INFINITY;
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        double cost = TOUR_CYCLE == tour->kind ? 0 : tour->ends[i];

        if (count > n && i / n == i % n) {
            continue;
        }
        if (TOUR_PAIR == tour->kind) {
            cost += tour->arc[i];
        }
        if ((cost > *after || (cost == *after && (SIZE_MAX == *number || i > *number))) &&
            cost < best) {
            best = cost;
            found = i;
        }
    }
    tour->steps += count;
    *after = best;
    *number = found;
    return SIZE_MAX != found;
}

/* Take order[at .. at+length-1] out and put it, perhaps reversed, before what is then at TO. */
static void piece_move(const uint32_t *order, uint32_t n, uint32_t at, uint32_t length, uint32_t to,
                       bool reversed, uint32_t *moved)
{
    uint32_t used = 0;

    for (uint32_t i = 0, rest = 0; i <= n; i++) {
        if (i < n && i >= at && i < at + length) {
            continue;
        }
        if (rest++ == to) {
            for (uint32_t k = 0; k < length; k++) {
                moved[used++] = order[reversed ? at + length - 1 - k : at + k];
            }
        }
        if (i < n) {
            moved[used++] = order[i];
        }
    }
}

/* Make every move of a short piece that gains. */
static bool improve_once(struct tour *tour, uint32_t *order, double *cost)
{
    uint32_t n = tour->n;
    uint32_t *moved = tour->trial + n;
    bool gained = false;

    for (uint32_t length = 1; length <= PIECE_MAX && length < n; length++) {
        for (uint32_t at = 0; at + length <= n; at++) {
            for (uint32_t to = 0; to <= 2 * (n - length) + 1; to++) {
                double now;

                piece_move(order, n, at, length, to / 2, 1 == to % 2, moved);
                now = order_cost(tour, moved);
                if (now < *cost * (1 - 1e-12)) {
                    memcpy(order, moved, n * sizeof(*order));
                    *cost = now;
                    gained = true;
                }
            }
        }
    }
    return gained;
}

static double greedy_search(struct tour *tour, uint32_t *order)
{
    uint32_t n = tour->n;
    uint32_t *trial = tour->trial;
    double after = -1, bound = INFINITY;
    size_t number = SIZE_MAX;

    for (uint32_t s = 0; s < GREEDY_STARTS && greedy_start(tour, &after, &number); s++) {
        uint32_t used = 1, last = UINT32_MAX;
        double cost;

        trial[0] =
            (uint32_t) (TOUR_CLOSED == tour->kind || TOUR_PAIR == tour->kind ? number / n : number);
        if (TOUR_CLOSED == tour->kind) {
            last = (uint32_t) (number % n);
        } else if (TOUR_PAIR == tour->kind) {
            trial[used++] = (uint32_t) (number % n);
        }
        greedy_fill(tour, trial, used, last);
        cost = order_cost(tour, trial);
        if (cost < bound) {
            bound = cost;
            memcpy(order, trial, n * sizeof(*order));
        }
    }
    for (uint32_t pass = 0; bound < INFINITY && n <= IMPROVE_GPUS && pass < IMPROVE_PASSES;
         pass++) {
        if (!improve_once(tour, order, &bound)) {
            break;
        }
    }
    return bound < COST_FORBIDDEN ? bound : INFINITY;
}

double tour_search(struct tour *tour, uint32_t *order)
{
    if (1 == tour->n) {
        order[0] = 0;
        return TOUR_CYCLE == tour->kind ? 0 : tour->ends[0];
    }
    if (!tour->exact) {
        return greedy_search(tour, order);
    }
    return TOUR_CYCLE == tour->kind || TOUR_CLOSED == tour->kind ? exact_closed(tour, order)
                                                                 : exact_open(tour, order);
}
