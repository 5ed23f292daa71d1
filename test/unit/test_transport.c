/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the transport between processes of one node. Forked ranks exchange their connection infos
 * through a shared page, connect, and run a ring allreduce. Then test wrong connection infos and
 * dead peers.
 */
#include "test/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/connect_infos.h"

#define MAX_RANKS  5
#define COUNT      30011 /* elements of a vector: several windows, the last one odd */
#define WAIT_LIMIT 60    /* seconds after which a test gives up */

/* State that the forked ranks share: their connection infos and a barrier. */
struct exchange {
    pthread_barrier_t barrier;
    struct connect_infos connect_infos;
};

struct rank {
    struct gpuring_device *device;
    struct gpuring_plan *plan;
    struct gpuring_transport *transport;
};

static struct exchange *exchange_create(int nranks)
{
    pthread_barrierattr_t attributes;
    struct exchange *exchange =
        mmap(NULL, sizeof *exchange, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(exchange, MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    assert_int_equal(pthread_barrier_init(&exchange->barrier, &attributes, (unsigned) nranks), 0);
    return exchange;
}

#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "# rank failed: %s (line %d)\n", #condition, __LINE__); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

static void rank_create(struct rank *self, int rank, int nranks)
{
    static const int node[MAX_RANKS];
    static const struct gpuring_fifo_config fifo = {
        .nslots = {4, 4},
        .slot_bytes = {[GPURING_PROTOCOL_SIMPLE] = 8192, [GPURING_PROTOCOL_LL] = 1024}};
    struct gpuring_channel channel = {
        .ring = {.prev = (rank + nranks - 1) % nranks, .next = (rank + 1) % nranks, .index = rank}};
    struct gpuring_transport_config config = {
        .rank = rank,
        .nranks = nranks,
        .node = node,
        .hostname = "here",
        .unique_id = {17, 4},
        .fifo = &fifo,
        .device_ops = &gpuring_device_host,
    };

    REQUIRE(gpuring_device_host.open(&self->device) == GPURING_OK);
    config.device = self->device;
    REQUIRE(
        gpuring_plan_build(GPURING_ALGORITHM_RING,
                           &(struct gpuring_plan_input){
                               .rank = rank, .nranks = nranks, .channels = &channel, .nrings = 1},
                           &self->plan) == GPURING_OK);
    REQUIRE(gpuring_transport_create(&config, (const struct gpuring_plan *const *) &self->plan, 1,
                                     &self->transport) == GPURING_OK);
}

static int rank_connect(struct rank *self, int rank, struct exchange *exchange)
{
    int status;

    REQUIRE(connect_infos_post(&exchange->connect_infos, rank, self->transport));
    pthread_barrier_wait(&exchange->barrier);
    status = connect_infos_connect(&exchange->connect_infos, rank, self->transport);
    pthread_barrier_wait(&exchange->barrier);
    return status;
}

static void rank_destroy(struct rank *self)
{
    gpuring_transport_destroy(self->transport);
    gpuring_plan_free(self->plan);
    gpuring_device_host.close(self->device);
}

/* Fill in the sum of `data`, in place and with one lane. */
static void work_prepare(const struct rank *self, enum gpuring_protocol protocol, int32_t *data,
                         struct gpuring_lane_state *state, struct gpuring_work *work)
{
    uint64_t room = protocol == GPURING_PROTOCOL_SIMPLE ? 8192 : 1024;

    *state = (struct gpuring_lane_state){.status = GPURING_LANE_NEW};
    *work = (struct gpuring_work){.input = data,
                                  .output = data,
                                  .type = GPURING_TYPE_INT32,
                                  .op = GPURING_OP_SUM,
                                  .protocol = protocol,
                                  .nlanes = 1,
                                  .count = COUNT,
                                  .chunk = gpuring_fifo_payload(protocol, room) / sizeof(int32_t) /
                                           16 * 16,
                                  .states = state,
                                  .patience = 100,
                                  .abort = gpuring_transport_abort_word(self->transport),
                                  .parts = self->plan->weight};
    REQUIRE(gpuring_transport_bind(self->transport, 0, protocol, work) == GPURING_OK);
}

static int run(const struct rank *self, struct gpuring_work *work)
{
    time_t end = time(NULL) + WAIT_LIMIT;
    int status;

    gpuring_transport_begin(self->transport, false);
    do {
        status = gpuring_work_run_host(work);
        sched_yield(); /* there may be more ranks than cores */
    } while (status == GPURING_AGAIN && time(NULL) < end);
    gpuring_transport_end(self->transport, false);
    return status;
}

static void allreduce(const struct rank *self, int rank, int nranks, enum gpuring_protocol protocol)
{
    int32_t *data = malloc(COUNT * sizeof *data);
    struct gpuring_lane_state lane;
    struct gpuring_work work;

    REQUIRE(data != NULL);
    for (int i = 0; i < COUNT; i++) {
        data[i] = i * 7 + rank;
    }
    work_prepare(self, protocol, data, &lane, &work);
    REQUIRE(run(self, &work) == GPURING_OK);
    for (int i = 0; i < COUNT; i++) {
        REQUIRE(data[i] == nranks * i * 7 + nranks * (nranks - 1) / 2);
    }
    free(data);
}

/* Fork nranks processes that run `body`. All must exit with 0. */
static void in_ranks(int nranks, void (*body)(int rank, int nranks, struct exchange *exchange))
{
    struct exchange *exchange = exchange_create(nranks);
    pid_t children[MAX_RANKS];
    int bad = 0;

    for (int r = 0; r < nranks; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) {
            alarm(WAIT_LIMIT + 10);
            body(r, nranks, exchange);
            _exit(0);
        }
    }
    for (int r = 0; r < nranks; r++) {
        int status;

        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        bad += status != 0;
    }
    munmap(exchange, sizeof *exchange);
    assert_int_equal(bad, 0);
}

static void ring_body(int rank, int nranks, struct exchange *exchange)
{
    struct rank self;
    char name[16];

    rank_create(&self, rank, nranks);
    REQUIRE(rank_connect(&self, rank, exchange) == GPURING_OK);
    gpuring_transport_wired(self.transport);
    gpuring_transport_name(self.transport, name, sizeof name);
    REQUIRE(strcmp(name, "shm") == 0);
    for (int i = 0; i < 20; i++) {
        allreduce(&self, rank, nranks, i % 2 ? GPURING_PROTOCOL_LL : GPURING_PROTOCOL_SIMPLE);
    }
    pthread_barrier_wait(&exchange->barrier);
    rank_destroy(&self);
}

TEST(ring_of_processes)
{
    for (int nranks = 2; nranks <= MAX_RANKS; nranks++) {
        in_ranks(nranks, ring_body);
    }
}

/* ---- Votes ---- */

static enum gpuring_vote result_of(const struct rank *self, uint64_t number, enum gpuring_vote own)
{
    int missing = -1;
    enum gpuring_vote result = gpuring_transport_vote_poll(self->transport, number, own, &missing);

