/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Links of the net `verbs` that share the queue pairs of two processes, as those of several
 * communicators do, on devices that exist in this process only. Queue pairs fail at each send and
 * at random, links are closed and opened during failovers, and queues are short. Each link must
 * deliver its own chunks, and no link may notice that another one is closed.
 */
#include "test/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

#define LARGE (2 * GPURING_VERBS_BLOCK + 256)

/* Setup: all links connect the same two processes. */
static int share(void **state)
{
    int status = clear_log(state);

    lane_process = 1;
    return status;
}

/* Open the nets on all devices, with short queues if entries > 0, and `nlinks` links. */
static void open_shared(struct world *world, const struct fake_device *devices, int ndevices,
                        int qps, int spares, int entries, int nlinks)
{
    struct gpuring_net_config config = world_defaults;

    config.verbs_qps = qps;
    config.verbs_spares = spares;
    fake_verbs_reset(devices, ndevices, &world_no_faults);
    fake_verbs_queues(entries);
    fake_verbs_retry();
    world_open_in(world, ndevices, 0, &config, NULL);
    for (int n = 0; n < nlinks; n++) {
        world_link_open(world, n);
    }
}

/* Close the links, which are `nlinks`, and the nets. */
static void close_shared(struct world *world, int nlinks)
{
    for (int n = 0; n < nlinks; n++) {
        world_link_close(world, n);
    }
    world_close(world);
}

/* A thread that uses one link. */
struct user {
    struct world *world;
    int link, count;
    bool well;
    pthread_t thread;
};

static void *user_main(void *argument)
{
    struct user *user = argument;

    user->well = world_transfer_together(user->world, user->link, user->count);
    return NULL;
}

static void users_start(struct user *users, struct world *world, int first, int count)
{
    for (int n = first; n < WORLD_LINKS; n++) {
        users[n] = (struct user){.world = world, .link = n, .count = count};
        assert_int_equal(pthread_create(&users[n].thread, NULL, user_main, &users[n]), 0);
    }
}

static bool users_join(struct user *users, int first)
{
    bool well = true;

    for (int n = first; n < WORLD_LINKS; n++) {
        pthread_join(users[n].thread, NULL);
        well = users[n].well && well;
    }
    return well;
}

/* Transfer `count` chunks of each protocol over all links from `first` on, at the same time. */
static bool all_transfer(struct world *world, int first, int count)
{
    struct user users[WORLD_LINKS];

    users_start(users, world, first, count);
    return users_join(users, first);
}

static void test_one_endpoint(void **state)
{
    struct world world;

    open_shared(&world, world_paths[0], 2, 1, 1, 0, WORLD_LINKS);
    assert_int_equal(fake_verbs_queue_pairs(), 2 * 2);
    for (int n = 0; n < WORLD_LINKS; n++) {
        assert_ptr_equal(world.send[n].link->endpoint, world.send[0].link->endpoint);
        assert_int_equal(world.send[n].link->number, n);
        assert_int_equal(world.recv[n].link->peer_number, n);
    }
    assert_true(all_transfer(&world, 0, 200));
    close_shared(&world, WORLD_LINKS);
}

/* Links to another process, or between other devices, have their own endpoints. */
static void test_other_endpoints(void **state)
{
    struct world world;

    open_shared(&world, world_paths[0], 2, 1, 0, 0, 1);
    lane_process = 2;
    assert_int_equal(world_link_open(&world, 1), 1);
    assert_ptr_not_equal(world.send[1].link->endpoint, world.send[0].link->endpoint);
    assert_int_equal(fake_verbs_queue_pairs(), 2 * 2);
    lane_process = 1;
    assert_int_equal(world_link_open(&world, 2), 1);
    assert_ptr_equal(world.send[2].link->endpoint, world.send[0].link->endpoint);
    assert_true(all_transfer(&world, 0, 20));
    close_shared(&world, WORLD_LINKS);
}

