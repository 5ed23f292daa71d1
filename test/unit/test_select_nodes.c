/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The selection between nodes: allreduces on hosts, and alltoalls. */
#include "test/unit/unit.h"

#include "mca/coll_gpuring/engine/select.h"
#include "mca/coll_gpuring/params.h"

/* Two-shot replaces rings between nodes, and needs fewer hops. In a node it does so on request. */
TEST(two_shot_replaces_rings_between_nodes)
{
    const enum gpuring_algorithm ring = GPURING_ALGORITHM_RING, tree = GPURING_ALGORITHM_TREE,
                                 direct = GPURING_ALGORITHM_DIRECT,
                                 two_shot = GPURING_ALGORITHM_TWO_SHOT;
    const struct {
        int nranks, nnodes;
        uint64_t bytes;
        enum gpuring_algorithm without, with; /* two-shot */
    } cases[] = {
        {64, 8, 8, tree, tree},
        {64, 8, 1 << 20, tree, two_shot},
        {64, 8, 1 << 30, ring, two_shot},
        {32, 32, 256 << 10, tree, two_shot},
        {32, 32, 1 << 20, ring, two_shot},
        {64, 1, 1 << 30, ring, ring},
        {4, 2, 4 << 10, direct, direct},
        {4, 2, 8 << 10, direct, two_shot},
        {4, 2, 32 << 10, direct, two_shot},
        {4, 2, 1 << 20, ring, two_shot},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = cases[i].nranks,
                                               .nnodes = cases[i].nnodes,
                                               .host = true};
        uint32_t *plans = &config.plans[GPURING_COLLECTIVE_ALLREDUCE];
        struct gpuring_selection choice;

        *plans = 1u << ring | 1u << tree | (cases[i].nranks <= 16 ? 1u << direct : 0);
        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].without);
        *plans |= 1u << two_shot;
        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].with);
    }
}

/* Blocks are sent by node, except for those so small that the additional hops take longer. A bcast
 * and a reduce of several ranks of a node use trees from a smaller size on than between nodes of
 * one rank. */
TEST(bytes_cross_the_network_once)
{
    const enum gpuring_algorithm ring = GPURING_ALGORITHM_RING, tree = GPURING_ALGORITHM_TREE,
                                 direct = GPURING_ALGORITHM_DIRECT,
                                 two_shot = GPURING_ALGORITHM_TWO_SHOT;
    const struct {
        enum gpuring_collective collective;
        int nranks, nnodes;
        uint64_t bytes;
        enum gpuring_algorithm algorithm;
    } cases[] = {
        {GPURING_COLLECTIVE_ALLGATHER, 4, 2, 1 << 10, direct},
        {GPURING_COLLECTIVE_ALLGATHER, 4, 2, 1025, two_shot},
        {GPURING_COLLECTIVE_ALLGATHER, 16, 2, 64, two_shot},
        {GPURING_COLLECTIVE_REDUCE_SCATTER, 128, 16, 128, direct},
        {GPURING_COLLECTIVE_REDUCE_SCATTER, 128, 16, 192, two_shot},
        {GPURING_COLLECTIVE_REDUCE_SCATTER, 128, 16, 1 << 30, two_shot},
        {GPURING_COLLECTIVE_BCAST, 4, 2, 4 << 10, direct},
        {GPURING_COLLECTIVE_BCAST, 4, 2, 8 << 10, tree},
        {GPURING_COLLECTIVE_BCAST, 4, 2, 1 << 30, tree},
        {GPURING_COLLECTIVE_BCAST, 16, 4, 4 << 20, tree},
        {GPURING_COLLECTIVE_BCAST, 16, 4, 8 << 20, ring},
        {GPURING_COLLECTIVE_BCAST, 4, 4, 16 << 10, direct},
        {GPURING_COLLECTIVE_BCAST, 4, 4, 32 << 10, tree},
        {GPURING_COLLECTIVE_REDUCE, 16, 4, 4 << 10, tree},
        {GPURING_COLLECTIVE_REDUCE, 16, 4, 1 << 30, ring},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = cases[i].nranks,
                                               .nnodes = cases[i].nnodes,
                                               .host = true};
        struct gpuring_selection choice;

        config.plans[cases[i].collective] =
            1u << ring | 1u << direct |
            (gpuring_collective_has_blocks(cases[i].collective) ? 1u << two_shot : 1u << tree);
        gpuring_select(&config, cases[i].collective, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].algorithm);
        assert_int_equal(choice.set, cases[i].algorithm);
    }
}

