/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the simulator with times that were computed from the algorithms by hand. */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/topology/node_map.h"
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

/* Nodes with one thread for each rank and one network device for each node. */
struct cluster {
    int nnodes, size; /* ranks of a node */
    double near_us, far_us, far_bandwidth, message_us;
};

static void node_link(void *context, int from, uint32_t lane, int to,
                      struct gpuring_simulate_link *link)
{
    const struct cluster *cluster = context;
    bool near = from / cluster->size == to / cluster->size;

    (void) lane;
    link->latency_us = near ? cluster->near_us : cluster->far_us;
    link->message_us = near ? 0 : cluster->message_us;
    link->bandwidth = near ? FAST : cluster->far_bandwidth;
    link->resource = (uint32_t) (near ? cluster->nnodes + from : from / cluster->size);
}

static struct gpuring_simulate_config node_config(struct cluster *cluster, uint64_t bytes)
{
    return (struct gpuring_simulate_config){.bytes = bytes,
                                            .chunk_bytes = 32 << 10,
                                            .slots = 8,
                                            .wire_factor = 1,
                                            .lane_bandwidth = FAST,
                                            .host = true,
                                            .nresources =
                                                (uint32_t) (cluster->nnodes * (cluster->size + 1)),
                                            .link = node_link,
                                            .context = cluster};
}

/* From 32 ranks per node on, a sum needs several steps. */
TEST(test_nodes_are_proven)
{
    static const int sizes[] = {1, 2, 3, 31, 32, 70};

    for (size_t i = 0; i < 12 * sizeof sizes / sizeof *sizes; i++) {
        int nnodes = 2 + (int) (i % 12), size = sizes[i / 12];
        struct test_plans plans;
        char text[256] = "";

        if (nnodes < 5 || size < 4) {
            test_plans_build_nodes(&plans, size * nnodes, nnodes, 1 + (uint32_t) nnodes % 3);
            if (test_plans_check(&plans, 2, text, sizeof text) != GPURING_OK) {
                fail_msg("%d nodes of %d ranks: %s", nnodes, size, text);
            }
            test_plans_free(&plans);
        }
    }
}

/* Two-shot between nodes: 2 (N - 1) hops between nodes and two inside them, and 2 (N - 1) / N times
 * the vector through the device of a node. */
TEST(test_nodes)
{
    for (int nnodes = 2; nnodes <= 9; nnodes++) {
        struct cluster cluster = {nnodes, 1 + nnodes % 5, 0.25, 3, FAST, 0};
        struct gpuring_simulate_config config = node_config(&cluster, 8);
        struct gpuring_simulate_result result = {0};
        int nranks = nnodes * cluster.size;
        struct test_plans plans;
        double inside = cluster.size > 1 ? 2 * 0.25 : 0, expected;
        char text[256] = "";

        test_plans_build_nodes(&plans, nranks, nnodes, 1);
        assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans,
                                               nranks, &config, &result, text, sizeof text),
                         GPURING_OK);
        assert_near(result.us, 2 * (nnodes - 1) * 3 + inside);
        cluster.near_us = cluster.far_us = 0;
        cluster.far_bandwidth = 1000;
        config.bytes = (uint64_t) nranks << 15;
        assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans,
                                               nranks, &config, &result, text, sizeof text),
                         GPURING_OK);
        expected = 2.0 * (nnodes - 1) / nnodes * (double) config.bytes / 1000;
        assert_near(result.us, expected);
        test_plans_free(&plans);
    }
}

/* Build the plans of an algorithm on the channels that hosts have without a topology. Direct is
 * doubling. sizes: ranks of each node. */
static void build_on_hosts(struct test_plans *plans, enum gpuring_algorithm algorithm, int nnodes,
                           const int *sizes, bool equal)
{
    int *order, *node, nranks = 0;

    for (int i = 0; i < nnodes; i++) {
        nranks += sizes[i];
    }
    order = calloc(2 * (size_t) nranks, sizeof *order);
    node = order + nranks;
    plans->nranks = nranks;
    plans->plans = calloc((size_t) nranks, sizeof *plans->plans);
    assert_non_null(order);
    assert_non_null(plans->plans);
    for (int i = 0, rank = 0; i < nnodes; i++) {
        for (int end = rank + sizes[i]; rank < end; rank++) {
            order[rank] = rank;
            node[rank] = i;
        }
    }
    for (int rank = 0; rank < nranks; rank++) {
        struct gpuring_node_map map = {nranks, nnodes, node, order, order};
        struct gpuring_channel channels[2];
        struct gpuring_plan_input input = {.rank = rank,
                                           .nranks = nranks,
                                           .channels = channels,
                                           .nrings = 2,
                                           .ntrees = 1,
                                           .ndirect = 1,
                                           .nnodes = equal ? nnodes : 0,
                                           .by_node = order,
                                           .node = node,
                                           .doubling = true};

        gpuring_node_map_channels(&map, rank, 2, channels);
        assert_int_equal(gpuring_plan_build(algorithm, &input, &plans->plans[rank]), GPURING_OK);
    }
    free(order);
}

