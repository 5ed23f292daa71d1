/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test connections of the net `verbs` with several queue pairs of which some fail during transfers,
 * on devices that exist in this process only. As long as one path is left, every chunk is received
 * once, in order and with its data. If none is left, an error names all of them.
 */
#include "test/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

static struct gpuring_net_config with(int qps, int spares)
{
    struct gpuring_net_config config = world_defaults;

    config.verbs_qps = qps;
    config.verbs_spares = spares;
    return config;
}

/* Chunks: the heads that ride have 14 bits, which here are nearer to 2^14 than to 0. */
#define PAST_HEAD_BITS 25000

static const char *error_of(const struct lane_end *end)
{
    return gpuring_proxy_error(end->link);
}

static void test_several_queue_pairs(void **state)
{
    for (int qps = 1; qps <= GPURING_VERBS_MAX_QPS; qps++) {
        struct gpuring_net_config config = with(qps, 0);
        struct world world;

        world_open(&world, &world_roce, 1, 2, &config);
        assert_int_equal(world.send[0].link->endpoint->nrails, qps);
        assert_int_equal(fake_verbs_queue_pairs(), 2 * 2 * qps);
        for (int link = 0; link < 2; link++) {
            assert_true(world_transfer_together(&world, link, 200));
            for (int r = 0; r < qps; r++) { /* each carries its share */
                assert_true(world_rail(&world.send[link], r).sq_posted >= 600 / (unsigned) qps);
            }
        }
        world_close(&world);
    }
}

/* A spare is a separate path, with another port at one end or at both. */
static void test_spares(void **state)
{
    const struct fake_device two[] = {world_roce, world_roce_next};
    const struct fake_device mixed[] = {world_roce, world_infiniband};
    struct gpuring_net_config config = with(2, 1);
    struct world world;

    world_open(&world, two, 2, 2, &config);
    assert_string_equal(world_rail(&world.send[0], 2).port->adapter->name, "roce1");
    assert_string_equal(world_rail(&world.send[1], 2).port->adapter->name, "roce0");
    assert_int_equal(world_rail(&world.send[0], 2).state, GPURING_VERBS_UP);
    world_close(&world);
    config = with(1, 2);
    world_open(&world, two, 2, 1, &config);
    assert_int_equal(world_rail(&world.send[0], 1).state, GPURING_VERBS_UP);
    assert_int_equal(world_rail(&world.send[0], 2).state, GPURING_VERBS_UNUSED); /* roce0 again */
    world_transfer_well(&world, 0, 20);
    world_close(&world);
    config = with(1, 1);
    world_open(&world, &world_roce, 1, 1, &config);
    assert_int_equal(world_rail(&world.send[0], 1).state, GPURING_VERBS_UNUSED);
    world_close(&world);
    config = with(1, 1);
    world_open(&world, mixed, 2, 2, &config); /* the spare of roce0 is ib0, and the other way */
    world_transfer_well(&world, 0, 20);
    world_transfer_well(&world, 1, 20);
    world_close(&world);
}

static void test_numbers_differ(void **state)
{
    struct gpuring_net_config config[2] = {with(1, 0), with(2, 0)};
    struct lane_end ends[2];
    struct gpuring_net *net[2];

    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gpuring_net_verbs.open(&config[i], &net[i]), GPURING_OK);
        assert_int_equal(lane_end_create(&ends[i], &gpuring_net_verbs, net[i], 0, NULL,
                                         i == 0 ? GPURING_NET_SEND : GPURING_NET_RECV, WORLD_NSLOTS,
                                         WORLD_SLOT_BYTES),
                         GPURING_OK);
    }
    assert_int_equal(
        lane_connect(&ends[0], net[0], "rank 0 on host0", &ends[1], net[1], "rank 1 on host1"),
        GPURING_ERR_PEER);
    assert_true(log_has("rank 1 on host1 sent no handle of a verbs connection"));
    for (int i = 0; i < 2; i++) {
        lane_end_destroy(&ends[i], 0);
        gpuring_net_verbs.close(net[i]);
    }
    assert_int_equal(fake_verbs_objects(), 0);
}

