/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the proxy over the mock net, with threads as lanes, several processes in one, and faults on
 * demand. */
#include "test/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/net_lane.h"
#include "test/unit/net_mock.h"
#include "test/unit/proxy_world.h"

static const struct gpuring_proxy_config waits[] = {
    {.spin_us = -1, .yield_us = -1},
    {.cores = "auto", .spin_us = 0, .yield_us = 0},
    {.cores = "0", .spin_us = 100, .yield_us = 0},
};

/* One lane: a thread that sends or receives `count` chunks in rounds, each round one operation. */
struct lane {
    struct lane_end *end;
    enum gpuring_protocol protocol;
    uint64_t seed;
    int count, rounds;
    int status;
    pthread_t thread;
};

static void *lane_main(void *argument)
{
    struct lane *lane = argument;

    for (int round = 0; round < lane->rounds && lane->status == GPURING_OK; round++) {
        gpuring_proxy_begin(&lane->end->group, lane->end->help);
        for (int i = 0; i < lane->count && lane->status == GPURING_OK; i++) {
            lane->status = lane->end->direction == GPURING_NET_SEND
                               ? lane_send(lane->end, lane->protocol, lane->seed)
                               : lane_recv(lane->end, lane->protocol, lane->seed);
        }
        gpuring_proxy_end(&lane->end->group, lane->end->help);
    }
    return NULL;
}

static void lane_start(struct lane *lane, struct lane_end *end, enum gpuring_protocol protocol,
                       uint64_t seed, int count, int rounds)
{
    *lane = (struct lane){
        .end = end, .protocol = protocol, .seed = seed, .count = count, .rounds = rounds};
    assert_int_equal(pthread_create(&lane->thread, NULL, lane_main, lane), 0);
}

static int lane_join(struct lane *lane)
{
    assert_int_equal(pthread_join(lane->thread, NULL), 0);
    return lane->status;
}

/* Run both ends of a connection, which must succeed. */
static void carry(struct pair *pair, enum gpuring_protocol protocol, int count, int rounds)
{
    struct lane lanes[2];

    lane_start(&lanes[0], &pair->sender, protocol, 3, count, rounds);
    lane_start(&lanes[1], &pair->receiver, protocol, 3, count, rounds);
    assert_int_equal(lane_join(&lanes[0]), GPURING_OK);
    assert_int_equal(lane_join(&lanes[1]), GPURING_OK);
}

/* Every pair of processes in both directions, all protocols at the same time, in separate lanes. */
static void all_to_all(const struct gpuring_mock_faults *faults,
                       const struct gpuring_proxy_config *config, bool help, bool paired, int count,
                       int rounds)
{
    int at[PROCESSES][PROCESSES];
    struct process process[PROCESSES];
    struct pair pairs[PROCESSES * (PROCESSES - 1)];
    struct lane lanes[PROCESSES * (PROCESSES - 1) * 2 * GPURING_PROTOCOL_COUNT];
    int npairs = 0, nlanes = 0;

    gpuring_mock_reset(faults);
    for (int i = 0; i < PROCESSES; i++) {
        process_start(&process[i], i, config);
    }
    for (int i = 0; i < PROCESSES; i++) {
        for (int j = 0; j < PROCESSES; j++) {
            if (i != j) {
                pair_open(&pairs[npairs], &process[i], &process[j]);
                pairs[npairs].sender.help = pairs[npairs].receiver.help = help;
                at[i][j] = npairs++;
                if (paired && j < i) {
                    pair_with(&pairs[at[i][j]], &pairs[at[j][i]]);
                }
            }
        }
    }
    for (int i = 0; i < npairs; i++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            uint64_t seed = (uint64_t) (i * 10 + p);

            lane_start(&lanes[nlanes++], &pairs[i].sender, (enum gpuring_protocol) p, seed, count,
                       rounds);
            lane_start(&lanes[nlanes++], &pairs[i].receiver, (enum gpuring_protocol) p, seed, count,
                       rounds);
        }
    }
    for (int i = 0; i < nlanes; i++) {
        assert_int_equal(lane_join(&lanes[i]), GPURING_OK);
    }
    for (int i = 0; i < PROCESSES; i++) {
        until_sleeping(process[i].proxy);
        assert_true(gpuring_proxy_bytes(process[i].proxy) > 0);
        assert_true((gpuring_proxy_retries(process[i].proxy) > 0) == (faults->again_permille > 0));
    }
    for (int i = 0; i < npairs; i++) {
        pair_close(&pairs[i]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        process_stop(&process[i]);
    }
    assert_int_equal(gpuring_mock_violations(), 0);
}

TEST(test_clean_network)
{
    const struct gpuring_mock_faults none = {.seed = 1};

    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        all_to_all(&none, &waits[i], i == 1, i != 1, 30, 3);
    }
}

