/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the decisions of the component that need no MPI: which ranks share a node and whether they
 * agree, which algorithm and protocol serve a size, and whether a result agrees with a second one.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/selection.h"

#define RANKS 64

/* ---- Members ---- */

/* The result of AllGather 1. */
static struct gpuring_rank_info rank_infos[RANKS];

static struct gpuring_gathered fill_rank_infos(int nranks, int nnodes)
{
    memset(rank_infos, 0, sizeof rank_infos);
    for (int rank = 0; rank < nranks; rank++) {
        /* distribute ranks round-robin, with node identities that are not in the order of ranks */
        rank_infos[rank].node = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t) (nnodes - rank % nnodes);
    }
    return (struct gpuring_gathered){
        .nranks = nranks, .bytes = sizeof *rank_infos, .blocks = (uint8_t *) rank_infos};
}

TEST(nodes_are_found_and_kept_together)
{
    struct gpuring_node_map map;

    for (int nnodes = 1; nnodes <= 7; nnodes++) {
        struct gpuring_gathered gathered = fill_rank_infos(RANKS, nnodes);

        assert_int_equal(gpuring_node_map_find(&gathered, &map), 0);
        assert_int_equal(map.nnodes, nnodes);
        for (int rank = 0; rank < RANKS; rank++) {
            struct gpuring_node_ranks ranks = gpuring_node_ranks_of(&gathered, &map, rank);

            assert_int_equal(map.node[rank], rank % nnodes);
            assert_int_equal(map.order[map.position[rank]], rank);
            assert_int_equal(ranks.self, rank / nnodes);
            assert_int_equal(ranks.rank[ranks.self], rank);
            assert_int_equal(ranks.count, (RANKS - rank % nnodes + nnodes - 1) / nnodes);
        }
        for (int i = 1; i < RANKS; i++) {
            assert_true(map.node[map.order[i]] >= map.node[map.order[i - 1]]);
        }
        assert_int_equal(gpuring_node_map_size(&map), RANKS % nnodes == 0 ? RANKS / nnodes : 0);
        gpuring_node_map_clear(&map);
    }
}

/* Each part of a node becomes a separate node. Every rank is in part 0 or 1 here. */
TEST(parts_become_nodes)
{
    struct gpuring_gathered gathered = fill_rank_infos(RANKS, 3);
    struct pci_wire wires[RANKS] = {{.version = 0}};
    struct gpuring_node_map map, parts;

    assert_int_equal(gpuring_node_map_find(&gathered, &map), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        wires[rank].node = (uint32_t) (rank / 3) % 2;
    }
    assert_int_equal(gpuring_node_map_divide(&map, wires, &parts), 0);
    assert_int_equal(parts.nnodes, 6);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(parts.node[rank], rank % 6);
        assert_int_equal(parts.order[parts.position[rank]], rank);
    }
    gpuring_node_map_clear(&parts);
    gpuring_node_map_clear(&map);
}

/* The blocks of ranks become shorter when the channels of the nodes are known. */
TEST(rank_infos_are_trimmed)
{
    struct gpuring_gathered all = fill_rank_infos(RANKS, 4);
    struct gpuring_gathered kept = {.nranks = RANKS, .bytes = all.bytes};

    kept.blocks = malloc(RANKS * all.bytes);
    assert_non_null(kept.blocks);
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(rank_infos[rank].hostname, sizeof rank_infos[rank].hostname, "host%d", rank);
        rank_infos[rank].nics[0].port = (uint8_t) rank;
    }
    memcpy(kept.blocks, all.blocks, RANKS * all.bytes);
    gpuring_rank_info_compact(&kept);
    assert_true(kept.bytes < all.bytes);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(&kept, rank);

        assert_int_equal(rank_info->node, rank_infos[rank].node);
        assert_string_equal(rank_info->hostname, rank_infos[rank].hostname);
        assert_int_equal(rank_info->nics[0].port, rank);
    }
    gpuring_gathered_clear(&kept);
}