/* A call between nodes uses as many rings as its bytes fill, and its trees have several chunks. */
TEST(channels_and_chunks_between_nodes_follow_size)
{
    const struct {
        uint64_t bytes;
        enum gpuring_algorithm algorithm;
        uint32_t channels;
        uint64_t chunk;
        bool offloads;
    } cases[] = {
        {63 << 10, GPURING_ALGORITHM_RING, 1, 131072, false},
        {64 << 10, GPURING_ALGORITHM_RING, 2, 131072, false},
        {64 << 10, GPURING_ALGORITHM_TREE, 1, 32768, false},
        {512 << 10, GPURING_ALGORITHM_TREE, 1, 65536, false},
        {64 << 20, GPURING_ALGORITHM_TREE, 1, 131072, false},
        {64 << 10, GPURING_ALGORITHM_TREE, 1, 8192, true},
        {512 << 10, GPURING_ALGORITHM_TREE, 1, 16384, true},
        {128 << 10, GPURING_ALGORITHM_DIRECT, 1, 65536, false},
        {384 << 10, GPURING_ALGORITHM_DIRECT, 1, 98304, false},
        {384 << 10, GPURING_ALGORITHM_DIRECT, 1, 32768, true},
        {768 << 10, GPURING_ALGORITHM_DIRECT, 1, 65536, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {
            .algorithm = (int) cases[i].algorithm,
            .protocol = -1,
            .nranks = 32,
            .nnodes = 32,
            .host = true,
            .offloads = cases[i].offloads,
            .plans = {[GPURING_COLLECTIVE_ALLREDUCE] = 1u << GPURING_ALGORITHM_RING |
                                                       1u << GPURING_ALGORITHM_TREE |
                                                       1u << GPURING_ALGORITHM_DIRECT},
            .channels = {[GPURING_ALGORITHM_RING] = 2,
                         [GPURING_ALGORITHM_TREE] = 1,
                         [GPURING_ALGORITHM_DIRECT] = 1},
            .slot_bytes = {[GPURING_ALGORITHM_RING] = {131072},
                           [GPURING_ALGORITHM_TREE] = {131072},
                           [GPURING_ALGORITHM_DIRECT] = {131072}}};
        struct gpuring_selection choice;

        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.channels, cases[i].channels);
        assert_int_equal(choice.chunk, cases[i].chunk);
    }
}

/* Many ranks exchange small vectors by doubling, which has separate connections. */
TEST(small_vectors_are_doubled)
{
    struct gpuring_select_config config = {
        .algorithm = -1, .protocol = -1, .nranks = 32, .nnodes = 8, .host = true, .doubling = true};
    struct gpuring_selection choice;

    for (int set = 0; set < GPURING_SET_COUNT; set++) {
        config.slot_bytes[set][GPURING_PROTOCOL_SIMPLE] =
            set == GPURING_SET_DOUBLING ? 8192 : 65536;
    }
    for (int c = 0; c < GPURING_COLLECTIVE_COUNT; c++) {
        config.plans[c] = 1u << GPURING_ALGORITHM_DIRECT | 1u << GPURING_ALGORITHM_TREE |
                          1u << GPURING_ALGORITHM_RING;
    }
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, (64 << 10) / 5, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.set, GPURING_SET_DOUBLING);
    assert_int_equal(choice.chunk, 8192);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, (64 << 10) / 5 + 1, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_TREE);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLTOALL, 8, 1, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT);
    config.algorithm = GPURING_ALGORITHM_DIRECT;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 1, &choice);
    assert_int_equal(choice.set, GPURING_SET_DOUBLING);
}

/* With verbs, direct exchanges serve very small vectors between few ranks, and doubling larger
 * ones. It has as many stripes as the vector fills. */
