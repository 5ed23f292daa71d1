/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Find cheap orders of many GPUs: start with nearest neighbours, and move pieces as long as this
 * lowers the cost. */
#include "mca/topo_pci/search/search.h"

#include <math.h>
#include <string.h>

#define GREEDY_STARTS 4u
#define PIECE_MAX     3u
#define IMPROVE_GPUS  32u     /* more GPUs keep the greedy order, if it is one */
#define STEPS_MOVE    8u      /* of one move */
#define STEPS_MOST    100000u /* of one start */

/* The cost of a forbidden way in sums, so that orders with fewer of them are better. */
#define COST_FORBIDDEN 1e30

/* An order that is cut into pieces, which are joined in another order:
 *
 *     0 .. at | at .. end (reversed?) | ...
 */
struct piece {
    uint32_t at, end;
    bool reversed;
};

struct cut {
    uint32_t count;
    struct piece pieces[4];
};

static void cost_add(struct cost *cost, double arc)
{
    if (arc < COST_FORBIDDEN) {
        cost->sum += arc;
    } else {
        cost->forbidden++;
    }
}

static double cost_value(const struct cost *cost)
{
    return cost->forbidden > 0 ? cost->forbidden * COST_FORBIDDEN : cost->sum;
}

/* Compute the costs of the ways along an order from its beginning, in both directions. */
static void sums_set(struct tour *tour, const uint32_t *order)
{
    uint32_t n = tour->n;
    struct cost *there = tour->sums, *back = tour->sums + n;

    there[0] = back[0] = (struct cost){0};
    for (uint32_t i = 1; i < n; i++) {
        there[i] = there[i - 1];
        back[i] = back[i - 1];
        cost_add(&there[i], tour->arc[(size_t) order[i - 1] * n + order[i]]);
        cost_add(&back[i], tour->arc[(size_t) order[i] * n + order[i - 1]]);
    }
    tour->steps += 2 * n;
}

static void cut_add(struct cut *cut, uint32_t at, uint32_t end, bool reversed)
{
    if (at < end) {
        cut->pieces[cut->count++] = (struct piece){at, end, reversed};
    }
}

/* Return the GPU at POSITION of a piece, counted from its current beginning. */
static uint32_t piece_gpu(const uint32_t *order, const struct piece *piece, uint32_t position)
{
    return order[piece->reversed ? piece->end - 1 - position : piece->at + position];
}

static uint32_t piece_length(const struct piece *piece)
{
    return piece->end - piece->at;
}

/* Return the cost of ending an order that began at FIRST. */
double pci_tour_closing(const struct tour *tour, uint32_t first, uint32_t last)
{
    if (tour->kind == TOUR_CYCLE) {
        return tour->n == 1 ? 0 : tour->arc[(size_t) last * tour->n + first];
    }
    return tour->kind == TOUR_CLOSED ? tour->ends[(size_t) first * tour->n + last] : 0;
}

/* Return the cost of the ends of an order. */
static double ends_cost(const struct tour *tour, uint32_t first, uint32_t second, uint32_t last)
{
    if (tour->kind == TOUR_FIRST) {
        return tour->ends[first];
    }
    return tour->kind == TOUR_PAIR ? tour->ends[(size_t) first * tour->n + second]
                                   : pci_tour_closing(tour, first, last);
}

static double cut_cost(struct tour *tour, const uint32_t *order, const struct cut *cut)
{
    const struct piece *pieces = cut->pieces;
    uint32_t n = tour->n, first = piece_gpu(order, &pieces[0], 0), last = first, second;
    struct cost cost = {0};

    for (uint32_t k = 0; k < cut->count; k++) {
        const struct cost *sums = pieces[k].reversed ? tour->sums + n : tour->sums;

        if (k > 0) {
            cost_add(&cost, tour->arc[(size_t) last * n + piece_gpu(order, &pieces[k], 0)]);
        }
        cost.sum += sums[pieces[k].end - 1].sum - sums[pieces[k].at].sum;
        cost.forbidden += sums[pieces[k].end - 1].forbidden - sums[pieces[k].at].forbidden;
        last = piece_gpu(order, &pieces[k], piece_length(&pieces[k]) - 1);
    }
    second = piece_length(&pieces[0]) > 1 ? piece_gpu(order, &pieces[0], 1)
                                          : piece_gpu(order, &pieces[1], 0);
    cost_add(&cost, ends_cost(tour, first, second, last));
    tour->steps += STEPS_MOVE;
    return cost_value(&cost);
}