TEST(disagreement_is_named)
{
    struct gpuring_gathered gathered = fill_rank_infos(RANKS, 2);
    int rank = -1, parameter = -1;

    assert_int_equal(gpuring_node_map_compare(&gathered, &rank, &parameter), GPURING_AGREED);
    rank_infos[17].shared[GPURING_SHARED_buffer_size] = 1;
    rank_infos[40].shared[GPURING_SHARED_device] = 1;
    assert_int_equal(gpuring_node_map_compare(&gathered, &rank, &parameter),
                     GPURING_DISAGREE_PARAMETER);
    assert_int_equal(rank, 17);
    assert_int_equal(parameter, GPURING_SHARED_buffer_size);
    rank_infos[11].tuning = 1;
    assert_int_equal(gpuring_node_map_compare(&gathered, &rank, &parameter),
                     GPURING_DISAGREE_TUNING);
    assert_int_equal(rank, 11);
}

/* The channels of every size and number of nodes give plans that the checker accepts. */
TEST(channels_give_valid_plans)
{
    struct gpuring_plan *plans[2][RANKS];
    struct gpuring_node_map map;
    char text[256];

    for (int n = 2; n <= 20; n++) {
        struct gpuring_gathered gathered = fill_rank_infos(n, 1 + n % 3);

        assert_int_equal(gpuring_node_map_find(&gathered, &map), 0);
        for (int rank = 0; rank < n; rank++) {
            struct gpuring_channel channels[2];
            struct gpuring_plan_input input = {
                .rank = rank, .nranks = n, .channels = channels, .nrings = 2, .ntrees = 2};

            gpuring_node_map_channels(&map, rank, 2, channels);
            assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_RING, &input, &plans[0][rank]),
                             0);
            assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_TREE, &input, &plans[1][rank]),
                             0);
        }
        for (int i = 0; i < 2; i++) {
            int status = gpuring_plan_check((const struct gpuring_plan *const *) plans[i], n, 8,
                                            text, sizeof text);

            if (status != 0) {
                fail_msg("%d ranks: %s", n, text);
            }
            for (int rank = 0; rank < n; rank++) {
                gpuring_plan_free(plans[i][rank]);
            }
        }
        gpuring_node_map_clear(&map);
    }
}

/* ---- Choice ---- */

static struct gpuring_select_config config_of(int nranks, int nnodes)
{
    return (struct gpuring_select_config){
        .algorithm = -1,
        .protocol = -1,
        .nranks = nranks,
        .nnodes = nnodes,
        .host = true,
        .plans = {[GPURING_COLLECTIVE_ALLREDUCE] =
                      1u << GPURING_ALGORITHM_RING | 1u << GPURING_ALGORITHM_TREE |
                      (nranks <= 16 ? 1u << GPURING_ALGORITHM_DIRECT : 0)},
        .slot_bytes = {[0 ... GPURING_ALGORITHM_COUNT - 1] = {131072, 16384, 16384}},
    };
}

