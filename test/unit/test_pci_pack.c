/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Packed trees: close to the bound, proven by the checker, and a checker that refuses what is
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/bounds/pci_pack.h"
#include "pci_cube.h"

#define AIM 0.9      /* of the bound */
#define ALL 0.999999 /* of it, less rounding */

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-5 * (1.0 + fabs(want))) {
        fail_msg("got %.9g, want %.9g", got, want);
    }
}

/* Pack, check, and compare with the bound. */
static struct pci_pack packed(const struct pci_flow *flow, uint32_t max_trees, double aim)
{
    struct pci_pack pack;
    struct pci_bound bound;
    char why[160];

    assert_int_equal(pci_bound_compute(flow, &bound), 0);
    assert_int_equal(pci_pack_compute(flow, max_trees, &pack), 0);
    assert_true(pack.ntrees <= max_trees);
    if (0 != pci_pack_check(flow, &pack, why, sizeof(why))) {
        fail_msg("%s", why);
    }
    assert_int_equal(pack.ntrees > 0, bound.connected);
    assert_true(pack.algbw <= bound.ar.gbps * (1 + 1e-9));
    if (pack.algbw < aim * bound.ar.gbps) {
        fail_msg("%u GPUs: %.4g of %.4g GB/s", flow->ngpus, pack.algbw, bound.ar.gbps);
    }
    return pack;
}

/* Every part of the hybrid cube mesh that NVLink connects. Without relays the solution over all
 * trees and the minimum over all partitions are one number, found in two unrelated ways. */
static void test_cube(void **state)
{
    (void) state;
    for (unsigned mask = 0; mask < 256; mask++) {
        struct pci_flow flow;
        struct pci_bound bound;
        struct pci_pack pack;

        if (__builtin_popcount(mask) < 2) {
            continue;
        }
        assert_int_equal(cube_flow(&flow, mask), 0);
        pack = packed(&flow, PCI_PACK_TREES, AIM);
        assert_int_equal(pci_bound_compute(&flow, &bound), 0);
        assert_near(pack.optimum, bound.ar.gbps);
        pci_flow_fini(&flow);
    }
}

static void test_few_trees(void **state)
{
    struct pci_flow flow;

    (void) state;
    assert_int_equal(cube_flow(&flow, 0x7f), 0);
    assert_near(packed(&flow, PCI_PACK_TREES, ALL).algbw, 60);
    assert_true(packed(&flow, PCI_PACK_TREES, ALL).ntrees <= 4);
    assert_int_equal(packed(&flow, 1, 0).ntrees, 1);
    assert_near(packed(&flow, 2, 0).algbw, 40);
    pci_flow_fini(&flow);
}

/* On a switch and on a full mesh the trees are shallow and reach the bound; an odd mesh of more
 * than eight needs more trees than allowed here. */
static void test_switch_and_mesh(void **state)
{
    (void) state;
    for (uint32_t n = 2; n <= 16; n++) {
        struct pci_flow flow;
        struct pci_pack pack;
        uint32_t relay;

        assert_int_equal(pci_flow_init(&flow, n), 0);
        assert_int_equal(pci_flow_add_relay(&flow, &relay), 0);
        for (uint32_t g = 0; g < n; g++) {
            assert_int_equal(pci_flow_add_duplex(&flow, g, relay, 240), 0);
        }
        pack = packed(&flow, PCI_PACK_TREES, AIM);
        assert_true(pack.trees[0].depth <= (n <= PCI_PACK_TREES ? 1 : 3));
        pci_flow_fini(&flow);

        assert_int_equal(pci_flow_init(&flow, n), 0);
        for (uint32_t g = 0; g < n; g++) {
            for (uint32_t h = 0; h < g; h++) {
                assert_int_equal(pci_flow_add_duplex(&flow, g, h, 20), 0);
            }
        }
        packed(&flow, n <= PCI_PACK_TREES || 0 == n % 2 ? PCI_PACK_TREES : PCI_PACK_MAX_TREES, ALL);
        pci_flow_fini(&flow);
    }
}

