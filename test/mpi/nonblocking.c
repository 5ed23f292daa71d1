/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test MPI_Iallreduce and persistent allreduces: many of them in flight on several communicators,
 * completed in different orders, mixed with blocking calls, while communicators are created.
 *
 *   nonblocking          all calls are served
 *   nonblocking eager    short blocking calls are left to another component, as between nodes of
 *                        one rank each
 *   nonblocking few      only few persistent calls, because the stand-in driver may be slow
 */
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPERATIONS 24
#define AMID       2000
#define COMMS      3

static const int counts[] = {1, 7, 1024, 30000, 131, 65536};

/* Wait for a request, and return true if the result is right. */
static bool finished_right(struct sum *sum)
{
    bool good = MPI_Wait(&sum->request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum_right(sum);

    sum_free(sum);
    return good;
}

static void many_at_once(const MPI_Comm *comms)
{
    struct sum sums[OPERATIONS];
    bool good = true;

    for (int i = 0; i < OPERATIONS; i++) {
        sums[i] = sum_new(counts[i % 6], i, i % 5 == 3, comms[i % COMMS]);
        good = sum_start(&sums[i], NONBLOCKING) == MPI_SUCCESS && good;
    }
    for (int i = OPERATIONS - 1; i >= 0; i--) {
        good = finished_right(&sums[i]) && good;
    }
    harness_check(good, "%d non-blocking operations on %d communicators, waited for in reverse",
                  OPERATIONS, COMMS);
}

/* Ranks start calls on all communicators in the same order, and wait for them in different
 * orders. */
static void different_orders(const MPI_Comm *comms)
{
    bool good = true;

    for (int round = 0; round < 10; round++) {
        struct sum sums[COMMS];

        for (int c = 0; c < COMMS; c++) {
            sums[c] = sum_new(counts[(round + c) % 6], round + c, false, comms[c]);
        }
        for (int k = 0; k < COMMS; k++) { /* another order on each rank */
            good = sum_start(&sums[(k + harness_rank) % COMMS], NONBLOCKING) == MPI_SUCCESS && good;
        }
        for (int k = 0; k < COMMS; k++) {
            good = finished_right(&sums[(k + 2 * harness_rank) % COMMS]) && good;
        }
    }
    harness_check(good, "communicators in different order on different ranks");
}

static void mixed_with_blocking(MPI_Comm comm)
{
    bool good = true;

    for (int round = 0; round < 20; round++) {
        struct sum sum = sum_new(counts[round % 6], round, false, comm);
        int flag = 0;

        good = sum_start(&sum, NONBLOCKING) == MPI_SUCCESS && good;
        good = sum_is_right(BLOCKING, 1, comm) && good;
        while (good && !flag) {
            good = MPI_Test(&sum.request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        }
        good = finished_right(&sum) && good;
    }
    harness_check(good, "blocking calls after outstanding ones");
}

static void persistent(const MPI_Comm *comms)
{
    struct sum sums[4];
    MPI_Request requests[4];
    bool good = true;

    for (int i = 0; i < 4; i++) {
        sums[i] = sum_new(counts[i], i, false, comms[i % COMMS]);
        good = sum_start(&sums[i], PERSISTENT) == MPI_SUCCESS && good;
        requests[i] = sums[i].request;
    }
    for (int round = 0; round < 25 && good; round++) {
        for (int i = 0; i < 4; i++) {
            sum_write(&sums[i], i + round);
        }
        good = MPI_Startall(4, requests) == MPI_SUCCESS &&
               MPI_Waitall(4, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
        for (int i = 0; i < 4; i++) {
            good = sum_right(&sums[i]) && good;
        }
    }
    for (int i = 0; i < 4; i++) {
        good = MPI_Request_free(&requests[i]) == MPI_SUCCESS && good;
        sum_free(&sums[i]);
    }
    harness_check(good, "4 persistent operations, started 25 times");
}

static void persistent_with_a_root(MPI_Comm comm)
{
    static const int lengths[] = {64, 16384}; /* elements of 4 bytes */
    long long calls = harness_pvar("coll_gpuring_calls");
    bool good = true;

    for (int i = 0; i < 4; i++) {
        int count = lengths[i / 2], *in = calloc((size_t) count, sizeof *in);
        int *out = calloc((size_t) count, sizeof *out);
        MPI_Request request = MPI_REQUEST_NULL;

        in[count - 1] = harness_rank == 1 || i % 2 == 1 ? 7 : 0;
        good =
            (i % 2 == 0 ? HARNESS_INIT(Bcast)(in, count, MPI_INT, 1, comm, MPI_INFO_NULL, &request)
                        : HARNESS_INIT(Reduce)(in, out, count, MPI_INT, MPI_SUM, 1, comm,
                                               MPI_INFO_NULL, &request)) == MPI_SUCCESS &&
            MPI_Start(&request) == MPI_SUCCESS &&
            MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            (i % 2 == 0          ? in[count - 1] == 7
             : harness_rank == 1 ? out[count - 1] == 7 * harness_size
                                 : true) &&
            good;
        MPI_Request_free(&request);
        free(in);
        free(out);
    }
    calls = harness_pvar("coll_gpuring_calls") - calls;
    harness_check(good && (calls == 4 || !harness_have_component()),
                  "persistent calls with a root: %lld of 4 are served", calls);
}

/*
 * Make blocking and non-blocking calls with a root of the same shapes. eager: blocking calls of
 * messages that MPI sends eagerly are left to another component. Other calls, and those with counts
 * for each rank, are served.
 */
static void forms_with_a_root(MPI_Comm comm, bool eager)
{
    static const int sizes[] = {8, 65408, 65409};
    int displacements[] = {0, 8}, eights[] = {8, 8};
    char *data = calloc(1, 65409), gathered[16];
    long long calls = harness_pvar("coll_gpuring_calls");
    bool good = true;

    for (int i = 0; i < 12; i++) { /* the second time, the shapes are known */
        int last = sizes[i % 3] - 1;
        MPI_Request request = MPI_REQUEST_NULL;

        data[last] = (char) (harness_rank == 1 ? i + 1 : 0);
        good = (i / 3 % 2 == 0
                    ? MPI_Bcast(data, last + 1, MPI_BYTE, 1, comm)
                    : MPI_Ibcast(data, last + 1, MPI_BYTE, 1, comm, &request)) == MPI_SUCCESS &&
               MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && data[last] == i + 1 && good;
    }
    if (harness_size == 2) {
        good = MPI_Allgatherv(data, 8, MPI_BYTE, gathered, eights, displacements, MPI_BYTE, comm) ==
                   MPI_SUCCESS &&
               good;
    }
    calls = harness_pvar("coll_gpuring_calls") - calls;
    harness_check(
        good && (calls == 12 + (harness_size == 2) - (eager ? 4 : 0) || !harness_have_component()),
        "blocking and non-blocking calls with a root: %lld are served", calls);
    free(data);
}

/* A persistent operation that is never started can be freed. */
static void persistent_unused(MPI_Comm comm)
{
    struct sum sum = sum_new(1024, 2, false, comm);
    bool good =
        sum_start(&sum, PERSISTENT) == MPI_SUCCESS && MPI_Request_free(&sum.request) == MPI_SUCCESS;

    sum_free(&sum);
    harness_check(good, "a persistent operation that is never started");
}

#define STARTED 3 /* persistent operations */
#define ROUNDS  12

/* One step of a rank: start an operation, wait for it, or make the blocking call. */
static int one_step(char step, MPI_Request *requests, struct sum *blocking)
{
    if (step >= 'a' && step < 'a' + STARTED) {
        return MPI_Start(&requests[step - 'a']);
    }
    if (step >= 'A' && step < 'A' + STARTED) {
        return MPI_Wait(&requests[step - 'A'], MPI_STATUS_IGNORE);
    }
    return sum_start(blocking, BLOCKING);
}

/* The ranks start persistent operations in different orders and at different points among their
 * other calls. Some ranks wait for one before they start the next. */
static void persistent_in_any_order(MPI_Comm comm)
{
    /* In one of two rounds, some ranks wait for b before the blocking call, so all ranks start it
     * before. */
    static const char *const orders[2][5] = {
        {"abcxABC", "bBaxcAC", "cbaxCBA", "abxcCBA", "bacxBAC"},
        {"abcxABC", "xcbaABC", "cxbaCBA", "bacxBAC", "abxcCBA"},
    };
    struct sum sums[STARTED + 1];
    MPI_Request requests[STARTED];
    bool good = true;

    for (int i = 0; i <= STARTED; i++) {
        sums[i] = sum_new(counts[i % 2 + 2], i, false, comm);
    }
    for (int i = 0; i < STARTED; i++) {
        good = sum_start(&sums[i], PERSISTENT) == MPI_SUCCESS && good;
        requests[i] = sums[i].request;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i <= STARTED; i++) { /* that no two have the same result */
            sum_write(&sums[i], 100 * i + round);
        }
        for (const char *step = orders[round % 2][(harness_rank + round) % 5]; *step != '\0';
             step++) {
            good = one_step(*step, requests, &sums[STARTED]) == MPI_SUCCESS && good;
        }
        for (int i = 0; i <= STARTED; i++) {
            good = sum_right(&sums[i]) && good;
        }
    }
    for (int i = 0; i < STARTED; i++) {
        good = MPI_Request_free(&requests[i]) == MPI_SUCCESS && good;
    }
    for (int i = 0; i < 5; i++) { /* order is as it was without them */
        good = one_step('x', requests, &sums[STARTED]) == MPI_SUCCESS && good;
    }
    for (int i = 0; i <= STARTED; i++) {
        sum_free(&sums[i]);
    }
    harness_check(good, "%d persistent operations, started %d times in any order", STARTED, ROUNDS);
}

/*
 * Open MPI agrees on the number of the new communicator with calls on the old one, which it makes
 * in its progress function. Half of the ranks make them before the next blocking call, and the
 * others in it.
 */
static void copy_made_amid_calls(MPI_Comm comm)
{
    bool good = true;

    for (int round = 0; round < 24; round++) {
        struct sum sum = sum_new(counts[round % 6], round, false, comm);
        MPI_Request request;
        MPI_Comm copy;
        int made = 0;

        good = MPI_Comm_idup(comm, &copy, &request) == MPI_SUCCESS && good;
        for (int i = 0; (round + harness_rank) % 2 == 0 && i < 200; i++) {
            usleep(10);
            MPI_Test(&request, &made, MPI_STATUS_IGNORE);
        }
        good = sum_start(&sum, BLOCKING) == MPI_SUCCESS && good;
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        good = finished_right(&sum) && good;
        good = MPI_Barrier(copy) == MPI_SUCCESS && good;
        MPI_Comm_free(&copy);
    }
    harness_check(good, "24 communicators made by MPI_Comm_idup amid blocking calls");
}

/* Compute the sum over the ranks of the other group on the ranks of both groups. */
static bool sum_between(MPI_Comm between, int *send, int *receive)
{
    int host[AMID], other = 1 - harness_rank % 2;
    bool good;

    for (int i = 0; i < AMID; i++) {
        host[i] = harness_rank * 1000 + i;
    }
    harness_write(send, host, sizeof host);
    good = MPI_Allreduce(send, receive, AMID, MPI_INT, MPI_SUM, between) == MPI_SUCCESS;
    harness_read(host, receive, sizeof host);
    for (int i = 0; i < AMID; i++) {
        int sum = 0;

        for (int r = other; r < harness_size; r += 2) {
            sum += r * 1000 + i;
        }
        good = good && host[i] == sum;
    }
    return good;
}

/* The same for two groups, where Open MPI reduces and broadcasts the number. */
static void copy_between_groups(void)
{
    int *send = harness_alloc(AMID * sizeof(int)), *receive = harness_alloc(AMID * sizeof(int));
    MPI_Comm half, between;
    bool good = true;

    MPI_Comm_split(MPI_COMM_WORLD, harness_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - harness_rank % 2, 3, &between);
    for (int round = 0; round < 12; round++) {
        MPI_Request request;
        MPI_Comm copy;
        int made = 0;

        good = sum_between(between, send, receive) && good;
        good = MPI_Comm_idup(between, &copy, &request) == MPI_SUCCESS && good;
        for (int i = 0; (round + harness_rank / 2) % 2 == 0 && i < 200; i++) {
            usleep(10);
            MPI_Test(&request, &made, MPI_STATUS_IGNORE);
        }
        good = sum_between(between, send, receive) && good;
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        MPI_Comm_free(&copy);
    }
    harness_check(good, "12 intercommunicators made by MPI_Comm_idup amid blocking calls");
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    harness_free(send);
    harness_free(receive);
}

#define GROUPS 40

/* The leaders of two groups exchange Open MPI's own messages on a communicator whose ranks are
 * being connected at the same time. */
static void groups_amid_connecting(void)
{
    int odd = harness_rank % 2, leader = 1 - odd; /* of the other group, in the world */
    MPI_Comm half, bridge, between;
    bool good = true;

    MPI_Comm_split(MPI_COMM_WORLD, odd, 0, &half);
    for (int i = 0; i < GROUPS; i++) {
        bool reversed = i % 2 == 1;
        struct sum sum;

        MPI_Comm_split(MPI_COMM_WORLD, 0, reversed ? -harness_rank : harness_rank, &bridge);
        sum = sum_new(counts[5], i, false, bridge);
        good = sum_start(&sum, NONBLOCKING) == MPI_SUCCESS && good;
        good = MPI_Intercomm_create(half, 0, bridge, reversed ? harness_size - 1 - leader : leader,
                                    3, &between) == MPI_SUCCESS &&
               good;
        good = finished_right(&sum) && good;
        MPI_Comm_free(&between);
        MPI_Comm_free(&bridge);
    }
    harness_check(good, "%d intercommunicators made amid the wire-up of others", GROUPS);
    MPI_Comm_free(&half);
}

#define SERVED 32 /* persistent calls of a communicator, at most */
#define MORE   2

/* Start all operations, each rank in a different order, and return true if the results are right.
 */
static bool all_are_right(struct sum *sums, int count, int seed)
{
    bool good = true;

    for (int i = 0; i < count; i++) {
        sum_write(&sums[i], seed + i);
    }
    for (int i = 0; i < count; i++) {
        int at = (harness_rank % 2 == 0 ? i : count - 1 - i) + harness_rank;

        good = MPI_Start(&sums[at % count].request) == MPI_SUCCESS && good;
    }
    for (int i = 0; i < count; i++) {
        good = MPI_Wait(&sums[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
               sum_right(&sums[i]) && good;
    }
    return good;
}

/* Create more persistent operations than can be served. The ranks free them at different times, and
 * a new one is served only if there are connections that no rank uses. */
static void persistent_and_more(MPI_Comm comm)
{
    struct sum sums[SERVED + MORE];
    long long calls[4];
    bool good = true;

    for (int i = 0; i < SERVED + MORE; i++) {
        sums[i] = sum_new(counts[i % 3], i, false, comm);
        good = sum_start(&sums[i], PERSISTENT) == MPI_SUCCESS && good;
    }
    calls[0] = harness_pvar("coll_gpuring_calls");
    for (int round = 0; round < 3; round++) {
        good = all_are_right(sums, SERVED + MORE, 100 * round) && good;
    }
    calls[1] = harness_pvar("coll_gpuring_calls");
    /* No rank frees both of the first two operations, and no two neighbours the same one. */
    good = MPI_Request_free(&sums[harness_rank % 2].request) == MPI_SUCCESS &&
           MPI_Request_free(&sums[SERVED].request) == MPI_SUCCESS &&
           sum_start(&sums[SERVED], PERSISTENT) == MPI_SUCCESS &&
           all_are_right(sums + 2, SERVED + MORE - 2, 7) && good;
    calls[2] = harness_pvar("coll_gpuring_calls");
    good = MPI_Request_free(&sums[1 - harness_rank % 2].request) == MPI_SUCCESS && good;
    for (int i = 0; i < 2; i++) {
        good = sum_start(&sums[i], PERSISTENT) == MPI_SUCCESS && good;
    }
    good = all_are_right(sums, SERVED + MORE, 9) && good;
    calls[3] = harness_pvar("coll_gpuring_calls");
    for (int i = SERVED + MORE - 1; i >= 0; i--) {
        good = MPI_Request_free(&sums[i].request) == MPI_SUCCESS && good;
        sum_free(&sums[i]);
    }
    harness_check(good && ((calls[1] - calls[0] == 3 * SERVED &&
                            calls[2] - calls[1] == SERVED - 2 && calls[3] - calls[2] == SERVED) ||
                           !harness_have_component()),
                  "%d of %d persistent operations are served: %lld, %lld, %lld", SERVED,
                  SERVED + MORE, calls[1] - calls[0], calls[2] - calls[1], calls[3] - calls[2]);
}

#define SHORT_BLOCKING 20 /* number of short blocking calls in main */

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    bool eager = strcmp(mode, "eager") == 0;
    MPI_Comm comms[COMMS];
    long long calls;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
    }
    calls = harness_pvar("coll_gpuring_calls");
    many_at_once(comms);
    different_orders(comms);
    mixed_with_blocking(comms[0]);
    persistent(comms);
    persistent_unused(comms[0]);
    persistent_in_any_order(comms[1]);
    if (harness_have_component() && harness_size > 1) {
        calls = harness_pvar("coll_gpuring_calls") - calls;
        harness_check(
            calls == OPERATIONS + 10 * COMMS + 20 * 2 + 25 * 4 + (STARTED + 1) * ROUNDS + 5 -
                         (eager ? SHORT_BLOCKING : 0),
            "every non-blocking and persistent operation was served by coll/gpuring, except those "
            "that are left (%lld)",
            calls);
    }
    if (!harness_on_gpu() && harness_size > 1) {
        persistent_with_a_root(comms[2]);
        forms_with_a_root(comms[2], eager);
    }
    if (harness_size > 1 && strcmp(mode, "few") != 0) {
        persistent_and_more(comms[0]);
    }
    copy_made_amid_calls(comms[1]);
    if (harness_size > 1) {
        copy_between_groups();
        groups_amid_connecting();
    }
    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_free(&comms[c]);
    }
    return harness_finish();
}
