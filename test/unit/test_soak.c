/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Run many concurrent collectives of several groups, with plans, host executor, transport and
 * progress threads. The mock net delays, reorders and refuses messages at random. In some rounds it
 * loses a chunk, kills a process or lets a process hang for some time. Every element of every
 * result is checked. After a fault, every rank of an affected group gets an error, and all other
 * groups continue.
 *
 * GPURING_SOAK_SEED selects other random calls, and GPURING_SOAK_COUNT the number of collectives.
 */
#include "test/unit/unit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/types.h"
#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/net_mock.h"
#include "test/unit/reference.h"
#include "test/unit/soak_world.h"

/* Everything is about ten times slower under the thread sanitizer. */
#if defined __SANITIZE_THREAD__
#define COUNT 1000
#else
#define COUNT 2500
#endif
#define ROUNDS        20
#define LIMIT_SECONDS 120 /* for one collective: far beyond what any needs */
#define MOST_BYTES    65536
#define GUARD         64

enum fault { FAULT_NONE, FAULT_LOSS, FAULT_KILL, FAULT_HANG, FAULT_KINDS };
static const char *const fault_names[] = {"none", "a lost chunk", "a killed process",
                                          "a process that hangs for a while"};

struct collective {
    uint32_t type, op;
    int algorithm;
    enum gpuring_protocol protocol;
    uint64_t count, chunk, base; /* base: position of the first element in the reference's vector */
    bool in_place;
};

/* Draw the next collective of a group, which is the same on all its ranks. */
static void draw(uint64_t *random, struct collective *c)
{
    uint64_t size, most;

    do {
        c->type = (uint32_t) (soak_random(random) % GPURING_TYPE_COUNT);
        c->op = (uint32_t) (soak_random(random) % GPURING_OP_COUNT);
    } while (!gpuring_op_allows(c->op, c->type));
    size = gpuring_type_info(c->type)->size;
    c->algorithm = (int) (soak_random(random) % SOAK_ALGORITHMS);
    c->protocol = (enum gpuring_protocol)(soak_random(random) % GPURING_PROTOCOL_COUNT);
    most = soak_random(random) % 32 == 0 ? MOST_BYTES : 1024; /* mostly small, some large */
    c->count = soak_random(random) % (most / size + 1);
    c->chunk = gpuring_chunk_max(c->protocol, soak_slot_bytes(c->protocol), size);
    if (soak_random(random) % 4 == 0 && c->chunk > gpuring_chunk_align(size)) {
        c->chunk = gpuring_chunk_align(size);
    }
    c->base = soak_random(random) % 100000;
    c->in_place = soak_random(random) % 2 == 0;
}

static bool dead(const struct soak_member *member)
{
    return __atomic_load_n(&member->process->dead, __ATOMIC_ACQUIRE) != 0;
}

/* Run a work until it ends, like the component: executor, network, and checks for failures in
 * turn. */
static int run_work(struct soak_member *member, struct gpuring_work *work, bool help)
{
    const time_t deadline = time(NULL) + LIMIT_SECONDS;
    int status;

    for (unsigned looks = 1;; looks++) {
        status = gpuring_work_run_host(work);
        if (status != GPURING_AGAIN) {
            return status;
        }
        if (dead(member)) {
            return GPURING_ERR_PEER;
        }
        if (help) {
            (void) gpuring_transport_help(member->transport, true);
        }
        sched_yield();
        if (looks % 64 == 0) {
            status = gpuring_transport_health(member->transport, member->text, sizeof member->text);
            if (status != GPURING_OK) {
                return status;
            }
            if (time(NULL) > deadline) {
                snprintf(member->text, sizeof member->text, "it hangs");
                return GPURING_ERR_TIMEOUT;
            }
        }
    }
}

struct buffers {
    uint8_t *input, *output;
};