/* Use nodes of 1, 2, 3, 1 .. ranks, and one of 100, whose leader needs several steps for a sum. */
TEST(test_doubling)
{
    int sizes[40];

    for (int nnodes = 2; nnodes <= 40; nnodes++) {
        struct cluster cluster = {nnodes, 1, 0, 3, FAST, 0};
        struct gpuring_simulate_config config = node_config(&cluster, 8);
        struct gpuring_simulate_result result = {0};
        struct test_plans plans;
        char text[256] = "";
        int power = 1 << (31 - __builtin_clz((unsigned) nnodes));

        for (int i = 0; i < nnodes; i++) {
            sizes[i] = i == 1 && nnodes % 9 == 0 ? 100 : 1 + i % 3;
        }
        build_on_hosts(&plans, GPURING_ALGORITHM_DIRECT, nnodes, sizes, false);
        if (test_plans_check(&plans, 1, text, sizeof text) != GPURING_OK) {
            fail_msg("%d nodes: %s", nnodes, text);
        }
        test_plans_free(&plans);
        for (int i = 0; i < nnodes; i++) {
            sizes[i] = 1;
        }
        build_on_hosts(&plans, GPURING_ALGORITHM_DIRECT, nnodes, sizes, true);
        assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans,
                                               nnodes, &config, &result, text, sizeof text),
                         GPURING_OK);
        if (power == nnodes) {
            assert_near(result.us, 3 * log2(power));
        }
        assert_true(result.us <= 3 * (log2(power) + 2) + 1e-6);
        test_plans_free(&plans);
    }
}

/* Return the time in us of an algorithm, with chunks as gpuring_select chooses them. */
static double time_on_hosts(enum gpuring_algorithm algorithm, struct cluster *cluster,
                            uint64_t bytes)
{
    struct gpuring_simulate_config config = node_config(cluster, bytes);
    struct gpuring_simulate_result result = {.us = -1};
    int *sizes = calloc((size_t) cluster->nnodes, sizeof *sizes);
    struct test_plans plans;
    char text[256];

    assert_non_null(sizes);
    for (int i = 0; i < cluster->nnodes; i++) {
        sizes[i] = cluster->size;
    }
    config.lane_bandwidth = 10e3;
    config.step_us = 0.1;
    if (algorithm != GPURING_ALGORITHM_TREE || bytes / 8 > 128 << 10) {
        config.chunk_bytes = 128 << 10;
    } else if (bytes / 8 > config.chunk_bytes) {
        config.chunk_bytes = bytes / 8;
    }
    build_on_hosts(&plans, algorithm, cluster->nnodes, sizes, true);
    assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans,
                                           plans.nranks, &config, &result, text, sizeof text),
                     GPURING_OK);
    test_plans_free(&plans);
    free(sizes);
    return result.us;
}

/* Print a table of the model for nodes with `size` ranks each (doc/results/scale.md): bytes, and
 * the times of the algorithms whose letters are in `which`. */
static void print_table(int nnodes, int size, const char *which)
{
    struct cluster cluster = {nnodes, size, 0.5, 3, 12.5e3, 0};

    for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
        printf("| %d x %d | %llu |", nnodes, size, (unsigned long long) bytes);
        for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
            if (strchr(which, "rtd2"[a]) != NULL) {
                printf(" %.0f |", time_on_hosts((enum gpuring_algorithm) a, &cluster, bytes));
            }
        }
        printf("\n");
    }
}

/* Return the time in us of an alltoall of blocks of `block` bytes. */
static double time_of_alltoall(struct cluster *cluster, uint64_t block, bool by_node)
{
    static const int roots[] = {0, GPURING_ROOT_BETWEEN_NODES, GPURING_ROOT_WITHIN_NODES};
    int nranks = cluster->nnodes * cluster->size;
    double us = 0;

    for (int i = by_node ? 1 : 0; i < (by_node ? 3 : 1); i++) {
        struct gpuring_simulate_config config = node_config(cluster, block * (uint64_t) nranks);
        struct gpuring_simulate_result result = {.us = -1};
        struct test_plans plans;
        char text[256];

        config.lane_bandwidth = 10e3;
        config.step_us = 0.1;
        config.chunk_bytes = 128 << 10;
        if (by_node) {
            test_plans_build_exchange(&plans, cluster->nnodes, cluster->size, 1, roots[i]);
        } else {
            test_plans_build_on(&plans, GPURING_COLLECTIVE_ALLTOALL, GPURING_ALGORITHM_DIRECT,
                                nranks, 1, 0, false);
        }
        assert_int_equal(gpuring_plan_simulate((const struct gpuring_plan *const *) plans.plans,
                                               nranks, &config, &result, text, sizeof text),
                         GPURING_OK);
        test_plans_free(&plans);
        us += result.us;
    }
    return us;
}

/* A rank sends one message to each other node, and the second stage moves few bytes more. */
TEST(test_by_node)
{
    struct cluster cluster = {8, 4, 0, 0, FAST, 1};
    double direct = time_of_alltoall(&cluster, 128, false);
    double by_node = time_of_alltoall(&cluster, 128, true);

    assert_true(direct >= 7 * 4 * 4);
    assert_true(by_node >= 7 * 4 && by_node < 7 * 4 + 8);
}

/* Print a table of the model for alltoalls: the bytes of a block, and the times of a direct
 * exchange, if there is one, and by node. */
static void print_alltoalls(int nnodes, int size)
{
    struct cluster cluster = {nnodes, size, 0.5, 3, 12.5e3, 1.0 / size};

    for (uint64_t block = 128; block <= 16 << 10; block *= nnodes * size > 1024 ? 32 : 2) {
        printf("| %d x %d | %llu |", nnodes, size, (unsigned long long) block);
        if (nnodes * size <= GPURING_DIRECT_MAX_RANKS) {
            printf(" %.0f |", time_of_alltoall(&cluster, block, false));
        } else {
            printf(" |");
        }
        printf(" %.0f |\n", time_of_alltoall(&cluster, block, true));
    }
}

TEST_GROUP(quiet_log, NULL)

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[3], "alltoall") == 0) {
        print_alltoalls(atoi(argv[1]), atoi(argv[2]));
        return 0;
    }
    if (argc > 2) {
        print_table(atoi(argv[1]), atoi(argv[2]), argc > 3 ? argv[3] : "rtd2");
        return 0;
    }
    return unit_run();
}
