/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compute loads and prices of links, and find the cheapest channel at these prices. */
#include "mca/topo_pci/search/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps of multiplicative weights: the first, and how much smaller each next one is. */
#define SQUEEZE_FIRST  2.0
#define SQUEEZE_DECAY  0.98
#define SQUEEZE_ROUNDS 250u

#define STEPS_PRICE 4u /* of one exponential */

void pci_problem_init(struct problem *problem, const struct pci_fabric *fabric,
                      struct pci_arena *arena)
{
    uint32_t n = fabric->ngpus, nlinks = fabric->nlinks;
    size_t pairs = (size_t) n * fabric->nnets;

    *problem = (struct problem){
        .fabric = fabric,
        .proof = pci_arena_array(arena, n, sizeof *problem->proof),
        .ends_net = pci_arena_array(arena, (size_t) n * n, sizeof *problem->ends_net),
        .active = pci_arena_array(arena, nlinks, sizeof *problem->active),
        .load = pci_arena_array(arena, nlinks, sizeof *problem->load),
        .price = pci_arena_array(arena, nlinks, sizeof *problem->price),
        .weight = pci_arena_array(arena, nlinks, sizeof *problem->weight),
        .spare = pci_arena_array(arena, nlinks, sizeof *problem->spare),
        .in = pci_arena_array(arena, pairs, sizeof *problem->in),
        .out = pci_arena_array(arena, pairs, sizeof *problem->out),
    };
    pci_tour_init(&problem->tour, n, arena);
}

static bool is_tree(const struct problem *problem)
{
    return problem->pattern != PCI_PATTERN_RING;
}

/* Return true if traffic from one GPU to another is allowed. In a tree it must be allowed in both
 * directions. */
static bool arc_allowed(const struct problem *problem, uint32_t from, uint32_t to)
{
    const struct pci_fabric *fabric = problem->fabric;
    const struct pci_way *way = &fabric->gpus[(size_t) from * fabric->ngpus + to];
    const struct pci_way *back = &fabric->gpus[(size_t) to * fabric->ngpus + from];

    return from != to && way->class <= problem->max_intra &&
           (!is_tree(problem) || back->class <= problem->max_intra);
}

static void activate_way(struct problem *problem, const struct pci_way *way)
{
    for (uint32_t i = 0; i < way->count; i++) {
        problem->price[problem->fabric->uses[way->first + i].link] = 1;
    }
}

/* Collect the links that any allowed way uses. */
static void collect_links(struct problem *problem)
{
    const struct pci_fabric *fabric = problem->fabric;
    uint32_t n = fabric->ngpus;
    size_t pairs = problem->nets ? (size_t) n * fabric->nnets : 0;

    memset(problem->price, 0, fabric->nlinks * sizeof *problem->price);
    for (size_t i = 0; i < (size_t) n * n; i++) {
        if (arc_allowed(problem, (uint32_t) (i / n), (uint32_t) (i % n))) {
            activate_way(problem, &fabric->gpus[i]);
        }
    }
    for (size_t i = 0; i < pairs; i++) {
        if (fabric->in[i].class <= problem->max_inter) {
            activate_way(problem, &fabric->in[i]);
        }
        if (fabric->out[i].class <= problem->max_inter) {
            activate_way(problem, &fabric->out[i]);
        }
    }
    problem->nactive = 0;
    for (uint32_t link = 0; link < fabric->nlinks; link++) {
        if (problem->price[link] > 0) {
            problem->active[problem->nactive++] = link;
        }
    }
    problem->steps += (size_t) n * n + pairs;
}

void pci_problem_start(struct problem *problem)
{
    bool tree = is_tree(problem);

    memset(problem->load, 0, problem->fabric->nlinks * sizeof *problem->load);
    problem->limit = INFINITY;
    if (problem->fabric->ngpus == 1 && tree) {
        problem->pattern = PCI_PATTERN_TREE; /* there is no second GPU */
    }
    if (!tree) {
        problem->tour.kind = problem->nets ? TOUR_CLOSED : TOUR_CYCLE;
    } else {
        problem->tour.kind =
            problem->nets && problem->pattern == PCI_PATTERN_BALANCED_TREE ? TOUR_PAIR : TOUR_FIRST;
    }
    collect_links(problem);
}

static void load_way(struct problem *problem, const struct pci_way *way, double amount)
{
    for (uint32_t i = 0; i < way->count; i++) {
        const struct pci_use *use = &problem->fabric->uses[way->first + i];

        problem->load[use->link] += amount * use->factor;
        if (fabs(problem->load[use->link]) < 1e-9) {
            problem->load[use->link] = 0;
        }
    }
}

