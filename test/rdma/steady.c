/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Run allreduces for some time, or until one fails, while the test script injects faults.
 *
 *   steady SECONDS [COUNT [PAUSE-MS]]   COUNT ints (default: 5000); the last rank sleeps PAUSE-MS
 *                                       before each operation
 *
 * Every element of every result is checked. Rank 0 prints "# data flow" after the first operations.
 * Each rank prints one line:
 *
 *   ok - rank R: N operations right                    nothing has failed
 *   ok - rank R: an error after N operations: TEXT     the communicator refuses further calls, and
 *                                                      another communicator still works
 *   not ok - rank R: ...                               wrong data, or one of these two is not true
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLENTY  1000000000
#define FLOWING 3 /* number of operations before rank 0 prints "# data flow" */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

struct outcome {
    long done; /* number of successful operations */
    int code;  /* error code of the failed operation, or MPI_SUCCESS */
    bool wrong;
};

/* Run one allreduce. Return false if it failed or if the ranks stop. Element 0 counts the ranks
 * that want to stop, so that all ranks stop after the same operation. */
static bool one(MPI_Comm comm, int *data, int count, bool stop, struct outcome *outcome)
{
    int size = harness_size, turn = (int) (outcome->done % 1000);

    data[0] = stop;
    for (int i = 1; i < count; i++) {
        data[i] = turn * 7 + i % 1000 + harness_rank;
    }
    outcome->code = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm);
    for (int i = 1; i < count && outcome->code == MPI_SUCCESS && !outcome->wrong; i++) {
        outcome->wrong = data[i] != size * (turn * 7 + i % 1000) + size * (size - 1) / 2;
    }
    outcome->done += outcome->code == MPI_SUCCESS && !outcome->wrong;
    return outcome->code == MPI_SUCCESS && !outcome->wrong && data[0] == 0;
}

/* Check the communicators after an error. Return NULL or the text of a failed check. */
static const char *aftermath(MPI_Comm broken, MPI_Comm other)
{
    int value = 1, sum = 0;

    if (MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, broken) == MPI_SUCCESS) {
        return "the broken communicator served another call";
    }
    if (MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, other) != MPI_SUCCESS || sum != 1) {
        return "another communicator does not work any more";
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5, begin;
    int count = argc > 2 ? atoi(argv[2]) : 5000;
    int pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    struct outcome outcome = {0};
    char text[MPI_MAX_ERROR_STRING] = "";
    const char *fault = NULL;
    MPI_Comm comm, other;
    int *data, length;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    data = calloc((size_t) count + 1, sizeof *data);
    if (data == NULL || count < 2) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS ||
        MPI_Comm_split(MPI_COMM_WORLD, harness_rank, 0, &other) != MPI_SUCCESS) {
        printf("not ok - rank %d: no communicators\n", harness_rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    MPI_Comm_set_name(comm, "the tested one");
    begin = now();
    do {
        if (outcome.done == FLOWING && harness_rank == 0) {
            printf("# data flow\n");
            fflush(stdout);
        }
        if (pause_ms > 0 && harness_rank == harness_size - 1) {
            const struct timespec pause = {.tv_sec = pause_ms / 1000,
                                           .tv_nsec = pause_ms % 1000 * 1000000L};

            nanosleep(&pause, NULL);
        }
    } while (outcome.done < PLENTY && one(comm, data, count, now() - begin > seconds, &outcome));
    if (outcome.wrong) {
        printf("not ok - rank %d: wrong data after %ld operations\n", harness_rank, outcome.done);
    } else if (outcome.code == MPI_SUCCESS) {
        printf("ok - rank %d: %ld operations right\n", harness_rank, outcome.done);
    } else {
        MPI_Error_string(outcome.code, text, &length);
        fault = aftermath(comm, other);
        printf("%s - rank %d: an error after %ld operations: %s%s\n",
               fault == NULL ? "ok" : "not ok", harness_rank, outcome.done, text,
               fault == NULL ? "" : fault);
    }
    fflush(stdout);
    free(data);
    MPI_Finalize();
    return 0;
}