static bool result_is_right(const struct soak_member *member, const struct collective *c,
                            const uint8_t *output)
{
    uint64_t size = gpuring_type_info(c->type)->size;
    uint8_t expected[64];

    for (uint64_t i = 0; i < c->count; i++) {
        reference_result(c->type, c->op, member->group->nranks, c->base + i, expected);
        if (!reference_equal(c->type, expected, output + i * size)) {
            print_error("%s, rank %d, call %d: element %llu of %llu is wrong (%s of %s, "
                        "algorithm %d, protocol %d)\n",
                        member->group->name, member->rank, member->calls, (unsigned long long) i,
                        (unsigned long long) c->count, gpuring_op_info(c->op)->name,
                        gpuring_type_info(c->type)->name, c->algorithm, c->protocol);
            return false;
        }
    }
    for (uint64_t i = 0; i < GUARD; i++) {
        if (output[c->count * size + i] != 0xa5) {
            print_error("%s, rank %d: wrote beyond its output\n", member->group->name,
                        member->rank);
            return false;
        }
    }
    return true;
}

static int collective(struct soak_member *member, const struct collective *c,
                      const struct buffers *buffers, bool help)
{
    const struct gpuring_plan *plan = member->group->plans[c->algorithm].plans[member->rank];
    struct gpuring_lane_state *states = calloc(plan->nlanes, sizeof *states);
    uint64_t size = gpuring_type_info(c->type)->size;
    uint8_t *output = c->in_place ? buffers->input : buffers->output;
    struct gpuring_work work = {.input = buffers->input,
                                .output = output,
                                .type = c->type,
                                .op = c->op,
                                .protocol = c->protocol,
                                .nlanes = plan->nlanes,
                                .count = c->count,
                                .chunk = c->chunk,
                                .states = states,
                                .patience = 20,
                                .abort = gpuring_transport_abort_word(member->transport),
                                .parts = plan->weight};
    int status;

    memset(output + c->count * size, 0xa5, GUARD);
    for (uint64_t i = 0; i < c->count; i++) {
        reference_input(c->type, c->op, member->rank, c->base + i, buffers->input + i * size);
    }
    gpuring_transport_use(member->transport, (int) c->algorithm, plan->nlanes, c->protocol);
    gpuring_transport_begin(member->transport, help);
    status = states == NULL ? GPURING_ERR_NOMEM
                            : gpuring_transport_bind(member->transport, (int) c->algorithm,
                                                     c->protocol, &work);
    status = status == GPURING_OK ? run_work(member, &work, help) : status;
    gpuring_transport_end(member->transport, help);
    free(states);
    if (status == GPURING_OK && !result_is_right(member, c, output)) {
        return GPURING_ERR_DATA;
    }
    return status;
}

static void *member_main(void *argument)
{
    struct soak_member *member = argument;
    const struct soak_group *group = member->group;
    uint64_t random = group->seed, own = group->seed + (uint64_t) member->rank + 1;
    struct buffers buffers = {.input = malloc(MOST_BYTES + GUARD),
                              .output = malloc(MOST_BYTES + GUARD)};

    member->status = buffers.input == NULL || buffers.output == NULL ? GPURING_ERR_NOMEM : 0;
    while (member->status == GPURING_OK && member->calls < group->ncalls) {
        struct collective c;

        draw(&random, &c);
        member->status = collective(member, &c, &buffers, soak_random(&own) % 2 == 0);
        member->calls += member->status == GPURING_OK;
    }
    if (member->status != GPURING_OK && !dead(member)) {
        gpuring_transport_abort(member->transport, member->status);
    }
    free(buffers.input);
    free(buffers.output);
    return NULL;
}