/* Return true if another communicator may use the link. */
static bool is_whole(const struct lane_end *end)
{
    struct gpuring_gate *gate = gpuring_proxy_gate(end->proxy);
    bool whole;

    gpuring_gate_enter(gate);
    whole = gpuring_net_verbs.link_whole(end->link);
    gpuring_gate_leave(gate);
    return whole;
}

/* Slots of which some have two whole blocks. */
#define LARGE (2 * GPURING_VERBS_BLOCK + 256)

/* Let the nth send fail, for every n of a transfer, before and after it has been received. */
static void each_step(const struct fake_device *devices, unsigned most)
{
    const struct gpuring_net_config config = with(1, 1);

    for (unsigned n = 1; n <= most; n++) {
        struct fake_faults faults = {.complete = n, .status = IBV_WC_RETRY_EXC_ERR};
        char text[128];
        struct world world;

        clear_log(NULL);
        faults.delivered = n % 2 == 0;
        world_slot_bytes = devices == world_paths[1] ? LARGE : WORLD_SLOT_BYTES;
        world_open(&world, devices, 2, 1, &config);
        assert_true(is_whole(&world.send[0]) && is_whole(&world.recv[0]));
        fake_verbs_set_faults(&faults);
        assert_true(world_transfer_together(&world, 0, 40));
        fake_verbs_set_faults(&world_no_faults);
        assert_true(world_transfer_together(&world, 0, 20));
        assert_int_equal(world.send[0].failed, GPURING_OK);
        assert_int_equal(world.recv[0].failed, GPURING_OK);
        assert_true(!is_whole(&world.send[0]) && !is_whole(&world.recv[0]));
        snprintf(text, sizeof text, "device %s port 1 failed: transport retry counter exceeded",
                 devices[0].name);
        assert_true(log_has(text));
        snprintf(text, sizeof text, "it continues on device %s port 1", devices[1].name);
        assert_true(log_has(text));
        world_close(&world);
    }
}

static void test_each_step(void **state)
{
    each_step(world_paths[0], 60);
    each_step(world_paths[1], 60);
}

/* The device refuses the second of the two sends of a slot. The first one may still write to the
 * slot, so the slot is repeated only after its queue pairs are out of use. */
static void test_refused_rest(void **state)
{
    const int errors[] = {ENOMEM, EIO};

    for (unsigned i = 0; i < 60; i++) {
        const struct gpuring_net_config config = with(1 + (int) (i % 2), 1);
        const struct fake_faults faults = {.post_send = 1 + i,
                                           .post_send_error = errors[i / 2 % 2]};
        struct world world;

        world_slot_bytes = LARGE;
        world_open(&world, world_paths[1], 2, 1, &config);
        fake_verbs_set_faults(&faults);
        assert_true(world_transfer_together(&world, 0, 40));
        fake_verbs_set_faults(&world_no_faults);
        assert_true(world_transfer_together(&world, 0, 20));
        world_close(&world);
    }
    assert_true(log_has("failed: Cannot allocate memory; the device refused a send"));
    assert_true(log_has("failed: Input/output error; the device refused a send"));
}

/* Slots in the other direction carry the credits: no credit is a separate message, and
 * none is lost when the nth send of either link fails, before or after its arrival. */
