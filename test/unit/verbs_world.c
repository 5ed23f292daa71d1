/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/verbs_world.h"
#include "test/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ROCE(title, number)                                                                 \
    {                                                                                       \
        .name = title, .ports = 1, .active = 1 << 1, .link_layer = IBV_LINK_LAYER_ETHERNET, \
        .gid_type = {IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V2,      \
                     IBV_GID_TYPE_ROCE_V2},                                                 \
        .gid = {LL_GID, LL_GID, V6_GID, V4_GID(number)}, .max_inline = 64,                  \
    }
const struct fake_device world_roce = ROCE("roce0", 1);
const struct fake_device world_infiniband = {.name = "ib0",
                                             .ports = 2,
                                             .active = 1 << 1 | 1 << 2,
                                             .link_layer = IBV_LINK_LAYER_INFINIBAND,
                                             .gid = {LL_GID},
                                             .max_inline = 1024};

const struct fake_device world_roce_next = ROCE("roce1", 2);
const struct fake_device world_roce_last = ROCE("roce2", 3);
#define INFINIBAND(title)                                                                     \
    {                                                                                         \
        .name = title, .ports = 1, .active = 1 << 1, .link_layer = IBV_LINK_LAYER_INFINIBAND, \
        .gid = {LL_GID},                                                                      \
    }
const struct fake_device world_paths[2][3] = {
    {ROCE("roce0", 1), ROCE("roce1", 2), ROCE("roce2", 3)},
    {INFINIBAND("ib0"), INFINIBAND("ib1"), INFINIBAND("ib2")}};

const struct fake_faults world_no_faults;
uint64_t world_slot_bytes = WORLD_SLOT_BYTES;
static struct gpuring_gate gates[2] = {GPURING_GATE_INIT, GPURING_GATE_INIT}; /* of each process */
const struct gpuring_net_config world_defaults = {
    .gate = &gates[0], .verbs_timeout = -1, .verbs_retry_count = -1, .local_host = "here"};

static char log_text[8192], warnings[8192];
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep_log(enum gpuring_log_level level, const char *text)
{
    pthread_mutex_lock(&log_mutex);
    strncat(log_text, text, sizeof log_text - strlen(log_text) - 1);
    if (level == GPURING_LOG_WARN) {
        strncat(warnings, text, sizeof warnings - strlen(warnings) - 1);
    }
    pthread_mutex_unlock(&log_mutex);
}

bool log_has(const char *text)
{
    bool has;

    pthread_mutex_lock(&log_mutex);
    has = strstr(log_text, text) != NULL;
    pthread_mutex_unlock(&log_mutex);
    return has;
}