/* Let the nth send of three links fail, for every n, before and after it has been received. */
static void test_each_step(void **state)
{
    for (unsigned n = 1; n <= 120; n++) {
        const struct fake_faults faults = {
            .complete = n, .status = IBV_WC_RETRY_EXC_ERR, .delivered = n % 2 == 0};
        bool large = n % 3 == 0;
        struct world world;

        world_slot_bytes = large ? LARGE : WORLD_SLOT_BYTES;
        open_shared(&world, world_paths[large], 2, 1 + (int) (n % 2), 1, 0, WORLD_LINKS);
        fake_verbs_set_faults(&faults);
        assert_true(all_transfer(&world, 0, 30));
        fake_verbs_set_faults(&world_no_faults);
        assert_true(all_transfer(&world, 0, 20));
        for (int link = 0; link < WORLD_LINKS; link++) {
            assert_int_equal(world.send[link].failed, GPURING_OK);
            assert_int_equal(world.recv[link].failed, GPURING_OK);
        }
        close_shared(&world, WORLD_LINKS);
    }
}

/* Queue pairs of two devices fail at random, while the queues are short or not, and one link is
 * closed and opened again. The third device has the last spare. */
static void test_random(void **state)
{
    const char *given = getenv("GPURING_TEST_SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 0) : 1;
    unsigned kills = 0;

    printf("GPURING_TEST_SEED=%llu\n", (unsigned long long) first);
    for (uint64_t seed = first; seed < first + (given != NULL ? 1 : 40); seed++) {
        const struct fake_faults faults = {.doom = 20, .doomed = 3, .seed = seed};
        bool large = seed % 3 == 0;
        struct user users[WORLD_LINKS];
        struct world world;

        world_slot_bytes = large ? LARGE : WORLD_SLOT_BYTES;
        open_shared(&world, world_paths[large], 3, 1 + (int) (seed % 3), 2, seed % 2 == 0 ? 8 : 0,
                    WORLD_LINKS);
        fake_verbs_set_faults(&faults);
        users_start(users, &world, 1, 150);
        for (int turn = 0; turn < 5; turn++) {
            if (!world_transfer_together(&world, 0, 10)) {
                fail_msg("GPURING_TEST_SEED=%llu: %s | %s", (unsigned long long) seed,
                         gpuring_proxy_error(world.send[0].link),
                         gpuring_proxy_error(world.recv[0].link));
            }
            world_link_close(&world, 0);
            world_link_open(&world, 0);
        }
        if (!users_join(users, 1)) {
            fail_msg("GPURING_TEST_SEED=%llu: %s | %s", (unsigned long long) seed,
                     gpuring_proxy_error(world.send[1].link),
                     gpuring_proxy_error(world.recv[1].link));
        }
        kills += fake_verbs_kills();
        fake_verbs_set_faults(&world_no_faults);
        close_shared(&world, WORLD_LINKS);
    }
    assert_true(given != NULL || kills > 40);
}

/* Close a link while the nth send fails, which may carry its BYE or that of the other end, before
 * and after it has been received. The other links go on, and a new link gets a new endpoint. */
static void test_close_during_failover(void **state)
{
    for (unsigned n = 1; n <= 80; n++) {
        const struct fake_faults faults = {
            .complete = n % 20 + 1, .status = IBV_WC_RETRY_EXC_ERR, .delivered = n % 2 == 0};
        struct user users[WORLD_LINKS];
        struct world world;

        open_shared(&world, world_paths[0], 2, 1 + (int) (n % 3), 1, 0, WORLD_LINKS);
        assert_true(all_transfer(&world, 0, 10));
        fake_verbs_set_faults(&faults);
        users_start(users, &world, 1, n < 40 ? 1 : 60);
        world_link_close(&world, 0);
        assert_true(users_join(users, 1));
        fake_verbs_set_faults(&world_no_faults);
        world_link_open(&world, 0);
        assert_true(all_transfer(&world, 0, 20));
        close_shared(&world, WORLD_LINKS);
    }
}

/* Links take the numbers of closed ones, while other links are in use. */
static void test_numbers(void **state)
{
    struct user users[WORLD_LINKS];
    struct world world;

    open_shared(&world, world_paths[0], 1, 2, 0, 0, WORLD_LINKS);
    users_start(users, &world, 1, 3000);
    for (int turn = 0; turn < 200; turn++) {
        assert_true(world_transfer_together(&world, 0, 3));
        world_link_close(&world, 0);
        assert_int_equal(world_link_open(&world, 0), 1);
        assert_int_equal(world.send[0].link->number, 0);
        assert_int_equal(world.recv[0].link->number, 0);
    }
    assert_true(users_join(users, 1));
    assert_int_equal(fake_verbs_queue_pairs(), 2 * 2);
    close_shared(&world, WORLD_LINKS);
}

/* More messages are in flight than there are receives. Devices repeat them. */
static void test_few_receives(void **state)
{
    for (int large = 0; large < 2; large++) {
        struct world world;

        world_slot_bytes = large ? LARGE : WORLD_SLOT_BYTES;
        open_shared(&world, world_paths[large], 2, 1, 1, 4, WORLD_LINKS);
        assert_true(all_transfer(&world, 0, 300));
        assert_true(fake_verbs_not_ready() > 0);
        close_shared(&world, WORLD_LINKS);
    }
}

struct cable {
    pthread_t thread;
    bool done; /* atomic */
};

/* Expire the sends of devices whose cable is pulled, again and again. */
static void *cable_main(void *argument)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct cable *cable = argument;

    while (!__atomic_load_n(&cable->done, __ATOMIC_ACQUIRE)) {
        nanosleep(&nap, NULL);
        fake_verbs_expire();
    }
    return NULL;
}

