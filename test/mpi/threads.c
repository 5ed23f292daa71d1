/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test MPI_THREAD_MULTIPLE. Each thread has a separate communicator, and the calls of all threads
 * overlap. */
#include "harness.h"

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

#define SMALL 64

/* Make a small allreduce while another one on the communicator is in flight, and check its result.
 * Any thread may progress them. */
static bool small_is_right(const struct worker *worker, int round, int *small)
{
    int data[SMALL];
    bool good;

    for (int i = 0; i < SMALL; i++) {
        data[i] = i * worker->number + round + harness_rank;
    }
    harness_write(small, data, sizeof data);
    good = MPI_Allreduce(MPI_IN_PLACE, small, SMALL, MPI_INT, MPI_SUM, worker->comm) == MPI_SUCCESS;
    harness_read(data, small, sizeof data);
    for (int i = 0; good && i < SMALL; i++) {
        good = data[i] ==
               harness_size * (i * worker->number + round) + harness_size * (harness_size - 1) / 2;
    }
    return good;
}

static bool one_round(const struct worker *worker, int round, int *data, int *buffer, int *small,
                      int count)
{
    MPI_Request request;
    bool good;

    for (int i = 0; i < count; i++) {
        data[i] = i + worker->number * 1000 + round + harness_rank;
    }
    harness_write(buffer, data, (size_t) count * sizeof *data);
    if (round % 3 == 0) {
        good = MPI_Iallreduce(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, worker->comm,
                              &request) == MPI_SUCCESS &&
               (round % 2 == 0 || small_is_right(worker, round, small)) &&
               MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    } else {
        good = MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, worker->comm) ==
               MPI_SUCCESS;
    }
    harness_read(data, buffer, (size_t) count * sizeof *data);
    for (int i = 0; good && i < count; i++) {
        good = data[i] == harness_size * (i + worker->number * 1000 + round) +
                              harness_size * (harness_size - 1) / 2;
    }
    return good;
}

static void *worker_main(void *argument)
{
    static const int counts[] = {1, 100, 5000, 40000};
    struct worker *worker = argument;
    int *data = malloc(40000 * sizeof *data), *buffer = harness_alloc(40000 * sizeof *data);
    int *small = harness_alloc(SMALL * sizeof *small);

    worker->good = data != NULL;
    for (int round = 0; round < ROUNDS && worker->good; round++) {
        worker->good =
            one_round(worker, round, data, buffer, small, counts[(round + worker->number) % 4]);
    }
    harness_free(small);
    harness_free(buffer);
    free(data);
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
