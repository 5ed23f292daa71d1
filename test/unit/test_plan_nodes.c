/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Plans between nodes of hosts: the checker proves them, and the simulator computes their times.
 * With arguments, this program prints tables of these times (doc/results/scale.md).
 */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/plan_simulate.h"
#include "test/unit/plans.h"

#define FAST 1e12 /* bytes per microsecond: takes no time */

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6 * expected + 1e-9) {
        fail_msg("%g instead of %g", value, expected);
    }
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

/* The collectives of two-shot between nodes. */
static const enum gpuring_collective collectives[] = {
    GPURING_COLLECTIVE_ALLREDUCE, GPURING_COLLECTIVE_ALLGATHER, GPURING_COLLECTIVE_REDUCE_SCATTER};

/* Return true if nodes of this size perform a collective. */
static bool has_nodes_of(enum gpuring_collective collective, int size)
{
    bool has = collective == GPURING_COLLECTIVE_ALLREDUCE;

    if (size > 1) {
        struct test_plans plans;

        test_plans_build_nodes(&plans, 2 * size, 2, 1);
        has = gpuring_plan_exists_on(collective, plans.plans[0], false);
        test_plans_free(&plans);
    }
    return has;
}

/* From 32 ranks per node on, a sum of an allreduce needs several steps. In a reduce-scatter it must
 * fit into one. */
TEST(test_nodes_are_proven)
{
    static const int sizes[] = {1, 2, 3, 31, 32, 62, 63, 70};
    const size_t nsizes = sizeof sizes / sizeof *sizes;

    for (size_t i = 0; i < 3 * 12 * nsizes; i++) {
        enum gpuring_collective collective = collectives[i % 3];
        int nnodes = 2 + (int) (i / 3 % 12), size = sizes[i / 36];
        bool has = has_nodes_of(collective, size);
        struct test_plans plans;
        char text[256] = "";

        assert_int_equal(
            has, collective == GPURING_COLLECTIVE_ALLREDUCE ||
                     (size > 1 && (size < 63 || collective == GPURING_COLLECTIVE_ALLGATHER)));
        if (has && (nnodes < (size > 32 ? 4 : 5) || size < 4)) {
            test_plans_build_nodes_on(&plans, collective, size * nnodes, nnodes,
                                      1 + (uint32_t) nnodes % 3);
            if (test_plans_check(&plans, 2, text, sizeof text) != GPURING_OK) {
                fail_msg("%s, %d nodes of %d ranks: %s", gpuring_collective_text(collective),
                         nnodes, size, text);
            }
            test_plans_free(&plans);
        }
    }
}

/* Return the time of a call in microseconds. */
static double simulated_us(const struct test_plans *plans,
                           const struct gpuring_simulate_config *config)
{
    struct gpuring_simulate_result result = {0};
    char text[256] = "";

    if (gpuring_plan_simulate((const struct gpuring_plan *const *) plans->plans, plans->nranks,
                              config, &result, text, sizeof text) != GPURING_OK) {
        fail_msg("%s", text);
    }
    return result.us;
}

/* Two-shot between nodes: 2 (N - 1) hops between nodes and two inside them, and 2 (N - 1) / N times
 * the vector through the device of a node. */
TEST(test_nodes)
{
    for (int nnodes = 2; nnodes <= 9; nnodes++) {
        struct cluster cluster = {nnodes, 1 + nnodes % 5, 0.25, 3, FAST, 0};
        struct gpuring_simulate_config config = node_config(&cluster, 8);
        int nranks = nnodes * cluster.size;
        struct test_plans plans;
        double inside = cluster.size > 1 ? 2 * 0.25 : 0, expected;

        test_plans_build_nodes(&plans, nranks, nnodes, 1);
        assert_near(simulated_us(&plans, &config), 2 * (nnodes - 1) * 3 + inside);
        cluster.near_us = cluster.far_us = 0;
        cluster.far_bandwidth = 1000;
        config.bytes = (uint64_t) nranks << 15;
        expected = 2.0 * (nnodes - 1) / nnodes * (double) config.bytes / 1000;
        assert_near(simulated_us(&plans, &config), expected);
        test_plans_free(&plans);
    }
}

