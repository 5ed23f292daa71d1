/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "standin_trial.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin_find.h"

#define ROUNDS 5 /* the last one for staged collectives only */
#define BLOCK  3 /* of STRIDE elements of the type, BLOCK are data */
#define STRIDE 5

static const int counts[ROUNDS] = {40000, 3, 20000, 20000, 600 * STRIDE};
static MPI_Datatype blocks; /* counts[4] elements */
static float *input[ROUNDS], *output[ROUNDS], *host;

struct trial_driver trial_driver;
struct trial_seen trial_seen;
bool trial_staged;
int trial_culprit;
bool trial_is_late;
int trial_calls;
/* Resources that a process keeps forever, such as bounce buffers, and some more. */
static long usual = LONG_MAX;

void trial_start(bool staged)
{
    trial_staged = staged;
    trial_culprit = harness_size - 1;
    trial_calls = staged ? ROUNDS : ROUNDS - 1;
    standin_find("gpuring_standin_arm", &trial_driver.arm);
    standin_find("gpuring_standin_reached", &trial_driver.reached);
    standin_find("gpuring_standin_held", &trial_driver.held);
    standin_find("gpuring_standin_calls", &trial_driver.calls);
    standin_find("gpuring_standin_symbol", &trial_driver.symbol);
    host = malloc((size_t) counts[0] * sizeof *host);
    for (int round = 0; round < trial_calls; round++) {
        input[round] = harness_alloc((size_t) counts[round] * sizeof(float));
        output[round] = harness_alloc((size_t) counts[round] * sizeof(float));
    }
    MPI_Type_vector(counts[4] / STRIDE, BLOCK, STRIDE, MPI_FLOAT, &blocks);
    MPI_Type_commit(&blocks);
}

void trial_finish(void)
{
    for (int round = 0; round < trial_calls; round++) {
        harness_free(input[round]);
        harness_free(output[round]);
    }
    MPI_Type_free(&blocks);
    free(host);
}

/* The regions of a communicator, which are at most three here, may be kept until its peers have
 * unmapped them, which the next communicator detects. */
void trial_is_usual(void)
{
    usual = trial_driver.held() + 3;
}

void trial_reset(void)
{
    memset(&trial_seen, 0, sizeof trial_seen);
}

static float contribution(int rank, int round, int i)
{
    return (float) (rank + 2 * round + i % 50);
}

/* The content of a buffer before a call writes it. */
static float nothing(void)
{
    float value;

    memset(&value, 0xff, sizeof value);
    return value;
}

static void prepare(void)
{
    for (int round = 0; round < trial_calls; round++) {
        size_t bytes = (size_t) counts[round] * sizeof(float);

        for (int i = 0; i < counts[round]; i++) {
            host[i] = contribution(harness_rank, round, i);
        }
        harness_write(input[round], host, bytes);
        memset(host, 0xff, bytes);
        harness_write(output[round], host, bytes);
    }
}

/* Return the last rank whose contribution is in the result of a call of this round. */
static int last_contributor(int round)
{
    if (round == 4) {
        return 0;
    }
    return trial_staged && (round == 1 || round == 2) ? harness_rank : harness_size - 1;
}

/* Return the first rank whose contribution is in the result. */
static int first_contributor(int round)
{
    return trial_staged && round == 0 ? harness_size - 1 : 0;
}

/* Return the expected value. Sums are exact, so their order does not matter. */
static float expected(int round, int i)
{
    float sum = 0;

    if (round == 4 && i % STRIDE >= BLOCK) {
        return nothing();
    }
    for (int rank = first_contributor(round); rank <= last_contributor(round); rank++) {
        sum += contribution(rank, round, i);
    }
    return sum;
}

/* Return true if the result is wrong. If `poisoned`, bytes of 0xff of another rank, and sums with
 * them, are right. */
