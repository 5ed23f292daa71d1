/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * wireup_memory RANK [nonblocking | second | longer | kept | both | known]: let each memory
 * allocation on this rank fail in turn while a communicator is connected. With `second`, they fail
 * while the connections of direct exchanges are created, which a small vector needs. With `longer`,
 * they fail while connections with longer slots replace those of a small vector, which verbs has.
 * With `kept`, the ranks keep connections of a freed communicator, which they give up, and connect
 * again. With `both`, another allocation on the next rank fails, too, in all combinations. With
 * `known`, the ranks use what they have gathered for another communicator, and gather again. All
 * ranks must finish with the right result or with an MPI error. A non-blocking call without memory
 * for its request returns MPI_ERR_NO_MEM before it has started, and is made again. Needs
 * memory_faults.la preloaded.
 */
#include "harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_faults.h"

#define COUNT        1000
#define LONGER_COUNT (20 * COUNT)
#define LIMIT        2000 /* calls: far more than a wire-up makes */
#define BOTH_CALLS   12   /* on each of two ranks: those before the ranks know each other */

static int refused; /* non-blocking calls that found no memory for a request */
static void (*arm)(long);
static long (*disarm)(void);

enum way { FIRST, NOT_BLOCKING, SECOND, LONGER, KEPT, BOTH, KNOWN };
static const char *const form_names[] = {"blocking", "nonblocking", "second", "longer",
                                         "kept",     "both",        "known"};

struct outcome {
    int status; /* error code of MPI */
    bool right;
};

static bool lacks_memory(int status)
{
    int class;

    MPI_Error_class(status, &class);
    return class == MPI_ERR_NO_MEM;
}

static struct outcome reduce(MPI_Comm comm, enum way form, int salt)
{
    struct outcome outcome = {.right = true};
    MPI_Request request;
    static int data[LONGER_COUNT];
    int count = form == LONGER ? LONGER_COUNT : COUNT, rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < count; i++) {
        data[i] = i * 3 + rank + salt;
    }
    if (form == NOT_BLOCKING) {
        outcome.status =
            MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm, &request);
        if (lacks_memory(outcome.status)) {
            refused++;
            outcome.status =
                MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm, &request);
        }
        if (outcome.status == MPI_SUCCESS) {
            outcome.status = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        outcome.status = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm);
    }
    for (int i = 0; i < count && outcome.status == MPI_SUCCESS; i++) {
        outcome.right = outcome.right && data[i] == size * (i * 3 + salt) + size * (size - 1) / 2;
    }
    return outcome;
}

/* Reduce a vector that uses a ring. */
static void reduce_large(MPI_Comm comm)
{
    static int data[100 * COUNT];

    MPI_Allreduce(MPI_IN_PLACE, data, 100 * COUNT, MPI_INT, MPI_SUM, comm);
}

/* Gather the values of all ranks on all ranks with messages, which do not use the code under test.
 */
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

/* Return which allocation fails on this rank in a round, or 0. */
static long failing_call(int failing, long number, enum way form)
{
    long both[] = {1 + number / BOTH_CALLS, 1 + number % BOTH_CALLS};

    if (form == BOTH && harness_rank == (failing + 1) % harness_size) {
        return both[1];
    }
    return harness_rank != failing ? 0 : form == BOTH ? both[0] : number;
}

/* Run one round. Return true if the failing rank has made at least as many allocations. */
static bool round_of(int failing, long number, enum way form, bool *good, int *errors)
{
    MPI_Comm comm, other = MPI_COMM_NULL;
    struct outcome outcome, again;
    long counted = 0, call = failing_call(failing, number, form);
    int *seen = malloc((size_t) harness_size * sizeof *seen), more;

    if (seen == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return false;
    }
    if (form == KNOWN) {
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        (void) reduce(other, form, 0);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (form == KEPT || form == BOTH) {
        (void) reduce(comm, form, 0);
        MPI_Comm_free(&comm);
        MPI_Comm_split(MPI_COMM_WORLD, 0, -harness_rank, &comm);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (form == SECOND) {
        reduce_large(comm);
    }
    if (form == LONGER) {
        (void) reduce(comm, FIRST, 0);
    }
    if (call > 0) {
        arm(call);
    }
    outcome = reduce(comm, form, (int) number);
    if (call > 0) {
        counted = disarm();
    }
    gather(outcome.status == MPI_SUCCESS, seen);
    *good = outcome.right;
    for (int i = 1; i < harness_size; i++) {
        *good = *good && seen[i] == seen[0];
    }
    *errors += seen[0] == 0;
    if (*good && seen[0] != 0) { /* the communicator and the process are still usable */
        again = reduce(comm, form, (int) number + 1);
        *good = again.status == MPI_SUCCESS && again.right;
    }
    if (!*good || outcome.status != MPI_SUCCESS) {
        printf("# rank %d, call %ld fails at rank %d: status %d, result %s\n", harness_rank, number,
               failing, outcome.status, outcome.right ? "right" : "wrong");
    }
    MPI_Comm_free(&comm);
    if (other != MPI_COMM_NULL) {
        MPI_Comm_free(&other);
    }
    gather(counted >= call, seen);
    more = form == BOTH ? number < BOTH_CALLS * BOTH_CALLS - 1 : seen[failing];
    free(seen);
    return more != 0;
}

int main(int argc, char **argv)
{
    int failing, errors = 0;
    bool more = true, all_good = true;
    enum way form = FIRST;
    long number = 0;
    long long dead, gathered;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    failing = argc > 1 ? atoi(argv[1]) % harness_size : 0;
    while (argc > 2 && strcmp(argv[2], form_names[form]) != 0) {
        form++;
    }
    *(void **) &arm = dlsym(RTLD_DEFAULT, "memory_faults_arm");
    *(void **) &disarm = dlsym(RTLD_DEFAULT, "memory_faults_disarm");
    harness_check(arm != NULL && disarm != NULL, "the library that fails is loaded");
    if (arm == NULL || disarm == NULL) {
        return harness_finish();
    }
    dead = harness_pvar("coll_gpuring_fallbacks");
    gathered = harness_pvar("coll_gpuring_gathered");
    while (more && number < LIMIT) {
        bool good = false;

        number++;
        more = round_of(failing, number, form, &good, &errors);
        all_good = all_good && good;
    }
    dead = harness_pvar("coll_gpuring_fallbacks") - dead;
    gathered = harness_pvar("coll_gpuring_gathered") - gathered;
    if (harness_rank == 0) {
        printf(
            "# %ld calls for memory failed at rank %d, one after the other: %lld calls of rank 0 "
            "fell back, %d rounds ended in MPI errors\n",
            number - 1, failing, dead, errors);
    }
    harness_check(all_good, "all ranks end alike, right or with an MPI error, %s",
                  form_names[form]);
    harness_check(errors == 0, "the wire-up itself ends in no MPI error");
    harness_check((refused > 0) == (form == NOT_BLOCKING && harness_rank == failing),
                  "a call without memory for a request returns MPI_ERR_NO_MEM");
    harness_check(number > 20 && number < LIMIT &&
                      (form == BOTH ? dead > 0 : (dead >= number / 2) == (form < KEPT)),
                  form == KEPT || form == KNOWN ? "most wire-ups succeed at the second attempt"
                                                : "the failures were met by the wire-up");
    if (form == KNOWN) {
        harness_check(gathered >= number + number / 2 && gathered < 2 * number,
                      "the ranks gather for the other one, and again only after a failure");
    }
    return harness_finish();
}
