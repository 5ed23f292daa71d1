/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Processes with a proxy over the mock net, and connections between them, in one process. */
#ifndef TEST_PROXY_WORLD_H
#define TEST_PROXY_WORLD_H

#include "test/unit/unit.h"

#include <stdio.h>
#include <time.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/net_lane.h"
#include "test/unit/net_mock.h"

#define NSLOTS     8
#define SLOT_BYTES 1024
#define PROCESSES  4

struct process {
    struct gpuring_gate gate;
    struct gpuring_net *net;
    struct gpuring_proxy *proxy;
    char host[16];
};

static inline void process_start(struct process *process, int number,
                                 const struct gpuring_proxy_config *config)
{
    struct gpuring_net_config net = {.gate = &process->gate, .local_host = process->host};
    struct gpuring_proxy_config guarded = *config;

    process->gate = (struct gpuring_gate) GPURING_GATE_INIT;
    guarded.gate = &process->gate;
    snprintf(process->host, sizeof process->host, "host%d", number);
    assert_int_equal(gpuring_net_mock.open(&net, &process->net), GPURING_OK);
    assert_int_equal(gpuring_proxy_create(&guarded, &process->proxy), GPURING_OK);
    gpuring_proxy_add_net(process->proxy, process->net);
}

static inline void process_stop(struct process *process)
{
    assert_int_equal(gpuring_proxy_destroy(process->proxy, 1.0), GPURING_OK);
    gpuring_net_mock.close(process->net);
}

/* Create a network with these faults, and two processes on it. */
static inline void both_start(struct process *a, struct process *b,
                              const struct gpuring_mock_faults *faults)
{
    const struct gpuring_proxy_config usual = {.spin_us = -1, .yield_us = -1};

    gpuring_mock_reset(faults);
    process_start(a, 0, &usual);
    process_start(b, 1, &usual);
}

static inline void both_stop(struct process *a, struct process *b)
{
    process_stop(a);
    process_stop(b);
}

/* A connection from one process to another. */
struct pair {
    struct lane_end sender, receiver;
};

static inline void pair_open(struct pair *pair, struct process *from, struct process *to)
{
    assert_int_equal(lane_end_create(&pair->sender, &gpuring_net_mock, from->net, 0, from->proxy,
                                     GPURING_NET_SEND, NSLOTS, SLOT_BYTES),
                     GPURING_OK);
    assert_int_equal(lane_end_create(&pair->receiver, &gpuring_net_mock, to->net, 0, to->proxy,
                                     GPURING_NET_RECV, NSLOTS, SLOT_BYTES),
                     GPURING_OK);
    assert_int_equal(
        lane_connect(&pair->sender, from->net, from->host, &pair->receiver, to->net, to->host),
        GPURING_OK);
}

/* Make a pair of two connections. Slots of one then contain credits of the other. */
static inline void pair_with(struct pair *there, struct pair *back)
{
    gpuring_proxy_pair(there->sender.link, back->receiver.link);
    gpuring_proxy_pair(back->sender.link, there->receiver.link);
}

static inline void pair_close(struct pair *pair)
{
    assert_int_equal(lane_end_destroy(&pair->sender, 10), GPURING_OK);
    assert_int_equal(lane_end_destroy(&pair->receiver, 10), GPURING_OK);
}

/* Wait for an event that is certain to happen, so that no time is asserted. */
static inline void until_sleeping(const struct gpuring_proxy *proxy)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;

    while (!gpuring_proxy_sleeping(proxy)) {
        assert_true(time(NULL) <= deadline);
        nanosleep(&nap, NULL);
    }
}

#endif