TEST(medium_vectors_are_doubled_in_stripes)
{
    const enum gpuring_algorithm direct = GPURING_ALGORITHM_DIRECT, tree = GPURING_ALGORITHM_TREE,
                                 two_shot = GPURING_ALGORITHM_TWO_SHOT;
    const int doubling = GPURING_SET_DOUBLING;
    const struct {
        int nranks, nnodes;
        bool equal; /* nodes have the same number of ranks */
        uint64_t bytes;
        enum gpuring_algorithm algorithm;
        int set;
        uint32_t channels;
    } cases[] = {
        {4, 2, true, 8, direct, (int) direct, 1},
        {4, 2, true, 1365, direct, (int) direct, 1},
        {4, 2, true, 1366, direct, doubling, 1},
        {4, 2, true, 2 << 10, direct, doubling, 2},
        {4, 2, true, 32 << 10, direct, doubling, 2},
        {4, 2, true, (32 << 10) + 1, two_shot, (int) two_shot, 1},
        {8, 2, true, 274, direct, doubling, 1},
        {8, 2, true, 3 << 10, direct, doubling, 3},
        {8, 2, true, 48 << 10, direct, doubling, 4},
        {8, 2, true, (48 << 10) + 1, two_shot, (int) two_shot, 1},
        {6, 3, true, 4 << 10, direct, (int) direct, 1},
        {6, 3, true, 16 << 10, direct, doubling, 2},
        {6, 3, true, (16 << 10) + 1, two_shot, (int) two_shot, 1},
        {16, 4, true, 60 << 10, direct, doubling, 4},
        {16, 4, true, (60 << 10) + 1, two_shot, (int) two_shot, 1},
        {9, 4, false, 32 << 10, direct, doubling, 3},
        {9, 4, false, (32 << 10) + 1, tree, (int) tree, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = cases[i].nranks,
                                               .nnodes = cases[i].nnodes,
                                               .host = true,
                                               .doubling = true,
                                               .direct_first = true,
                                               .offloads = true};
        struct gpuring_selection choice;

        config.plans[GPURING_COLLECTIVE_ALLREDUCE] = 1u << direct | 1u << tree |
                                                     1u << GPURING_ALGORITHM_RING |
                                                     (cases[i].equal ? 1u << two_shot : 0);
        for (int set = 0; set < GPURING_SET_COUNT; set++) {
            config.channels[set] = 1;
            config.slot_bytes[set][GPURING_PROTOCOL_SIMPLE] = 32 << 10;
        }
        config.slot_bytes[GPURING_SET_SMALL][GPURING_PROTOCOL_SIMPLE] = 0;
        config.channels[GPURING_SET_DOUBLING] =
            (uint32_t) ((cases[i].nranks + cases[i].nnodes - 1) / cases[i].nnodes);
        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].algorithm);
        assert_int_equal(choice.set, cases[i].set);
        assert_int_equal(choice.channels, cases[i].channels);
    }
}

/* Between nodes of one rank each, over messages of MPI, doubling is left where MPI would not send
 * the vector eagerly, and trees are used up to larger vectors than with other networks. */
TEST(trees_serve_medium_vectors_by_mpi)
{
    const enum gpuring_algorithm direct = GPURING_ALGORITHM_DIRECT, tree = GPURING_ALGORITHM_TREE,
                                 ring = GPURING_ALGORITHM_RING;
    const struct {
        int nranks;
        uint64_t bytes;
        bool by_mpi;
        enum gpuring_algorithm algorithm;
    } cases[] = {
        {3, 192 << 10, true, direct}, {3, (192 << 10) + 1, true, ring}, {4, 65408, true, direct},
        {4, 65409, true, tree},       {4, 256 << 10, true, tree},       {4, 257 << 10, true, ring},
        {4, 33 << 10, false, ring},   {8, 512 << 10, true, tree},       {8, 129 << 10, false, ring},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = cases[i].nranks,
                                               .nnodes = cases[i].nranks,
                                               .host = true,
                                               .doubling = true,
                                               .any_memory = cases[i].by_mpi,
                                               .plans[GPURING_COLLECTIVE_ALLREDUCE] =
                                                   1u << direct | 1u << tree | 1u << ring};
        struct gpuring_selection choice;

        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].algorithm);
    }
}

/* Small blocks go by node if that saves enough messages, and blocks of any size if there is no
 * direct exchange. Blocks of unknown lengths never do. */
