/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * leaked SLOW: create communicators in every possible state, and never free them. MPI_Finalize must
 * release all their resources; the stand-in driver reports leaks. Meanwhile rank SLOW (or all ranks
 * except for rank 0, if it is -1) is stopped repeatedly, so that the ranks are at different points
 * of MPI_Finalize.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define COUNT 20000
#define STOPS \
    20 /* number and length of the stops: ranks wait for each other's memory for 2 seconds */
#define STOP 50000000L

static float *from, *to, values[COUNT];

static bool right(float expected)
{
    harness_read(values, to, sizeof values);
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != expected) {
            return false;
        }
    }
    return true;
}

static bool reduce(MPI_Comm comm)
{
    return MPI_Allreduce(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           right((float) (harness_size * (harness_size + 1)) / 2);
}

static bool reduce_later(MPI_Comm comm)
{
    MPI_Request request;

    return MPI_Iallreduce(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm, &request) == MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           right((float) (harness_size * (harness_size + 1)) / 2);
}

static bool scan(MPI_Comm comm)
{
    return MPI_Scan(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           right((float) ((harness_rank + 1) * (harness_rank + 2)) / 2);
}

static bool scan_later(MPI_Comm comm)
{
    MPI_Request request;

    return MPI_Iscan(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm, &request) == MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           right((float) ((harness_rank + 1) * (harness_rank + 2)) / 2);
}

static bool nothing(MPI_Comm comm)
{
    return comm != MPI_COMM_NULL;
}

static const struct {
    const char *what;
    bool (*use)(MPI_Comm comm);
} uses[] = {
    {"an allreduce", reduce},          {"a non-blocking allreduce", reduce_later},
    {"a scan, which is staged", scan}, {"a non-blocking scan", scan_later},
    {"no call at all", nothing},
};

static void stop(int signal)
{
    static int stops;

    (void) signal;
    if (stops++ < STOPS) {
        (void) nanosleep(&(struct timespec){.tv_nsec = STOP}, NULL);
    }
}

/* From now on, let this rank alternate between running for some milliseconds and stopping for
 * longer. */
static void be_slow(void)
{
    const struct itimerval every = {.it_interval = {.tv_usec = 3000}, .it_value = {.tv_usec = 500}};
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    (void) sigaction(SIGALRM, &action, NULL);
    (void) setitimer(ITIMER_REAL, &every, NULL);
}

int main(int argc, char **argv)
{
    int slow;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    slow = argc > 1 ? atoi(argv[1]) : 0;
    from = harness_alloc(sizeof values);
    to = harness_alloc(sizeof values);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float) (harness_rank + 1);
    }
    harness_write(from, values, sizeof values);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        for (int twice = 0; twice < 2; twice++) {
            MPI_Comm comm;
            bool good;

            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            good = uses[i].use(comm);
            if (twice > 0) {
                harness_check(good, "communicators with %s are left", uses[i].what);
            }
        }
    }
    harness_check(harness_pvar("coll_gpuring_wireups") > 3, "several are wired up");
    harness_free(from);
    harness_free(to);
    if (harness_rank == slow || (slow < 0 && harness_rank > 0)) {
        be_slow();
    }
    return harness_finish();
}
