/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Run allreduces until some time after the first ones, or until one fails, while the test script
 * injects faults.
 *
 *   steady SECONDS [COUNT [PAUSE-MS [COMMS]]]
 *
 * COUNT ints (default: 5000) on each of COMMS communicators (default: 1) in turn. The last rank
 * sleeps PAUSE-MS before each round of them. Every element of every result is checked. Rank 0
 * prints
 * "# data flow" after the first rounds. Each rank prints one line:
 *
 *   ok - rank R: N operations right                    nothing has failed
 *   ok - rank R: an error after N operations: TEXT     all communicators have failed and refuse
 *                                                      further calls, and another one still works
 *   not ok - rank R: ...                               wrong data, or this is not true
 *
 * If some of the communicators fail, the others go on, so a failure of some only is "not ok".
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLENTY  1000000000
#define FLOWING 3 /* number of rounds before rank 0 prints "# data flow" */
#define MOST    64

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

static struct {
    double end;   /* time to stop, 0: not known yet */
    int count;    /* ints */
    int pause_ms; /* of the last rank before each round */
    int ncomms;
} settings = {.count = 5000, .ncomms = 1};

struct outcome {
    long done; /* number of successful operations */
    int failed;
    int code[MOST]; /* error code of the failed operation of a communicator, or MPI_SUCCESS */
    bool wrong;
};

/* Run one allreduce. Return false if the ranks stop. Element 0 counts the ranks that want to stop,
 * so that all ranks stop after the same operation. */
static bool one(MPI_Comm comm, int *data, int turn, int *code, struct outcome *outcome)
{
    int size = harness_size, count = settings.count;

    data[0] = settings.end > 0 && now() > settings.end;
    for (int i = 1; i < count; i++) {
        data[i] = turn * 7 + i % 1000 + harness_rank;
    }
    *code = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm);
    if (*code != MPI_SUCCESS) {
        outcome->failed++;
        return true;
    }
    for (int i = 1; i < count && !outcome->wrong; i++) {
        outcome->wrong = data[i] != size * (turn * 7 + i % 1000) + size * (size - 1) / 2;
    }
    outcome->done += !outcome->wrong;
    return !outcome->wrong && data[0] == 0;
}

/* Run one allreduce on each communicator that has not failed. Return false if the ranks stop. */
static bool one_round(const MPI_Comm *comms, int *data, int turn, struct outcome *outcome)
{
    bool more = true;

    if (settings.pause_ms > 0 && harness_rank == harness_size - 1) {
        const struct timespec pause = {.tv_sec = settings.pause_ms / 1000,
                                       .tv_nsec = settings.pause_ms % 1000 * 1000000L};

        nanosleep(&pause, NULL);
    }
    for (int k = 0; k < settings.ncomms && more; k++) {
        if (outcome->code[k] == MPI_SUCCESS) {
            more = one(comms[k], data, (turn + k) % 1000, &outcome->code[k], outcome);
        }
    }
    return more && outcome->failed < settings.ncomms;
}

/* Check the communicators after an error. Return NULL or the text of a failed check. */
static const char *aftermath(const MPI_Comm *comms, MPI_Comm other, const struct outcome *outcome)
{
    int value = 1, sum = 0;

    if (outcome->failed < settings.ncomms) {
        return ", and some communicators have not failed";
    }
    for (int k = 0; k < settings.ncomms; k++) {
        if (MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comms[k]) == MPI_SUCCESS) {
            return ", and a broken communicator served another call";
        }
    }
    if (MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, other) != MPI_SUCCESS || sum != 1) {
        return ", and another communicator does not work any more";
    }
    return NULL;
}

static void report(const MPI_Comm *comms, MPI_Comm other, const struct outcome *outcome)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    const char *fault;
    int length;

    if (outcome->wrong) {
        printf("not ok - rank %d: wrong data after %ld operations\n", harness_rank, outcome->done);
    } else if (outcome->failed == 0) {
        printf("ok - rank %d: %ld operations right\n", harness_rank, outcome->done);
    } else {
        for (int k = 0; k < settings.ncomms; k++) {
            if (outcome->code[k] != MPI_SUCCESS) {
                MPI_Error_string(outcome->code[k], text, &length);
            }
        }
        fault = aftermath(comms, other, outcome);
        printf("%s - rank %d: an error after %ld operations: %s%s\n",
               fault == NULL ? "ok" : "not ok", harness_rank, outcome->done, text,
               fault == NULL ? "" : fault);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct outcome outcome = {0};
    MPI_Comm comms[MOST], other;
    bool made = true;
    int *data;

    settings.count = argc > 2 ? atoi(argv[2]) : settings.count;
    settings.pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    settings.ncomms = argc > 4 ? atoi(argv[4]) : settings.ncomms;
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    data = calloc((size_t) settings.count + 1, sizeof *data);
    if (data == NULL || settings.count < 2 || settings.ncomms < 1 || settings.ncomms > MOST) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    for (int k = 0; k < settings.ncomms; k++) {
        made = made && MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]) == MPI_SUCCESS &&
               MPI_Comm_set_name(comms[k], "the tested one") == MPI_SUCCESS;
    }
    if (!made || MPI_Comm_split(MPI_COMM_WORLD, harness_rank, 0, &other) != MPI_SUCCESS) {
        printf("not ok - rank %d: no communicators\n", harness_rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    for (int turn = 0; turn < PLENTY; turn++) {
        if (turn == FLOWING) {
            settings.end = now() + (argc > 1 ? atof(argv[1]) : 5);
            printf("%s", harness_rank == 0 ? "# data flow\n" : "");
            fflush(stdout);
        }
        if (!one_round(comms, data, turn, &outcome)) {
            break;
        }
    }
    report(comms, other, &outcome);
    free(data);
    MPI_Finalize();
    return 0;
}
