/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test MPI_THREAD_MULTIPLE. Each thread has a separate communicator, and the calls of all threads
 * overlap. */
#include "sums.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS  60

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    bool good;
};

/* Make a call, and if it is not blocking, some rounds make a small call while it is in flight. Any
 * thread may progress them. */
static bool one_round(const struct worker *worker, int round, int count)
{
    struct sum sum = sum_new(count, worker->number + round, true, worker->comm);
    bool good = sum_start(&sum, round % 3 == 0 ? NONBLOCKING : BLOCKING) == MPI_SUCCESS;

    if (round % 3 == 0 && round % 2 != 0) {
        good = sum_is_right(BLOCKING, 64, worker->comm) && good;
    }
    good = MPI_Wait(&sum.request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum_right(&sum) && good;
    sum_free(&sum);
    return good;
}

static void *worker_main(void *argument)
{
    static const int counts[] = {1, 100, 5000, 40000};
    struct worker *worker = argument;

    worker->good = true;
    for (int round = 0; round < ROUNDS && worker->good; round++) {
        worker->good = one_round(worker, round, counts[(round + worker->number) % 4]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS];
    bool good = true;

    harness_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++) {
        workers[t].number = t;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].comm);
    }
    for (int t = 0; t < THREADS; t++) {
        good = pthread_create(&workers[t].thread, NULL, worker_main, &workers[t]) == 0 && good;
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        good = good && workers[t].good;
    }
    harness_check(good, "%d threads with a communicator each, %d operations per thread", THREADS,
                  ROUNDS);
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_free(&workers[t].comm);
    }
    return harness_finish();
}
