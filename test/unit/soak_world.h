/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A small world for the soak: ranks in one process, each with a separate mock net and progress
 * thread, and groups of them (communicators) that are connected by the real transport.
 */
#ifndef TEST_SOAK_WORLD_H
#define TEST_SOAK_WORLD_H

#include <pthread.h>

#include "mca/coll_gpuring/transport/transport.h"
#include "test/unit/plans.h"

#define SOAK_RANKS      4
#define SOAK_GROUPS     3
#define SOAK_ALGORITHMS 3 /* ring, tree, direct */
#define SOAK_CHANNELS   2

struct soak_process {
    struct gpuring_gate gate;
    struct gpuring_net *net;
    struct gpuring_proxy *proxy;
    char host[16];
    int dead; /* killed: its threads end as they are */
};

struct soak_group;

/* A rank of a group, and the thread that calls its collectives. */
struct soak_member {
    struct soak_group *group;
    struct soak_process *process;
    int rank;
    struct gpuring_transport *transport;
    pthread_t thread;
    bool tried;
    int status; /* status of the first failed collective */
    int calls;  /* number of successful collectives */
    char text[512];
};

struct soak_group {
    const char *name;
    int nranks;
    uint64_t seed;
    int ncalls;
    struct test_plans plans[SOAK_ALGORITHMS];
    struct soak_member member[SOAK_RANKS];
};

struct soak_world {
    struct gpuring_device *device;
    struct soak_process process[SOAK_RANKS];
    struct soak_group group[SOAK_GROUPS];
    int ngroups;
    double try_seconds;
};

/* splitmix64, by its published recurrence. */
uint64_t soak_random(uint64_t *state);

/* Open everything, or fail the test. The faults of the mock net must permit this. */
void soak_world_open(struct soak_world *world, uint64_t seed, int calls_per_group,
                     double try_seconds);
/* Transfer the first chunks of all connections, which must arrive. */
void soak_world_try(struct soak_world *world);
/* Notify the transports of all members that the wire-up is complete. */
void soak_world_settle(struct soak_world *world);
/* Close everything. The threads of the members must have been joined. */
void soak_world_close(struct soak_world *world);

/* Bytes of a slot of the groups' FIFOs. */
uint64_t soak_slot_bytes(enum gpuring_protocol protocol);

#endif
