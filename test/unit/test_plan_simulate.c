/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the simulator with times that were computed from the algorithms by hand. */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/plan_simulate.h"
#include "test/unit/plans.h"

#define FAST 1e12 /* bytes per microsecond: takes no time */

struct net {
    double latency, bandwidth;
    int nranks;
    int shared; /* true: all lanes of a rank share one port; false: one link per pair of ranks */
};

static void link_of(void *context, int from, uint32_t lane, int to,
                    struct gpuring_simulate_link *link)
{
    const struct net *net = context;

    (void) lane;
    link->latency_us = net->latency;
    link->bandwidth = net->bandwidth;
    link->resource = (uint32_t) (net->shared ? from : from * net->nranks + to);
}

static struct gpuring_simulate_config config_of(struct net *net, uint64_t bytes, uint64_t chunk)
{
    return (struct gpuring_simulate_config){.bytes = bytes,
                                            .chunk_bytes = chunk,
                                            .slots = 4,
                                            .wire_factor = 1,
                                            .lane_bandwidth = FAST,
                                            .nresources = (uint32_t) (net->nranks * net->nranks),
                                            .link = link_of,
                                            .context = net};
}

static double simulate(enum gpuring_algorithm algorithm, uint32_t nchannels, struct net *net,
                       const struct gpuring_simulate_config *config)
{
    struct gpuring_simulate_result result = {0};
    struct test_plans plans;
    char text[256] = "";

    test_plans_build(&plans, algorithm, net->nranks, nchannels);
    if (gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans, net->nranks, config,
                              &result, text, sizeof text) != GPURING_OK) {
        fail_msg("simulation failed: %s", text);
    }
    assert_true(result.busiest >= 0 && result.busiest <= 1 + 1e-9);
    test_plans_free(&plans);
    return result.us;
}

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6 * expected + 1e-9) {
        fail_msg("%g instead of %g", value, expected);
    }
}

/* A ring has 2(n-1) hops, each of one chunk if the vector has only one. */
TEST(test_ring_latency)
{
    for (int n = 2; n <= 16; n++) {
        struct net net = {.latency = 3, .bandwidth = FAST, .nranks = n};
        struct gpuring_simulate_config config = config_of(&net, 8, 65536);

        assert_near(simulate(GPURING_ALGORITHM_RING, 1, &net, &config), 2 * (n - 1) * 3.0);
        config.bytes = (uint64_t) n * 65536;
        assert_near(simulate(GPURING_ALGORITHM_RING, 1, &net, &config), 2 * (n - 1) * 3.0);
        config.step_us = 0.5; /* and each of the 2n - 1 steps takes its time */
        assert_near(simulate(GPURING_ALGORITHM_RING, 1, &net, &config),
                    2 * (n - 1) * 3.0 + (2 * n - 1) * 0.5);
    }
}

/* 2(n-1)/n of the vector through each link. */
TEST(test_ring_bandwidth)
{
    for (int n = 2; n <= 16; n++) {
        struct net net = {.latency = 0, .bandwidth = 1000, .nranks = n};
        uint64_t bytes = (uint64_t) n * 65536;
        struct gpuring_simulate_config config = config_of(&net, bytes, 65536);
        double expected = 2.0 * (n - 1) / n * (double) bytes / 1000;

        assert_near(simulate(GPURING_ALGORITHM_RING, 1, &net, &config), expected);
        config.wire_factor = 2;
        assert_near(simulate(GPURING_ALGORITHM_RING, 1, &net, &config), 2 * expected);
    }
}

/* Two channels in the same order with one port per rank have half the share each and twice the
 * load. */
TEST(test_contention)
{
    struct net net = {.latency = 0, .bandwidth = 1000, .nranks = 2, .shared = 1};
    struct gpuring_simulate_config config = config_of(&net, 4 * 65536, 65536);

    assert_near(simulate(GPURING_ALGORITHM_RING, 2, &net, &config), 4 * 65536 / 1000.0);
}

/* A tree has two hops for two ranks, to the root and back, with any number of slots. */
TEST(test_tree)
{
    struct net net = {.latency = 5, .bandwidth = FAST, .nranks = 2};
    struct gpuring_simulate_config config = config_of(&net, 8192, 4096);

    assert_near(simulate(GPURING_ALGORITHM_TREE, 1, &net, &config), 10);
    net.nranks = 3; /* in both trees, the root has two children */
    config = config_of(&net, 8192, 4096);
    assert_near(simulate(GPURING_ALGORITHM_TREE, 1, &net, &config), 10);
    net.nranks = 7;
    config = config_of(&net, 8192, 4096);
    assert_near(simulate(GPURING_ALGORITHM_TREE, 1, &net, &config), 20);
}

/* Direct has one hop. With one slot, each window takes a round trip. */
TEST(test_direct)
{
    struct net net = {.latency = 7, .bandwidth = FAST, .nranks = 4};
    struct gpuring_simulate_config config = config_of(&net, 4096, 4096);

    assert_near(simulate(GPURING_ALGORITHM_DIRECT, 1, &net, &config), 7);
    config.bytes = 3 * 4096;
    config.slots = 1;
    assert_near(simulate(GPURING_ALGORITHM_DIRECT, 1, &net, &config), 5 * 7);
}

