/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Threads that drive the proxy while they wait for an operation. */
#include "test/unit/unit.h"

#include <sched.h>

#include "mca/coll_gpuring/net/proxy/proxy_internal.h"
#include "test/unit/proxy_world.h"

/* Connect two processes, and begin an operation that threads drive at both ends. */
static void drive_start(struct process *a, struct process *b, struct pair *pair)
{
    const struct gpuring_mock_faults none = {.seed = 1};

    both_start(a, b, &none);
    pair_open(pair, a, b);
    until_sleeping(a->proxy);
    until_sleeping(b->proxy);
    gpuring_proxy_begin(&pair->sender.group, true);
    gpuring_proxy_begin(&pair->receiver.group, true);
}

static void drive_stop(struct process *a, struct process *b, struct pair *pair)
{
    gpuring_proxy_end(&pair->sender.group, true);
    gpuring_proxy_end(&pair->receiver.group, true);
    pair_close(pair);
    both_stop(a, b);
}

/* Two threads that wait for an operation drive it while the threads of both proxies sleep. A thread
 * that does not wait wakes its proxy's thread. */
TEST(test_driven)
{
    struct process a, b;
    struct pair pair;

    drive_start(&a, &b, &pair);
    assert_false(gpuring_proxy_help(&pair.receiver.group, true));
    for (uint64_t i = 0; i < 3 * NSLOTS; i++) {
        bool arrived = false;

        assert_int_equal(lane_send(&pair.sender, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
        while (!arrived) {
            (void) gpuring_proxy_help(&pair.sender.group, true);
            arrived = gpuring_proxy_help(&pair.receiver.group, false);
        }
        assert_int_equal(lane_recv(&pair.receiver, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
        while (gpuring_proxy_moved(&pair.sender.group) <= i) {
            (void) gpuring_proxy_help(&pair.receiver.group, true);
            (void) gpuring_proxy_help(&pair.sender.group, false);
        }
        assert_int_equal(gpuring_proxy_moved(&pair.receiver.group), i + 1);
        assert_true(gpuring_proxy_sleeping(a.proxy));
        assert_true(gpuring_proxy_sleeping(b.proxy));
    }
    gpuring_proxy_begin(&pair.sender.group, false);
    while (gpuring_proxy_sleeping(a.proxy)) {
        sched_yield(); /* it does not sleep again during the operation */
    }
    gpuring_proxy_end(&pair.sender.group, false);
    drive_stop(&a, &b, &pair);
}

/* An operation must not end while the peer has no room for its last slots, so that they do not wait
 * for the proxy's thread, which needs a core. */
TEST(test_sent_at_the_end)
{
    struct process a, b;
    struct pair pair;
    uint64_t sent = 0, taken = 0;

    drive_start(&a, &b, &pair);
    while (sent < NSLOTS + 2) {
        assert_int_equal(lane_send(&pair.sender, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
        sent++;
        while (gpuring_proxy_moved(&pair.sender.group) < (sent < NSLOTS ? sent : NSLOTS)) {
            (void) gpuring_proxy_help(&pair.sender.group, true);
            (void) gpuring_proxy_help(&pair.receiver.group, true);
        }
        assert_int_equal(gpuring_proxy_unsent(&pair.sender.group), sent > NSLOTS);
    }
    while (taken < sent) {
        (void) gpuring_proxy_help(&pair.receiver.group, true);
        if (gpuring_proxy_moved(&pair.receiver.group) > taken) {
            assert_int_equal(lane_recv(&pair.receiver, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
            taken++;
        }
        (void) gpuring_proxy_unsent(&pair.sender.group);
    }
    assert_false(gpuring_proxy_unsent(&pair.receiver.group));
    assert_false(gpuring_proxy_unsent(&pair.sender.group));
    assert_int_equal(gpuring_proxy_moved(&pair.sender.group), sent);
    assert_true(gpuring_proxy_sleeping(a.proxy));
    drive_stop(&a, &b, &pair);
}

/* At the end of an operation that a thread has driven, slots that the net did not accept are left
 * to the proxy's thread. */
TEST(test_left_to_the_thread)
{
    const struct gpuring_mock_faults faults = {.seed = 1, .again_permille = 900};
    struct process a, b;
    struct pair pair;

    both_start(&a, &b, &faults);
    pair_open(&pair, &a, &b);
    for (int i = 0; i < 20; i++) {
        uint64_t sent = gpuring_proxy_moved(&pair.sender.group) + NSLOTS / 2;

        until_sleeping(a.proxy);
        gpuring_proxy_begin(&pair.sender.group, true);
        for (int slot = 0; slot < NSLOTS / 2; slot++) {
            assert_int_equal(lane_send(&pair.sender, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
        }
        gpuring_proxy_end(&pair.sender.group, true);
        gpuring_proxy_begin(&pair.receiver.group, false);
        for (int slot = 0; slot < NSLOTS / 2; slot++) {
            assert_int_equal(lane_recv(&pair.receiver, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
        }
        gpuring_proxy_end(&pair.receiver.group, false);
        until_sleeping(a.proxy);
        assert_int_equal(gpuring_proxy_moved(&pair.sender.group), sent);
    }
    pair_close(&pair);
    both_stop(&a, &b);
}

void __real_gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun, bool watch);
void __wrap_gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun, bool watch);

static struct gpuring_proxy_group *watched_group;
static uint64_t watched_sent; /* number of its slots */
static int watches;           /* that the thread has begun after all of them had been sent */

void __wrap_gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun, bool watch)
{
    struct gpuring_proxy_group *group = __atomic_load_n(&watched_group, __ATOMIC_ACQUIRE);

    if (group != NULL && watch && gpuring_proxy_moved(group) == watched_sent) {
        __atomic_fetch_add(&watches, 1, __ATOMIC_RELAXED);
    }
    __real_gpuring_proxy_bell_sleep(bell, begun, watch);
}

/* The thread that was woken for a completion watches once more before it sleeps, so that the next
 * operation does not have to wake it. */
TEST(test_watches_on)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pair;

    both_start(&a, &b, &none);
    pair_open(&pair, &a, &b);
    until_sleeping(a.proxy);
    watched_sent = 1;
    __atomic_store_n(&watched_group, &pair.sender.group, __ATOMIC_RELEASE);
    gpuring_proxy_begin(&pair.sender.group, true);
    assert_int_equal(lane_send(&pair.sender, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
    (void) gpuring_proxy_help(&pair.sender.group, true);
    gpuring_proxy_end(&pair.sender.group, true);
    gpuring_proxy_begin(&pair.receiver.group, false);
    assert_int_equal(lane_recv(&pair.receiver, GPURING_PROTOCOL_SIMPLE, 3), GPURING_OK);
    gpuring_proxy_end(&pair.receiver.group, false);
    while (gpuring_proxy_moved(&pair.sender.group) < 1) {
        sched_yield();
    }
    until_sleeping(a.proxy);
    assert_true(__atomic_load_n(&watches, __ATOMIC_RELAXED) >= 1);
    __atomic_store_n(&watched_group, NULL, __ATOMIC_RELEASE);
    pair_close(&pair);
    both_stop(&a, &b);
}