TEST(small_blocks_go_by_node)
{
    const enum gpuring_algorithm direct = GPURING_ALGORITHM_DIRECT,
                                 two_shot = GPURING_ALGORITHM_TWO_SHOT;
    const struct {
        int nranks, nnodes;
        bool host, has_direct;
        uint64_t bytes;
        enum gpuring_algorithm algorithm;
    } cases[] = {
        {32, 8, true, true, 8, two_shot},
        {32, 8, true, true, 1 << 10, two_shot},
        {32, 8, true, true, 2 << 10, direct},
        {4, 2, true, true, 8, direct},
        {32, 8, false, true, 8, direct},
        {2048, 256, true, false, 8, two_shot},
        {2048, 256, true, false, 1 << 20, two_shot},
        {2048, 256, false, false, 8, two_shot},
        {32, 8, true, true, GPURING_COUNT_UNKNOWN, direct},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = cases[i].nranks,
                                               .nnodes = cases[i].nnodes,
                                               .host = cases[i].host};
        struct gpuring_selection choice;

        for (int set = 0; set < GPURING_SET_COUNT; set++) {
            config.slot_bytes[set][GPURING_PROTOCOL_SIMPLE] = 8192;
            config.channels[set] = set == GPURING_SET_NODES ? 3 : 1;
        }
        config.slot_bytes[GPURING_SET_SMALL][GPURING_PROTOCOL_SIMPLE] = 0;
        config.min_channels = 4;
        config.plans[GPURING_COLLECTIVE_ALLTOALL] =
            1u << two_shot | (cases[i].has_direct ? 1u << direct : 0);
        gpuring_select(&config, GPURING_COLLECTIVE_ALLTOALL, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.algorithm, cases[i].algorithm);
        assert_int_equal(choice.set,
                         choice.algorithm == two_shot ? GPURING_SET_NODES : (int) direct);
        assert_int_equal(choice.channels, choice.algorithm == two_shot ? 3 : 1);
        assert_int_equal(choice.delegated, GPURING_REASON_NONE);
    }
}

/* A parameter selects it, but not for blocks of unknown lengths. Without another plan these are
 * delegated. */
TEST(unknown_lengths_do_not_go_by_node)
{
    struct gpuring_select_config config = {
        .algorithm = GPURING_ALGORITHM_TWO_SHOT,
        .protocol = -1,
        .nranks = 2048,
        .nnodes = 256,
        .host = true,
        .plans = {[GPURING_COLLECTIVE_ALLTOALL] = 1u << GPURING_ALGORITHM_TWO_SHOT}};
    struct gpuring_selection choice;

    gpuring_select(&config, GPURING_COLLECTIVE_ALLTOALL, 1 << 20, 1, &choice);
    assert_int_equal(choice.set, GPURING_SET_NODES);
    assert_int_equal(choice.delegated, GPURING_REASON_NONE);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLTOALL, GPURING_COUNT_UNKNOWN, 1, &choice);
    assert_int_equal(choice.delegated, GPURING_REASON_RANKS);
    assert_int_not_equal(choice.set, GPURING_SET_NODES);
    config.plans[GPURING_COLLECTIVE_ALLTOALL] |= 1u << GPURING_ALGORITHM_DIRECT;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLTOALL, GPURING_COUNT_UNKNOWN, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.delegated, GPURING_REASON_NONE);
}

/* Blocking calls whose messages MPI sends eagerly are delegated on hosts, unless a parameter, the
 * tuning file or the order of a reduction decides. */