/* Two sockets of PCIe GPUs under switches: routes over relays, the bus between the CPUs crossed
 * once per tree. */
static void test_two_sockets(void **state)
{
    struct pci_flow flow;
    struct pci_pack pack;
    uint32_t cpu[2], pcie[4];

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 8), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pci_flow_add_relay(&flow, &cpu[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pci_flow_add_relay(&flow, &pcie[i]), 0);
        assert_int_equal(pci_flow_add_duplex(&flow, pcie[i], cpu[i / 2], 12), 0);
    }
    for (uint32_t g = 0; g < 8; g++) {
        assert_int_equal(pci_flow_add_duplex(&flow, g, pcie[g / 2], 12), 0);
    }
    assert_int_equal(pci_flow_add_duplex(&flow, cpu[0], cpu[1], 6), 0);
    pack = packed(&flow, PCI_PACK_TREES, AIM);
    assert_near(pack.algbw, 6);
    pci_flow_fini(&flow);
}

static uint32_t rng_next(uint32_t *rng)
{
    *rng = *rng * 1664525u + 1013904223u;
    return *rng >> 8;
}

/* Networks of any kind: what comes out is always proven, never above the bound, and without relays
 * the solution over all trees is the bound. */
static void test_random(void **state)
{
    uint32_t rng = 20260202;

    (void) state;
    for (int round = 0; round < 400; round++) {
        uint32_t gpus = 2 + rng_next(&rng) % 9, relays = rng_next(&rng) % 4 * (rng_next(&rng) % 2);
        uint32_t sparse = 1 + rng_next(&rng) % 4, relay;
        struct pci_flow flow;
        struct pci_bound bound;
        struct pci_pack pack;

        assert_int_equal(pci_flow_init(&flow, gpus), 0);
        for (uint32_t r = 0; r < relays; r++) {
            assert_int_equal(pci_flow_add_relay(&flow, &relay), 0);
        }
        for (uint32_t a = 0; a < flow.nvertices; a++) {
            for (uint32_t b = 0; b < a; b++) {
                double gbps = 0 == rng_next(&rng) % sparse ? 1.5 * (1 + rng_next(&rng) % 8) : 0;

                assert_int_equal(pci_flow_add_duplex(&flow, a, b, gbps), 0);
            }
        }
        assert_int_equal(pci_bound_compute(&flow, &bound), 0);
        pack = packed(&flow, PCI_PACK_TREES, 0);
        assert_true(pack.optimum <= bound.ar.gbps * (1 + 1e-5));
        if (0 == relays) {
            assert_near(pack.optimum, bound.ar.gbps);
            assert_true(pack.algbw >= 0.65 * pack.optimum);
        }
        pci_flow_fini(&flow);
    }
}

static void test_same_twice(void **state)
{
    struct pci_flow flow;
    struct pci_pack first, second;

    (void) state;
    assert_int_equal(cube_flow(&flow, 0xff), 0);
    first = packed(&flow, PCI_PACK_TREES, AIM);
    second = packed(&flow, PCI_PACK_TREES, AIM);
    assert_memory_equal(&first, &second, sizeof(first));
    pci_flow_fini(&flow);
}

/* Rates and shares agree within one share. */
static void test_shares(void **state)
{
    struct pci_flow flow;
    struct pci_pack pack;

    (void) state;
    assert_int_equal(cube_flow(&flow, 0xb7), 0);
    pack = packed(&flow, PCI_PACK_TREES, AIM);
    for (uint32_t t = 0; t < pack.ntrees; t++) {
        double exact = pack.trees[t].gbps / pack.algbw * PCI_PACK_SHARES;

        assert_true(fabs(pack.trees[t].share - exact) <= 1);
        assert_true(0 == t || pack.trees[t].gbps <= pack.trees[t - 1].gbps);
    }
    pci_flow_fini(&flow);
}