unsigned log_warnings(const char *text)
{
    unsigned count = 0;

    pthread_mutex_lock(&log_mutex);
    for (const char *at = warnings; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    pthread_mutex_unlock(&log_mutex);
    return count;
}

int clear_log(void **state)
{
    pthread_mutex_lock(&log_mutex);
    log_text[0] = warnings[0] = '\0';
    world_slot_bytes = WORLD_SLOT_BYTES;
    lane_process = 0;
    pthread_mutex_unlock(&log_mutex);
    gpuring_log_set(keep_log, GPURING_LOG_INFO);
    return 0;
}

void world_open(struct world *world, const struct fake_device *devices, int ndevices, int nlinks,
                const struct gpuring_net_config *given)
{
    fake_verbs_reset(devices, ndevices, &world_no_faults);
    world_open_in(world, ndevices, nlinks, given, NULL);
}

void world_open_in(struct world *world, int ndevices, int nlinks,
                   const struct gpuring_net_config *given, const struct gpuring_device_nic *gpu)
{
    struct gpuring_proxy_config waits = {.spin_us = -1, .yield_us = -1};
    struct gpuring_net_config config = given != NULL ? *given : world_defaults;

    memset(world, 0, sizeof *world);
    world->gpu = gpu;
    for (int i = 0; i < 2; i++) {
        config.local_host = i == 0 ? "host0" : "host1";
        config.gate = waits.gate = &gates[i];
        assert_int_equal(gpuring_net_verbs.open(&config, &world->net[i]), GPURING_OK);
        assert_int_equal(gpuring_proxy_create(&waits, &world->proxy[i]), GPURING_OK);
        gpuring_proxy_add_net(world->proxy[i], world->net[i]);
    }
    for (world->nlinks = 0; world->nlinks < nlinks; world->nlinks++) {
        int n = world->nlinks;

        assert_int_equal(lane_end_create_in(&world->send[n], &gpuring_net_verbs, world->net[0],
                                            n % ndevices, world->proxy[0], GPURING_NET_SEND,
                                            WORLD_NSLOTS, world_slot_bytes, gpu),
                         GPURING_OK);
        assert_int_equal(lane_end_create_in(&world->recv[n], &gpuring_net_verbs, world->net[1],
                                            n % ndevices, world->proxy[1], GPURING_NET_RECV,
                                            WORLD_NSLOTS, world_slot_bytes, gpu),
                         GPURING_OK);
        assert_int_equal(lane_connect(&world->send[n], world->net[0], "rank 0 on host0",
                                      &world->recv[n], world->net[1], "rank 1 on host1"),
                         GPURING_OK);
    }
}

int world_link_open(struct world *world, int n)
{
    struct lane_end *send = &world->send[n], *recv = &world->recv[n];

    for (int attempts = 1;; attempts++) {
        uint8_t handles[2][GPURING_NET_HANDLE_BYTES];
        size_t bytes[2];
        int sent, received;

        assert_int_equal(lane_end_create_in(send, &gpuring_net_verbs, world->net[0], 0,
                                            world->proxy[0], GPURING_NET_SEND, WORLD_NSLOTS,
                                            world_slot_bytes, world->gpu),
                         GPURING_OK);
        assert_int_equal(lane_end_create_in(recv, &gpuring_net_verbs, world->net[1], 0,
                                            world->proxy[1], GPURING_NET_RECV, WORLD_NSLOTS,
                                            world_slot_bytes, world->gpu),
                         GPURING_OK);
        bytes[0] = gpuring_net_verbs.link_handle(send->link, handles[0]);
        bytes[1] = gpuring_net_verbs.link_handle(recv->link, handles[1]);
        sent = lane_end_connect(send, NULL, 0, handles[1], bytes[1], "rank 1 on host1");
        received = lane_end_connect(recv, NULL, 0, handles[0], bytes[0], "rank 0 on host0");
        if (sent == GPURING_OK && received == GPURING_OK) {
            gpuring_net_verbs.link_ready(send->link);
            gpuring_net_verbs.link_ready(recv->link);
            return attempts;
        }
        assert_true(sent == GPURING_ERR_STALE || received == GPURING_ERR_STALE);
        assert_true(attempts < 8);
        lane_end_destroy(send, 10);
        lane_end_destroy(recv, 10);
    }
}

void world_link_close(struct world *world, int n)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 100000};
    struct lane_end *ends[] = {&world->send[n], &world->recv[n]};

    for (int i = 0; i < 2; i++) {
        lane_end_leave(ends[i], 0.001); /* the other end follows */
    }
    for (int i = 0; i < 2; i++) {
        while (lane_end_held(ends[i])) {
            if (time(NULL) > deadline) {
                const struct gpuring_net_link *link = ends[i]->link;

                fail_msg("end %d is held: BYE on %x, received %d; peer's on %x, received on %x; %u "
                         "slots in flight; recovering %d; rails %d %d %d %d",
                         i, link->bye, link->peer_knows, link->peer_bye, link->peer_bye_seen,
                         link->in_flight, link->endpoint->recovering, link->endpoint->rail[0].state,
                         link->endpoint->rail[1].state, link->endpoint->rail[2].state,
                         link->endpoint->rail[3].state);
            }
            lane_end_held(ends[1 - i]); /* it also has to leave */
            nanosleep(&nap, NULL);
        }
    }
    for (int i = 0; i < 2; i++) {
        lane_end_close(ends[i]);
    }
}

void world_close(struct world *world)
{
    for (int i = 0; i < world->nlinks; i++) {
        lane_end_destroy(&world->send[i], 10);
        lane_end_destroy(&world->recv[i], 10);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gpuring_proxy_destroy(world->proxy[i], 5), GPURING_OK);
        gpuring_net_verbs.close(world->net[i]);
    }
    assert_int_equal(fake_verbs_objects(), 0);
    assert_int_equal(fake_verbs_violations(), 0);
}

struct lane {
    struct lane_end *end;
    enum gpuring_protocol protocol;
    int count, status;
    pthread_t thread;
};

static void *lane_main(void *argument)
{
    struct lane *lane = argument;

    gpuring_proxy_begin(&lane->end->group, false);
    for (int i = 0; i < lane->count && lane->status == GPURING_OK; i++) {
        lane->status = lane->end->direction == GPURING_NET_SEND
                           ? lane_send(lane->end, lane->protocol, lane->protocol)
                           : lane_recv(lane->end, lane->protocol, lane->protocol);
    }
    gpuring_proxy_end(&lane->end->group, false);
    return NULL;
}

/* Begin both ends' work. */
static void lanes_start(struct lane lanes[2], struct world *world, int link,
                        enum gpuring_protocol protocol, int count)
{
    lanes[0] = (struct lane){.end = &world->send[link], .protocol = protocol, .count = count};
    lanes[1] = (struct lane){.end = &world->recv[link], .protocol = protocol, .count = count};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]), 0);
    }
}

static void lanes_join(struct lane lanes[2], int *sent, int *received)
{
    for (int i = 0; i < 2; i++) {
        pthread_join(lanes[i].thread, NULL);
    }
    *sent = lanes[0].status;
    *received = lanes[1].status;
}

void world_transfer(struct world *world, int link, enum gpuring_protocol protocol, int count,
                    int *sent, int *received)
{
    struct lane lanes[2];

    lanes_start(lanes, world, link, protocol, count);
    lanes_join(lanes, sent, received);
}

static bool has_failed(const struct lane_end *end)
{
    return __atomic_load_n(&end->failed, __ATOMIC_ACQUIRE) != GPURING_OK;
}