TEST(choice_follows_size)
{
    struct gpuring_select_config pair = config_of(2, 1), eight = config_of(8, 1),
                                 many = config_of(64, 8);
    struct gpuring_selection choice;

    gpuring_select(&pair, GPURING_COLLECTIVE_ALLREDUCE, 2, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_LL);
    /* For larger vectors each rank folds half of it. The half is sent as a whole if it fits a slot.
     */
    gpuring_select(&pair, GPURING_COLLECTIVE_ALLREDUCE, 16 << 10, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_SIMPLE);
    gpuring_select(&pair, GPURING_COLLECTIVE_ALLREDUCE, 64 << 10, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    assert_int_equal(choice.slice, 0);
    gpuring_select(&pair, GPURING_COLLECTIVE_ALLREDUCE, 1 << 24, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    assert_true(choice.slice > 0);
    pair.nnodes = 2;
    gpuring_select(&pair, GPURING_COLLECTIVE_ALLREDUCE, 1 << 24, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    gpuring_select(&eight, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    gpuring_select(&eight, GPURING_COLLECTIVE_ALLREDUCE, 1 << 24, 8, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    gpuring_select(&many, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_TREE);
    gpuring_select(&many, GPURING_COLLECTIVE_ALLREDUCE, UINT64_C(1) << 32, 8, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
}

/* Small vectors are sent directly, or through trees between many ranks, and large ones along
 * rings. */
TEST(broadcasts_go_by_trees_between_many_ranks)
{
    struct gpuring_select_config config = config_of(64, 8);
    struct gpuring_model_entry *model = config.model.entry[GPURING_COLLECTIVE_BCAST];

    config.plans[GPURING_COLLECTIVE_BCAST] =
        1u << GPURING_ALGORITHM_RING | 1u << GPURING_ALGORITHM_TREE;
    assert_int_equal(algorithm_of_bcast(&config, 8), GPURING_ALGORITHM_TREE);
    assert_int_equal(algorithm_of_bcast(&config, 1 << 30), GPURING_ALGORITHM_RING);
    assert_true(delegates(&config, GPURING_COLLECTIVE_BCAST, 8));
    config.host = false;
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 8 << 10));

    config.model.known = true;
    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        model[i] = (struct gpuring_model_entry){.algorithm = GPURING_ALGORITHM_RING,
                                                .protocol = GPURING_PROTOCOL_LL};
    }
    assert_int_equal(algorithm_of_bcast(&config, 8), GPURING_ALGORITHM_RING);
    /* The model has direct exchanges inside a node, but not between nodes. */
    config.plans[GPURING_COLLECTIVE_BCAST] |= 1u << GPURING_ALGORITHM_DIRECT;
    assert_int_equal(algorithm_of_bcast(&config, 8), GPURING_ALGORITHM_DIRECT);
    config.nnodes = 1;
    assert_int_equal(algorithm_of_bcast(&config, 8), GPURING_ALGORITHM_RING);
    config.model.known = false;
    config.nranks = 8;
    assert_int_equal(algorithm_of_bcast(&config, 8), GPURING_ALGORITHM_DIRECT);
    assert_int_equal(algorithm_of_bcast(&config, 128 << 10), GPURING_ALGORITHM_RING);
}

/* Between more than 16 ranks, direct is offered for blocks and scans if there is no other
 * algorithm. It is also offered for blocks if they are small, or if no port of a node has to carry
 * more data than with another algorithm. */
TEST(many_ranks_exchange_directly)
{
    static const int nodes[] = {1, 4, 32};

    assert_true(gpuring_select_eligible(GPURING_ALGORITHM_DIRECT, GPURING_DIRECT_MAX_RANKS, 8, 0));
    assert_false(
        gpuring_select_eligible(GPURING_ALGORITHM_DIRECT, GPURING_DIRECT_MAX_RANKS + 1, 8, 0));
    assert_false(gpuring_select_eligible(GPURING_ALGORITHM_TWO_SHOT, 17, 1, UINT32_MAX));
    for (int c = 0; c < 3 * GPURING_COLLECTIVE_COUNT; c++) {
        enum gpuring_collective collective = (enum gpuring_collective)(c / 3);
        struct gpuring_select_config config = config_of(32, nodes[c % 3]);
        bool blocks = gpuring_collective_has_blocks(collective), ring;

        config.plans[collective] = 0;
        for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
            config.plans[collective] |=
                gpuring_plan_exists(collective, (enum gpuring_algorithm) a, false, 32) ? 1u << a
                                                                                       : 0;
        }
        ring = (config.plans[collective] & 1u << GPURING_ALGORITHM_RING) != 0;
        for (uint64_t bytes = 8; bytes <= 8 << 20; bytes <<= 10) {
            bool direct = !ring || (blocks && (bytes == 8 || config.nnodes != 4));
            struct gpuring_selection choice;

            gpuring_select(&config, collective, bytes, 1, &choice);
            assert_int_equal(choice.algorithm == GPURING_ALGORITHM_DIRECT, direct);
            if (blocks && !direct) { /* the model knows rings between nodes */
                config.host = false;
                config.channels[GPURING_ALGORITHM_RING] = 8;
                config.model.known = true;
                for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
                    config.model.entry[collective][i] =
                        (struct gpuring_model_entry){.algorithm = GPURING_ALGORITHM_RING,
                                                     .protocol = GPURING_PROTOCOL_SIMPLE,
                                                     .channels = 3};
                }
                gpuring_select(&config, collective, bytes, 1, &choice);
                assert_int_equal(choice.channels, 3);
            }
            assert_false(direct && delegates(&config, collective, bytes));
        }
    }
}

TEST(parameters_win_where_they_can)
{
    struct gpuring_select_config config = config_of(32, 1);
    struct gpuring_selection choice;

    config.algorithm = GPURING_ALGORITHM_DIRECT; /* not offered to 32 ranks */
    config.protocol = GPURING_PROTOCOL_LL128;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_LL128);
    config.algorithm = GPURING_ALGORITHM_TREE;
    config.slot_bytes[GPURING_ALGORITHM_TREE][GPURING_PROTOCOL_LL128] = 0;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 4, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_TREE);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_SIMPLE);
}

