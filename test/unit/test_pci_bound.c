/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the bounds with known figures and with an enumeration of all cuts and partitions, and
 * test special cases. */
#include "test/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "pci_cube.h"

#define BRUTE_VERTICES 7u

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-6 * (1.0 + fabs(want))) {
        fail_msg("got %.9g, want %.9g", got, want);
    }
}

static struct pci_bound bound_of(const struct pci_flow *flow)
{
    struct pci_bound bound;

    assert_int_equal(pci_bound_compute(flow, &bound), 0);
    return bound;
}

static struct pci_bound cube_bound(unsigned mask)
{
    struct pci_flow flow;
    struct pci_bound bound;

    assert_int_equal(cube_flow(&flow, mask), 0);
    bound = bound_of(&flow);
    pci_flow_fini(&flow);
    return bound;
}

/* Figures that are known for parts of the hybrid cube mesh. */
TEST(test_cube_known)
{
    assert_near(cube_bound(0xff).ar.gbps, 480.0 / 7);
    assert_near(cube_bound(0xff).ag.gbps, 480.0 / 7);
    assert_near(cube_bound(0xb7).ar.gbps, 48); /* 0,1,2,4,5,7 */
    assert_near(cube_bound(0x07).ar.gbps, 40); /* 0,1,2 */
    assert_near(cube_bound(0x07).ag.gbps, 30);
    for (unsigned missing = 0; missing < CUBE_GPUS; missing++) {
        assert_near(cube_bound(0xffu & ~(1u << missing)).ar.gbps, 60);
    }
    assert_near(cube_bound(0x09).ar.gbps, 40); /* two GPUs, two links */
    assert_near(cube_bound(0x09).ag.gbps, 40);
}

/* 197 of the 247 subsets of two and more GPUs are connected over NVLink. AR >= AG on all of
 * them. */
TEST(test_cube_subsets)
{
    unsigned connected = 0;

    for (unsigned mask = 0; mask < 256; mask++) {
        struct pci_bound bound;

        if (__builtin_popcount(mask) < 2) {
            continue;
        }
        bound = cube_bound(mask);
        assert_int_equal(bound.connected, bound.ar.num > 0);
        assert_true(bound.ar.gbps >= bound.ag.gbps);
        connected += bound.connected ? 1 : 0;
    }
    assert_int_equal(connected, 197);
}

/* Exact fractions, not rounded ones. */
TEST(test_fraction)
{
    struct pci_bound bound = cube_bound(0xff);

    assert_int_equal(bound.ag.num, 480000000);
    assert_int_equal(bound.ag.den, 7);
}

/* GPUs on a switch: both bounds are N/(N-1)/2 of a port. */
TEST(test_switch)
{
    for (uint32_t n = 2; n <= 16; n++) {
        struct pci_flow flow;
        struct pci_bound bound;
        uint32_t relay;

        assert_int_equal(pci_flow_init(&flow, n), 0);
        assert_int_equal(pci_flow_add_relay(&flow, &relay), 0);
        for (uint32_t g = 0; g < n; g++) {
            assert_int_equal(flow_add_duplex(&flow, g, relay, 240), 0);
        }
        bound = bound_of(&flow);
        assert_near(bound.ag.gbps, 240.0 * n / (n - 1) / 2);
        assert_near(bound.ar.gbps, 240.0 * n / (n - 1) / 2);
        pci_flow_fini(&flow);
    }
}

/* Two sockets of four PCIe GPUs: a tree crosses the bus between the CPUs once, an allgather crosses
 * it with half of all data. */
TEST(test_two_sockets)
{
    struct pci_flow flow;
    struct pci_bound bound;
    uint32_t cpu[2];

    assert_int_equal(pci_flow_init(&flow, 8), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &cpu[0]), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &cpu[1]), 0);
    for (uint32_t g = 0; g < 8; g++) {
        assert_int_equal(flow_add_duplex(&flow, g, cpu[g / 4], 12), 0);
    }
    assert_int_equal(flow_add_duplex(&flow, cpu[0], cpu[1], 5), 0);
    bound = bound_of(&flow);
    assert_near(bound.ag.gbps, 8 * (5.0 / 4) / 2);
    assert_near(bound.ar.gbps, 5);
    pci_flow_fini(&flow);
}

