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
 * The method: channels of speed 1 are laid one after another, each as the cheapest order at prices
 * that grow exponentially with the load of a link; then single channels are taken out and laid
 * again. That needs no list of candidate speeds: the fullest link determines the speed. The
 * same prices prove a limit: if a channel costs at least C and all capacity together costs Y, no
 * set of channels moves more than Y / C (linear programming duality). Prices made for that purpose
 * alone (multiplicative weights) bring the limit within a few percent of the truth. The search ends
 * when it is close to the limit, or after a number of steps.
 */
#ifndef TOPO_PCI_SEARCH_SEARCH_H
#define TOPO_PCI_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/search/pci_channels.h"

/* Nothing better is looked for when a set reaches this part of the proven limit; after all its
 * steps, a search is content with the second figure. */
#define SEARCH_GOOD    0.9999
#define SEARCH_CONTENT 0.95

/* Up to this many GPUs the cheapest order is found exactly (memoised over subsets). */
#define TOUR_EXACT_GPUS 10u

enum tour_kind {
    TOUR_CYCLE,  /* closed by the way from last to first */
    TOUR_CLOSED, /* closed at the cost ends[first * n + last] */
    TOUR_FIRST,  /* open; the first costs ends[first] */
    TOUR_PAIR    /* open; the first two cost ends[first * n + second] */
};

/* A sum of costs; ways that must not be used are counted separately, because their cost would hide
 * the rest of the sum. */
struct cost {
    double sum;
    double forbidden;
};

/* Costs of an order: INFINITY where a way must not be used. */
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

int pci_tour_init(struct tour *tour, uint32_t n);
void pci_tour_fini(struct tour *tour);

/* The cheapest order and its cost; INFINITY: none was found. */
double pci_tour_search(struct tour *tour, uint32_t *order);

/* The same by moves that gain, of any number of GPUs. */
double pci_tour_approach(struct tour *tour, uint32_t *order);

/* Cost of ending an order that began at FIRST. */
double pci_tour_closing(const struct tour *tour, uint32_t first, uint32_t last);

/* A set of channels of one number. */
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

int pci_problem_init(struct problem *problem, const struct pci_fabric *fabric);
void pci_problem_fini(struct problem *problem);

/* Choose pattern and classes; forgets loads and limit. */
void pci_problem_start(struct problem *problem);

/* Add a channel's load (sign 1) or take it away (-1). */
void pci_problem_load(struct problem *problem, const uint32_t *order, const uint32_t *nets,
                      double sign);

/* Load of the fullest link: 1 / speed. 0 without any load. */
double pci_problem_fullest(const struct problem *problem);

/* Set prices by the loads: exp(STEEP) between an empty link and the fullest; then the costs of all
 * ways. SWAPPED: the NICs {out, in} of the partner that this channel must swap, or NULL. */
void pci_problem_price(struct problem *problem, double steep, const uint32_t *swapped);

/* Compute the tour's ends from the costs of the ways between GPUs and NICs. */
void pci_problem_price_ends(struct problem *problem, const uint32_t *swapped);

/* Return a lower bound of the cost of any channel at the prices. */
double pci_problem_least(struct problem *problem);

/* Find the cheapest channel at the prices, and lower the limit. Return false if there is none. */
bool pci_problem_cheapest(struct problem *problem, uint32_t *order, uint32_t *nets);

/* Try to lower the limit by equal prices on the fuller links alone: they prove it when these links
 * are a cut. */
void pci_problem_prove(struct problem *problem);

/* Lower the limit by multiplicative weights: links that the cheapest channel uses become dearer,
 * and so on. Comes to within a few percent of the best that the prices can prove; ends at ENOUGH.
 */
void pci_problem_squeeze(struct problem *problem, double enough, uint64_t most_steps);

int pci_layout_init(struct layout *layout, uint32_t n);
void pci_layout_fini(struct layout *layout);
void pci_layout_copy(struct layout *to, const struct layout *from, uint32_t n);

/* Sets to work with. */
struct pack_scratch {
    struct layout base, work, found;
};

/* Find the set with the most channels x speed, few channels among nearly equal ones (PREFER, when
 * not 0, among sets that lose less than SLACK). Returns channels x speed, 0 when there is no
 * channel. */
double pack_search(struct problem *problem, uint32_t prefer, double slack, struct layout *best,
                   struct pack_scratch *scratch);

#endif
