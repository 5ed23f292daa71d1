/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Revised simplex with an explicit inverse of the basis: maximise the sum of the rates, with the
 * load on each row at most its capacity. The start (all links idle) is feasible and every pivot
 * keeps it so; capacities are lowered by distinct tiny amounts, which keeps the degenerate steps of
 * equal links from cycling.
 */
#include "mca/topo_pci/bounds/pack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LP_GAIN  1e-9  /* smaller gains are rounding */
#define LP_PIVOT 1e-9  /* smaller pivots are rounding */
#define LP_TILT  1e-10 /* relative change of one row's capacity, times its number */

int pack_lp_init(struct pack_lp *lp, uint32_t nrows)
{
    *lp = (struct pack_lp){.nrows = nrows};
    lp->inverse = calloc((size_t) nrows * nrows + 1, sizeof(*lp->inverse));
    lp->rate = calloc(nrows + 1u, sizeof(*lp->rate));
    lp->basic = calloc(nrows + 1u, sizeof(*lp->basic));
    lp->price = calloc(nrows + 1u, sizeof(*lp->price));
    lp->entering = calloc(nrows + 1u, sizeof(*lp->entering));
    if (NULL == lp->inverse || NULL == lp->rate || NULL == lp->basic || NULL == lp->price ||
        NULL == lp->entering) {
        pack_lp_fini(lp);
        return -ENOMEM;
    }
    return 0;
}

void pack_lp_fini(struct pack_lp *lp)
{
    free(lp->inverse);
    free(lp->rate);
    free(lp->basic);
    free(lp->price);
    free(lp->entering);
    memset(lp, 0, sizeof(*lp));
}

void pack_lp_start(struct pack_lp *lp, const struct pack_problem *problem)
{
    uint32_t m = lp->nrows;

    memset(lp->inverse, 0, (size_t) m * m * sizeof(*lp->inverse));
    for (uint32_t r = 0; r < m; r++) {
        lp->inverse[(size_t) r * m + r] = 1;
        lp->rate[r] = problem->capacity[r] * (1 - LP_TILT * (r + 1));
        lp->basic[r] = -1 - (int32_t) r;
        lp->price[r] = 0;
    }
}

void pack_lp_price(struct pack_lp *lp)
{
    uint32_t m = lp->nrows;

    memset(lp->price, 0, m * sizeof(*lp->price));
    for (uint32_t i = 0; i < m; i++) {
        const double *row = &lp->inverse[(size_t) i * m];

        if (lp->basic[i] >= 0) {
            for (uint32_t r = 0; r < m; r++) {
                lp->price[r] += row[r];
            }
        }
    }
}

double pack_lp_gain(const struct pack_lp *lp, const struct pack_column *column)
{
    double gain = 1;

    for (uint32_t r = 0; r < lp->nrows; r++) {
        gain -= lp->price[r] * column->load[r];
    }
    return gain;
}

/* Bring the variable whose column in the current basis is entering[] in: raise it until the first
 * basic variable is used up, which leaves. */
static void pivot(struct pack_lp *lp, int32_t variable)
{
    uint32_t m = lp->nrows, leaving = UINT32_MAX;
    double least = INFINITY;

    for (uint32_t i = 0; i < m; i++) {
        if (lp->entering[i] > LP_PIVOT && lp->rate[i] < least * lp->entering[i]) {
            least = lp->rate[i] / lp->entering[i];
            leaving = i;
        }
    }
    if (UINT32_MAX == leaving) {
        return; /* cannot happen: each tree loads some row */
    }
    for (uint32_t r = 0; r < m; r++) {
        lp->inverse[(size_t) leaving * m + r] /= lp->entering[leaving];
    }
    for (uint32_t i = 0; i < m; i++) {
        double times = lp->entering[i];

        if (i != leaving && 0 != times) {
            for (uint32_t r = 0; r < m; r++) {
                lp->inverse[(size_t) i * m + r] -= times * lp->inverse[(size_t) leaving * m + r];
            }
            lp->rate[i] = fmax(0, lp->rate[i] - times * least);
        }
    }
    lp->rate[leaving] = least;
    lp->basic[leaving] = variable;
}

static void enter_column(struct pack_lp *lp, const struct pack_pool *pool, uint32_t column)
{
    const double *load = pool->columns[column].load;
    uint32_t m = lp->nrows;

    for (uint32_t i = 0; i < m; i++) {
        double sum = 0;

        for (uint32_t r = 0; r < m; r++) {
            sum += lp->inverse[(size_t) i * m + r] * load[r];
        }
        lp->entering[i] = sum;
    }
    pivot(lp, (int32_t) column);
}

static bool enter_slack(struct pack_lp *lp)
{
    uint32_t m = lp->nrows, best = 0;

    for (uint32_t r = 1; r < m; r++) {
        best = lp->price[r] < lp->price[best] ? r : best;
    }
    if (0 == m || lp->price[best] >= -LP_GAIN) {
        return false;
    }
    for (uint32_t i = 0; i < m; i++) {
        lp->entering[i] = lp->inverse[(size_t) i * m + best];
    }
    pivot(lp, -1 - (int32_t) best);
    return true;
}

double pack_lp_total(const struct pack_lp *lp)
{
    double total = 0;

    for (uint32_t i = 0; i < lp->nrows; i++) {
        total += lp->basic[i] >= 0 ? lp->rate[i] : 0;
    }
    return total;
}

bool pack_lp_step(struct pack_lp *lp, const struct pack_pool *pool, const uint32_t *set,
                  uint32_t count)
{
    uint32_t best = UINT32_MAX;
    double most = LP_GAIN;

    lp->work += (uint64_t) lp->nrows * (3 * lp->nrows + count);
    pack_lp_price(lp);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = NULL == set ? i : set[i];
        double gain = pack_lp_gain(lp, &pool->columns[column]);

        if (gain > most) {
            most = gain;
            best = column;
        }
    }
    if (UINT32_MAX != best) {
        enter_column(lp, pool, best);
        return true;
    }
    return enter_slack(lp);
}

double pack_lp_solve(struct pack_lp *lp, const struct pack_problem *problem,
                     const struct pack_pool *pool, const uint32_t *set, uint32_t count)
{
    uint32_t steps = 20 * (count + 1); /* a few per tree are needed */

    pack_lp_start(lp, problem);
    while (steps-- > 0 && pack_lp_step(lp, pool, set, count)) {
    }
    return pack_lp_total(lp);
}