static void test_credits_ride(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);

    for (unsigned n = 0; n <= 60; n++) {
        struct fake_faults faults = {.complete = n, .status = IBV_WC_RETRY_EXC_ERR};
        struct world_back back;
        struct world world;

        faults.delivered = n % 2 == 0;
        world_open(&world, devices, 2, 1, &config);
        world_back_open(&world, (int) (n / 2 % 2), &back);
        if (n > 0) {
            fake_verbs_set_faults(&faults);
        }
        assert_true(world_exchange(&world, &back, n == 0 ? PAST_HEAD_BITS : 10 * WORLD_NSLOTS));
        if (n == 0) { /* a rail that was idle for a second may have been tried */
            assert_true(world_rail(&world.recv[0], 0).sq_posted <= 2);
            assert_true(world_rail(&back.recv, 0).sq_posted <= 2);
        } else {
            fake_verbs_set_faults(&world_no_faults);
            assert_true(log_has("failed: transport retry counter exceeded"));
            assert_true(world_exchange(&world, &back, 2 * WORLD_NSLOTS));
        }
        /* Without its pair, while the peer's end still has it. */
        assert_int_equal(lane_end_destroy(&back.recv, 10), GPURING_OK);
        assert_true(world_transfer_together(&world, 0, 20));
        assert_int_equal(__atomic_load_n(&back.send.failed, __ATOMIC_ACQUIRE), GPURING_OK);
        assert_int_equal(lane_end_destroy(&back.send, 10), GPURING_OK);
        assert_true(world_transfer_together(&world, 0, 20));
        world_close(&world);
    }
}

/* If a queue pair does not connect, the other one transfers all chunks from the first one on. */
static void test_not_connected(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    /* Two processes prove two ports with three calls each. Then two ends of two queue pairs are
     * initialised, and each gets ready to receive and to send. */
    const unsigned lanes[] = {12 + 5, 12 + 6, 12 + 9, 12 + 10};

    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        const struct fake_faults faults = {.modify_qp = lanes[i]};
        struct world world;

        clear_log(NULL);
        fake_verbs_reset(devices, 2, &faults);
        world_open_in(&world, 2, 1, &config, NULL);
        assert_true(world_transfer_together(&world, 0, 40));
        assert_true(log_has("device roce0 port 1 failed: Invalid argument"));
        assert_true(log_has("it continues on device roce1 port 1"));
        assert_int_equal(world_rail(&world.send[0], 0).state, GPURING_VERBS_DOWN);
        assert_int_equal(world_rail(&world.recv[0], 0).state, GPURING_VERBS_DOWN);
        world_close(&world);
    }
}

/*
 * Queue pairs of two devices fail at random while all protocols are in use, even queue pairs that
 * have just replaced others. The third device has the last spare.
 */
