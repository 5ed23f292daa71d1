/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Test the mapping of grids and graphs onto hosts: always a permutation, never worse than before,
 * and good if that is possible. */

#include "test/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/pci_map.h"

enum {
    PROCS_MAX = 1024,
};

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Place PER processes on each host, with two domains per host. Ranks fill the hosts one after
 * another, or in turn. */
static void locations_fill(struct pci_map_location *locations, uint32_t procs, uint32_t per,
                           int in_turn)
{
    uint32_t hosts = (procs + per - 1) / per;

    for (uint32_t p = 0; p < procs; p++) {
        uint32_t local = in_turn ? p / hosts : p % per;

        locations[p].host = 1000 + (in_turn ? p % hosts : p / per);
        locations[p].domain = local >= (per + 1) / 2;
    }
}

/* Check that the processes have each of CELLS exactly once. */
static void assert_placement(const uint32_t *node_of, uint32_t procs, uint32_t cells)
{
    uint8_t seen[PROCS_MAX] = {0};
    uint32_t count = 0;

    for (uint32_t p = 0; p < procs; p++) {
        if (node_of[p] == PCI_MAP_NONE) {
            continue;
        }
        assert_true(node_of[p] < cells);
        assert_false(seen[node_of[p]]);
        seen[node_of[p]] = 1;
        count++;
    }
    assert_int_equal(count, cells);
}

/* Count the neighbour relations of a grid between two hosts, independently of the mapper. */
static uint64_t grid_cut(int ndims, const int *dims, const int *periods, uint32_t procs,
                         const struct pci_map_location *locations, const uint32_t *node_of)
{
    uint32_t at[PROCS_MAX] = {0}, cells = 1, stride = 1;
    uint64_t cut = 0;

    for (int d = 0; d < ndims; d++) {
        cells *= (uint32_t) dims[d];
    }
    for (uint32_t p = 0; p < procs; p++) {
        if (node_of[p] != PCI_MAP_NONE) {
            at[node_of[p]] = p;
        }
    }
    for (int d = ndims - 1; d >= 0; d--) {
        for (uint32_t v = 0; v < cells; v++) {
            uint32_t along = v / stride % (uint32_t) dims[d];
            uint32_t up = along + 1 < (uint32_t) dims[d] ? v + stride : v - along * stride;

            if ((along + 1 < (uint32_t) dims[d] || (periods[d] && dims[d] > 1)) &&
                locations[at[v]].host != locations[at[up]].host) {
                cut += 2;
            }
        }
        stride *= (uint32_t) dims[d];
    }
    return cut;
}

TEST(test_square_grid)
{
    struct pci_map_location locations[16];
    struct pci_map_result result;
    uint32_t node_of[16];
    int dims[2] = {4, 4}, periods[2] = {0, 0};

    for (int in_turn = 0; in_turn < 2; in_turn++) {
        locations_fill(locations, 16, 4, in_turn);
        assert_int_equal(pci_map_cart(2, dims, periods, 16, locations, node_of, &result), 0);
        assert_placement(node_of, 16, 16);
        /* One row (or column) per host cuts 12 of the 24 pairs of neighbours, and 2x2 blocks cut
         * 8. */
        assert_int_equal(result.before.hosts, 24);
        assert_int_equal(result.after.hosts, 16);
        assert_int_equal(grid_cut(2, dims, periods, 16, locations, node_of), 16);
        /* Inside a 2x2 block, two domains of two processes cut 2 pairs: 4 hosts x 2 x 2 ends. */
        assert_int_equal(result.after.domains, 16);
    }
}