TEST(blocking_calls_are_delegated_by_size)
{
    struct gpuring_tuning_rule rule = {.collective = GPURING_COLLECTIVE_BCAST,
                                       .bytes = {0, UINT64_MAX},
                                       .algorithm = GPURING_PARAM_ALGORITHM_DIRECT};
    struct gpuring_tuning tuning = {.rules = &rule, .count = 1};
    const struct gpuring_select_config usual = {
        .algorithm = -1,
        .protocol = -1,
        .nranks = 2,
        .nnodes = 2,
        .host = true,
        .any_memory = true,
        .plans = {[GPURING_COLLECTIVE_ALLREDUCE] = 1u << GPURING_ALGORITHM_DIRECT,
                  [GPURING_COLLECTIVE_BCAST] = 1u << GPURING_ALGORITHM_DIRECT,
                  [GPURING_COLLECTIVE_REDUCE] = 1u << GPURING_ALGORITHM_DIRECT,
                  [GPURING_COLLECTIVE_ALLGATHER] = 1u << GPURING_ALGORITHM_DIRECT}};
    enum { DIRECT = 1, PROTOCOL, FILE_RULE, ORDER, FOUR, NINE, SHARED, NODE, NET, GPU };
    const struct {
        enum gpuring_collective collective;
        uint64_t bytes;
        int change;
        bool blocking;
    } cases[] = {
        {GPURING_COLLECTIVE_BCAST, 8, 0, true},
        {GPURING_COLLECTIVE_BCAST, 65408, 0, true},
        {GPURING_COLLECTIVE_BCAST, 65409, 0, false},
        {GPURING_COLLECTIVE_BCAST, GPURING_COUNT_UNKNOWN, 0, false},
        {GPURING_COLLECTIVE_REDUCE, 65408, 0, true},
        {GPURING_COLLECTIVE_REDUCE, 65536, 0, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 4095, 0, true},
        {GPURING_COLLECTIVE_ALLREDUCE, 4096, 0, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8192, 0, true},
        {GPURING_COLLECTIVE_ALLREDUCE, 16384, 0, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 65536, 0, false},
        {GPURING_COLLECTIVE_ALLGATHER, 1 << 20, 0, false},
        {GPURING_COLLECTIVE_BCAST, 8, DIRECT, false},
        {GPURING_COLLECTIVE_BCAST, 8, PROTOCOL, false},
        {GPURING_COLLECTIVE_BCAST, 8, FILE_RULE, false},
        {GPURING_COLLECTIVE_BCAST, 8, ORDER, true},
        {GPURING_COLLECTIVE_REDUCE, 8, ORDER, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8, ORDER, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8191, FOUR, true},
        {GPURING_COLLECTIVE_ALLREDUCE, 8192, FOUR, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8, NINE, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8, SHARED, false},
        {GPURING_COLLECTIVE_BCAST, 8, FOUR, false},
        {GPURING_COLLECTIVE_ALLREDUCE, 8, NODE, false},
        {GPURING_COLLECTIVE_ALLGATHER, 8, NODE, false},
        {GPURING_COLLECTIVE_BCAST, 8, NODE, false},
        {GPURING_COLLECTIVE_BCAST, 8, NET, false},
        {GPURING_COLLECTIVE_REDUCE, 8, GPU, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = usual;
        struct gpuring_selection choice;
        int change = cases[i].change;

        config.algorithm = change == DIRECT ? (int) GPURING_ALGORITHM_DIRECT : -1;
        config.protocol = change == PROTOCOL ? (int) GPURING_PROTOCOL_SIMPLE : -1;
        config.tuning = change == FILE_RULE ? &tuning : NULL;
        config.in_order = change == ORDER;
        config.nranks = change == FOUR || change == SHARED ? 4 : change == NINE ? 9 : 2;
        config.nnodes = change == NODE ? 1 : change == SHARED ? 2 : config.nranks;
        config.host = change != GPU;
        config.any_memory = change != NODE && change != NET && change != GPU;
        gpuring_select(&config, cases[i].collective, cases[i].bytes, 1, &choice);
        assert_int_equal(choice.delegated, GPURING_REASON_NONE);
        assert_int_equal(choice.blocking_delegated,
                         cases[i].blocking ? GPURING_REASON_SHORT : GPURING_REASON_NONE);
    }
}

/* Chunks are short, or as long as possible where all connections are between nodes. */
TEST(test_chunks)
{
    static const struct {
        int nranks;
        uint64_t bytes, chunk;
    } cases[] = {{2, 65408, 65408},
                 {2, 191 << 10, 65408},
                 {2, 192 << 10, 1 << 20},
                 {2, 8 << 20, 1 << 20},
                 {4, 8 << 20, 65408}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_select_config config = {
            .algorithm = -1,
            .protocol = -1,
            .nranks = cases[i].nranks,
            .nnodes = 2,
            .host = true,
            .plans[GPURING_COLLECTIVE_ALLREDUCE] = 1u << GPURING_ALGORITHM_DIRECT,
            .channels[GPURING_ALGORITHM_DIRECT] = 1,
            .slot_bytes[GPURING_ALGORITHM_DIRECT][GPURING_PROTOCOL_SIMPLE] = 1 << 20,
            .any_memory = true,
        };
        struct gpuring_selection choice;

        gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, cases[i].bytes / 4, 4, &choice);
        assert_int_equal(choice.chunk * 4, cases[i].chunk);
    }
}