static void assert_refused(const struct pci_flow *flow, const struct pci_pack *pack,
                           const char *expected)
{
    char why[160];

    assert_int_equal(pci_pack_check(flow, pack, why, sizeof(why)), -EINVAL);
    if (NULL == strstr(why, expected)) {
        fail_msg("'%s' does not speak of '%s'", why, expected);
    }
}

static void test_checker(void **state)
{
    struct pci_flow flow;
    struct pci_pack good, bad;
    uint32_t leaf = 0;

    (void) state;
    assert_int_equal(cube_flow(&flow, 0x7f), 0);
    good = packed(&flow, PCI_PACK_TREES, AIM);
    while (good.trees[0].root == leaf ||
           good.trees[0].parent[leaf] != (int32_t) good.trees[0].root) {
        leaf++;
    }

    bad = good;
    bad.trees[0].gbps += 1;
    assert_refused(&flow, &bad, "add up");
    bad.algbw += 1;
    assert_refused(&flow, &bad, "carries");
    bad = good;
    bad.trees[0].share++;
    assert_refused(&flow, &bad, "shares");
    bad = good;
    bad.trees[0].depth++;
    assert_refused(&flow, &bad, "depth");
    bad = good;
    bad.trees[0].parent[leaf] = (int32_t) leaf;
    assert_refused(&flow, &bad, "cycle");
    bad = good;
    bad.trees[0].parent[leaf] = PCI_PACK_ROOT;
    assert_refused(&flow, &bad, "no parent");
    bad = good;
    bad.trees[0].parent[leaf] = 7;
    assert_refused(&flow, &bad, "no parent");
    bad = good;
    bad.trees[0].root = leaf;
    assert_refused(&flow, &bad, "root");
    bad = good;
    bad.ngpus = 6;
    assert_refused(&flow, &bad, "network of 7");
    pci_flow_fini(&flow);
}

/* A tree over a pair that has no link. */
static void test_checker_route(void **state)
{
    struct pci_flow flow;
    struct pci_pack pack;

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 3), 0);
    assert_int_equal(pci_flow_add_duplex(&flow, 0, 1, 20), 0);
    assert_int_equal(pci_flow_add_duplex(&flow, 1, 2, 20), 0);
    pack = packed(&flow, PCI_PACK_TREES, ALL);
    assert_int_equal(pack.ntrees, 1);
    assert_int_equal(pack.trees[0].root, 1);
    assert_int_equal(pack.trees[0].depth, 1);
    pack.trees[0].parent[2] = 0;
    pack.trees[0].depth = 2;
    assert_refused(&flow, &pack, "no route");
    pci_flow_fini(&flow);
}

static void test_refused_input(void **state)
{
    struct pci_flow flow;
    struct pci_pack pack;

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 1), 0);
    assert_int_equal(pci_pack_compute(&flow, PCI_PACK_TREES, &pack), -EINVAL);
    pci_flow_fini(&flow);
    assert_int_equal(pci_flow_init(&flow, PCI_PACK_MAX_GPUS + 1), 0);
    assert_int_equal(pci_pack_compute(&flow, PCI_PACK_TREES, &pack), -E2BIG);
    pci_flow_fini(&flow);
    assert_int_equal(pci_flow_init(&flow, 2), 0);
    assert_int_equal(pci_pack_compute(&flow, 0, &pack), -EINVAL);
    assert_int_equal(pci_pack_compute(&flow, PCI_PACK_MAX_TREES + 1, &pack), -EINVAL);
    assert_int_equal(pci_pack_compute(&flow, PCI_PACK_TREES, &pack), 0);
    assert_int_equal(pack.ntrees, 0);
    pci_flow_fini(&flow);
}

/* Stated routes: three GPUs under a switch whose traffic must pass the CPU, at an overhead of 6/5.
 */