static void test_random(void **state)
{
    const char *given = getenv("GPURING_TEST_SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 0) : 1;
    unsigned kills = 0;

    printf("GPURING_TEST_SEED=%llu\n", (unsigned long long) first);
    for (uint64_t seed = first; seed < first + (given != NULL ? 1 : 60); seed++) {
        struct gpuring_net_config config = with(1 + (int) (seed % GPURING_VERBS_MAX_QPS), 2);
        const struct fake_faults faults = {.doom = 30, .doomed = 3, .seed = seed};
        bool back_too = seed % 2 == 0, large = seed % 3 == 0;
        struct world_back back;
        struct world world;

        world_slot_bytes = large ? LARGE : WORLD_SLOT_BYTES;
        world_open(&world, world_paths[large], 3, 1, &config);
        if (back_too) {
            world_back_open(&world, 1, &back);
        }
        fake_verbs_set_faults(&faults);
        if (!(back_too ? world_exchange(&world, &back, 150)
                       : world_transfer_together(&world, 0, 150))) {
            fail_msg("GPURING_TEST_SEED=%llu: %s | %s", (unsigned long long) seed,
                     error_of(&world.send[0]), error_of(&world.recv[0]));
        }
        kills += fake_verbs_kills();
        if (back_too) {
            world_back_close(&back);
        }
        world_close(&world);
    }
    assert_true(kills > 60);
}

/* If no path is left, both ends fail, with a text that names the last path and the others. */
static void test_no_path_left(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    const struct fake_faults faults = {.doom = 1000, .doomed = 3, .seed = 1};
    const char *text;
    struct world world;
    int sent, received;

    world_open(&world, devices, 2, 1, &config);
    world_transfer_well(&world, 0, 20);
    fake_verbs_set_faults(&faults);
    world_transfer(&world, 0, GPURING_PROTOCOL_SIMPLE, 100, &sent, &received);
    assert_int_equal(sent, GPURING_ERR_NET);
    assert_int_equal(received, GPURING_ERR_NET);
    text = error_of(&world.send[0]);
    assert_non_null(strstr(text, "[verbs-failed] "));
    assert_non_null(strstr(text, "host0 to rank 1 on host1, device roce"));
    assert_non_null(strstr(text, "(status 12, "));
    world_close(&world);
}

/* Errors of memory or of the peer's program do not depend on the path. */
static void test_no_other_path_tried(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    const struct fake_faults faults = {.complete = 10, .status = IBV_WC_REM_ACCESS_ERR};
    const char *text;
    struct world world;
    int sent, received;

    world_open(&world, devices, 2, 1, &config);
    fake_verbs_set_faults(&faults);
    world_transfer(&world, 0, GPURING_PROTOCOL_SIMPLE, 100, &sent, &received);
    assert_true(sent == GPURING_ERR_NET || received == GPURING_ERR_NET);
    /* Either end may have detected it. The other one gets no answer on any path. */
    text = error_of(sent == GPURING_ERR_NET ? &world.send[0] : &world.recv[0]);
    text = strstr(text, "(status 10,") != NULL ? text : error_of(&world.recv[0]);
    assert_non_null(strstr(text, "(status 10,"));
    world_close(&world);
}

struct cable {
    pthread_t thread;
    struct world *world;
    bool done;
};

/* Pull the cable of the first device during a transfer. Its packets are lost at first and are
 * received much later.
 */
static void *cable_main(void *argument)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    struct cable *cable = argument;

    nanosleep(&nap, NULL);
    fake_verbs_pull(0);
    while (!__atomic_load_n(&cable->done, __ATOMIC_ACQUIRE)) {
        nanosleep(&nap, NULL);
        fake_verbs_expire();
        nanosleep(&nap, NULL);
        fake_verbs_haunt();
    }
    return NULL;
}

static void test_pulled_cable(void **state)
{
    const struct gpuring_net_config config = with(2, 1);

    for (int round = 0; round < 10; round++) {
        const struct fake_device *devices = world_paths[round % 2];
        char text[64];
        struct world world;
        struct cable cable = {.world = &world};

        world_slot_bytes = round % 2 == 1 ? LARGE : WORLD_SLOT_BYTES;
        snprintf(text, sizeof text, "it continues on device %s", devices[1].name);
        world_open(&world, devices, 2, 1, &config);
        assert_int_equal(pthread_create(&cable.thread, NULL, cable_main, &cable), 0);
        for (int i = 0; i < 20 || !log_has(text); i++) {
            assert_true(world_transfer_together(&world, 0, 100));
        }
        __atomic_store_n(&cable.done, true, __ATOMIC_RELEASE);
        pthread_join(cable.thread, NULL);
        fake_verbs_expire();
        fake_verbs_haunt();
        assert_true(world_transfer_together(&world, 0, 20));
        world_close(&world);
        clear_log(NULL);
    }
}

