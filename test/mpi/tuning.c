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
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEFT      100  /* elements: less than 1000 bytes */
#define SERVED    1000 /* elements */
#define LARGEST   300000
#define MANY      24
#define PERSISTED 3

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

static struct sum sum_of(int count, MPI_Comm comm)
{
    static int seed;

    return sum_new(count, ++seed, false, comm);
}

static bool call(enum form form, int count, MPI_Comm comm)
{
    struct sum sum = sum_of(count, comm);
    bool good = sum_complete(&sum, form, form == PERSISTENT ? PERSISTED : 1) == MPI_SUCCESS &&
                sum_right(&sum);

    sum_free(&sum);
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
            harness_check(good, "%s call of %d elements is %s", harness_forms[form], counts[i],
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
    struct sum sums[3];
    MPI_Comm comm = fresh();
    bool good = true;

    for (int i = 0; i < 3; i++) {
        sums[i] = sum_of(LEFT, comm);
    }
    good = sum_start(&sums[0], NONBLOCKING) == MPI_SUCCESS;
    if (wait) {
        good = MPI_Wait(&sums[0].request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        usleep(20000);
    }
    good = sum_start(&sums[1], NONBLOCKING) == MPI_SUCCESS && good;
    good = sum_start(&sums[2], BLOCKING) == MPI_SUCCESS && good;
    for (int i = 0; i < 3; i++) {
        good = MPI_Wait(&sums[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        good = sum_right(&sums[i]) && good;
        sum_free(&sums[i]);
    }
    harness_check(good, "ranks that are wired up and ranks that are not decide alike");
    harness_check(counted(0, 0, 3), "all three are left");
    MPI_Comm_free(&comm);
}

/* Make many concurrent calls of both kinds of sizes, with blocking calls in between. */
static void under_way(void)
{
    struct sum sums[MANY];
    MPI_Comm comm = fresh();
    bool good = call(BLOCKING, SERVED, comm);
    int left = 0;

    count_from_here();
    for (int i = 0; i < MANY; i++) {
        bool small = i % 3 != 1;

        sums[i] = sum_of(small ? LEFT - i : SERVED * (i + 1), comm);
        left += small;
        good = sum_start(&sums[i], NONBLOCKING) == MPI_SUCCESS && good;
        if (i % 8 == 7) {
            good = call(BLOCKING, i % 16 == 7 ? LEFT : SERVED, comm) && good;
            left += i % 16 == 7;
        }
    }
    for (int i = 0; i < MANY; i++) {
        good = MPI_Wait(&sums[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        good = sum_right(&sums[i]) && good;
        sum_free(&sums[i]);
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
        harness_check(counted(2 * times, -1, 0) && good, "%s: all sizes are served",
                      harness_forms[form]);
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