/* If reductions must be in order, only plans that keep the order are offered, and no parameter
 * delegates the calls. */
TEST(order_wins)
{
    struct gpuring_tuning_rule previous = {.collective = GPURING_COLLECTIVE_ALLREDUCE,
                                           .bytes = {0, UINT64_MAX},
                                           .algorithm = GPURING_PARAM_ALGORITHM_PREVIOUS};
    const struct gpuring_tuning tuning = {.rules = &previous, .count = 1};
    struct gpuring_select_config eight = config_of(8, 1), many = config_of(64, 8);
    struct gpuring_select_config *const configs[] = {&eight, &many};
    struct gpuring_selection choice;

    for (int i = 0; i < 2; i++) {
        struct gpuring_select_config *config = configs[i];

        config->in_order = true;
        config->plans[GPURING_COLLECTIVE_REDUCE] = config->plans[GPURING_COLLECTIVE_SCAN] =
            1u << GPURING_ALGORITHM_TREE | (i == 0 ? 1u << GPURING_ALGORITHM_DIRECT : 0);
        config->plans[GPURING_COLLECTIVE_ALLREDUCE] = config->plans[GPURING_COLLECTIVE_SCAN];
        config->plans[GPURING_COLLECTIVE_BCAST] = 1u << GPURING_ALGORITHM_RING;
        config->tuning = &tuning;
        assert_false(delegates(config, GPURING_COLLECTIVE_ALLREDUCE, 8));
        config->algorithm = GPURING_SELECT_PREVIOUS;
        assert_false(delegates(config, GPURING_COLLECTIVE_ALLREDUCE, 8));
        assert_false(delegates(config, GPURING_COLLECTIVE_SCAN, 8));
        assert_true(delegates(config, GPURING_COLLECTIVE_BCAST, 8));
        config->algorithm = GPURING_ALGORITHM_RING;
        gpuring_select(config, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
        assert_int_equal(choice.algorithm,
                         i == 0 ? GPURING_ALGORITHM_DIRECT : GPURING_ALGORITHM_TREE);
        gpuring_select(config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 24, 8, &choice);
        assert_int_equal(choice.algorithm, GPURING_ALGORITHM_TREE);
        gpuring_select(config, GPURING_COLLECTIVE_REDUCE, 1 << 24, 8, &choice);
        assert_int_equal(choice.algorithm,
                         i == 0 ? GPURING_ALGORITHM_DIRECT : GPURING_ALGORITHM_TREE);
        gpuring_select(config, GPURING_COLLECTIVE_SCAN, 1 << 24, 8, &choice);
        assert_int_equal(choice.algorithm, GPURING_ALGORITHM_TREE);
        gpuring_select(config, GPURING_COLLECTIVE_BCAST, 1 << 24, 8, &choice);
        assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    }
}

/* On GPUs, only the topology, and not a parameter, decides whether 128-byte stores are atomic. */
TEST(ll128_needs_a_topology_that_keeps_lines_whole)
{
    struct gpuring_select_config config = config_of(8, 1);
    struct gpuring_selection choice;

    config.host = false;
    config.protocol = GPURING_PROTOCOL_LL128;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 4, &choice); /* no topology */
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_SIMPLE);
    config.model.known = true;
    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        config.model.entry[GPURING_COLLECTIVE_ALLREDUCE][i] = (struct gpuring_model_entry){
            .algorithm = GPURING_ALGORITHM_RING, .protocol = GPURING_PROTOCOL_SIMPLE};
    }
    config.model.ll128 = 1u << GPURING_ALGORITHM_TREE; /* not on the links of rings */
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 4, &choice);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_SIMPLE);
    config.model.ll128 |= 1u << GPURING_ALGORITHM_RING;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20, 4, &choice);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_LL128);
}