void pci_problem_load(struct problem *problem, const uint32_t *order, const uint32_t *nets,
                      double sign)
{
    const struct pci_fabric *fabric = problem->fabric;
    uint32_t n = fabric->ngpus;
    uint32_t first = order[0], last = order[n - 1];

    for (uint32_t i = 1; i < n; i++) {
        uint32_t from = order[i - 1], to = order[i];
        double there = sign * problem->ratio * (is_tree(problem) ? 0.5 : 1);

        load_way(problem, &fabric->gpus[(size_t) from * n + to], there);
        if (is_tree(problem)) {
            load_way(problem, &fabric->gpus[(size_t) to * n + from], there);
        }
    }
    if (!problem->nets) {
        if (!is_tree(problem) && n > 1) {
            load_way(problem, &fabric->gpus[(size_t) last * n + first], sign * problem->ratio);
        }
        return;
    }
    load_way(problem, &fabric->in[(size_t) nets[0] * n + first], sign);
    if (problem->pattern == PCI_PATTERN_BALANCED_TREE) {
        load_way(problem, &fabric->out[(size_t) first * fabric->nnets + nets[1]], sign / 2);
        load_way(problem, &fabric->out[(size_t) order[1] * fabric->nnets + nets[1]], sign / 2);
    } else {
        uint32_t from = is_tree(problem) ? first : last;

        load_way(problem, &fabric->out[(size_t) from * fabric->nnets + nets[1]], sign);
    }
}

double pci_problem_fullest(const struct problem *problem)
{
    double fullest = 0;

    for (uint32_t i = 0; i < problem->nactive; i++) {
        uint32_t link = problem->active[i];
        double load = problem->load[link] / problem->fabric->capacity[link];

        fullest = load > fullest ? load : fullest; /* 0 of 0 does not count */
    }
    return fullest;
}

/* Return the cost of traffic 1 on a way, or INFINITY if the way exceeds the class. */
static double way_cost(const struct problem *problem, const struct pci_way *way,
                       enum pci_path_class max)
{
    double cost = 0;

    if (way->class > max) {
        return INFINITY;
    }
    for (uint32_t i = 0; i < way->count; i++) {
        const struct pci_use *use = &problem->fabric->uses[way->first + i];

        cost += problem->price[use->link] * use->factor;
    }
    return cost;
}

static double link_price(double steep, double relative, double capacity)
{
    return capacity > 0 ? exp(steep * (relative - 1)) / capacity : INFINITY;
}

static void price_links(struct problem *problem, double steep)
{
    double fullest = pci_problem_fullest(problem);

    for (uint32_t i = 0; i < problem->nactive; i++) {
        uint32_t link = problem->active[i];
        double capacity = problem->fabric->capacity[link];
        double relative = fullest > 0 ? problem->load[link] / capacity / fullest : 1;

        problem->price[link] = link_price(steep, relative, capacity);
    }
    problem->steps += STEPS_PRICE * problem->nactive;
}

static void price_gpus(struct problem *problem)
{
    const struct pci_fabric *fabric = problem->fabric;
    uint32_t n = fabric->ngpus;

    for (uint32_t from = 0; from < n; from++) {
        for (uint32_t to = 0; to < n; to++) {
            double *arc = &problem->tour.arc[(size_t) from * n + to];

            *arc = INFINITY;
            if (arc_allowed(problem, from, to)) {
                *arc = problem->ratio *
                       way_cost(problem, &fabric->gpus[(size_t) from * n + to], problem->max_intra);
            }
        }
    }
    for (uint32_t a = 0; is_tree(problem) && a < n; a++) {
        for (uint32_t b = 0; b < a; b++) { /* the same amount flows back */
            double *there = &problem->tour.arc[(size_t) a * n + b];
            double *back = &problem->tour.arc[(size_t) b * n + a];

            *there = *back = (*there + *back) / 2;
        }
    }
    problem->steps += (size_t) 4 * n * n;
}

static void price_nets(struct problem *problem)
{
    const struct pci_fabric *fabric = problem->fabric;
    uint32_t n = fabric->ngpus;

    for (uint32_t net = 0; net < fabric->nnets; net++) {
        for (uint32_t g = 0; g < n; g++) {
            size_t at = (size_t) net * n + g;

            problem->in[at] = way_cost(problem, &fabric->in[at], problem->max_inter);
            problem->out[at] = way_cost(problem, &fabric->out[(size_t) g * fabric->nnets + net],
                                        problem->max_inter);
        }
    }
    problem->steps += (size_t) 8 * n * fabric->nnets;
}