/* An allgather and a reduce-scatter take N - 1 hops between nodes and one inside them, and each
 * block passes the device of a node once. */
TEST(test_blocks)
{
    for (int i = 0; i < 2 * 8; i++) {
        enum gpuring_collective collective = collectives[1 + i % 2];
        struct cluster cluster = {2 + i / 2, 2 + i % 5, 0.25, 3, FAST, 0};
        int nranks = cluster.nnodes * cluster.size;
        struct gpuring_simulate_config config = node_config(&cluster, 128 * (uint64_t) nranks);
        struct test_plans plans;

        test_plans_build_nodes_on(&plans, collective, nranks, cluster.nnodes, 1);
        assert_near(simulated_us(&plans, &config), (cluster.nnodes - 1) * 3 + 0.25);
        cluster.near_us = cluster.far_us = 0;
        cluster.far_bandwidth = 1000;
        config.bytes = (uint64_t) nranks << 15;
        assert_near(simulated_us(&plans, &config),
                    (double) (cluster.nnodes - 1) * cluster.size * (1 << 15) / 1000);
        test_plans_free(&plans);
    }
}

/* The algorithms of the tables: those of enum gpuring_algorithm, and doubling with one stripe or
 * with one for each rank of a node, but at most MOST_STRIPES. */
static const char letters[] = "rtx2ds";
#define DOUBLING         GPURING_ALGORITHM_COUNT
#define DOUBLING_STRIPES (GPURING_ALGORITHM_COUNT + 1)
#define MOST_STRIPES     8

/* Store the order of the ranks in rings and trees, as gpuring_plan_input has it. */
static void store_order(const struct gpuring_channel *channels, int rank, size_t n, uint16_t *order)
{
    for (size_t c = 0; c < 2; c++) {
        int up = channels[0].tree[c].up;

        order[c * n + (size_t) channels[c].ring.index] = (uint16_t) rank;
        order[(2 + c) * n + (size_t) rank] = (uint16_t) (up >= 0 ? up : rank);
    }
}

/* Build the plans of an algorithm on the channels that hosts have without a topology. sizes: ranks
 * of each node. The root is the last rank of the first node. */
static void build_on_hosts(struct test_plans *plans, enum gpuring_collective collective,
                           int algorithm, int nnodes, const int *sizes, bool equal)
{
    bool doubling = algorithm >= DOUBLING;
    int most = sizes[0] < MOST_STRIPES ? sizes[0] : MOST_STRIPES;
    uint32_t stripes = algorithm == DOUBLING_STRIPES ? (uint32_t) most : 1;
    uint16_t *channel_order;
    int *order, *node, nranks = 0;

    for (int i = 0; i < nnodes; i++) {
        nranks += sizes[i];
    }
    order = calloc(2 * (size_t) nranks, sizeof *order);
    channel_order = calloc(4 * (size_t) nranks, sizeof *channel_order);
    assert_non_null(channel_order);
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

        gpuring_node_map_channels(&map, rank, 2, channels);
        store_order(channels, rank, (size_t) nranks, channel_order);
    }
    for (int rank = 0; rank < nranks; rank++) {
        struct gpuring_node_map map = {nranks, nnodes, node, order, order};
        struct gpuring_channel channels[2];
        struct gpuring_plan_input input = {.rank = rank,
                                           .nranks = nranks,
                                           .channels = channels,
                                           .nrings = 2,
                                           .ntrees = 1,
                                           .ndirect = stripes,
                                           .nnodes = equal ? nnodes : 0,
                                           .by_node = order,
                                           .node = node,
                                           .doubling = doubling,
                                           .order = channel_order,
                                           .root = sizes[0] - 1};
        struct gpuring_plan *base;

        gpuring_node_map_channels(&map, rank, 2, channels);
        assert_int_equal(gpuring_plan_build(doubling ? GPURING_ALGORITHM_DIRECT
                                                     : (enum gpuring_algorithm) algorithm,
                                            &input, &base),
                         GPURING_OK);
        plans->plans[rank] = base;
        if (collective != base->collective) {
            input.base = base;
            assert_int_equal(gpuring_plan_build_on(collective, &input, &plans->plans[rank]),
                             GPURING_OK);
            gpuring_plan_free(base);
        }
    }
    free(channel_order);
    free(order);
}