static int is_wrong(int round, bool poisoned)
{
    harness_read(host, output[round], (size_t) counts[round] * sizeof(float));
    for (int i = 0; i < counts[round]; i++) {
        float right = expected(round, i);

        if (memcmp(&host[i], &right, sizeof right) != 0 && !(poisoned && isnan(host[i]))) {
            return 1;
        }
    }
    return 0;
}

static int call_staged(int round, MPI_Comm comm)
{
    MPI_Request request;
    int status, waited;

    switch (round) {
    case 0:
        return MPI_Bcast(harness_rank == harness_size - 1 ? input[0] : output[0], counts[0],
                         MPI_FLOAT, harness_size - 1, comm);
    case 1:
        return MPI_Scan(input[1], output[1], counts[1], MPI_FLOAT, MPI_SUM, comm);
    case 2:
        status = MPI_Iscan(input[2], output[2], counts[2], MPI_FLOAT, MPI_SUM, comm, &request);
        waited = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
        return waited;
    case 4:
        return MPI_Bcast(harness_rank == 0 ? input[4] : output[4], 1, blocks, 0, comm);
    default:
        return MPI_Reduce(input[3], output[3], counts[3], MPI_FLOAT, MPI_SUM, 0, comm);
    }
}

static int call(int round, MPI_Comm comm)
{
    return trial_staged ? call_staged(round, comm)
                        : MPI_Allreduce(input[round], output[round], counts[round], MPI_FLOAT,
                                        MPI_SUM, comm);
}

/* Return true if there is a result to check. */
static bool has_result(int round)
{
    return !trial_staged || (round == 0 && harness_rank != harness_size - 1) || round == 1 ||
           round == 2 || (round == 3 && harness_rank == 0) || (round == 4 && harness_rank != 0);
}

/* Check the results of a communicator's calls. fault: NULL if it is on another rank. */
static void judge(const char *fault, const int *status)
{
    bool elsewhere = fault == NULL;
    long held = trial_driver.held();

    for (int round = 0; round < trial_calls; round++) {
        if (status[round] != MPI_SUCCESS) {
            trial_seen.errors++;
        } else if (has_result(round) && is_wrong(round, trial_staged && elsewhere)) {
            trial_seen.wrong++;
            printf("# rank %d: %s: call %d returned success and wrong data\n", harness_rank,
                   elsewhere ? "no fault here" : fault, round + 1);
        }
    }
    if (held > usual) {
        trial_seen.leaks++;
        printf("# rank %d: %s: %ld things more are held than before\n", harness_rank,
               elsewhere ? "no fault here" : fault, held - usual);
    }
}

bool trial_here(const char *fault, bool last)
{
    int status[ROUNDS];
    MPI_Comm comm;
    bool struck;

    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    trial_driver.arm(fault);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < trial_calls; i++) {
        int round = trial_is_late && i < 2 ? 1 - i : i;

        if (trial_is_late && i == 1 && harness_rank == trial_culprit) {
            sleep(3);
        }
        status[round] = call(round, comm);
    }
    if (last || (trial_is_late && harness_rank != trial_culprit)) {
        usleep(trial_is_late ? 1000000 : 20000);
    }
    struck = trial_driver.reached();
    MPI_Comm_free(&comm);
    trial_seen.at_release = !struck && trial_driver.reached();
    struck = trial_driver.reached();
    /* Only shown lines of the log query the name of an error. */
    if (struck && fault != NULL && fault[0] != '\0' && trial_driver.calls("cuGetErrorName") == 0) {
        trial_seen.unreported++;
        printf("# rank %d: %s: the log does not report it\n", harness_rank, fault);
    }
    trial_driver.arm(NULL);
    trial_seen.trials++;
    judge(fault, status);
    return struck;
}

bool trial_run(const char *fault, bool everywhere)
{
    bool here = everywhere || harness_rank == trial_culprit;
    /* With rank 0 last, the other ranks first release memory that is mapped here. */
    int struck = trial_here(here ? fault : NULL, everywhere && harness_rank == 0);

    MPI_Bcast(&struck, 1, MPI_INT, trial_culprit, MPI_COMM_WORLD);
    return struck != 0;
}
