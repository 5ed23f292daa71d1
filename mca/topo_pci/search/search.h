/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internals that the parts of the channel search share.
 *
 *     search/tour.c   cheapest order of the GPUs at given prices: exact for few of them
 *     search/local.c  nearly so for many
 *     search/search_bound.c  a lower bound of the cost of the cheapest order of many GPUs
 *     search/price.c  loads of the links, their prices, costs of the ways
 *     search/ends.c   NICs for the ends of channels
 *     search/pack.c   a number of channels so that the fullest link is as empty as possible
 *     search/search.c        classes of paths, NIC pairs, number and speed of channels
 *
 * The search places channels of speed 1 one after another. Each channel is the cheapest order of
 * the GPUs at prices that grow exponentially with the load of a link. Then single channels are
 * removed and placed again. The fullest link determines the speed of the channels, so no list of
 * candidate speeds is needed. The same prices prove a limit: if a channel costs at least C, and all
 * capacity together costs Y, no set of channels moves more than Y / C (linear programming duality).
 * Prices that are computed only for this purpose (multiplicative weights) bring the limit to within
 * a few percent of the optimum. The search ends when it is close to the limit, or after a number of
 * steps.
 */
#ifndef TOPO_PCI_SEARCH_SEARCH_H
#define TOPO_PCI_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/search/pci_channels.h"
#include "mca/topo_pci/xml/doc.h"

/* A search ends if a set reaches the first fraction of the proven limit. After all of its steps,
 * the second fraction is enough. */
#define SEARCH_GOOD    0.9999
#define SEARCH_CONTENT 0.95

/* Maximum number of GPUs for which the exact search finds the cheapest order (memoised over
 * subsets). */
#define TOUR_EXACT_GPUS 10u

enum tour_kind {
    TOUR_CYCLE,  /* closed by the way from last to first */
    TOUR_CLOSED, /* closed at the cost ends[first * n + last] */
    TOUR_FIRST,  /* open; the first costs ends[first] */
    TOUR_PAIR    /* open; the first two cost ends[first * n + second] */
};

/* A sum of costs. Forbidden ways are counted separately, because their cost would hide the rest of
 * the sum. */
struct cost {
    double sum;
    double forbidden;
};

/* Costs of an order. INFINITY: the way is forbidden. */
struct tour {
    enum tour_kind kind;
    uint32_t n;
    bool exact;        /* search_tour() finds the optimum */
    double enough;     /* no order costs less than about this */
    double *arc;       /* from * n + to */
    double *ends;      /* n * n */
    double *best;      /* subset * n + last -> cost of the best order of the subset (exact) */
    uint8_t *from;     /* and the one before the last */
    double *least;     /* the cheapest way into each GPU */
    double *rest;      /* subset -> their sum over the GPUs outside of it (exact) */
    struct cost *sums; /* along an order, there and back (others) */
    uint32_t *trial, *moved;
    uint64_t steps;
};

/* Prepare for orders of n GPUs, with memory of the arena. */
void pci_tour_init(struct tour *tour, uint32_t n, struct pci_arena *arena);

/* Find the cheapest order and return its cost. INFINITY: none was found. */
double pci_tour_search(struct tour *tour, uint32_t *order);

/* The same for any number of GPUs, with moves that lower the cost. */
double pci_tour_approach(struct tour *tour, uint32_t *order);

/* Return the cost of ending an order that began at FIRST. */
double pci_tour_closing(const struct tour *tour, uint32_t first, uint32_t last);

/* A set with a given number of channels. */
struct layout {
    uint32_t count;
    uint32_t *intra;     /* PCI_CHANNELS_MAX x n */
    uint32_t (*nets)[2]; /* PCI_CHANNELS_MAX */
};

/* One search: a pattern within given classes. */
struct problem {
    const struct pci_fabric *fabric;
    enum pci_pattern pattern;
    bool nets;    /* channels begin and end at NICs */
    bool forced;  /* the last prices allow one pair of NICs only */
    bool swap;    /* channels 2k and 2k+1 use a pair of NICs in turn */
    double ratio; /* speed between GPUs, in speeds of the channel between nodes */
    enum pci_path_class max_intra, max_inter;
    uint32_t max_channels;
    double need;  /* a set that moves less is of no use */
    double limit; /* proven: channels x speed is at most this */
    uint64_t steps, first_step, max_steps;

    struct tour tour;
    uint32_t *proof;         /* scratch */
    uint32_t (*ends_net)[2]; /* as tour.ends: the NICs */
    uint32_t nactive;
    uint32_t *active; /* the links that any allowed way uses */
    double *load;     /* link -> traffic at speed 1 */
    double *price;
    double *weight, *spare; /* of pci_problem_squeeze() */
    double *in, *out;       /* net * n + gpu: costs of the ways between GPUs and NICs */
};

void pci_problem_init(struct problem *problem, const struct pci_fabric *fabric,
                      struct pci_arena *arena);

/* Set pattern and classes, and reset loads and limit. */
void pci_problem_start(struct problem *problem);

/* Add (sign 1) or subtract (-1) a channel's load. */
void pci_problem_load(struct problem *problem, const uint32_t *order, const uint32_t *nets,
                      double sign);

/* Return the load of the fullest link, which is 1 / speed, or 0 without any load. */
double pci_problem_fullest(const struct problem *problem);

/* Compute the prices from the loads, with a factor of exp(STEEP) between an empty link and the
 * fullest one, and then the costs of all ways. SWAPPED: the NICs {out, in} of the partner that this
 * channel must swap, or NULL. */
void pci_problem_price(struct problem *problem, double steep, const uint32_t *swapped);

/* Compute the tour's ends from the costs of the ways between GPUs and NICs. */
void pci_problem_price_ends(struct problem *problem, const uint32_t *swapped);

/* Return a lower bound of the cost of any channel at the prices. */
double pci_problem_least(struct problem *problem);

/* Find the cheapest channel at the prices, and lower the limit. Return false if there is none. */
bool pci_problem_cheapest(struct problem *problem, uint32_t *order, uint32_t *nets);

/* Try to lower the limit with equal prices on the fuller links and 0 on the others. If the fuller
 * links are a cut, these prices prove its capacity. */
void pci_problem_prove(struct problem *problem);

/* Lower the limit with multiplicative weights: repeatedly raise the prices of the links that the
 * cheapest channel uses. The result is within a few percent of the best limit that prices can
 * prove. Stop at ENOUGH.
 */
void pci_problem_squeeze(struct problem *problem, double enough, uint64_t most_steps);

void pci_layout_init(struct layout *layout, uint32_t n, struct pci_arena *arena);
void pci_layout_copy(struct layout *to, const struct layout *from, uint32_t n);

/* Sets to work with. */
struct pack_scratch {
    struct layout base, work, found;
};

/* Find the set with the highest product of channels and speed. Among nearly equal sets, take the
 * one with the fewest channels, or with PREFER channels if PREFER is not 0 and this loses less than
 * SLACK. Return channels x speed, or 0 if there is no channel. */
double pack_search(struct problem *problem, uint32_t prefer, double slack, struct layout *best,
                   struct pack_scratch *scratch);

#endif
