/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Count the memory that a communicator between nodes registers, and its queue pairs: with small
 * calls, after a large one, and if the first call is large. Each rank is a node.
 *
 *   grow [any]    any: do not check the numbers, which are larger with several ports
 *
 * Every result is checked. Calls that are in flight while the connections are replaced, and
 * persistent calls that were created before, must also be right.
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/wire/exists.h"

#define SMALL      1024      /* elements: 4 KiB */
#define LARGE      (1 << 18) /* elements: 1 MiB */
#define MANY       (1 << 20) /* elements: 4 MiB */
#define MOST_SMALL (256 << 10)
/* Registered for large calls. Replaced short slots stay registered until the peer has closed them,
 * too, and another communicator is made. They may then count as registered before it. */
#define LEAST    ((2 << 20) - MOST_SMALL)
#define MOST     (4 << 20)
#define REQUESTS 6

static bool any_numbers;

static void fill(int *data, int count, int salt)
{
    for (int i = 0; i < count; i++) {
        data[i] = i * 3 + harness_rank + salt;
    }
}

static bool is_sum(const int *data, int count, int salt)
{
    for (int i = 0; i < count; i++) {
        if (data[i] != harness_size * (i * 3 + salt) + harness_size * (harness_size - 1) / 2) {
            return false;
        }
    }
    return true;
}

/* Run an allreduce and a bcast. Return true if the results are right. */
static bool runs(MPI_Comm comm, int *data, int count, int salt)
{
    bool right;
    int rank;

    MPI_Comm_rank(comm, &rank);
    fill(data, count, salt);
    right = MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS &&
            is_sum(data, count, salt);
    for (int i = 0; i < count; i++) {
        data[i] = rank == 0 ? i * 3 + salt : -1;
    }
    right = MPI_Bcast(data, count, MPI_INT, 0, comm) == MPI_SUCCESS && right;
    for (int i = 0; i < count; i++) {
        right = right && data[i] == i * 3 + salt;
    }
    return right;
}

/* Start small calls and large ones together, so that some are selected before and others after the
 * connections are replaced. */
static bool overlap(MPI_Comm comm)
{
    static int data[REQUESTS][LARGE];
    MPI_Request requests[REQUESTS];
    bool right = true;

    for (int i = 0; i < REQUESTS; i++) {
        int count = i == 1 ? LARGE : SMALL;

        fill(data[i], count, i);
        right = MPI_Iallreduce(MPI_IN_PLACE, data[i], count, MPI_INT, MPI_SUM, comm,
                               &requests[i]) == MPI_SUCCESS &&
                right;
    }
    right = MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && right;
    for (int i = 0; i < REQUESTS; i++) {
        right = right && is_sum(data[i], i == 1 ? LARGE : SMALL, i);
    }
    return right;
}

/* Start a persistent call before and after a large call. */
static bool persists(MPI_Comm comm, int *data, int *large)
{
    MPI_Request request;
    bool right = HARNESS_INIT(Allreduce)(MPI_IN_PLACE, data, SMALL, MPI_INT, MPI_SUM, comm,
                                         MPI_INFO_NULL, &request) == MPI_SUCCESS;

    for (int turn = 0; turn < 3 && right; turn++) {
        fill(data, SMALL, turn);
        right = MPI_Start(&request) == MPI_SUCCESS &&
                MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_sum(data, SMALL, turn) &&
                (turn != 0 || runs(comm, large, LARGE, 5));
    }
    return MPI_Request_free(&request) == MPI_SUCCESS && right;
}

/* A blocking call returns only when all of its data is posted, although a receiver is late and has
 * no room: the rest must not wait for the progress thread, which needs a core. */
static void check_sent(MPI_Comm comm)
{
    int *data = calloc(MANY, sizeof *data);
    bool right;
    long sent;

    (void) wire_exists();
    usleep(harness_rank > 0 ? 50000 : 0);
    right = data != NULL && MPI_Bcast(data, MANY, MPI_INT, 0, comm) == MPI_SUCCESS;
    sent = wire_exists().sent;
    harness_check(right, "a bcast with more data than the slots have room for");
    harness_check(harness_rank > 0 || sent >= MANY * (long) sizeof *data,
                  "a root has posted everything when its call returns");
    free(data);
}

/* Check the number of objects that were created since `before`. */
static void check_exists(const struct wire_exists *before, long least, long most, const char *name)
{
    struct wire_exists now = wire_exists();
    long registered = now.registered - before->registered, peers = harness_size - 1;

    if (harness_rank == 0) {
        printf("# %s: %d queue pairs, %ld KiB registered\n", name,
               now.queue_pairs - before->queue_pairs, registered / 1024);
    }
    if (!any_numbers) {
        harness_check(now.queue_pairs == before->queue_pairs, "%s: no further queue pairs", name);
        harness_check(registered >= least * peers && registered <= most * peers,
                      "%s: the memory that is registered", name);
    }
}

int main(int argc, char **argv)
{
    int *data = malloc(SMALL * sizeof *data), *large = malloc(LARGE * sizeof *large);
    struct wire_exists before;
    MPI_Comm first, second, third;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (data == NULL || large == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    any_numbers = argc > 1 && strcmp(argv[1], "any") == 0;
    (void) runs(MPI_COMM_WORLD, data, 1, 0); /* opens the devices */
    before = wire_exists();
    harness_check(before.queue_pairs > 0, "the ranks are connected through the stand-in");

    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    harness_check(runs(first, data, 1, 1) && runs(first, data, SMALL, 2), "small calls are right");
    check_exists(&before, 1, MOST_SMALL, "small calls");
    harness_check(runs(first, large, LARGE, 3), "a large call after small ones is right");
    check_exists(&before, LEAST, MOST, "after a large call");
    harness_check(runs(first, data, SMALL, 4) && runs(first, large, LARGE, 5),
                  "small and large calls after it are right");
    check_sent(first);

    before = wire_exists();
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    harness_check(runs(second, large, LARGE, 6) && runs(second, data, SMALL, 7),
                  "small calls after a large one are right");
    check_exists(&before, LEAST, MOST, "the first call is large");

    before = wire_exists();
    MPI_Comm_dup(MPI_COMM_WORLD, &third);
    harness_check(runs(third, data, 1, 8) && overlap(third),
                  "small and large calls in flight together are right");
    check_exists(&before, LEAST, MOST, "calls in flight together");
    MPI_Comm_free(&third);
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);

    MPI_Comm_split(MPI_COMM_WORLD, 0, -harness_rank, &first); /* no kept connections fit */
    harness_check(persists(first, data, large), "persistent small calls around a large one");
    MPI_Comm_free(&first);
    free(data);
    free(large);
    return harness_finish();
}