/* Two hops for any number of ranks, and each link carries two of the vector's n parts. */
TEST(test_two_shot)
{
    for (int n = 2; n <= 16; n++) {
        struct net net = {.latency = 3, .bandwidth = FAST, .nranks = n};
        struct gpuring_simulate_config config = config_of(&net, (uint64_t) n * 65536, 65536);

        assert_near(simulate(GPURING_ALGORITHM_TWO_SHOT, 1, &net, &config), 6);
        config.bytes = 8; /* one chunk */
        assert_near(simulate(GPURING_ALGORITHM_TWO_SHOT, 1, &net, &config), 6);
        net = (struct net){.latency = 0, .bandwidth = 1000, .nranks = n};
        config = config_of(&net, (uint64_t) n * 65536, 65536);
        assert_near(simulate(GPURING_ALGORITHM_TWO_SHOT, 1, &net, &config), 2 * 65536 / 1000.0);
    }
}

TEST(test_errors)
{
    struct net net = {.latency = 7, .bandwidth = 0, .nranks = 2};
    struct gpuring_simulate_config config = config_of(&net, 4096, 4096);
    struct gpuring_simulate_result result;
    struct test_plans plans;
    char text[256];

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 2, 1);
#define SIMULATE()                                                                               \
    gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans, 2, &config, &result, \
                          text, sizeof text)
    assert_int_equal(SIMULATE(), GPURING_ERR_ARG);
    net.bandwidth = 1;
    assert_int_equal(SIMULATE(), GPURING_OK);
    config.nresources = 1;
    assert_int_equal(SIMULATE(), GPURING_ERR_ARG);
    config.nresources = 4;
    config.chunk_bytes = 100;
    assert_int_equal(SIMULATE(), GPURING_ERR_ARG);
    config.chunk_bytes = 128;
    config.slots = 1;
    assert_int_equal(SIMULATE(), GPURING_ERR_DATA);
    assert_non_null(strstr(text, "waits for ever"));
#undef SIMULATE
    test_plans_free(&plans);
}

/* Bounds of parts are exact, also where products of elements and parts overflow. */
TEST(test_part_bounds)
{
    static const uint64_t totals[] = {1, 31, 96, 1000003, UINT64_C(1) << 60, UINT64_MAX};
    static const uint32_t parts[] = {1, 2, 3, 64, 1000, UINT32_MAX};

    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            for (uint64_t part = 0; part < parts[p]; part += 1 + parts[p] / 7) {
                uint64_t exact = (uint64_t) ((unsigned __int128) totals[t] * part / parts[p]);

                assert_true(gpuring_part_bound(totals[t], (uint32_t) part, parts[p], 8) ==
                            exact / 8 * 8);
            }
            assert_true(gpuring_part_bound(totals[t], parts[p], parts[p], 8) == totals[t]);
        }
    }
}

/* The first channels of a plan tile the vector alone, and are its first lanes. */
TEST(test_first_lanes)
{
    static const uint32_t lanes_of_two[GPURING_ALGORITHM_COUNT] = {[GPURING_ALGORITHM_RING] = 2,
                                                                   [GPURING_ALGORITHM_DIRECT] = 2,
                                                                   [GPURING_ALGORITHM_TWO_SHOT] =
                                                                       2};

    for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
        struct test_plans plans;

        test_plans_build(&plans, (enum gpuring_algorithm) a, 3, 4);
        for (int rank = 0; rank < 3; rank++) {
            const struct gpuring_plan *plan = plans.plans[rank];
            uint64_t first, count, most = 0;
            uint32_t parts, lanes = gpuring_plan_first_lanes(plan, 2, &parts);

            assert_int_equal(gpuring_plan_channels(plan), 4);
            assert_true(lanes > 0 && lanes < plan->nlanes);
            assert_true(a == GPURING_ALGORITHM_TREE || lanes == lanes_of_two[a]);
            for (uint32_t i = 0; i < lanes; i++) {
                gpuring_part_range(1000, plan->lanes[i].part_begin, plan->lanes[i].part_end, parts,
                                   32, &first, &count);
                most = first + count > most ? first + count : most;
            }
            assert_int_equal(most, 1000);
            assert_int_equal(gpuring_plan_first_lanes(plan, 9, &parts), plan->nlanes);
            assert_int_equal(parts, plan->weight);
        }
        test_plans_free(&plans);
    }
}

/* 5 nodes of 7 GPUs, each with a network device: links inside a node, and devices. */
static void cluster_link(void *context, int from, uint32_t lane, int to,
                         struct gpuring_simulate_link *link)
{
    bool near = from / 7 == to / 7;

    (void) context;
    (void) lane;
    link->latency_us = near ? 2 : 10;
    link->bandwidth = near ? 400e3 : 50e3;
    link->resource = (uint32_t) (near ? from : 35 + from);
}

/* In an alltoall between 35 ranks with chunks as on GPUs, the network devices, which have the most
 * load, are busy. */
TEST(test_many)
{
    struct gpuring_simulate_config config = {.bytes = 35u << 20,
                                             .chunk_bytes = 120 << 10,
                                             .slots = 2,
                                             .wire_factor = 1,
                                             .step_us = 1,
                                             .lane_bandwidth = 50e3,
                                             .nresources = 70,
                                             .link = cluster_link};
    struct gpuring_simulate_result result = {0};
    struct test_plans plans;
    char text[256] = "";

    test_plans_build_on(&plans, GPURING_COLLECTIVE_ALLTOALL, GPURING_ALGORITHM_DIRECT, 35, 1, 0,
                        true);
    assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans, 35,
                                           &config, &result, text, sizeof text),
                     GPURING_OK);
    assert_int_equal(result.bytes_sent, UINT64_C(35) * 34 << 20);
    assert_true(result.busiest_resource >= 35);
    assert_true(result.busiest > 0.85);
    test_plans_free(&plans);
}

TEST_GROUP(quiet_log, NULL)

int main(void)
{
    return unit_run();
}