    REQUIRE(result != GPURING_VOTE_UNKNOWN || missing >= 0);
    return result;
}

static enum gpuring_vote vote(const struct rank *self, uint64_t number, enum gpuring_vote own)
{
    return gpuring_transport_vote_cast(self->transport, number, own);
}

#define SLOW 0 /* queries results only at the end */
#define HOST 1 /* has host buffers from the second call on */
#define MOST 500

/*
 * All ranks vote in call 1, but rank SLOW does not query the result. Rank HOST has host buffers in
 * all later calls, so rank 2 can run ahead of rank SLOW. The votes of call 1 must remain until SLOW
 * queries them.
 */
static void votes_body(int rank, int nranks, struct exchange *exchange)
{
    enum gpuring_vote given = GPURING_VOTE_GPU;
    struct rank self;

    rank_create(&self, rank, nranks);
    REQUIRE(rank_connect(&self, rank, exchange) == GPURING_OK);
    REQUIRE(gpuring_transport_can_vote(self.transport));
    if (rank != HOST) {
        REQUIRE(vote(&self, 1, GPURING_VOTE_GPU) == GPURING_VOTE_GPU);
    }
    pthread_barrier_wait(&exchange->barrier);
    if (rank != HOST) {
        REQUIRE(result_of(&self, 1, GPURING_VOTE_GPU) == GPURING_VOTE_UNKNOWN);
    }
    pthread_barrier_wait(&exchange->barrier);
    if (rank == HOST) {
        REQUIRE(vote(&self, 1, GPURING_VOTE_NONE) == GPURING_VOTE_NONE);
        REQUIRE(result_of(&self, 1, GPURING_VOTE_NONE) == GPURING_VOTE_GPU);
        for (uint64_t i = 2; i <= MOST; i++) {
            REQUIRE(vote(&self, i, GPURING_VOTE_HOST) == GPURING_VOTE_HOST);
        }
    }
    pthread_barrier_wait(&exchange->barrier);
    if (rank == 2) {
        REQUIRE(result_of(&self, 1, GPURING_VOTE_GPU) == GPURING_VOTE_GPU);
        for (uint64_t i = 2; i <= MOST; i++) {
            given = vote(&self, i, i % 2 ? GPURING_VOTE_GPU : GPURING_VOTE_NONE);
            REQUIRE(given == GPURING_VOTE_HOST || result_of(&self, i, given) == GPURING_VOTE_HOST);
        }
        REQUIRE(vote(&self, MOST + 1, GPURING_VOTE_HOST) == GPURING_VOTE_HOST);
    }
    pthread_barrier_wait(&exchange->barrier);
    if (rank == SLOW) {
        REQUIRE(result_of(&self, 1, GPURING_VOTE_GPU) == GPURING_VOTE_GPU);
        for (uint64_t i = 2; i <= MOST + 1; i++) {
            REQUIRE(vote(&self, i, GPURING_VOTE_HOST) == GPURING_VOTE_HOST);
        }
    }
    if (rank == HOST) {
        REQUIRE(vote(&self, MOST + 1, GPURING_VOTE_HOST) == GPURING_VOTE_HOST);
    }
    pthread_barrier_wait(&exchange->barrier);
    /* All ranks have caught up, so there is room for votes again, except in the first call, in
     * which the ranks that vote first do not know its result. */
    for (uint64_t i = MOST + 2; i <= 2 * MOST; i++) {
        given = vote(&self, i, GPURING_VOTE_NONE);
        REQUIRE(given == GPURING_VOTE_NONE || i == MOST + 2);
        pthread_barrier_wait(&exchange->barrier);
        REQUIRE(result_of(&self, i, GPURING_VOTE_NONE) == GPURING_VOTE_HOST); /* no data at all */
        pthread_barrier_wait(&exchange->barrier);
    }
    rank_destroy(&self);
}

TEST(votes_stay_until_all_know_the_result)
{
    in_ranks(3, votes_body);
}

/* ---- Reports ---- */

/* If rank 1 announces garbage, rank 0 must refuse it and must not crash. */
static void garbage_body(int rank, int nranks, struct exchange *exchange)
{
    struct rank self;
    size_t whole;

    gpuring_log_set(NULL, (enum gpuring_log_level) - 1); /* the refusals are expected */
    rank_create(&self, rank, nranks);
    REQUIRE(connect_infos_post(&exchange->connect_infos, rank, self.transport));
    pthread_barrier_wait(&exchange->barrier);
    whole = exchange->connect_infos.bytes[1][0];
    for (size_t cut = 0; rank == 0 && cut <= whole; cut += 8) {
        struct rank fresh;
        uint8_t *copy = malloc(cut + 8); /* exact size, so that reads beyond it are detected */

        REQUIRE(copy != NULL);
        memcpy(copy, exchange->connect_infos.text[1][0], cut);
        if (cut == whole) {
            copy[0] ^= 0xff; /* whole, but not ours */
        }
        rank_create(&fresh, rank, nranks);
        REQUIRE(gpuring_transport_connect(fresh.transport, 0, copy, cut) == GPURING_ERR_PEER);
        free(copy);
        rank_destroy(&fresh);
    }
    pthread_barrier_wait(&exchange->barrier);
    rank_destroy(&self);
}

TEST(garbage_in_a_connect_info_is_refused)
{
    in_ranks(2, garbage_body);
}

/* If rank 1 exits, rank 0 detects this in its health check, with a text. The abort word stops its
 * executor. */
static void dead_peer_body(int rank, int nranks, struct exchange *exchange)
{
    struct rank self;
    struct gpuring_lane_state lane;
    int32_t *data = calloc(COUNT, sizeof *data);
    struct gpuring_work work;
    char text[256] = "";
    uint64_t operation, other;
    time_t end = time(NULL) + WAIT_LIMIT;

    REQUIRE(data != NULL);
    rank_create(&self, rank, nranks);
    REQUIRE(rank_connect(&self, rank, exchange) == GPURING_OK);
    if (rank == 1) {
        for (operation = 1; operation <= 100; operation++) {
            gpuring_transport_begin_operation(self.transport, operation, 1000 + operation,
                                              GPURING_ACTIVITY_OUTSIDE);
        }
        pthread_barrier_wait(&exchange->barrier);
        pthread_barrier_wait(&exchange->barrier);
        _exit(0);
    }
    pthread_barrier_wait(&exchange->barrier);
    REQUIRE(gpuring_transport_health(self.transport, text, sizeof text) == GPURING_OK);
    gpuring_transport_peer_state(self.transport, 1, &operation, text, sizeof text);
    REQUIRE(operation == 100 && strstr(text, "100") != NULL);
    REQUIRE(gpuring_transport_made(self.transport, 1, 100) == 1100);
    REQUIRE(gpuring_transport_made(self.transport, 1, 38) == 1038);
    REQUIRE(gpuring_transport_made(self.transport, 1, 37) == 0);  /* may be replaced by now */
    REQUIRE(gpuring_transport_made(self.transport, 1, 101) == 0); /* not started yet */
    REQUIRE(gpuring_transport_differs(self.transport, 100, 1100, &other) == -1);
    REQUIRE(gpuring_transport_differs(self.transport, 100, 1099, &other) == 1 && other == 1100);
    REQUIRE(gpuring_transport_differs(self.transport, 101, 7, &other) == -1);
    work_prepare(&self, GPURING_PROTOCOL_SIMPLE, data, &lane, &work);
    REQUIRE(gpuring_work_run_host(&work) == GPURING_AGAIN);
    REQUIRE(lane.wait == GPURING_WAIT_RECV);
    REQUIRE(gpuring_transport_peer_rank(self.transport, 0, 0, lane.wait, lane.wait_ref) == 1);
    gpuring_transport_peer_text(self.transport, 1, text, sizeof text);
    REQUIRE(strstr(text, "rank 1 (host here") != NULL);
    pthread_barrier_wait(&exchange->barrier);
    while (gpuring_transport_health(self.transport, text, sizeof text) != GPURING_ERR_PEER) {
        REQUIRE(time(NULL) < end);
        usleep(1000);
    }
    REQUIRE(strstr(text, "[peer-died]") != NULL);
    gpuring_transport_abort(self.transport, GPURING_ERR_PEER);
    REQUIRE(gpuring_work_run_host(&work) == GPURING_ERR_ABORTED);
    free(data);
    rank_destroy(&self);
}

/* Children of one parent stay zombies until it waits: reap rank 1 while rank 0 looks. */
TEST(dead_peer_is_noticed)
{
    struct exchange *exchange = exchange_create(2);
    int status;
    pid_t ranks[2];

    for (int r = 0; r < 2; r++) {
        ranks[r] = fork();
        assert_true(ranks[r] >= 0);
        if (ranks[r] == 0) {
            alarm(WAIT_LIMIT + 10);
            dead_peer_body(r, 2, exchange);
            _exit(0);
        }
    }
    assert_int_equal(waitpid(ranks[1], &status, 0), ranks[1]);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(ranks[0], &status, 0), ranks[0]);
    assert_int_equal(status, 0);
    munmap(exchange, sizeof *exchange);
}