/* Join the pieces in this order if that is cheaper. */
static bool cut_try(struct tour *tour, uint32_t *order, const struct cut *cut, double *cost)
{
    double now = cut_cost(tour, order, cut);
    uint32_t used = 0;

    if (!(now < *cost * (1 - 1e-12))) {
        return false;
    }
    for (uint32_t k = 0; k < cut->count; k++) {
        for (uint32_t i = 0; i < piece_length(&cut->pieces[k]); i++) {
            tour->moved[used++] = piece_gpu(order, &cut->pieces[k], i);
        }
    }
    memcpy(order, tour->moved, tour->n * sizeof *order);
    sums_set(tour, order);
    *cost = now;
    return true;
}

/* Remove LENGTH GPUs at AT and insert them, possibly reversed, before the GPU that is then at TO.
 */
static struct cut cut_move(uint32_t n, uint32_t at, uint32_t length, uint32_t to, bool reversed)
{
    struct cut cut = {0};

    cut_add(&cut, 0, to < at ? to : at, false);
    if (to <= at) {
        cut_add(&cut, at, at + length, reversed);
        cut_add(&cut, to, at, false);
        cut_add(&cut, at + length, n, false);
    } else {
        cut_add(&cut, at + length, to + length, false);
        cut_add(&cut, at, at + length, reversed);
        cut_add(&cut, to + length, n, false);
    }
    return cut;
}

static double countable(double cost)
{
    return cost < COST_FORBIDDEN ? cost : COST_FORBIDDEN;
}

/* Return true if moving a piece changes neither the ends of the order nor their neighbours. */
static bool is_inside(uint32_t n, uint32_t at, uint32_t length, uint32_t to)
{
    return at >= 2 && at + length < n && to >= 2 && to < n - length;
}

/* Return the gain of moving a piece inside the order. Only the neighbours of its ends change. */
static double move_gain(const struct tour *tour, const uint32_t *order, uint32_t at,
                        uint32_t length, uint32_t to, bool reversed)
{
    const double *arc = tour->arc;
    uint32_t n = tour->n, end = at + length - 1;
    uint32_t before = order[to - 1 < at ? to - 1 : to - 1 + length];
    uint32_t after = order[to < at ? to : to + length];
    uint32_t head = order[reversed ? end : at], tail = order[reversed ? at : end];
    double gain = countable(arc[(size_t) order[at - 1] * n + order[at]]) +
                  countable(arc[(size_t) order[end] * n + order[end + 1]]) -
                  countable(arc[(size_t) order[at - 1] * n + order[end + 1]]);

    if (reversed) {
        const struct cost *there = tour->sums, *back = tour->sums + n;

        gain += there[end].sum - there[at].sum - back[end].sum + back[at].sum;
    }
    return gain + countable(arc[(size_t) before * n + after]) -
           countable(arc[(size_t) before * n + head]) - countable(arc[(size_t) tail * n + after]);
}

static bool move_pieces(struct tour *tour, uint32_t *order, double *cost, uint64_t end)
{
    uint32_t n = tour->n;
    bool gained = false;

    for (uint32_t length = 1; length <= PIECE_MAX && length < n; length++) {
        for (uint32_t at = 0; at + length <= n && tour->steps < end; at++) {
            for (uint32_t to = 0; to <= 2 * (n - length) + 1; to++) {
                bool reversed = to % 2 == 1;
                struct cut cut;

                tour->steps += 2;
                if (is_inside(n, at, length, to / 2) &&
                    !(move_gain(tour, order, at, length, to / 2, reversed) > 0)) {
                    continue;
                }
                cut = cut_move(n, at, length, to / 2, reversed);
                gained |= cut_try(tour, order, &cut, cost);
            }
        }
    }
    return gained;
}

static bool reverse_pieces(struct tour *tour, uint32_t *order, double *cost, uint64_t end)
{
    uint32_t n = tour->n;
    bool gained = false;

    for (uint32_t at = 0; at < n && tour->steps < end; at++) {
        for (uint32_t to = at + PIECE_MAX + 1; to <= n; to++) {
            struct cut cut = {0};

            cut_add(&cut, 0, at, false);
            cut_add(&cut, at, to, true);
            cut_add(&cut, to, n, false);
            gained |= cut_try(tour, order, &cut, cost);
        }
    }
    return gained;
}