/* Inject a fault into a random process while the collectives run. */
static void strike(struct soak_world *world, enum fault fault, uint64_t *random)
{
    struct soak_process *victim = &world->process[soak_random(random) % SOAK_RANKS];
    struct timespec nap = {.tv_nsec = (long) (soak_random(random) % 50000000)};

    if (fault != FAULT_KILL && fault != FAULT_HANG) {
        return;
    }
    nanosleep(&nap, NULL);
    if (fault == FAULT_KILL) {
        __atomic_store_n(&victim->dead, 1, __ATOMIC_RELEASE);
        gpuring_mock_kill(victim->net);
    } else {
        gpuring_mock_stall(victim->net, true);
        nanosleep(&nap, NULL);
        gpuring_mock_stall(victim->net, false);
    }
}

/* Check that no rank hangs or has wrong data, and that all ranks of a group report an error if one
 * does, except for ranks that had already finished. Return the number of collectives that all ranks
 * completed. */
static int judge(const struct soak_world *world, enum fault fault, int *hurt)
{
    int complete = 0;

    for (int g = 0; g < world->ngroups; g++) {
        const struct soak_group *group = &world->group[g];
        int least = group->ncalls, failed = 0;

        for (int rank = 0; rank < group->nranks; rank++) {
            const struct soak_member *member = &group->member[rank];

            least = member->calls < least ? member->calls : least;
            failed += member->status != GPURING_OK;
            if (member->status == GPURING_ERR_TIMEOUT || member->status == GPURING_ERR_DATA ||
                member->status == GPURING_ERR_COUNTS ||
                (member->status != GPURING_OK && (fault == FAULT_NONE || fault == FAULT_HANG))) {
                fail_msg("%s, rank %d: %s after %d collectives: %s", group->name, rank,
                         gpuring_status_text(member->status), member->calls, member->text);
            }
        }
        for (int rank = 0; rank < group->nranks; rank++) {
            assert_true(failed == 0 || group->member[rank].status != GPURING_OK ||
                        group->member[rank].calls == group->ncalls);
        }
        complete += least;
        *hurt += failed > 0;
    }
    return complete;
}

/* Run one world from its wire-up to its end. Return the number of completed collectives. */
static int soak_round(uint64_t *random, int calls)
{
    enum fault fault = (enum fault)(soak_random(random) % (FAULT_KINDS + 2));
    struct gpuring_mock_faults faults = {.seed = soak_random(random),
                                         .delay_polls = (uint32_t) (soak_random(random) % 8),
                                         .again_permille = (uint32_t) (soak_random(random) % 300)};
    struct soak_world world;
    int hurt = 0, complete;

    fault = fault < FAULT_KINDS ? fault : FAULT_NONE;
    gpuring_mock_reset(&faults);
    soak_world_open(&world, soak_random(random), calls / SOAK_GROUPS + 1, 0);
    soak_world_try(&world);
    soak_world_settle(&world);
    if (fault == FAULT_LOSS) { /* counted from here on */
        faults.lose_post = 1 + soak_random(random) % (uint64_t) (calls * 10);
        gpuring_mock_reset(&faults);
    }
    for (int g = 0; g < world.ngroups; g++) {
        for (int rank = 0; rank < world.group[g].nranks; rank++) {
            struct soak_member *member = &world.group[g].member[rank];

            assert_int_equal(pthread_create(&member->thread, NULL, member_main, member), 0);
        }
    }
    strike(&world, fault, random);
    for (int g = 0; g < world.ngroups; g++) {
        for (int rank = 0; rank < world.group[g].nranks; rank++) {
            assert_int_equal(pthread_join(world.group[g].member[rank].thread, NULL), 0);
        }
    }
    complete = judge(&world, fault, &hurt);
    assert_true(fault != FAULT_LOSS || hurt <= 1); /* groups share no connections */
    soak_world_close(&world);
    assert_int_equal(gpuring_mock_violations(), 0);
    printf(
        "# %d collectives, fault: %s, delays up to %u polls, %u of 1000 refused; %d groups hit\n",
        complete, fault_names[fault], faults.delay_polls, faults.again_permille, hurt);
    return complete;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

TEST(test_soak)
{
    uint64_t seed = setting("GPURING_SOAK_SEED", 1), random = seed;
    int count = (int) setting("GPURING_SOAK_COUNT", COUNT), done = 0;

    printf("# GPURING_SOAK_SEED=%llu GPURING_SOAK_COUNT=%d repeats this run\n",
           (unsigned long long) seed, count);
    fflush(stdout);
    while (done < count) {
        int complete = soak_round(&random, count / ROUNDS + SOAK_GROUPS);

        done += complete;
    }
}

/* Transfer first chunks. A missing chunk is detected after a time limit, and a lost one
 * immediately. */
static int try_member(struct soak_member *member)
{
    int status;

    do {
        status = gpuring_transport_try(member->transport, member->text, sizeof member->text);
        sched_yield();
    } while (status == GPURING_AGAIN);
    return status;
}

TEST(test_first_chunk_does_not_come)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    struct soak_world world;

    gpuring_mock_reset(&none);
    soak_world_open(&world, 1, 0, 0.2);
    gpuring_mock_stall(world.process[2].net, true);
    assert_int_equal(try_member(&world.group[0].member[0]), GPURING_ERR_TIMEOUT);
    assert_non_null(strstr(world.group[0].member[0].text, "[first-chunk] mock "));
    gpuring_mock_stall(world.process[2].net, false);
    soak_world_close(&world);
}

