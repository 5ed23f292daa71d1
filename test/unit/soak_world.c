/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/soak_world.h"
#include "test/unit/unit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/connect_infos.h"
#include "test/unit/net_mock.h"

#define NSLOTS 4

static const enum gpuring_algorithm algorithms[SOAK_ALGORITHMS] = {
    GPURING_ALGORITHM_RING, GPURING_ALGORITHM_TREE, GPURING_ALGORITHM_DIRECT};

uint64_t soak_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t soak_slot_bytes(enum gpuring_protocol protocol)
{
    return protocol == GPURING_PROTOCOL_SIMPLE ? 12288 : 1024;
}

static void process_open(struct soak_process *process, int number, uint64_t *random)
{
    /* Threads that poll, that yield and that nap immediately. */
    const int spins[] = {-1, 0, 100};
    const struct gpuring_proxy_config config = {.gate = &process->gate,
                                                .spin_us = spins[soak_random(random) % 3],
                                                .yield_us = soak_random(random) % 2 ? -1 : 0};
    const struct gpuring_net_config net = {.gate = &process->gate, .local_host = process->host};

    process->gate = (struct gpuring_gate) GPURING_GATE_INIT;
    snprintf(process->host, sizeof process->host, "host%d", number);
    assert_int_equal(gpuring_net_mock.open(&net, &process->net), GPURING_OK);
    assert_int_equal(gpuring_proxy_create(&config, &process->proxy), GPURING_OK);
    gpuring_proxy_add_net(process->proxy, process->net);
}

static void member_create(struct soak_world *world, struct soak_group *group, const int *node,
                          int rank)
{
    struct soak_member *member = &group->member[rank];
    const struct gpuring_plan *plans[SOAK_ALGORITHMS];
    struct gpuring_fifo_config fifos[SOAK_ALGORITHMS];
    struct gpuring_transport_config config = {.rank = rank,
                                              .nranks = group->nranks,
                                              .node = node,
                                              .hostname = world->process[rank].host,
                                              .unique_id = {group->seed, 1},
                                              .fifo = fifos,
                                              .device_ops = &gpuring_device_host,
                                              .device = world->device,
                                              .net_ops = &gpuring_net_mock,
                                              .net = world->process[rank].net,
                                              .proxy = world->process[rank].proxy,
                                              .try_seconds = world->try_seconds};

    for (int a = 0; a < SOAK_ALGORITHMS; a++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            fifos[a].nslots[p] = NSLOTS;
            fifos[a].spread = 1;
            fifos[a].slot_bytes[p] = soak_slot_bytes((enum gpuring_protocol) p);
        }
        plans[a] = group->plans[a].plans[rank];
    }
    *member = (struct soak_member){.group = group, .process = &world->process[rank], .rank = rank};
    assert_int_equal(gpuring_transport_create(&config, plans, SOAK_ALGORITHMS, &member->transport),
                     GPURING_OK);
}

/* Transfer first chunks. All members wait for each other, so they are polled in turn. */
static void group_try(struct soak_group *group)
{
    int waiting = group->nranks;

    while (waiting > 0) {
        waiting = 0;
        for (int rank = 0; rank < group->nranks; rank++) {
            struct soak_member *member = &group->member[rank];
            int status = member->tried ? GPURING_OK
                                       : gpuring_transport_try(member->transport, member->text,
                                                               sizeof member->text);

            assert_true(status == GPURING_OK || status == GPURING_AGAIN);
            member->tried = status == GPURING_OK;
            waiting += !member->tried;
        }
        sched_yield();
    }
}

static void group_connect(struct soak_group *group)
{
    struct connect_infos *connect_infos = calloc(1, sizeof *connect_infos);

    assert_non_null(connect_infos);
    for (int rank = 0; rank < group->nranks; rank++) {
        assert_true(connect_infos_post(connect_infos, rank, group->member[rank].transport));
    }
    for (int rank = 0; rank < group->nranks; rank++) {
        assert_int_equal(connect_infos_connect(connect_infos, rank, group->member[rank].transport),
                         GPURING_OK);
    }
    for (int rank = 0; rank < group->nranks; rank++) {
    }
    free(connect_infos);
}

static void group_open(struct soak_world *world, struct soak_group *group, const int *node)
{
    for (int a = 0; a < SOAK_ALGORITHMS; a++) {
        test_plans_build(&group->plans[a], algorithms[a], group->nranks, SOAK_CHANNELS);
    }
    for (int rank = 0; rank < group->nranks; rank++) {
        member_create(world, group, node, rank);
    }
    group_connect(group);
}

void soak_world_try(struct soak_world *world)
{
    for (int g = 0; g < world->ngroups; g++) {
        group_try(&world->group[g]);
    }
}

void soak_world_settle(struct soak_world *world)
{
    for (int g = 0; g < world->ngroups; g++) {
        for (int rank = 0; rank < world->group[g].nranks; rank++) {
            gpuring_transport_wired(world->group[g].member[rank].transport);
        }
    }
}

void soak_world_open(struct soak_world *world, uint64_t seed, int calls_per_group,
                     double try_seconds)
{
    /* One rank per node; two nodes with two ranks each; three ranks on two nodes. */
    static const struct {
        const char *name;
        int nranks, node[SOAK_RANKS];
    } groups[SOAK_GROUPS] = {
        {"4 nodes", 4, {0, 1, 2, 3}}, {"2 x 2", 4, {0, 0, 1, 1}}, {"2 + 1", 3, {0, 1, 0}}};

    memset(world, 0, sizeof *world);
    world->try_seconds = try_seconds;
    assert_int_equal(gpuring_device_host.open(&world->device), GPURING_OK);
    for (int i = 0; i < SOAK_RANKS; i++) {
        process_open(&world->process[i], i, &seed);
    }
    world->ngroups = SOAK_GROUPS;
    for (int g = 0; g < SOAK_GROUPS; g++) {
        struct soak_group *group = &world->group[g];

        group->name = groups[g].name;
        group->nranks = groups[g].nranks;
        group->seed = soak_random(&seed);
        group->ncalls = calls_per_group;
        group_open(world, group, groups[g].node);
    }
}

void soak_world_close(struct soak_world *world)
{
    for (int g = 0; g < world->ngroups; g++) {
        for (int rank = 0; rank < world->group[g].nranks; rank++) {
            gpuring_transport_destroy(world->group[g].member[rank].transport);
        }
        for (int a = 0; a < SOAK_ALGORITHMS; a++) {
            test_plans_free(&world->group[g].plans[a]);
        }
    }
    for (int i = 0; i < SOAK_RANKS; i++) {
        assert_int_equal(gpuring_proxy_destroy(world->process[i].proxy, 1.0), GPURING_OK);
        gpuring_net_mock.close(world->process[i].net);
    }
    gpuring_device_host.close(world->device);
}