static void test_routes(void **state)
{
    const double loads[4] = {1.2, 1.2, 1.2, 1.2};
    struct pci_flow flow;
    struct pci_pack pack;
    uint32_t pcie, cpu;
    char why[160];

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 3), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &pcie), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &cpu), 0);
    assert_int_equal(pci_flow_add_duplex(&flow, pcie, cpu, 12), 0);
    for (uint32_t g = 0; g < 3; g++) {
        assert_int_equal(pci_flow_add_duplex(&flow, g, pcie, 12), 0);
    }
    assert_near(packed(&flow, PCI_PACK_TREES, ALL).algbw, 9); /* without routes: the switch alone */
    for (uint32_t g = 1; g < 3; g++) {
        const uint32_t way[5] = {0, pcie, cpu, pcie, g};

        assert_int_equal(pci_flow_add_route(&flow, way, loads, 4), 0);
    }
    pack = packed(&flow, PCI_PACK_TREES, 0);
    assert_near(pack.algbw, 12 / 1.2 / 4); /* two edges, each twice over the link to the CPU */
    assert_int_equal(pci_flow_add_any_route(&flow, 1, 2), 0);
    pack = packed(&flow, PCI_PACK_TREES, 0);
    assert_near(pack.algbw, 5); /* 1-2 over the switch leaves the CPU's link to one edge */
    pack.ntrees = 1;
    pack.trees[0].share = PCI_PACK_SHARES;
    pack.trees[0].gbps = pack.algbw = 6;
    assert_int_equal(pci_pack_check(&flow, &pack, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "carries"));
    pci_flow_fini(&flow);
}

static void test_routes_refused(void **state)
{
    const double loads[2] = {1, 1}, bad[2] = {1, 0};
    const uint32_t way[3] = {0, 2, 1}, loop[3] = {0, 2, 0}, unknown[3] = {0, 3, 1};
    struct pci_flow flow;
    uint32_t relay;

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 2), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &relay), 0);
    assert_int_equal(pci_flow_add_route(&flow, way, loads, 0), -EINVAL);
    assert_int_equal(pci_flow_add_route(&flow, way, loads, 1), -EINVAL); /* ends at the relay */
    assert_int_equal(pci_flow_add_route(&flow, loop, loads, 2), -EINVAL);
    assert_int_equal(pci_flow_add_route(&flow, unknown, loads, 2), -EINVAL);
    assert_int_equal(pci_flow_add_route(&flow, way, bad, 2), -EINVAL);
    assert_int_equal(pci_flow_add_any_route(&flow, 0, 2), -EINVAL);
    assert_int_equal(pci_flow_add_any_route(&flow, 1, 1), -EINVAL);
    assert_int_equal(pci_flow_add_route(&flow, way, loads, 2), 0);
    assert_int_equal(pci_flow_add_any_route(&flow, 0, 1), 0);
    assert_int_equal(packed(&flow, PCI_PACK_TREES, 0).ntrees, 0); /* a route over no links */
    pci_flow_fini(&flow);
}

/* All to all over one switch: each port carries n-1 vectors. */
static void test_direct(void **state)
{
    struct pci_flow flow;
    double gbps;
    uint32_t relay;

    (void) state;
    assert_int_equal(pci_flow_init(&flow, 4), 0);
    assert_int_equal(pci_flow_add_relay(&flow, &relay), 0);
    for (uint32_t g = 0; g < 4; g++) {
        assert_int_equal(pci_flow_add_duplex(&flow, g, relay, 240), 0);
    }
    assert_int_equal(pci_pack_direct_bw(&flow, &gbps), 0);
    assert_near(gbps, 80);
    pci_flow_fini(&flow);
    assert_int_equal(cube_flow(&flow, 0xff), 0);
    assert_int_equal(pci_pack_direct_bw(&flow, &gbps), 0);
    assert_near(gbps, 0); /* not every pair has a link */
    pci_flow_fini(&flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cube),
        cmocka_unit_test(test_few_trees),
        cmocka_unit_test(test_switch_and_mesh),
        cmocka_unit_test(test_two_sockets),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_same_twice),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_checker),
        cmocka_unit_test(test_checker_route),
        cmocka_unit_test(test_refused_input),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_routes_refused),
        cmocka_unit_test(test_direct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