TEST(test_first_chunk_is_lost)
{
    const struct gpuring_mock_faults faults = {.seed = 1, .lose_post = 1};
    struct soak_world world;
    int failed = 0;

    gpuring_mock_reset(&faults);
    soak_world_open(&world, 1, 0, 0.5);
    for (int rank = 0; rank < world.group[0].nranks; rank++) {
        struct soak_member *member = &world.group[0].member[rank];

        if (try_member(member) == GPURING_ERR_NET) {
            assert_non_null(strstr(member->text, "a chunk was lost"));
            failed++;
        }
    }
    assert_true(failed > 0); /* the other members wait until their time limit */
    soak_world_close(&world);
}

/* Until all members have received their first chunks, a peer may need an answer because its path
 * has failed. */
TEST(test_awake_until_all_are_through)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    const struct timespec moment = {.tv_nsec = 50000000};
    struct soak_world world;

    gpuring_mock_reset(&none);
    soak_world_open(&world, 1, 0, 0);
    soak_world_try(&world);
    for (int i = 0; i < 6; i++) {
        nanosleep(&moment, NULL);
        for (int p = 0; p < SOAK_RANKS; p++) {
            assert_false(gpuring_proxy_sleeping(world.process[p].proxy));
        }
    }
    soak_world_settle(&world);
    for (int p = 0; p < SOAK_RANKS; p++) {
        for (int i = 0; i < 600 && !gpuring_proxy_sleeping(world.process[p].proxy); i++) {
            nanosleep(&moment, NULL);
        }
        assert_true(gpuring_proxy_sleeping(world.process[p].proxy));
    }
    soak_world_close(&world);
}

/* A chunk that has arrived and is right is read only once, however often a rank polls for the
 * others. */
TEST(test_each_chunk_is_read_once)
{
    const struct gpuring_mock_faults none = {.seed = 1};
    const struct gpuring_transport *transport;
    struct soak_world world;
    char text[256] = "";
    int read = 0;

    gpuring_mock_reset(&none);
    soak_world_open(&world, 1, 0, 0);
    soak_world_try(&world);
    transport = world.group[0].member[0].transport;
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].remote && transport->conns[i].direction == GPURING_NET_RECV) {
            transport->fifos[GPURING_PROTOCOL_SIMPLE * transport->nconns + i].slots[0] ^= 1;
            read++;
        }
    }
    assert_true(read > 1);
    assert_int_equal(gpuring_transport_try(world.group[0].member[0].transport, text, sizeof text),
                     GPURING_OK);
    soak_world_settle(&world);
    soak_world_close(&world);
}