TEST(test_cube_grid)
{
    struct pci_map_location locations[512];
    struct pci_map_result result;
    uint32_t node_of[512];
    int dims[3] = {8, 8, 8}, periods[3] = {1, 1, 1};

    locations_fill(locations, 512, 8, 0);
    assert_int_equal(pci_map_cart(3, dims, periods, 512, locations, node_of, &result), 0);
    assert_placement(node_of, 512, 512);
    /* A rod of 8 along a wrapping dimension has 4 faces of 8 cells out; a cube has 6 faces of 4. */
    assert_int_equal(result.before.hosts, 64 * 32);
    assert_int_equal(result.after.hosts, 64 * 24);
    assert_int_equal(grid_cut(3, dims, periods, 512, locations, node_of), 64 * 24);
}

/* If the numbering is already the best one, no process moves. */
TEST(test_good_numbering_stays)
{
    struct pci_map_location locations[16];
    uint32_t node_of[16];
    int dims[1] = {16}, periods[1] = {0};

    locations_fill(locations, 16, 4, 0);
    assert_int_equal(pci_map_cart(1, dims, periods, 16, locations, node_of, NULL), 0);
    for (uint32_t p = 0; p < 16; p++) {
        assert_int_equal(node_of[p], p);
    }
}

TEST(test_one_host_stays)
{
    struct pci_map_location locations[12];
    uint32_t node_of[12];
    int dims[2] = {3, 4}, periods[2] = {1, 0};

    memset(locations, 0, sizeof(locations));
    assert_int_equal(pci_map_cart(2, dims, periods, 12, locations, node_of, NULL), 0);
    for (uint32_t p = 0; p < 12; p++) {
        assert_int_equal(node_of[p], p);
    }
}

/* A grid of 4 cells on 3 hosts of 2, ranks in turn: two whole hosts serve it. */
TEST(test_surplus_processes)
{
    struct pci_map_location locations[6];
    struct pci_map_result result;
    uint32_t node_of[6];
    int dims[2] = {2, 2}, periods[2] = {0, 0};

    locations_fill(locations, 6, 2, 1);
    assert_int_equal(pci_map_cart(2, dims, periods, 6, locations, node_of, &result), 0);
    assert_placement(node_of, 6, 4);
    assert_int_equal(result.after.hosts, 4);
    assert_int_equal(grid_cut(2, dims, periods, 6, locations, node_of), 4);
}

TEST(test_odd_inputs)
{
    struct pci_map_location locations[4] = {{0, 0}};
    uint32_t node_of[4];
    int dims[2] = {2, 2}, negative[2] = {-1, 2}, zero[2] = {0, 2}, large[2] = {65536, 65536};
    int periods[2] = {0, 0};

    assert_int_equal(pci_map_cart(2, negative, periods, 4, locations, node_of, NULL), -EINVAL);
    assert_int_equal(pci_map_cart(2, zero, periods, 4, locations, node_of, NULL), -EINVAL);
    assert_int_equal(pci_map_cart(2, large, periods, 4, locations, node_of, NULL), -EINVAL);
    assert_int_equal(pci_map_cart(2, dims, periods, 3, locations, node_of, NULL), -EINVAL);
    /* No dimension is one cell. */
    assert_int_equal(pci_map_cart(0, dims, periods, 4, locations, node_of, NULL), 0);
    assert_placement(node_of, 4, 1);
}

/* For any grid and any locations, the placement is valid and not worse than the identity, and its
 * reported cuts are right. */
TEST(test_random_grids)
{
    struct pci_map_location locations[PROCS_MAX];
    uint32_t node_of[PROCS_MAX], again[PROCS_MAX], seed = 7;

    for (int round = 0; round < 150; round++) {
        int ndims = 1 + (int) (random_next(&seed) % 4), dims[4], periods[4];
        uint32_t cells = 1, procs, hosts = 1 + random_next(&seed) % 9;
        struct pci_map_result result;

        for (int d = 0; d < ndims; d++) {
            dims[d] = 1 + (int) (random_next(&seed) % 5);
            periods[d] = (int) (random_next(&seed) % 2);
            cells *= (uint32_t) dims[d];
        }
        procs = cells + random_next(&seed) % 6;
        for (uint32_t p = 0; p < procs; p++) {
            locations[p].host = random_next(&seed) % hosts;
            locations[p].domain = random_next(&seed) % 2;
        }
        assert_int_equal(pci_map_cart(ndims, dims, periods, procs, locations, node_of, &result), 0);
        assert_placement(node_of, procs, cells);
        assert_int_equal(grid_cut(ndims, dims, periods, procs, locations, node_of),
                         result.after.hosts);
        assert_true(result.after.hosts <= result.before.hosts);
        assert_int_equal(pci_map_cart(ndims, dims, periods, procs, locations, again, NULL), 0);
        assert_memory_equal(node_of, again, procs * sizeof(*node_of));
    }
}