/* Mapped buffers are used for the sizes of the cost model, if the user has not chosen. */
TEST(mapped_buffers_by_the_model)
{
    struct gpuring_select_config config = config_of(4, 1);
    struct gpuring_selection choice;

    config.host = false;
    for (int i = 18; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        config.model.mapped[i] = true;
    }
    assert_false(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20));
    config.slot_bytes[GPURING_SET_MAPPED][GPURING_PROTOCOL_SIMPLE] = GPURING_CHUNK_ALIGN_BYTES;
    config.channels[GPURING_SET_MAPPED] = 20;
    assert_true(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20));
    assert_true(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, (1 << 17) + 1));
    assert_false(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 17));
    gpuring_select_mapped(&config, 128 << 10, 8, &choice);
    assert_int_equal(choice.set, GPURING_SET_MAPPED);
    assert_int_equal(choice.channels, 4); /* 8 KiB of each rank's part */
    assert_int_equal(choice.chunk * 8, 1 << 30);
    gpuring_select_mapped(&config, UINT64_C(1) << 40, 8, &choice);
    assert_int_equal(choice.channels, 20);
    config.algorithm = GPURING_ALGORITHM_RING;
    assert_false(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20));
    config.algorithm = -1;
    config.protocol = GPURING_PROTOCOL_LL;
    assert_false(gpuring_select_maps(&config, GPURING_COLLECTIVE_ALLREDUCE, 1 << 20));
}

/* On GPUs a block has little bandwidth. Even between few ranks, the blocks of a direct exchange are
 * too few for large vectors. Small vectors use only a few channels. */
TEST(gpus_use_as_many_channels_as_a_size_fills)
{
    struct gpuring_select_config config = config_of(2, 1);
    struct gpuring_selection choice;

    config.host = false;
    config.channels[GPURING_ALGORITHM_RING] = config.channels[GPURING_ALGORITHM_DIRECT] = 32;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.channels, 1);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 16 << 10, 1,
                   &choice); /* LL: 4 KiB a channel */
    assert_int_equal(choice.channels, 4);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 256 << 20, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    assert_int_equal(choice.channels, 32);
    config.min_channels = 3;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.channels, 3);
}

/* Calls that need one short slot use the set of connections for small calls. */
TEST(small_calls_have_connections_of_their_own)
{
    struct gpuring_select_config config = config_of(2, 1);
    struct gpuring_selection choice;

    (void) state;
    config.host = false;
    config.channels[GPURING_ALGORITHM_RING] = config.channels[GPURING_ALGORITHM_DIRECT] = 32;
    config.slot_bytes[GPURING_ALGORITHM_DIRECT][GPURING_PROTOCOL_LL] = 65536;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 512, 8, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT); /* there is no set for small calls */
    config.slot_bytes[GPURING_SET_SMALL][GPURING_PROTOCOL_LL] = 8192;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 512, 8, &choice);
    assert_int_equal(choice.set, GPURING_SET_SMALL);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_LL);
    assert_int_equal(choice.chunk, 512); /* a line of LL is half data */
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 513, 8, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT);
    config.protocol = GPURING_PROTOCOL_SIMPLE;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT);
    config.algorithm = GPURING_ALGORITHM_RING;
    gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 1, 8, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_RING);
}