TEST(test_rough_network)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const struct gpuring_mock_faults faults = {
            .seed = seed, .delay_polls = 20, .again_permille = 200};

        all_to_all(&faults, &waits[seed % 3], seed == 2, seed > 2, 30, 3);
    }
}

/* Credits are separate messages only if slots are sent in one direction alone. */
TEST(test_credits_ride)
{
    const struct gpuring_mock_faults none = {.seed = 1};

    for (int paired = 0; paired < 2; paired++) {
        struct process process[2];
        struct pair pairs[2];

        both_start(&process[0], &process[1], &none);
        pair_open(&pairs[0], &process[0], &process[1]);
        pair_open(&pairs[1], &process[1], &process[0]);
        if (paired) {
            pair_with(&pairs[0], &pairs[1]);
        }
        for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            struct lane_exchange sides[2];

            for (int i = 0; i < 2; i++) {
                sides[i] = (struct lane_exchange){.send = &pairs[i].sender,
                                                  .receive = &pairs[1 - i].receiver,
                                                  .protocol = (enum gpuring_protocol) p,
                                                  .seed = 5,
                                                  .first = i == 0,
                                                  .count = 10 * NSLOTS};
                assert_int_equal(lane_exchange_start(&sides[i]), 0);
            }
            for (int i = 0; i < 2; i++) {
                assert_int_equal(lane_exchange_join(&sides[i]), GPURING_OK);
            }
        }
        if (paired) {
            assert_int_equal(gpuring_mock_credits(), 0);
        } else {
            assert_true(gpuring_mock_credits() > 0);
        }
        for (int i = 0; i < 2; i++) { /* the other one goes on without its pair */
            struct lane lanes[2];
            uint64_t before = gpuring_mock_credits();

            if (i == 1) {
                pair_close(&pairs[0]);
            }
            lane_start(&lanes[0], &pairs[1].sender, GPURING_PROTOCOL_SIMPLE, 5, 4 * NSLOTS, 1);
            lane_start(&lanes[1], &pairs[1].receiver, GPURING_PROTOCOL_SIMPLE, 5, 4 * NSLOTS, 1);
            assert_int_equal(lane_join(&lanes[0]), GPURING_OK);
            assert_int_equal(lane_join(&lanes[1]), GPURING_OK);
            assert_true(gpuring_mock_credits() > before);
        }
        pair_close(&pairs[1]);
        both_stop(&process[0], &process[1]);
        assert_int_equal(gpuring_mock_violations(), 0);
    }
}

/* The sender's operation ends before its proxy has woken up, and long before the receiver begins.
 * No chunk is lost, and the proxy sleeps only after it has sent its chunks. */
TEST(test_late_receiver)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pair;
    struct lane lane;

    both_start(&a, &b, &none);
    pair_open(&pair, &a, &b);
    for (int i = 0; i < 50; i++) {
        until_sleeping(a.proxy);
        until_sleeping(b.proxy);
        lane_start(&lane, &pair.sender, GPURING_PROTOCOL_SIMPLE, 7, NSLOTS, 1);
        assert_int_equal(lane_join(&lane), GPURING_OK);
        assert_true(gpuring_proxy_sleeping(b.proxy));
        lane_start(&lane, &pair.receiver, GPURING_PROTOCOL_SIMPLE, 7, NSLOTS, 1);
        assert_int_equal(lane_join(&lane), GPURING_OK);
    }
    pair_close(&pair);
    both_stop(&a, &b);
}

TEST(test_lost_chunk)
{
    const struct gpuring_mock_faults faults = {.seed = 1, .lose_post = 10};
    struct process a, b;
    struct pair hurt, fine;
    struct lane lanes[2];

    both_start(&a, &b, &faults);
    pair_open(&hurt, &a, &b);
    pair_open(&fine, &a, &b);
    lane_start(&lanes[0], &hurt.sender, GPURING_PROTOCOL_SIMPLE, 1, 50, 1);
    lane_start(&lanes[1], &hurt.receiver, GPURING_PROTOCOL_SIMPLE, 1, 50, 1);
    assert_int_equal(lane_join(&lanes[0]), GPURING_ERR_NET);
    assert_int_equal(lane_join(&lanes[1]), GPURING_ERR_NET);
    assert_string_equal(gpuring_proxy_error(hurt.sender.link),
                        "mock connection from host0 to host1, device mock0: a chunk was lost");
    assert_string_equal(gpuring_proxy_error(hurt.receiver.link),
                        "mock connection from host1 to host0, device mock0: a chunk was lost");

    /* The other connection goes on. */
    carry(&fine, GPURING_PROTOCOL_LL, 50, 2);
    assert_string_equal(gpuring_proxy_error(fine.sender.link), "");
    pair_close(&fine);
    assert_int_equal(lane_end_destroy(&hurt.sender, 10), GPURING_ERR_NET);
    assert_int_equal(lane_end_destroy(&hurt.receiver, 10), GPURING_ERR_NET);
    both_stop(&a, &b);
}

