/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The sets of connections that an engine between two nodes of hosts makes first, and their slots.
 */
#include "test/unit/unit.h"

#include "mca/coll_gpuring/engine/engine.h"

#define DIRECT (1u << GPURING_ALGORITHM_DIRECT)
#define SMALL  (1u << GPURING_SET_SMALL)
#define OTHERS (1u << GPURING_ALGORITHM_RING | 1u << GPURING_ALGORITHM_TREE)

/* The channels and the node map of two ranks, each of which is a node. */
static const int nodes[] = {0, 1};
static const struct gpuring_channel two_ranks = {
    .ring = {.prev = 1, .next = 1, .index = 0},
    .tree = {{.up = -1, .down = {1, -1, -1}}, {.up = 1, .down = {-1, -1, -1}}}};

/* Return the configuration of rank 0 over verbs. */
static struct gpuring_engine_config config_of_two(void)
{
    return (struct gpuring_engine_config){
        .input = {.rank = 0,
                  .nranks = 2,
                  .channels = &two_ranks,
                  .nrings = 1,
                  .ntrees = 1,
                  .ndirect = 1,
                  .node = nodes},
        .select = {.algorithm = -1, .protocol = -1, .nranks = 2, .nnodes = 2, .offloads = true},
        .one_by_one = true,
        .buffer_bytes = 1 << 20};
}

static struct gpuring_engine *engine_of(const struct gpuring_engine_config *config,
                                        struct gpuring_device **device)
{
    struct gpuring_engine *engine = NULL;

    assert_int_equal(gpuring_device_host.open(device), 0);
    assert_int_equal(gpuring_engine_create(config, &gpuring_device_host, *device, &engine), 0);
    return engine;
}

static void engine_end(struct gpuring_engine *engine, struct gpuring_device *device)
{
    gpuring_engine_destroy(engine);
    gpuring_device_host.close(device);
}

/* Over verbs, the first connections have short slots, unless the first call, the net, or a
 * parameter needs others. */
TEST(short_slots_are_connected_first)
{
    const struct {
        bool large, one_by_one;
        int algorithm, protocol;
        uint64_t buffer;
        uint32_t first, open;
    } cases[] = {
        {false, true, -1, -1, 1 << 20, SMALL, SMALL | DIRECT | OTHERS},
        {true, true, -1, -1, 1 << 20, DIRECT, DIRECT | OTHERS},
        {false, false, -1, -1, 1 << 20, DIRECT | OTHERS, DIRECT | OTHERS},
        {false, true, -1, -1, 64 << 10, DIRECT, DIRECT | OTHERS},
        {false, true, GPURING_ALGORITHM_DIRECT, -1, 1 << 20, SMALL, SMALL | DIRECT | OTHERS},
        {false, true, GPURING_ALGORITHM_RING, -1, 1 << 20, 1u << GPURING_ALGORITHM_RING,
         DIRECT | OTHERS},
        {false, true, -1, GPURING_PROTOCOL_SIMPLE, 1 << 20, SMALL, SMALL | DIRECT | OTHERS},
        {false, true, -1, GPURING_PROTOCOL_LL, 1 << 20, DIRECT, DIRECT | OTHERS},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_engine_config config = config_of_two();
        struct gpuring_device *device;
        struct gpuring_engine *engine;

        config.large = cases[i].large;
        config.one_by_one = cases[i].one_by_one;
        config.select.algorithm = cases[i].algorithm;
        config.select.protocol = cases[i].protocol;
        config.buffer_bytes = cases[i].buffer;
        engine = engine_of(&config, &device);
        assert_int_equal(gpuring_engine_first_sets(engine), cases[i].first);
        assert_int_equal(gpuring_engine_open_sets(engine), cases[i].open);
        engine_end(engine, device);
    }
}

/* Calls that fit into a short slot use the set for small calls, and all others those of direct. */
TEST(short_slots_serve_what_fits)
{
    struct gpuring_engine_config config = config_of_two();
    struct gpuring_device *device;
    struct gpuring_engine *engine = engine_of(&config, &device);
    struct gpuring_selection choice;

    gpuring_select(&engine->choice_config, GPURING_COLLECTIVE_ALLREDUCE, GPURING_ENGINE_SHORT_BYTES,
                   1, &choice);
    assert_int_equal(choice.set, GPURING_SET_SMALL);
    assert_int_equal(choice.chunk, GPURING_ENGINE_SHORT_BYTES);
    gpuring_select(&engine->choice_config, GPURING_COLLECTIVE_ALLREDUCE,
                   GPURING_ENGINE_SHORT_BYTES + 1, 1, &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT);
    gpuring_select(&engine->choice_config, GPURING_COLLECTIVE_ALLTOALL, GPURING_COUNT_UNKNOWN, 1,
                   &choice);
    assert_int_equal(choice.set, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(gpuring_engine_serving(engine, GPURING_SET_SMALL), GPURING_SET_SMALL);
    engine->replaced = true;
    assert_int_equal(gpuring_engine_serving(engine, GPURING_SET_SMALL), GPURING_ALGORITHM_DIRECT);
    engine_end(engine, device);
}

/* Protocols that no rule selects have no slots. */
TEST(unused_protocols_have_no_slots)
{
    struct gpuring_engine_config config = config_of_two();
    struct gpuring_device *device;
    struct gpuring_engine *engine;

    config.unused_protocols = 1u << GPURING_PROTOCOL_LL;
    engine = engine_of(&config, &device);
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        const uint64_t *slots = engine->choice_config.slot_bytes[i];

        assert_int_equal(slots[GPURING_PROTOCOL_LL], 0);
        assert_int_not_equal(slots[GPURING_PROTOCOL_LL128], 0);
        assert_int_not_equal(slots[GPURING_PROTOCOL_SIMPLE], 0);
    }
    engine_end(engine, device);
}