/* Use nodes of 1, 2, 3, 1 .. ranks, and one of 100, whose leaders need several steps for a sum.
 * There are as many stripes as ranks of the first node, so ranks of smaller nodes lead several. */
TEST(test_doubling)
{
    int sizes[40];

    for (int nnodes = 2; nnodes <= 40; nnodes++) {
        struct cluster cluster = {nnodes, 1, 0, 3, FAST, 0};
        struct gpuring_simulate_config config = node_config(&cluster, 8);
        struct test_plans plans;
        char text[256] = "";
        double us;
        int power = 1 << (31 - __builtin_clz((unsigned) nnodes));

        for (int i = 0; i < nnodes; i++) {
            sizes[i] = i == 1 && nnodes % 9 == 0 ? 100 : 1 + (i + nnodes) % 3;
        }
        build_on_hosts(&plans, GPURING_COLLECTIVE_ALLREDUCE, DOUBLING_STRIPES, nnodes, sizes,
                       false);
        if (test_plans_check(&plans, 1, text, sizeof text) != GPURING_OK) {
            fail_msg("%d nodes: %s", nnodes, text);
        }
        test_plans_free(&plans);
        for (int i = 0; i < nnodes; i++) {
            sizes[i] = 1;
        }
        build_on_hosts(&plans, GPURING_COLLECTIVE_ALLREDUCE, DOUBLING, nnodes, sizes, true);
        us = simulated_us(&plans, &config);
        if (power == nnodes) {
            assert_near(us, 3 * log2(power));
        }
        assert_true(us <= 3 * (log2(power) + 2) + 1e-6);
        test_plans_free(&plans);
    }
}

/* Doubling with a stripe for each rank of a node: log2 N hops between nodes and two inside them,
 * and log2 N times the vector through the device of a node. */
TEST(test_doubling_by_all_ranks)
{
    for (int hops = 1; hops <= 3; hops++) {
        struct cluster cluster = {1 << hops, 1 + hops, 0.25, 3, FAST, 0};
        struct gpuring_simulate_config config = node_config(&cluster, 8);
        int sizes[8] = {0};
        struct test_plans plans;
        char text[256] = "";

        for (int i = 0; i < cluster.nnodes; i++) {
            sizes[i] = cluster.size;
        }
        build_on_hosts(&plans, GPURING_COLLECTIVE_ALLREDUCE, DOUBLING_STRIPES, cluster.nnodes,
                       sizes, true);
        if (test_plans_check(&plans, 1, text, sizeof text) != GPURING_OK) {
            fail_msg("%d nodes: %s", cluster.nnodes, text);
        }
        assert_near(simulated_us(&plans, &config), hops * 3 + 2 * 0.25);
        cluster.near_us = cluster.far_us = 0;
        cluster.far_bandwidth = 1000;
        config.bytes = (uint64_t) cluster.size << 15;
        assert_near(simulated_us(&plans, &config), (double) hops * (double) config.bytes / 1000);
        test_plans_free(&plans);
    }
}

/* Return the time in us of an algorithm. chunk_bytes: maximum of a chunk, 0: as gpuring_select
 * chooses it. */