TEST(test_killed_peer)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pair;
    struct lane lane;

    both_start(&a, &b, &none);
    pair_open(&pair, &b, &a);
    lane_start(&lane, &pair.receiver, GPURING_PROTOCOL_SIMPLE, 1, 1, 1);
    gpuring_mock_kill(b.net);
    assert_int_equal(lane_join(&lane), GPURING_ERR_PEER);
    assert_non_null(strstr(gpuring_proxy_error(pair.receiver.link), "has died"));
    until_sleeping(a.proxy);
    assert_int_equal(lane_end_destroy(&pair.receiver, 10), GPURING_ERR_PEER);
    lane_end_destroy(&pair.sender, 0);
    both_stop(&a, &b);
}

/* If one end gives up, the other one learns the reason, and other connections continue. */
TEST(test_abort)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pairs[2], fine;
    struct lane lanes[2];

    both_start(&a, &b, &none);
    pair_open(&pairs[0], &a, &b);
    pair_open(&pairs[1], &b, &a);
    pair_open(&fine, &a, &b);
    for (int i = 0; i < 2; i++) {
        struct lane_end *gives_up = i == 0 ? &pairs[i].sender : &pairs[i].receiver;
        struct lane_end *other = i == 0 ? &pairs[i].receiver : &pairs[i].sender;

        lane_start(&lanes[0], other, GPURING_PROTOCOL_SIMPLE, 1, 4 * NSLOTS, 1);
        gpuring_proxy_abort(gives_up->link, GPURING_ERR_TIMEOUT);
        assert_int_equal(lane_join(&lanes[0]), GPURING_ERR_ABORTED);
        assert_non_null(strstr(gpuring_proxy_error(other->link), "gave up: timed out"));
        assert_int_equal(lane_end_destroy(other, 1), GPURING_ERR_ABORTED);
        lane_end_destroy(gives_up, 0);
    }
    carry(&fine, GPURING_PROTOCOL_LL, 50, 2);
    pair_close(&fine);
    both_stop(&a, &b);
}

/* If a peer hangs, no end gets an error, but closing takes a limited time. */
TEST(test_hung_peer)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pairs[2];
    struct lane lane;

    both_start(&a, &b, &none);
    pair_open(&pairs[0], &a, &b);
    pair_open(&pairs[1], &a, &b);
    gpuring_mock_stall(b.net, true);
    for (int i = 0; i < 2; i++) {
        lane_start(&lane, &pairs[i].sender, GPURING_PROTOCOL_SIMPLE, 1, NSLOTS, 1);
        assert_int_equal(lane_join(&lane), GPURING_OK);
    }
    assert_int_equal(lane_end_destroy(&pairs[0].sender, 0.05), GPURING_ERR_TIMEOUT);

    /* The second connection still exists when the proxy is destroyed. */
    assert_int_equal(gpuring_proxy_destroy(a.proxy, 0.05), GPURING_OK);
    assert_int_equal(lane_end_destroy(&pairs[1].sender, 0), GPURING_OK);
    gpuring_net_mock.close(a.net);
    assert_int_equal(lane_end_destroy(&pairs[0].receiver, 1), GPURING_OK);
    assert_int_equal(lane_end_destroy(&pairs[1].receiver, 1), GPURING_OK);
    process_stop(&b);
}

TEST(test_stalled_peer_recovers)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pair;
    struct lane lanes[2];
    const struct timespec nap = {.tv_nsec = 20000000};

    both_start(&a, &b, &none);
    pair_open(&pair, &a, &b);
    gpuring_mock_stall(b.net, true);
    lane_start(&lanes[0], &pair.sender, GPURING_PROTOCOL_LL128, 1, 100, 1);
    lane_start(&lanes[1], &pair.receiver, GPURING_PROTOCOL_LL128, 1, 100, 1);
    nanosleep(&nap, NULL);
    gpuring_mock_stall(b.net, false);
    assert_int_equal(lane_join(&lanes[0]), GPURING_OK);
    assert_int_equal(lane_join(&lanes[1]), GPURING_OK);
    pair_close(&pair);
    both_stop(&a, &b);
}

