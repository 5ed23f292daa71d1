/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * wireup_memory RANK [nonblocking|creation|requests]: one call for memory fails at this rank alone
 * while a communicator is wired up (creation: that one and all after it, while it is made); each of
 * them in turn. Every time all ranks come to an end, together, with the right result or with an MPI
 * error. requests: no call gets any memory there while non-blocking operations are started. Needs
 * memory_faults.la preloaded.
 */
#include "harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_faults.h"

#define COUNT      1000
#define LIMIT      2000 /* calls: far more than a wire-up makes */
#define OPERATIONS 5

enum mode { BLOCKING, NONBLOCKING, CREATION, REQUESTS };

static void (*arm)(long);
static long (*disarm)(void);

struct outcome {
    int status; /* MPI's */
    bool right;
};

static struct outcome reduce(MPI_Comm comm, bool nonblocking, int salt)
{
    struct outcome outcome = {.right = true};
    MPI_Request request;
    int data[COUNT], rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < COUNT; i++) {
        data[i] = i * 3 + rank + salt;
    }
    if (nonblocking) {
        outcome.status =
            MPI_Iallreduce(MPI_IN_PLACE, data, COUNT, MPI_INT, MPI_SUM, comm, &request);
        if (outcome.status == MPI_SUCCESS) {
            outcome.status = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        outcome.status = MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_INT, MPI_SUM, comm);
    }
    for (int i = 0; i < COUNT && outcome.status == MPI_SUCCESS; i++) {
        outcome.right = outcome.right && data[i] == size * (i * 3 + salt) + size * (size - 1) / 2;
    }
    return outcome;
}

/* Values of all ranks, at all ranks: by messages, which do not go through what is tested. */
static void gather(int mine, int *all)
{
    for (int i = 0; i < harness_size; i++) {
        all[i] = mine;
        for (int to = 0; i == harness_rank && to < harness_size; to++) {
            if (to != harness_rank) {
                MPI_Send(&mine, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
            }
        }
        if (i != harness_rank) {
            MPI_Recv(&all[i], 1, MPI_INT, i, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

/* One round; true while the failing rank made `number` calls or more. */
static bool round_of(int failing, long number, enum mode mode, bool *good, int *errors)
{
    bool nonblocking = mode == NONBLOCKING;
    MPI_Comm comm;
    struct outcome outcome, again;
    long counted = 0;
    int *seen = malloc((size_t) harness_size * sizeof *seen), more;

    if (seen == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return false;
    }
    if (harness_rank == failing && mode == CREATION) {
        arm(-number);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (harness_rank == failing && mode == CREATION) {
        counted = disarm();
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (harness_rank == failing && mode != CREATION) {
        arm(number);
    }
    outcome = reduce(comm, nonblocking, (int) number);
    if (harness_rank == failing && mode != CREATION) {
        counted = disarm();
    }
    gather(outcome.status == MPI_SUCCESS, seen);
    *good = outcome.right;
    for (int i = 1; i < harness_size; i++) {
        *good = *good && seen[i] == seen[0];
    }
    *errors += seen[0] == 0;
    if (*good && seen[0] != 0) { /* the communicator is still of use, and so is the process */
        again = reduce(comm, nonblocking, (int) number + 1);
        *good = again.status == MPI_SUCCESS && again.right;
    }
    if (!*good || outcome.status != MPI_SUCCESS) {
        printf("# rank %d, call %ld fails at rank %d: status %d, result %s\n", harness_rank, number,
               failing, outcome.status, outcome.right ? "right" : "wrong");
    }
    MPI_Comm_free(&comm);
    gather(counted >= number, seen);
    more = seen[failing];
    free(seen);
    return more != 0;
}

/* The first takes the spare request, the others have none: their calls end where they begin. */
static void requests(int failing)
{
    static int data[OPERATIONS][COUNT];
    MPI_Request request[OPERATIONS];
    int size = harness_size, empty = 0;
    bool good = reduce(MPI_COMM_WORLD, false, 0).right, nonblocking = true;

    for (int k = 0; k < OPERATIONS; k++) {
        for (int i = 0; i < COUNT; i++) {
            data[k][i] = i * 3 + k + harness_rank;
        }
    }
    if (harness_rank == failing) {
        arm(-1);
    }
    for (int k = 0; k < OPERATIONS; k++) {
        good = MPI_Iallreduce(MPI_IN_PLACE, data[k], COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                              &request[k]) == MPI_SUCCESS &&
               good;
        empty += k > 0 && request[k] == request[1];
    }
    if (harness_rank == failing) {
        disarm();
        nonblocking = empty == OPERATIONS - 1;
    }
    good = MPI_Waitall(OPERATIONS, request, MPI_STATUSES_IGNORE) == MPI_SUCCESS && good;
    for (int k = 0; k < OPERATIONS; k++) {
        for (int i = 0; i < COUNT; i++) {
            good = good && data[k][i] == size * (i * 3 + k) + size * (size - 1) / 2;
        }
    }
    harness_check(nonblocking, "the failures were met by the requests");
    harness_check(good, "non-blocking calls without memory for requests: right results everywhere");
    good = reduce(MPI_COMM_WORLD, true, 7).right;
    harness_check(good, "and afterwards");
}

int main(int argc, char **argv)
{
    int failing, errors = 0;
    bool more = true, all_good = true;
    enum mode mode = BLOCKING;
    static const char *const modes[] = {"blocking", "nonblocking", "creation", "requests"};
    long number = 0;
    long long dead;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    failing = argc > 1 ? atoi(argv[1]) % harness_size : 0;
    for (int i = 0; argc > 2 && i <= REQUESTS; i++) {
        mode = strcmp(argv[2], modes[i]) == 0 ? (enum mode) i : mode;
    }
    *(void **) &arm = dlsym(RTLD_DEFAULT, "memory_faults_arm");
    *(void **) &disarm = dlsym(RTLD_DEFAULT, "memory_faults_disarm");
    harness_check(arm != NULL && disarm != NULL, "the library that fails is loaded");
    if (arm == NULL || disarm == NULL) {
        return harness_finish();
    }
    if (mode == REQUESTS) {
        requests(failing);
        return harness_finish();
    }
    dead = harness_pvar("coll_gpuring_fallbacks");
    while (more && number < LIMIT) {
        bool good = false;

        number++;
        more = round_of(failing, number, mode, &good, &errors);
        all_good = all_good && good;
    }
    dead = harness_pvar("coll_gpuring_fallbacks") - dead;
    if (harness_rank == 0) {
        printf(
            "# %ld calls for memory failed at rank %d, one after the other: %lld calls of rank 0 "
            "fell back, %d rounds ended in MPI errors\n",
            number - 1, failing, dead, errors);
    }
    harness_check(all_good, "all ranks end alike, right or with an MPI error, %s", modes[mode]);
    harness_check(errors == 0, "the wire-up itself ends in no MPI error");
    if (mode == CREATION) {
        harness_check(number > 4 && dead == 0, "each communicator is served all the same");
    } else {
        harness_check(number > 20 && number < LIMIT && dead >= number / 2,
                      "the failures were met by the wire-up");
    }
    return harness_finish();
}