/* There are as many blocks as the links need, up to the limit of each rank's part of its GPU. */
TEST(lanes_follow_links_and_parts_of_gpus)
{
    struct gpuring_gathered gathered = fill_rank_infos(RANKS, 1);
    struct gpuring_channels channels;
    struct gpuring_gpu_parts parts;
    struct gpuring_node_map map, eight;

    assert_int_equal(gpuring_node_map_find(&gathered, &map), GPURING_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        rank_infos[rank].device = (struct gpuring_device_identity){
            .kind = GPURING_DEVICE_CUDA, .capability = 90, .sms = 132, .uuid = {(uint8_t) rank}};
    }
    parts = gpuring_node_map_parts(&gathered, &map);
    assert_true(!parts.shared && parts.blocks == 132 && parts.capability == 90);
    assert_true(gpuring_node_map_lanes(&parts, 16, 360) >= 20 &&
                gpuring_node_map_lanes(&parts, 16, 360) <= 32); /* H100 on NVSwitch */
    assert_int_equal(gpuring_node_map_lanes(&parts, 1, 24), 2); /* PCIe */
    eight = map;
    eight.nranks = 8;
    gpuring_channels_init(&channels, &parts, &eight, NULL, NULL);
    assert_true(channels.nrings >= 16 && channels.ndirect > 1); /* direct exchanges are striped */
    assert_true(channels.direct_lanes > 1 && channels.ntwo_shot > channels.ndirect);
    gpuring_channels_fini(&channels);
    parts.capability = 80;
    assert_true(gpuring_node_map_lanes(&parts, 12, 240) >= 12 &&
                gpuring_node_map_lanes(&parts, 12, 240) <= 24); /* A100 */
    for (int rank = 0; rank < RANKS; rank++) {
        rank_infos[rank].device.uuid[0] = (uint8_t) (rank / 2);
    }
    rank_infos[1].device.sms = 48; /* limited by MPS */
    parts = gpuring_node_map_parts(&gathered, &map);
    assert_true(parts.shared && parts.blocks == 24 && parts.time_sliced_ranks == 2);
    assert_int_equal(gpuring_node_map_lanes(&parts, 1, 0), 16);
    assert_int_equal(gpuring_node_map_lanes(&parts, 1, 400), 24);
    for (int rank = 0; rank < RANKS; rank++) {
        rank_infos[rank].device.mps = rank >= 2; /* that of one node runs MPS, or none does */
    }
    assert_int_equal(gpuring_node_map_parts(&gathered, &map).time_sliced_ranks, 2);
    rank_infos[0].device.mps = rank_infos[1].device.mps = 1;
    assert_int_equal(gpuring_node_map_parts(&gathered, &map).time_sliced_ranks, 0);
    rank_infos[0].device.kind = GPURING_DEVICE_HOST;
    assert_int_equal(gpuring_node_map_parts(&gathered, &map).blocks, 0);
    gpuring_node_map_clear(&map);
}

TEST(chunks_fit_their_slots)
{
    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        uint32_t size = gpuring_type_info(type)->size;

        for (uint64_t limit = 0; limit <= 4096; limit += 100) {
            struct gpuring_select_config config = config_of(4, 1);
            struct gpuring_selection choice;

            config.chunk_bytes = limit;
            gpuring_select(&config, GPURING_COLLECTIVE_ALLREDUCE, 100000, size, &choice);
            assert_true(choice.chunk > 0);
            assert_int_equal(choice.chunk % gpuring_chunk_align(size), 0);
            assert_true((choice.slice > 0 ? choice.slice : choice.chunk) * size <=
                        config.slot_bytes[choice.algorithm][choice.protocol]);
            assert_true(choice.slice == 0 || choice.chunk <= GPURING_SLICES * choice.slice);
            assert_true(limit == 0 || choice.chunk * size <= (limit < 128 ? 128 : limit));
        }
    }
}

