/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Check with the counters that the tuning file determines which component serves a call, and that
 * results are right. The file delegates vectors of less than 1000 bytes to the previous component
 * and selects the ring for the others.
 *
 *   tuning        with that file
 *   tuning -p     with coll_gpuring_algorithm=previous: all sizes are delegated
 *   tuning -i     with a file that is ignored, or none: all sizes are served
 *   tuning -d     with files that differ: an error on all ranks
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEFT      100  /* elements: less than 1000 bytes */
#define SERVED    1000 /* elements */
#define LARGEST   300000
#define MANY      24
#define PERSISTED 3

/* One call's buffers. */
struct vector {
    int count, seed;
    int *send, *receive, *host;
};

static struct vector vector_new(int count)
{
    static int seed;
    size_t bytes = (size_t) count * sizeof(int);
    struct vector vector = {.count = count,
                            .seed = ++seed,
                            .send = harness_alloc(bytes),
                            .receive = harness_alloc(bytes),
                            .host = malloc(bytes)};

    for (int i = 0; i < count; i++) {
        vector.host[i] = vector.seed * 1000 + 3 * i + harness_rank;
    }
    harness_write(vector.send, vector.host, bytes);
    return vector;
}

static bool vector_right(const struct vector *vector)
{
    int n = harness_size;

    harness_read(vector->host, vector->receive, (size_t) vector->count * sizeof(int));
    for (int i = 0; i < vector->count; i++) {
        if (vector->host[i] != n * (vector->seed * 1000 + 3 * i) + n * (n - 1) / 2) {
            return false;
        }
    }
    return true;
}

static void vector_free(struct vector *vector)
{
    harness_free(vector->send);
    harness_free(vector->receive);
    free(vector->host);
}

/* Counters at the last call of counted(). */
static struct {
    long long calls, ring, fallbacks;
} seen;

static void count_from_here(void)
{
    seen.calls = harness_pvar("coll_gpuring_calls");
    seen.ring = harness_pvar("coll_gpuring_calls_ring");
    seen.fallbacks = harness_pvar("coll_gpuring_fallbacks");
}

/* Return true if the counters have changed by these numbers. `ring` is the number of calls over
 * rings, or -1 for any number. */
static bool counted(long long calls, long long ring, long long fallbacks)
{
    long long calls_before = seen.calls, ring_before = seen.ring, before = seen.fallbacks;
    bool good;

    count_from_here();
    good = seen.calls - calls_before == calls && seen.fallbacks - before == fallbacks &&
           (ring < 0 || seen.ring - ring_before == ring);
    if (!good) {
        printf("# rank %d: calls %+lld, ring %+lld, fallbacks %+lld; expected %lld, %lld, %lld\n",
               harness_rank, seen.calls - calls_before, seen.ring - ring_before,
               seen.fallbacks - before, calls, ring, fallbacks);
    }
    return good;
}

/* Return a new communicator. Open MPI itself calls MPI_Iallreduce on the old one to create it. */
static MPI_Comm fresh(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    count_from_here();
    return comm;
}

static int start(struct vector *vector, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Iallreduce(vector->send, vector->receive, vector->count, MPI_INT, MPI_SUM, comm,
                          request);
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const forms[] = {"MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_init"};

static bool call(enum form form, int count, MPI_Comm comm)
{
    struct vector vector = vector_new(count);
    MPI_Request request = MPI_REQUEST_NULL;
    int status;
    bool good;

    if (form == BLOCKING) {
        status = MPI_Allreduce(vector.send, vector.receive, count, MPI_INT, MPI_SUM, comm);
    } else if (form == NONBLOCKING) {
        status = start(&vector, comm, &request);
        status = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    } else {
        status = HARNESS_INIT(Allreduce)(vector.send, vector.receive, count, MPI_INT, MPI_SUM, comm,
                                         MPI_INFO_NULL, &request);
        for (int i = 0; i < PERSISTED && status == MPI_SUCCESS; i++) {
            status = MPI_Start(&request);
            status = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
        }
        if (request != MPI_REQUEST_NULL) {
            MPI_Request_free(&request);
        }
    }
    good = status == MPI_SUCCESS && vector_right(&vector);
    vector_free(&vector);
    return good;
}

/* Make calls of each form. If `all`, no size must be served. */
static void each_form(bool all)
{
    static const int counts[] = {1, LEFT, SERVED, LARGEST};

    for (int form = 0; form < FORMS; form++) {
        MPI_Comm comm = fresh();
        bool settled = call(BLOCKING, LEFT, comm);

        harness_check(settled && counted(0, 0, 1), "the first call, of a size that is left");
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            bool left = counts[i] <= LEFT || all;
            int times = form == PERSISTENT ? PERSISTED : 1;
            bool good = call(form, counts[i], comm);

            good =
                counted(left ? 0 : times, left || counts[i] <= LEFT ? -1 : times, left ? 1 : 0) &&
                good;
            harness_check(good, "%s of %d elements is %s", forms[form], counts[i],
                          left ? "left" : "served");
        }
        MPI_Comm_free(&comm);
    }
}