/* Packets of failed queue pairs are received much later, after their link was closed. */
static void test_late_packets(void **state)
{
    for (int round = 0; round < 10; round++) {
        struct user users[WORLD_LINKS];
        struct cable cable = {.done = false};
        struct world world;

        open_shared(&world, world_paths[0], 2, 1, 1, 0, WORLD_LINKS);
        users_start(users, &world, 0, 200);
        fake_verbs_pull(0);
        assert_int_equal(pthread_create(&cable.thread, NULL, cable_main, &cable), 0);
        assert_true(users_join(users, 0));
        world_link_close(&world, 0);
        fake_verbs_haunt();
        assert_true(all_transfer(&world, 1, 50));
        world_link_close(&world, 1);
        world_link_close(&world, 2);
        __atomic_store_n(&cable.done, true, __ATOMIC_RELEASE);
        pthread_join(cable.thread, NULL);
        fake_verbs_expire();
        fake_verbs_haunt();
        world_close(&world);
    }
}

/* Slots in GPU memory: one read flushes the arrivals of all links, and may read the memory of any
 * of them except those that are closed meanwhile. Queue pairs fail in every second round. */
static void test_flush(void **state)
{
    static const struct gpuring_device_nic gpu = {.dmabuf = FAKE_DMABUF, .flush = true};

    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct fake_faults faults = {.doom = 20, .doomed = 3, .seed = seed};
        struct gpuring_net_config config = world_defaults;
        struct user users[WORLD_LINKS];
        struct world world;

        config.verbs_qps = 1 + (int) (seed % 2);
        config.verbs_spares = 2;
        fake_verbs_reset(world_paths[0], 3, &world_no_faults);
        fake_verbs_gpu(true, true, true);
        world_open_in(&world, 3, 0, &config, &gpu);
        for (int n = 0; n < WORLD_LINKS; n++) {
            world_link_open(&world, n);
        }
        fake_verbs_set_faults(seed % 2 == 0 ? &faults : &world_no_faults);
        users_start(users, &world, 1, 100);
        for (int turn = 0; turn < 5; turn++) {
            assert_true(world_transfer_together(&world, 0, 5));
            world_link_close(&world, 0);
            world_link_open(&world, 0);
        }
        assert_true(users_join(users, 1));
        fake_verbs_set_faults(&world_no_faults);
        close_shared(&world, WORLD_LINKS);
    }
}

/* One end fails an endpoint that the other end still has. Both use new ones after some attempts. */
static void test_stale(void **state)
{
    for (int end = 0; end < 2; end++) {
        struct gpuring_verbs_endpoint *ep;
        struct world world;

        open_shared(&world, world_paths[0], 1, 1, 0, 0, 1);
        ep = end == 0 ? world.send[0].link->endpoint : world.recv[0].link->endpoint;
        gpuring_gate_enter(world.net[end]->base.gate);
        ep->retired = true;
        gpuring_gate_leave(world.net[end]->base.gate);
        assert_in_range(world_link_open(&world, 1), 2, 3);
        assert_ptr_not_equal(world.send[1].link->endpoint, world.send[0].link->endpoint);
        assert_ptr_not_equal(world.recv[1].link->endpoint, world.recv[0].link->endpoint);
        assert_int_equal(world_link_open(&world, 2), 1);
        assert_ptr_equal(world.send[2].link->endpoint, world.send[1].link->endpoint);
        assert_true(all_transfer(&world, 0, 20)); /* also over the old one */
        assert_int_equal(fake_verbs_queue_pairs(), 4);
        world_link_close(&world, 0);
        assert_int_equal(fake_verbs_queue_pairs(), 2);
        world_link_close(&world, 1);
        world_link_close(&world, 2);
        world_close(&world);
    }
}

