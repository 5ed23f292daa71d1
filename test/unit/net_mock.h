/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The mock net: links between "processes" of one process (each open is one), with delay,
 * reordering and failures on demand, for tests of everything above a net. A slot is copied when it
 * is delivered, by the thread that polls the receiver: if a slot is reused too early, the data
 * is wrong, and a thread sanitizer reports the race.
 *
 * All nets share one fabric. Any thread may call every function.
 */
#ifndef GPURING_NET_MOCK_H
#define GPURING_NET_MOCK_H

#include "mca/coll_gpuring/net/net.h"

extern const struct gpuring_net_ops gpuring_net_mock;

/* Faults, counted over the whole fabric since gpuring_mock_reset. 0: never. */
struct gpuring_mock_faults {
    uint64_t seed;           /* of all chances below */
    uint32_t delay_polls;    /* a message waits for up to this number of polls of its receiver;
                                messages    that the contract does not order overtake each other */
    uint32_t again_permille; /* chance that post and credit answer "queue full" */
    uint64_t lose_post;      /* the n-th post is lost, and both ends of its link get an error */
    uint64_t fail_create;    /* the n-th link_create fails */
    uint64_t fail_connect;   /* the n-th link_connect fails */
};

/* Set the faults and reset the counters. */
void gpuring_mock_reset(const struct gpuring_mock_faults *faults);

/* Let the process of `net` die: no message from or to it is delivered, and its peers' links fail.
 */
void gpuring_mock_kill(struct gpuring_net *net);

/* Let the process of `net` hang or run again: its messages wait, and no link fails. */
void gpuring_mock_stall(struct gpuring_net *net, bool stalled);

/* Return the number of violations of net.h by users: steps out of order or without a free slot. */
uint64_t gpuring_mock_violations(void);
/* Return the number of credits that were separate messages. */
uint64_t gpuring_mock_credits(void);

#endif