/* Test the first calls on a communicator. */
static void first_calls(void)
{
    MPI_Comm comm = fresh();
    bool good = call(PERSISTENT, LEFT, comm);

    harness_check(counted(0, 0, 1) && good, "a persistent call, the first one, is left");
    MPI_Comm_free(&comm);

    comm = fresh();
    good = call(NONBLOCKING, LEFT, comm);
    good = counted(0, 0, 1) && call(NONBLOCKING, LEFT, comm) && good;
    harness_check(counted(0, 0, 1) && good, "non-blocking calls before any other are left");
    good = call(BLOCKING, LEFT, comm);
    harness_check(counted(0, 0, 1) && good, "a blocking one behind them is left");
    good = call(NONBLOCKING, LEFT, comm);
    harness_check(counted(0, 0, 1) && good, "and then a non-blocking one too");
    MPI_Comm_free(&comm);

    comm = fresh();
    good = call(BLOCKING, SERVED, comm);
    good = counted(1, -1, 0) && call(NONBLOCKING, LEFT, comm) && good;
    harness_check(counted(0, 0, 1) && good,
                  "a non-blocking call behind a blocking one that was served");
    MPI_Comm_free(&comm);
}

/*
 * If some ranks are connected when they reach a call, and others are not, all must make the same
 * decision. `wait`: this rank completes the first call before the second one.
 */
static void at_different_times(bool wait)
{
    struct vector first = vector_new(LEFT), second = vector_new(LEFT), third = vector_new(LEFT);
    MPI_Request requests[2];
    MPI_Comm comm = fresh();
    bool good = start(&first, comm, &requests[0]) == MPI_SUCCESS;

    if (wait) {
        good = MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        usleep(20000);
    }
    good = start(&second, comm, &requests[1]) == MPI_SUCCESS && good;
    good = MPI_Allreduce(third.send, third.receive, LEFT, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS &&
           good;
    good = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && good;
    harness_check(good && vector_right(&first) && vector_right(&second) && vector_right(&third),
                  "ranks that are wired up and ranks that are not decide alike");
    harness_check(counted(0, 0, 3), "all three are left");
    vector_free(&first);
    vector_free(&second);
    vector_free(&third);
    MPI_Comm_free(&comm);
}

/* Make many concurrent calls of both kinds of sizes, with blocking calls in between. */
static void under_way(void)
{
    struct vector vectors[MANY];
    MPI_Request requests[MANY];
    MPI_Comm comm = fresh();
    bool good = call(BLOCKING, SERVED, comm);
    int left = 0;

    count_from_here();
    for (int i = 0; i < MANY; i++) {
        bool small = i % 3 != 1;

        vectors[i] = vector_new(small ? LEFT - i : SERVED * (i + 1));
        left += small;
        good = start(&vectors[i], comm, &requests[i]) == MPI_SUCCESS && good;
        if (i % 8 == 7) {
            good = call(BLOCKING, i % 16 == 7 ? LEFT : SERVED, comm) && good;
            left += i % 16 == 7;
        }
    }
    good = MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && good;
    for (int i = 0; i < MANY; i++) {
        good = vector_right(&vectors[i]) && good;
        vector_free(&vectors[i]);
    }
    harness_check(good, "%d calls under way, left and served ones", MANY);
    harness_check(counted(MANY + MANY / 8 - left, -1, left), "each went where the file says");
    MPI_Comm_free(&comm);
}

/*
 * For two ranks. Does not use the harness, which creates a communicator: Open
 * MPI then calls MPI_Iallreduce on the old one and does not survive an error.
 */
static int is_an_error(int *argc, char ***argv)
{
    int wrong = 0, theirs = 0;

    MPI_Init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness_size);
    for (int i = 0; i < 2 * FORMS; i++) {
        wrong += call(i % FORMS, i < FORMS ? LEFT : SERVED, MPI_COMM_WORLD);
    }
    if (harness_rank == 0) {
        MPI_Recv(&theirs, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%s 1 - all forms and sizes: MPI errors on both ranks\n1..1\n",
               wrong + theirs == 0 ? "ok" : "not ok");
    } else {
        MPI_Send(&wrong, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}

static void is_ignored(void)
{
    for (int form = 0; form < FORMS; form++) {
        MPI_Comm comm = fresh();
        bool good = call(form, LEFT, comm);
        int times = form == PERSISTENT ? PERSISTED : 1;

        good = call(form, SERVED, comm) && good;
        harness_check(counted(2 * times, -1, 0) && good, "%s: all sizes are served", forms[form]);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    int option;

    option = getopt(argc, argv, "pid");
    if (option == 'd') {
        return is_an_error(&argc, &argv);
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (option == 'i') {
        is_ignored();
    } else if (option == 'p') {
        each_form(true);
    } else {
        each_form(false);
        first_calls();
        at_different_times(harness_rank % 2 == 1);
        at_different_times(harness_rank > 0);
        under_way();
    }
    return harness_finish();
}