static double order_cost(struct tour *tour, const uint32_t *order)
{
    struct cut whole = {0};

    sums_set(tour, order);
    cut_add(&whole, 0, tour->n, false);
    return cut_cost(tour, order, &whole);
}

/* Make moves that improve the order until no move does. */
static double improve(struct tour *tour, uint32_t *order)
{
    uint64_t end = tour->steps + STEPS_MOST;
    bool gained = true;
    double cost = order_cost(tour, order);

    while (gained && cost > tour->enough && tour->steps < end) {
        gained = move_pieces(tour, order, &cost, end);
        gained |= reverse_pieces(tour, order, &cost, end);
    }
    return cost;
}

/* Continue the order after order[0 .. used-1] with nearest neighbours. LAST is reserved for the end
 * (UINT32_MAX: none). */
static void greedy_fill(struct tour *tour, uint32_t *order, uint32_t used, uint32_t last)
{
    uint32_t n = tour->n;
    uint32_t *taken = tour->moved;

    memset(taken, 0, n * sizeof *taken);
    for (uint32_t i = 0; i < used; i++) {
        taken[order[i]] = 1;
    }
    while (used < n) {
        const double *arc = tour->arc + (size_t) order[used - 1] * n;
        uint32_t next = UINT32_MAX;

        for (uint32_t g = 0; g < n; g++) {
            if (taken[g] == 0 && (g != last || used + 1 == n) &&
                (next == UINT32_MAX || arc[g] < arc[next])) {
                next = g;
            }
        }
        tour->steps += n;
        taken[next] = 1;
        order[used++] = next;
    }
}

/* Find the next start in the order of cost and number, after *AFTER and *NUMBER: the first GPU and,
 * for kinds that fix it, the last or the second. Return false if there is none. */
static bool greedy_start(struct tour *tour, double *after, size_t *number)
{
    uint32_t n = tour->n;
    size_t count = tour->kind == TOUR_CLOSED || tour->kind == TOUR_PAIR ? (size_t) n * n : n;
    double best = INFINITY;
    size_t found = SIZE_MAX;

    for (size_t i = 0; i < count; i++) {
        double cost = tour->kind == TOUR_CYCLE ? 0 : tour->ends[i];

        if (count > n && i / n == i % n) {
            continue;
        }
        if (tour->kind == TOUR_PAIR) {
            cost += tour->arc[i];
        }
        if ((cost > *after || (cost == *after && (*number == SIZE_MAX || i > *number))) &&
            cost < best) {
            best = cost;
            found = i;
        }
    }
    tour->steps += count;
    *after = best;
    *number = found;
    return found != SIZE_MAX;
}

/* Build the order of nearest neighbours from start NUMBER. */
static void greedy_order(struct tour *tour, size_t number, uint32_t *order)
{
    uint32_t n = tour->n, used = 1, last = UINT32_MAX;
    bool pairs = tour->kind == TOUR_CLOSED || tour->kind == TOUR_PAIR;

    order[0] = (uint32_t) (pairs ? number / n : number);
    if (tour->kind == TOUR_CLOSED) {
        last = (uint32_t) (number % n);
    } else if (tour->kind == TOUR_PAIR) {
        order[used++] = (uint32_t) (number % n);
    }
    greedy_fill(tour, order, used, last);
}

/* Improve the cheapest of some greedy orders. If the result has forbidden ways, improve the others
 * as well. */
double pci_tour_approach(struct tour *tour, uint32_t *order)
{
    uint32_t *trial = tour->trial;
    double bound = INFINITY, after = -1;
    size_t number = SIZE_MAX;

    for (uint32_t s = 0; s < GREEDY_STARTS && greedy_start(tour, &after, &number); s++) {
        double cost;

        greedy_order(tour, number, trial);
        cost = order_cost(tour, trial);
        if (cost < bound) {
            bound = cost;
            memcpy(order, trial, tour->n * sizeof *order);
        }
    }
    if (bound > tour->enough && (tour->n <= IMPROVE_GPUS || bound >= COST_FORBIDDEN)) {
        bound = improve(tour, order);
    }
    after = -1;
    number = SIZE_MAX;
    for (uint32_t s = 0; bound >= COST_FORBIDDEN && s < GREEDY_STARTS; s++) {
        if (!greedy_start(tour, &after, &number)) {
            break;
        }
        greedy_order(tour, number, order);
        bound = improve(tour, order);
    }
    return bound < COST_FORBIDDEN ? bound : INFINITY;
}