/* Overrun counters must end in an error, not in wild copies. */
TEST(test_corrupt_counters)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair pair;
    struct lane lane;

    both_start(&a, &b, &none);
    pair_open(&pair, &a, &b);
    __atomic_store_n(&pair.sender.tail[0]->tail, UINT64_C(1) << 40, __ATOMIC_RELEASE);
    __atomic_store_n(&pair.receiver.head[0]->head, UINT64_C(1) << 40, __ATOMIC_RELEASE);
    lane_start(&lane, &pair.sender, GPURING_PROTOCOL_LL, 1, 4 * NSLOTS, 1);
    assert_int_equal(lane_join(&lane), GPURING_ERR_DATA);
    lane_start(&lane, &pair.receiver, GPURING_PROTOCOL_LL, 1, 4 * NSLOTS, 1);
    assert_int_equal(lane_join(&lane), GPURING_ERR_DATA);
    assert_int_equal(lane_end_destroy(&pair.sender, 1), GPURING_ERR_DATA);
    assert_int_equal(lane_end_destroy(&pair.receiver, 1), GPURING_ERR_DATA);
    both_stop(&a, &b);
}

/* The proxy does not look at wrong counters of a link while only other links are in use. */
TEST(test_idle_links)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a, b;
    struct pair busy, idle;

    both_start(&a, &b, &none);
    pair_open(&busy, &a, &b);
    pair_open(&idle, &a, &b);
    carry(&idle, GPURING_PROTOCOL_SIMPLE, 4 * NSLOTS, 2);
    carry(&busy, GPURING_PROTOCOL_SIMPLE, 4 * NSLOTS,
          2); /* a pass at least after the other ended */
    until_sleeping(a.proxy);
    until_sleeping(b.proxy);
    __atomic_store_n(&idle.sender.tail[0]->tail, UINT64_C(1) << 40, __ATOMIC_RELEASE);
    __atomic_store_n(&idle.receiver.head[0]->head, UINT64_C(1) << 40, __ATOMIC_RELEASE);
    carry(&busy, GPURING_PROTOCOL_SIMPLE, 4 * NSLOTS, 2);
    assert_int_equal(__atomic_load_n(&idle.sender.failed, __ATOMIC_ACQUIRE), GPURING_OK);
    assert_int_equal(__atomic_load_n(&idle.receiver.failed, __ATOMIC_ACQUIRE), GPURING_OK);
    pair_close(&busy);
    assert_int_equal(lane_end_destroy(&idle.sender, 1), GPURING_ERR_DATA);
    assert_int_equal(lane_end_destroy(&idle.receiver, 1), GPURING_ERR_DATA);
    both_stop(&a, &b);
}

/* Connections are added and removed while others carry traffic. */
TEST(test_add_and_remove_under_load)
{
    const struct gpuring_mock_faults faults = {.seed = 5, .delay_polls = 3};
    struct process a, b;
    struct pair load, passing;
    struct lane lanes[2];

    both_start(&a, &b, &faults);
    pair_open(&load, &a, &b);
    lane_start(&lanes[0], &load.sender, GPURING_PROTOCOL_SIMPLE, 1, 200, 10);
    lane_start(&lanes[1], &load.receiver, GPURING_PROTOCOL_SIMPLE, 1, 200, 10);
    for (int i = 0; i < 20; i++) {
        pair_open(&passing, &b, &a);
        carry(&passing, GPURING_PROTOCOL_LL, 2 * NSLOTS, 1);
        pair_close(&passing);
    }
    assert_int_equal(lane_join(&lanes[0]), GPURING_OK);
    assert_int_equal(lane_join(&lanes[1]), GPURING_OK);
    pair_close(&load);
    both_stop(&a, &b);
    assert_int_equal(gpuring_mock_violations(), 0);
}

/* All nets that share a proxy: verbs and UCX. */
TEST(test_two_nets)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct gpuring_net *more;
    struct process a, b;

    both_start(&a, &b, &none);
    for (int i = 0; i < 2; i++) {
        struct process third = a;
        struct pair pair;

        if (i > 0) {
            struct gpuring_net_config config = {.gate = &a.gate, .local_host = a.host};

            assert_int_equal(gpuring_net_mock.open(&config, &more), GPURING_OK);
            gpuring_proxy_add_net(a.proxy, more);
            third.net = more;
        }
        pair_open(&pair, &b, &third);
        carry(&pair, GPURING_PROTOCOL_SIMPLE, 4 * NSLOTS, 1);
        pair_close(&pair);
    }
    both_stop(&a, &b);
    gpuring_net_mock.close(more);
}

/* A forked child has no progress thread, so releasing the proxy there must not wait for the
 * thread. */
TEST(test_fork)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct process a;
    int status;
    pid_t child;

    gpuring_mock_reset(&none);
    process_start(&a, 0, &waits[0]);
    until_sleeping(a.proxy);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LANE_DEADLINE_SECONDS);
        _exit(gpuring_proxy_destroy(a.proxy, 1.0) == GPURING_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    process_stop(&a);
}