static double time_on_hosts(enum gpuring_collective collective, int algorithm,
                            struct cluster *cluster, uint64_t bytes, uint64_t chunk_bytes)
{
    uint64_t blocks = gpuring_collective_has_blocks(collective)
                          ? (uint64_t) (cluster->nnodes * cluster->size)
                          : 1;
    struct gpuring_simulate_config config = node_config(cluster, bytes * blocks);
    double us;
    int *sizes = calloc((size_t) cluster->nnodes, sizeof *sizes);
    struct test_plans plans;

    assert_non_null(sizes);
    for (int i = 0; i < cluster->nnodes; i++) {
        sizes[i] = cluster->size;
    }
    config.lane_bandwidth = 10e3;
    config.step_us = 0.1;
    if (chunk_bytes > 0) {
        config.chunk_bytes = chunk_bytes;
    } else if (algorithm >= DOUBLING) {
        config.chunk_bytes = 32 << 10; /* a slot of the set for doubling */
    } else if (algorithm != GPURING_ALGORITHM_TREE || bytes / 8 > 128 << 10) {
        config.chunk_bytes = 128 << 10;
    } else if (bytes / 8 > config.chunk_bytes) {
        config.chunk_bytes = bytes / 8;
    }
    build_on_hosts(&plans, collective, algorithm, cluster->nnodes, sizes, true);
    us = simulated_us(&plans, &config);
    test_plans_free(&plans);
    free(sizes);
    return us;
}

/* Print a table of the model for nodes with `size` ranks each (doc/results/scale.md): bytes of the
 * vector or of a block, and the times of the algorithms whose letters are in `which`. */
static void print_table(enum gpuring_collective collective, int nnodes, int size, const char *which,
                        uint64_t chunk_bytes)
{
    bool blocks = gpuring_collective_has_blocks(collective);
    struct cluster cluster = {nnodes, size, 0.5, 3, 12.5e3, blocks ? 1.0 / size : 0};

    for (uint64_t bytes = blocks ? 128 : 8; bytes <= (blocks ? 4 << 20 : 16 << 20); bytes *= 2) {
        printf("| %d x %d | %llu |", nnodes, size, (unsigned long long) bytes);
        for (int a = 0; letters[a] != '\0'; a++) {
            if (strchr(which, letters[a]) != NULL) {
                printf(" %.0f |", time_on_hosts(collective, a, &cluster, bytes, chunk_bytes));
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
        struct test_plans plans;

        config.lane_bandwidth = 10e3;
        config.step_us = 0.1;
        config.chunk_bytes = 128 << 10;
        if (by_node) {
            test_plans_build_exchange(&plans, cluster->nnodes, cluster->size, 1, roots[i]);
        } else {
            test_plans_build_on(&plans, GPURING_COLLECTIVE_ALLTOALL, GPURING_ALGORITHM_DIRECT,
                                nranks, 1, 0, false);
        }
        us += simulated_us(&plans, &config);
        test_plans_free(&plans);
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

/* Return the collective of a name without "MPI_", in lower or upper case, or COUNT. */
static enum gpuring_collective collective_of(const char *name)
{
    int c = 0;

    while (c < GPURING_COLLECTIVE_COUNT &&
           strcasecmp(gpuring_collective_text((enum gpuring_collective) c) + 4, name) != 0) {
        c++;
    }
    return (enum gpuring_collective) c;
}

/* test_plan_nodes NODES RANKS-OF-A-NODE [COLLECTIVE [ALGORITHMS [CHUNK-BYTES]]] */
int main(int argc, char **argv)
{
    enum gpuring_collective collective = collective_of(argc > 3 ? argv[3] : "allreduce");

    if (argc > 3 && strcmp(argv[3], "alltoall") == 0) {
        print_alltoalls(atoi(argv[1]), atoi(argv[2]));
        return 0;
    }
    if (argc > 2 && collective != GPURING_COLLECTIVE_COUNT) {
        print_table(collective, atoi(argv[1]), atoi(argv[2]), argc > 4 ? argv[4] : "rtd2",
                    argc > 5 ? strtoull(argv[5], NULL, 0) : 0);
        return 0;
    }
    return unit_run();
}