#define TURNS 60

static unsigned opened; /* atomic */

struct opener {
    struct world *world;
    int link, most; /* most: attempts to open it */
    bool well;
    pthread_t thread;
};

static void *opener_main(void *argument)
{
    struct opener *opener = argument;

    for (int turn = 0; turn < TURNS; turn++) {
        int attempts = world_link_open(opener->world, opener->link);

        opener->most = attempts > opener->most ? attempts : opener->most;
        __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
        opener->well = world_transfer_together(opener->world, opener->link, 2) && opener->well;
        world_link_close(opener->world, opener->link);
    }
    return NULL;
}

/* Threads connect several communicators of the same processes, while either end loses its
 * endpoints. A link must never connect endpoints that do not belong together. */
static void test_stale_threads(void **state)
{
    struct opener openers[WORLD_LINKS];
    struct world world;

    opened = 0;
    open_shared(&world, world_paths[0], 1, 1, 0, 0, 0);
    for (int n = 0; n < WORLD_LINKS; n++) {
        openers[n] = (struct opener){.world = &world, .link = n, .well = true};
        assert_int_equal(pthread_create(&openers[n].thread, NULL, opener_main, &openers[n]), 0);
    }
    for (unsigned turn = 1; turn < WORLD_LINKS * TURNS / 6; turn++) {
        const struct timespec nap = {.tv_nsec = 100000};
        struct gpuring_net *net = world.net[turn % 2];
        struct gpuring_verbs_endpoint *ep;

        while (__atomic_load_n(&opened, __ATOMIC_RELAXED) < 6 * turn) {
            nanosleep(&nap, NULL);
        }
        gpuring_gate_enter(net->base.gate);
        VERBS_EACH_ENDPOINT(net, ep)
        {
            ep->retired = true;
        }
        gpuring_gate_leave(net->base.gate);
    }
    for (int n = 0; n < WORLD_LINKS; n++) {
        pthread_join(openers[n].thread, NULL);
        assert_true(openers[n].well);
        assert_in_range(openers[n].most, 1, 7);
    }
    assert_in_range(fake_verbs_queue_pairs(), 0, 8); /* endpoints without links are released */
    world_close(&world);
}

/* A device has no more queue pairs: unused ones are given up, but no others. */
static void test_give_up(void **state)
{
    struct world world;

    open_shared(&world, world_paths[0], 1, 1, 0, 0, 2);
    lane_process = 2;
    fake_verbs_limit(2);
    assert_int_equal(lane_end_create(&world.send[2], &gpuring_net_verbs, world.net[0], 0,
                                     world.proxy[0], GPURING_NET_SEND, WORLD_NSLOTS,
                                     WORLD_SLOT_BYTES),
                     GPURING_ERR_NOMEM);
    assert_true(log_has("host0 cannot create a queue pair on device roce0 port 1"));
    gpuring_proxy_remove(&world.send[2].group, 0);
    free(world.send[2].memory);
    world_link_close(&world, 0);
    world_link_close(&world, 1);
    assert_int_equal(world_link_open(&world, 0), 1);
    assert_true(world_transfer_together(&world, 0, 20));
    assert_int_equal(fake_verbs_queue_pairs(), 2);
    world_link_close(&world, 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_endpoint, share),
        cmocka_unit_test_setup(test_other_endpoints, share),
        cmocka_unit_test_setup(test_each_step, share),
        cmocka_unit_test_setup(test_random, share),
        cmocka_unit_test_setup(test_close_during_failover, share),
        cmocka_unit_test_setup(test_numbers, share),
        cmocka_unit_test_setup(test_few_receives, share),
        cmocka_unit_test_setup(test_late_packets, share),
        cmocka_unit_test_setup(test_flush, share),
        cmocka_unit_test_setup(test_stale, share),
        cmocka_unit_test_setup(test_stale_threads, share),
        cmocka_unit_test_setup(test_give_up, share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