/* ---- Compare ---- */

TEST(integers_must_be_equal)
{
    int32_t a[100], b[100];

    for (int i = 0; i < 100; i++) {
        a[i] = b[i] = i;
    }
    assert_int_equal(gpuring_verify(a, b, NULL, 100, GPURING_TYPE_INT32, 4), 100);
    for (int wrong = 0; wrong < 100; wrong++) {
        b[wrong]++;
        assert_int_equal(gpuring_verify(a, b, NULL, 100, GPURING_TYPE_INT32, 4), wrong);
        b[wrong]--;
    }
}

TEST(padding_of_pairs_is_ignored)
{
    struct gpuring_double_int a, b;

    memset(&a, 0xff, sizeof a);
    memset(&b, 0, sizeof b);
    a.value = b.value = 2.5;
    a.index = b.index = 7;
    assert_int_equal(gpuring_verify(&a, &b, NULL, 1, GPURING_TYPE_DOUBLE_INT, 2), 1);
    b.index = 8;
    assert_int_equal(gpuring_verify(&a, &b, NULL, 1, GPURING_TYPE_DOUBLE_INT, 2), 0);
}

/* Rounding is tolerated in proportion to the sum of absolute values, also with cancellation. Larger
 * differences are errors. */
TEST(rounding_is_told_from_errors)
{
    const float x[3] = {1e8F, -1e8F, 1.0F};
    float forward = (x[0] + x[1]) + x[2], backward = (x[2] + x[1]) + x[0], wrong = 1e5F;
    double scale = 0;

    assert_true(forward != backward);
    for (int rank = 0; rank < 3; rank++) {
        gpuring_verify_scale(&scale, &x[rank], 1, GPURING_TYPE_FLOAT, GPURING_OP_SUM, rank == 0);
    }
    assert_int_equal(gpuring_verify(&forward, &backward, &scale, 1, GPURING_TYPE_FLOAT, 3), 1);
    assert_int_equal(gpuring_verify(&wrong, &backward, &scale, 1, GPURING_TYPE_FLOAT, 3), 0);
    assert_true(gpuring_verify_rounds(GPURING_TYPE_FLOAT, GPURING_OP_SUM));
    assert_false(gpuring_verify_rounds(GPURING_TYPE_FLOAT, GPURING_OP_MAX));
    assert_false(gpuring_verify_rounds(GPURING_TYPE_INT64, GPURING_OP_SUM));
}

TEST(half_precision_is_read_right)
{
    const uint16_t one = 0x3c00, two = 0x4000, tiny = 0x0001;
    char text[64];

    gpuring_verify_text(&one, 0, GPURING_TYPE_FLOAT16, text, sizeof text);
    assert_string_equal(text, "1");
    gpuring_verify_text(&two, 0, GPURING_TYPE_FLOAT16, text, sizeof text);
    assert_string_equal(text, "2");
    gpuring_verify_text(&tiny, 0, GPURING_TYPE_FLOAT16, text, sizeof text);
    assert_string_equal(text, "5.9604644775390625e-08");
}

/* Ranks that share a GPU have short patience, unless their kernels run concurrently. */
TEST(kernels_wait_where_others_run_beside)
{
    struct gpuring_engine_config config = {.select = {.nranks = 2, .nnodes = 1}};
    uint64_t alone = gpuring_engine_patience(&config, false), shared;

    config.shared_gpu = true;
    shared = gpuring_engine_patience(&config, false);
    config.mps = true;
    assert_true(gpuring_engine_patience(&config, false) >= 1000000);
    assert_true(shared < 1000000);
    assert_true(alone > 1000000);
    config.patience_us = 7;
    assert_int_equal(gpuring_engine_patience(&config, false), 7000);
}