/* ---- enumeration ----------------------------------------------------------------------------- */

static uint64_t leaving(const struct pci_flow *flow, unsigned set)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < flow->nlinks; i++) {
        if (0 != (set >> flow->links[i].from & 1) && 0 == (set >> flow->links[i].to & 1)) {
            sum += flow->links[i].capacity;
        }
    }
    return sum;
}

static double brute_ag(const struct pci_flow *flow)
{
    unsigned gpus = (1u << flow->ngpus) - 1;
    double least = INFINITY;

    for (unsigned set = 1; set < 1u << flow->nvertices; set++) {
        int inside = __builtin_popcount(set & gpus);

        if (inside > 0 && (set & gpus) != gpus) {
            least = fmin(least, (double) leaving(flow, set) / inside);
        }
    }
    return least * flow->ngpus / 2 / PCI_FLOW_UNITS;
}

/* Return the minimum capacity between the GPUs of a part and the others, over all sides of the
 * relays. */
static uint64_t brute_cut(const struct pci_flow *flow, unsigned part)
{
    uint64_t least = UINT64_MAX;

    for (unsigned relays = 0; relays < 1u << (flow->nvertices - flow->ngpus); relays++) {
        uint64_t cut = leaving(flow, part | relays << flow->ngpus);

        least = cut < least ? cut : least;
    }
    return least;
}

/* Try all partitions, with GPU g in each of the parts 0..used. */
static double brute_ar(const struct pci_flow *flow, unsigned *parts, unsigned used, uint32_t g)
{
    double least = INFINITY, sum = 0;

    if (g < flow->ngpus) {
        for (unsigned p = 0; p <= used; p++) {
            parts[p] |= 1u << g;
            least = fmin(least, brute_ar(flow, parts, used + (p == used ? 1 : 0), g + 1));
            parts[p] &= ~(1u << g);
        }
        return least;
    }
    if (used < 2) {
        return INFINITY;
    }
    for (unsigned p = 0; p < used; p++) {
        sum += (double) brute_cut(flow, parts[p]);
    }
    return sum / 2 / (used - 1) / PCI_FLOW_UNITS;
}

static uint32_t rng_next(uint32_t *rng)
{
    *rng = *rng * 1664525u + 1013904223u;
    return *rng >> 8;
}

/* A network of random links; symmetric or not. */
static void random_flow(struct pci_flow *flow, uint32_t *rng, bool symmetric)
{
    uint32_t gpus = 2 + rng_next(rng) % (BRUTE_VERTICES - 2);
    uint32_t vertices = gpus + rng_next(rng) % (BRUTE_VERTICES - gpus + 1), relay;

    assert_int_equal(pci_flow_init(flow, gpus), 0);
    while (flow->nvertices < vertices) {
        assert_int_equal(pci_flow_add_relay(flow, &relay), 0);
    }
    for (uint32_t a = 0; a < vertices; a++) {
        for (uint32_t b = 0; b < a; b++) {
            double there = rng_next(rng) % 5 * 0.1875, back = rng_next(rng) % 5 * 12.5;

            assert_int_equal(pci_flow_add_link(flow, a, b, there), 0);
            assert_int_equal(pci_flow_add_link(flow, b, a, symmetric ? there : back), 0);
        }
    }
}

TEST(test_enumeration)
{
    uint32_t rng = 20260101;

    for (int round = 0; round < 300; round++) {
        unsigned parts[BRUTE_VERTICES + 1] = {0};
        struct pci_flow flow, even;
        struct pci_bound bound;

        random_flow(&flow, &rng, 0 == round % 2);
        bound = bound_of(&flow);
        assert_near(bound.ag.gbps, brute_ag(&flow));
        assert_int_equal(pci_flow_symmetric(&flow, &even), 0);
        assert_near(bound.ar.gbps, fmax(brute_ar(&even, parts, 0, 0), bound.ag.gbps));
        pci_flow_fini(&even);
        pci_flow_fini(&flow);
    }
}

