/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Place a number of channels so that the load of the fullest link is as small as possible. */
#include "mca/topo_pci/search/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEEP_FIRST  12.0
#define SWEEPS       8u    /* how often every channel is laid again */
#define LOSS         1e-4  /* sets that differ by less count as equal */
#define PROVE_GPUS   32u   /* of more GPUs, only sets of 2^k channels have their limit proven */
#define CHANNEL_GAIN 0.002 /* each further channel must gain this much */

void pci_layout_init(struct layout *layout, uint32_t n, struct pci_arena *arena)
{
    layout->count = 0;
    layout->intra = pci_arena_array(arena, (size_t) PCI_CHANNELS_MAX * n, sizeof *layout->intra);
    layout->nets = pci_arena_array(arena, PCI_CHANNELS_MAX, sizeof *layout->nets);
}

void pci_layout_copy(struct layout *to, const struct layout *from, uint32_t n)
{
    to->count = from->count;
    memcpy(to->intra, from->intra, (size_t) from->count * n * sizeof *to->intra);
    memcpy(to->nets, from->nets, from->count * sizeof *to->nets);
}

static double value_of(const struct problem *problem, uint32_t count)
{
    double fullest = pci_problem_fullest(problem);

    return count > 0 && fullest > 0 && fullest < INFINITY ? count / fullest : 0;
}

/* Place channel C at the current loads. With swapped pairs, also place C + 1. */
static bool lay(struct problem *problem, struct layout *layout, uint32_t c, double steep)
{
    uint32_t n = problem->fabric->ngpus;

    for (uint32_t k = c; k <= c + (problem->swap ? 1 : 0); k++) {
        const uint32_t partner[2] = {k > 0 ? layout->nets[k - 1][1] : 0,
                                     k > 0 ? layout->nets[k - 1][0] : 0};

        pci_problem_price(problem, steep, k > c ? partner : NULL);
        if (!pci_problem_cheapest(problem, layout->intra + (size_t) k * n, layout->nets[k])) {
            if (k > c) {
                pci_problem_load(problem, layout->intra + (size_t) c * n, layout->nets[c], -1);
            }
            return false;
        }
        pci_problem_load(problem, layout->intra + (size_t) k * n, layout->nets[k], 1);
    }
    return true;
}

static void load_all(struct problem *problem, const struct layout *layout)
{
    memset(problem->load, 0, problem->fabric->nlinks * sizeof *problem->load);
    for (uint32_t c = 0; c < layout->count; c++) {
        pci_problem_load(problem, layout->intra + (size_t) c * problem->fabric->ngpus,
                         layout->nets[c], 1);
    }
}

/* Return true if the value is close enough to the limit. The requirement drops with the number of
 * steps. */
static bool good(const struct problem *problem, double value)
{
    double spent = (double) (problem->steps - problem->first_step) /
                   (double) (problem->max_steps - problem->first_step + 1);

    return value >= (SEARCH_GOOD - (SEARCH_GOOD - SEARCH_CONTENT) * spent) * problem->limit;
}

/* Place channels one after another up to the largest number. value[k] is the value of the first k
 * channels. Stop when the limit is reached. If the limit is below the need, there is no result. */
static void construct(struct problem *problem, struct layout *base, double *value)
{
    uint32_t step = problem->swap ? 2 : 1;
    double most = 0;

    base->count = 0;
    while (base->count + step <= problem->max_channels && problem->steps < problem->max_steps) {
        if (!lay(problem, base, base->count, STEEP_FIRST)) {
            return;
        }
        base->count += step;
        value[base->count] = value_of(problem, base->count);
        if (value[base->count] > most) {
            most = value[base->count];
            if (problem->fabric->ngpus <= PROVE_GPUS || (base->count & (base->count - 1)) == 0) {
                pci_problem_prove(problem);
            }
        }
        if (problem->limit < problem->need) {
            base->count = 0;
            return;
        }
        if (good(problem, value[base->count])) {
            return;
        }
    }
}

/* Repeatedly remove and place each of the first COUNT channels of BASE, and store the best set in
 * WORK. */
static double refine(struct problem *problem, const struct layout *base, uint32_t count,
                     struct layout *now, struct layout *best)
{
    static const double steep[SWEEPS] = {20, 8, 30, 14, 6, 40, 10, 25};
    uint32_t n = problem->fabric->ngpus, step = problem->swap ? 2 : 1;
    double value;

    pci_layout_copy(now, base, n);
    now->count = count;
    load_all(problem, now);
    value = value_of(problem, count);
    pci_layout_copy(best, now, n);
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        double before = value;

        for (uint32_t c = 0; c < count; c += step) {
            double reached;

            if (good(problem, value) || problem->steps >= problem->max_steps) {
                return value;
            }
            for (uint32_t k = c; k < c + step; k++) {
                pci_problem_load(problem, now->intra + (size_t) k * n, now->nets[k], -1);
            }
            if (!lay(problem, now, c, steep[sweep])) {
                return value;
            }
            reached = value_of(problem, count);
            if (reached > value * (1 + 1e-9)) {
                value = reached;
                pci_layout_copy(best, now, n);
                pci_problem_prove(problem);
            }
        }
        if (sweep >= 3 && value <= before) {
            break;
        }
    }
    return value;
}

/* Lower the limit before time is spent on improvements, because the limit shows how much they can
 * gain. Return false if these classes cannot be useful. */
static bool worthwhile(struct problem *problem, const double *value, uint32_t most)
{
    double reached = 0;

    for (uint32_t k = 1; k <= most; k++) {
        reached = fmax(reached, value[k]);
    }
    if (most > 0 && !good(problem, reached)) {
        uint64_t left =
            problem->max_steps > problem->steps ? problem->max_steps - problem->steps : 0;

        pci_problem_squeeze(problem, fmax(reached, problem->need), left / 2);
    }
    return problem->limit >= problem->need;
}

/* Return the number of channels that has not been tried and promises the highest value. */
static uint32_t next_count(const double *value, const bool *tried, uint32_t most)
{
    uint32_t next = 0;

    for (uint32_t k = 1; k <= most; k++) {
        if (!tried[k] && value[k] > 0 && (next == 0 || value[k] > value[next] * (1 + LOSS))) {
            next = k;
        }
    }
    return next;
}

double pack_search(struct problem *problem, uint32_t prefer, double slack, struct layout *best,
                   struct pack_scratch *scratch)
{
    double value[PCI_CHANNELS_MAX + 2] = {0};
    bool tried[PCI_CHANNELS_MAX + 2] = {false};
    uint32_t n = problem->fabric->ngpus, next;
    double reached = 0, wanted = 0;

    construct(problem, &scratch->base, value);
    best->count = 0;
    if (!worthwhile(problem, value, scratch->base.count)) {
        return 0;
    }
    next = prefer > 0 && prefer <= scratch->base.count && value[prefer] > 0 ? prefer : 0;
    if (next == 0) {
        next = next_count(value, tried, scratch->base.count);
    }
    while (next != 0) {
        double now = refine(problem, &scratch->base, next, &scratch->work, &scratch->found);
        double worse = CHANNEL_GAIN * ((double) next - best->count);

        tried[next] = true;
        if (now * (1 - worse) > wanted || best->count == 0) {
            pci_layout_copy(best, &scratch->found, n);
            reached = now;
            wanted = next == prefer ? now * (1 + slack) : now;
        }
        if (good(problem, wanted) || problem->steps >= problem->max_steps) {
            break;
        }
        next = next_count(value, tried, scratch->base.count);
    }
    return reached;
}