void world_break(struct world *world, int link, enum gpuring_protocol protocol, int count,
                 int *sent, int *received)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 1000000};
    struct lane_end *ends[] = {&world->send[link], &world->recv[link]};
    struct lane lanes[2];

    lanes_start(lanes, world, link, protocol, count);
    while (!has_failed(ends[0]) && !has_failed(ends[1])) {
        assert_true(time(NULL) < deadline);
        nanosleep(&nap, NULL);
    }
    for (int i = 0; i < 2; i++) {
        int working = GPURING_OK;

        __atomic_compare_exchange_n(&ends[i]->failed, &working, GPURING_ERR_PEER, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    lanes_join(lanes, sent, received);
}

void world_transfer_well(struct world *world, int link, int count)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        int sent, received;

        world_transfer(world, link, (enum gpuring_protocol) p, count, &sent, &received);
        assert_int_equal(sent, GPURING_OK);
        assert_int_equal(received, GPURING_OK);
    }
}

bool world_transfer_together(struct world *world, int link, int count)
{
    struct lane lanes[2 * GPURING_PROTOCOL_COUNT];
    bool well = true;

    for (int i = 0; i < 2 * GPURING_PROTOCOL_COUNT; i++) {
        lanes[i] = (struct lane){.end = i % 2 == 0 ? &world->send[link] : &world->recv[link],
                                 .protocol = (enum gpuring_protocol)(i / 2),
                                 .count = count};
        assert_int_equal(pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]), 0);
    }
    for (int i = 0; i < 2 * GPURING_PROTOCOL_COUNT; i++) {
        pthread_join(lanes[i].thread, NULL);
        well = well && lanes[i].status == GPURING_OK;
    }
    return well;
}

void world_back_open(struct world *world, int device, struct world_back *back)
{
    assert_int_equal(lane_end_create(&back->send, &gpuring_net_verbs, world->net[1], device,
                                     world->proxy[1], GPURING_NET_SEND, WORLD_NSLOTS,
                                     world_slot_bytes),
                     GPURING_OK);
    assert_int_equal(lane_end_create(&back->recv, &gpuring_net_verbs, world->net[0], device,
                                     world->proxy[0], GPURING_NET_RECV, WORLD_NSLOTS,
                                     world_slot_bytes),
                     GPURING_OK);
    assert_int_equal(lane_connect(&back->send, world->net[1], "rank 1 on host1", &back->recv,
                                  world->net[0], "rank 0 on host0"),
                     GPURING_OK);
    gpuring_proxy_pair(world->send[0].link, back->recv.link);
    gpuring_proxy_pair(back->send.link, world->recv[0].link);
}

void world_back_close(struct world_back *back)
{
    lane_end_destroy(&back->send, 10);
    lane_end_destroy(&back->recv, 10);
}

bool world_exchange(struct world *world, struct world_back *back, int count)
{
    struct lane_exchange sides[2 * GPURING_PROTOCOL_COUNT];
    bool well = true;

    for (int i = 0; i < 2 * GPURING_PROTOCOL_COUNT; i++) {
        bool first = i % 2 == 0;

        sides[i] = (struct lane_exchange){.send = first ? &world->send[0] : &back->send,
                                          .receive = first ? &back->recv : &world->recv[0],
                                          .protocol = (enum gpuring_protocol)(i / 2),
                                          .seed = (uint64_t) i / 2,
                                          .first = first,
                                          .count = count};
        assert_int_equal(lane_exchange_start(&sides[i]), 0);
    }
    for (int i = 0; i < 2 * GPURING_PROTOCOL_COUNT; i++) {
        well = lane_exchange_join(&sides[i]) == GPURING_OK && well;
    }
    return well;
}

struct gpuring_verbs_rail world_rail(const struct lane_end *end, unsigned rail)
{
    struct gpuring_net_base *net = end->link->base.net;
    struct gpuring_verbs_rail copy;

    gpuring_gate_enter(net->gate);
    copy = end->link->endpoint->rail[rail];
    gpuring_gate_leave(net->gate);
    return copy;
}

void until_failed(struct lane_end *end)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 1000000};

    gpuring_proxy_begin(&end->group, false);
    while (__atomic_load_n(&end->failed, __ATOMIC_ACQUIRE) == GPURING_OK) {
        assert_true(time(NULL) < deadline);
        nanosleep(&nap, NULL);
    }
    gpuring_proxy_end(&end->group, false);
}

/* Wait until the proxy's posts have completed and it no longer polls the net. */
void until_sleeping(const struct gpuring_proxy *proxy)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 1000000};

    while (!gpuring_proxy_sleeping(proxy)) {
        assert_true(time(NULL) < deadline);
        nanosleep(&nap, NULL);
    }
}

void until_logged(struct world *world, const char *text)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 1000000};

    gpuring_proxy_begin(&world->send[0].group, false);
    gpuring_proxy_begin(&world->recv[0].group, false);
    while (!log_has(text)) {
        assert_true(time(NULL) < deadline);
        nanosleep(&nap, NULL);
    }
    gpuring_proxy_end(&world->send[0].group, false);
    gpuring_proxy_end(&world->recv[0].group, false);
}