/* ---- edges ----------------------------------------------------------------------------------- */

TEST(test_refused)
{
    struct pci_flow flow;
    struct pci_bound bound;
    uint32_t relay;

    assert_int_equal(pci_flow_init(&flow, 0), -EINVAL);
    assert_int_equal(pci_flow_init(&flow, PCI_FLOW_MAX_VERTICES + 1), -E2BIG);
    assert_int_equal(pci_flow_init(&flow, PCI_FLOW_MAX_VERTICES), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &relay), -E2BIG);
    pci_flow_fini(&flow);
    assert_int_equal(pci_flow_init(&flow, 1), 0);
    assert_int_equal(pci_bound_compute(&flow, &bound), -EINVAL);
    assert_int_equal(pci_flow_add_link(&flow, 0, 0, 1), -EINVAL);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, 1), -EINVAL);
    pci_flow_fini(&flow);
    assert_int_equal(pci_flow_init(&flow, 2), 0);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, -1), -EINVAL);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, NAN), -EINVAL);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, 2 * PCI_FLOW_MAX_GBPS), -EINVAL);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, 0), 0);
    assert_int_equal(flow.nlinks, 0);
    pci_flow_fini(&flow);
}

/* Sums that 63 bits cannot hold are refused, not wrapped. */
TEST(test_overflow)
{
    struct pci_flow flow;
    struct pci_bound bound;

    assert_int_equal(pci_flow_init(&flow, PCI_FLOW_MAX_VERTICES), 0);
    for (uint32_t v = 1; v < PCI_FLOW_MAX_VERTICES; v++) {
        assert_int_equal(flow_add_duplex(&flow, 0, v, PCI_FLOW_MAX_GBPS), 0);
    }
    assert_int_equal(pci_bound_compute(&flow, &bound), -ERANGE);
    pci_flow_fini(&flow);
}

/* Test a network without links, and one with a part that no link leads to. */
TEST(test_disconnected)
{
    struct pci_flow flow;
    struct pci_bound bound;

    assert_int_equal(pci_flow_init(&flow, 3), 0);
    bound = bound_of(&flow);
    assert_false(bound.connected);
    assert_int_equal(bound.ar.num, 0);
    assert_int_equal(flow_add_duplex(&flow, 0, 1, 20), 0);
    bound = bound_of(&flow);
    assert_false(bound.connected);
    assert_int_equal(bound.ag.num, 0);
    pci_flow_fini(&flow);
}

/* A ring with one direction carries an allgather, but no tree, which needs both directions. AR is
 * still not below AG. */
TEST(test_one_way)
{
    struct pci_flow flow;
    struct pci_bound bound;

    assert_int_equal(pci_flow_init(&flow, 4), 0);
    for (uint32_t v = 0; v < 4; v++) {
        assert_int_equal(pci_flow_add_link(&flow, v, (v + 1) % 4, 10), 0);
    }
    bound = bound_of(&flow);
    assert_true(bound.connected);
    assert_near(bound.ag.gbps, 4 * (10.0 / 3) / 2);
    assert_near(bound.ar.gbps, bound.ag.gbps);
    pci_flow_fini(&flow);
}

/* Parallel links add up, and a symmetric copy takes the smaller direction. */
TEST(test_symmetric)
{
    struct pci_flow flow, even;

    assert_int_equal(pci_flow_init(&flow, 3), 0);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, 20), 0);
    assert_int_equal(pci_flow_add_link(&flow, 0, 1, 20), 0);
    assert_int_equal(pci_flow_add_link(&flow, 1, 0, 25), 0);
    assert_int_equal(pci_flow_add_link(&flow, 1, 2, 25), 0);
    assert_int_equal(pci_flow_symmetric(&flow, &even), 0);
    assert_int_equal(even.nlinks, 2);
    assert_int_equal(even.links[0].capacity, 25000000);
    assert_int_equal(even.links[1].capacity, 25000000);
    pci_flow_fini(&even);
    pci_flow_fini(&flow);
}