static void price_ways(struct problem *problem, const uint32_t *swapped)
{
    problem->forced = swapped != NULL;
    price_gpus(problem);
    if (problem->nets) {
        price_nets(problem);
    }
    pci_problem_price_ends(problem, swapped);
}

void pci_problem_price(struct problem *problem, double steep, const uint32_t *swapped)
{
    price_links(problem, steep);
    price_ways(problem, swapped);
}

/* Return the sum of all capacities, weighted with the prices. */
static double pci_problem_worth(const struct problem *problem)
{
    double worth = 0;

    for (uint32_t i = 0; i < problem->nactive; i++) {
        uint32_t link = problem->active[i];

        if (problem->fabric->capacity[link] > 0) {
            worth += problem->price[link] * problem->fabric->capacity[link];
        }
    }
    return worth;
}

bool pci_problem_cheapest(struct problem *problem, uint32_t *order, uint32_t *nets)
{
    uint32_t n = problem->fabric->ngpus;
    struct tour *tour = &problem->tour;
    double least = tour->exact ? 0 : pci_problem_least(problem), cost;

    tour->steps = tour->exact ? 0 : (size_t) 2 * n * n;
    tour->enough = least * (1 + 1e-9);
    cost = pci_tour_search(tour, order);
    problem->steps += tour->steps;
    if (!(cost < INFINITY)) {
        return false;
    }
    least = tour->exact ? cost : least;
    if (!problem->forced && least > 0) {
        double limit = pci_problem_worth(problem) / least;

        problem->limit = limit < problem->limit ? limit : problem->limit;
    }
    nets[0] = nets[1] = PCI_NO_NET;
    if (problem->nets) {
        size_t at =
            tour->kind == TOUR_FIRST
                ? order[0]
                : (size_t) order[0] * n + (tour->kind == TOUR_PAIR ? order[1] : order[n - 1]);

        memcpy(nets, problem->ends_net[at], 2 * sizeof *nets);
    }
    return true;
}

void pci_problem_prove(struct problem *problem)
{
    static const double shares[] = {0.9999, 0.5};
    double fullest = pci_problem_fullest(problem);

    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        uint32_t nets[2];

        for (uint32_t k = 0; k < problem->nactive; k++) {
            uint32_t link = problem->active[k];
            double capacity = problem->fabric->capacity[link];

            problem->price[link] = problem->load[link] >= shares[i] * fullest * capacity ? 1 : 0;
        }
        price_ways(problem, NULL);
        (void) pci_problem_cheapest(problem, problem->proof, nets); /* what counts is the limit */
    }
}

/* Compute the prices from the weights, which are their logarithms. */
static void price_weights(struct problem *problem)
{
    double most = 0;

    for (uint32_t i = 0; i < problem->nactive; i++) {
        most = fmax(most, problem->weight[problem->active[i]]);
    }
    for (uint32_t i = 0; i < problem->nactive; i++) {
        uint32_t link = problem->active[i];
        double capacity = problem->fabric->capacity[link];

        problem->price[link] =
            capacity > 0 ? exp(problem->weight[link] - most) / capacity : INFINITY;
    }
    problem->steps += STEPS_PRICE * problem->nactive;
    price_ways(problem, NULL);
}

/* Raise the weights of the links that a channel uses, by STEP for the link that it fills first, and
 * by less for the others. */
static void raise_weights(struct problem *problem, const uint32_t *order, const uint32_t *nets,
                          double step)
{
    double *loads = problem->load;
    double fullest;

    problem->load = problem->spare;
    memset(problem->load, 0, problem->fabric->nlinks * sizeof *problem->load);
    pci_problem_load(problem, order, nets, 1);
    fullest = pci_problem_fullest(problem);
    for (uint32_t i = 0; fullest > 0 && i < problem->nactive; i++) {
        uint32_t link = problem->active[i];

        if (problem->fabric->capacity[link] > 0) {
            problem->weight[link] +=
                step * problem->load[link] / problem->fabric->capacity[link] / fullest;
        }
    }
    problem->load = loads;
}

void pci_problem_squeeze(struct problem *problem, double enough, uint64_t most_steps)
{
    double step = SQUEEZE_FIRST;
    uint64_t end = problem->steps + most_steps;

    memset(problem->weight, 0, problem->fabric->nlinks * sizeof *problem->weight);
    for (uint32_t round = 0;
         round < SQUEEZE_ROUNDS && problem->steps < end && problem->limit > enough; round++) {
        uint32_t nets[2];

        price_weights(problem);
        if (!pci_problem_cheapest(problem, problem->proof, nets)) {
            return;
        }
        raise_weights(problem, problem->proof, nets, step);
        step *= SQUEEZE_DECAY;
    }
}