/* The device reports that its port is down. If there is another path, no end waits for retries. */
static void test_port_down(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    struct world world;

    world_open(&world, devices, 2, 2, &config);
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    until_logged(&world, "[port-down] host1: device roce0 port 1");
    until_logged(&world,
                 "device roce0 port 1 failed: a fake event; check the cable and the switch; it "
                 "continues on device roce1 port 1");
    assert_true(world_transfer_together(&world, 0, 100));
    assert_true(world_transfer_together(&world, 1, 100));
    assert_int_equal(world_rail(&world.recv[0], 0).state, GPURING_VERBS_DOWN);
    assert_int_equal(world_rail(&world.recv[1], 1).state, GPURING_VERBS_DOWN);
    /* Each process warns once of its port. */
    assert_int_equal(log_warnings("[verbs-failover] verbs connection from host0 "), 1);
    assert_int_equal(log_warnings("[verbs-failover] verbs connection from host1 "), 1);
    assert_true(log_has("; 1 other connections use the failed port"));
    /* The port of the spare is down as well. No path is left, and the link fails after the
     * retries. */
    fake_verbs_event(1, IBV_EVENT_PORT_ERR);
    until_logged(&world, "[port-down] host1: device roce1 port 1");
    assert_true(world_transfer_together(&world, 0, 100));
    fake_verbs_event(0, IBV_EVENT_PORT_ACTIVE);
    until_logged(&world, "[port-up] host1: device roce0 port 1");
    fake_verbs_event(1, IBV_EVENT_DEVICE_FATAL);
    until_failed(&world.recv[0]);
    assert_non_null(strstr(error_of(&world.recv[0]), "device roce1 port 1, failed: "));
    world_close(&world);
}

/* After a port was down for some time, connections that are made later use it again. */
static void test_flap(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    struct world_back back;
    struct world world;

    world_open(&world, devices, 2, 1, &config);
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    until_logged(&world, "it continues on device roce1 port 1");
    fake_verbs_event(0, IBV_EVENT_PORT_ACTIVE);
    until_logged(&world, "[port-up] host1: device roce0 port 1");
    world_back_open(&world, 0, &back);
    assert_string_equal(world_rail(&back.send, 0).port->adapter->name, "roce0");
    assert_true(world_exchange(&world, &back, 50));
    assert_int_equal(world_rail(&back.send, 0).state, GPURING_VERBS_UP);
    /* It fails again, and the process warns again, of its sending end. */
    assert_int_equal(log_warnings("[verbs-failover] verbs connection from host1 "), 1);
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    while (log_warnings("[verbs-failover] verbs connection from host1 ") == 1) {
        assert_true(world_exchange(&world, &back, 50));
    }
    assert_int_equal(log_warnings("[verbs-failover] verbs connection from host1 "), 2);
    assert_int_equal(world_rail(&world.recv[0], 0).state, GPURING_VERBS_DOWN);
    world_back_close(&back);
    world_close(&world);
}

/* A failed device does not return its receives, so its queue pairs are destroyed. */
static void test_mute_device(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct gpuring_net_config config = with(1, 1);
    struct world world;

    world_open(&world, devices, 2, 1, &config);
    world_transfer_well(&world, 0, 20);
    fake_verbs_mute(0);
    fake_verbs_event(0, IBV_EVENT_DEVICE_FATAL);
    until_logged(&world, "device roce0 port 1 failed: local catastrophic error");
    assert_true(world_transfer_together(&world, 0, 100));
    assert_null(world_rail(&world.recv[0], 0).qp);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_several_queue_pairs, clear_log),
        cmocka_unit_test_setup(test_spares, clear_log),
        cmocka_unit_test_setup(test_numbers_differ, clear_log),
        cmocka_unit_test_setup(test_each_step, clear_log),
        cmocka_unit_test_setup(test_refused_rest, clear_log),
        cmocka_unit_test_setup(test_credits_ride, clear_log),
        cmocka_unit_test_setup(test_not_connected, clear_log),
        cmocka_unit_test_setup(test_random, clear_log),
        cmocka_unit_test_setup(test_no_path_left, clear_log),
        cmocka_unit_test_setup(test_no_other_path_tried, clear_log),
        cmocka_unit_test_setup(test_pulled_cable, clear_log),
        cmocka_unit_test_setup(test_port_down, clear_log),
        cmocka_unit_test_setup(test_flap, clear_log),
        cmocka_unit_test_setup(test_mute_device, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