/* Two cliques of eight nodes, whose members have alternating numbers, are placed on one host
 * each. */
TEST(test_cliques)
{
    uint32_t source[64], target[64], node_of[16];
    struct pci_map_location locations[16];
    struct pci_map_graph graph;
    struct pci_map_result result;
    size_t edges = 0;

    for (uint32_t a = 0; a < 16; a++) {
        for (uint32_t b = a + 2; b < 16; b += 2) {
            source[edges] = a;
            target[edges++] = b;
        }
    }
    locations_fill(locations, 16, 8, 0);
    assert_int_equal(pci_map_graph_build(16, edges, source, target, NULL, &graph), 0);
    assert_int_equal(pci_map_graph(&graph, locations, node_of, &result), 0);
    assert_placement(node_of, 16, 16);
    assert_int_equal(result.before.hosts, 2 * 2 * 16);
    assert_int_equal(result.after.hosts, 0);
    pci_map_graph_free(&graph);
}

/* A heavy edge is worth more than several light ones. */
TEST(test_weights)
{
    uint32_t source[3] = {0, 0, 1}, target[3] = {1, 2, 3}, weight[3] = {1, 10, 10}, node_of[4];
    struct pci_map_location locations[4] = {{1, 0}, {1, 0}, {2, 0}, {2, 0}};
    struct pci_map_graph graph;
    struct pci_map_result result;

    assert_int_equal(pci_map_graph_build(4, 3, source, target, weight, &graph), 0);
    assert_int_equal(pci_map_graph(&graph, locations, node_of, &result), 0);
    assert_placement(node_of, 4, 4);
    assert_int_equal(result.before.hosts, 40);
    assert_int_equal(result.after.hosts, 2);
    pci_map_graph_free(&graph);
}

TEST(test_random_graphs)
{
    uint32_t source[600], target[600], weight[600], node_of[200], seed = 99;
    struct pci_map_location locations[200];

    for (int round = 0; round < 60; round++) {
        uint32_t nodes = 1 + random_next(&seed) % 200, hosts = 1 + random_next(&seed) % 12;
        size_t edges = random_next(&seed) % 600;
        struct pci_map_graph graph;
        struct pci_map_result result;

        for (size_t i = 0; i < edges; i++) {
            source[i] = random_next(&seed) % nodes;
            target[i] = random_next(&seed) % nodes;
            weight[i] = random_next(&seed) % 20;
        }
        for (uint32_t p = 0; p < nodes; p++) {
            locations[p].host = random_next(&seed) % hosts;
            locations[p].domain = random_next(&seed) % 3;
        }
        assert_int_equal(pci_map_graph_build(nodes, edges, source, target, weight, &graph), 0);
        assert_int_equal(pci_map_graph(&graph, locations, node_of, &result), 0);
        assert_placement(node_of, nodes, nodes);
        assert_true(result.after.hosts <= result.before.hosts);
        pci_map_graph_free(&graph);
    }
}

TEST(test_edge_out_of_range)
{
    uint32_t source[1] = {0}, target[1] = {4};
    struct pci_map_graph graph;

    assert_int_equal(pci_map_graph_build(4, 1, source, target, NULL, &graph), -EINVAL);
}
