/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Count the queue pairs of communicators that exist at the same time:
 *
 *   crowd COUNT
 *
 * COUNT duplicates of MPI_COMM_WORLD run two small allreduces each. Then they are freed, and
 * another communicator is made. The ranks are on separate nodes and count their own queue pairs,
 * whose number must not change after the first communicator.
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "test/wire/exists.h"

/* Return this process's share of the memory that it uses, in KiB, or -1. */
static long memory(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    long kib = -1;

    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL) {
        (void) sscanf(line, "Pss: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* Run an allreduce. Return true if the result is right. */
static bool sums(MPI_Comm comm, int turn)
{
    int value = turn + harness_rank, sum = 0;

    return MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS &&
           sum == harness_size * turn + harness_size * (harness_size - 1) / 2;
}

/* Make a communicator, and run an allreduce on it. */
static MPI_Comm make(const char *name, int turn, bool *right)
{
    MPI_Comm comm = MPI_COMM_NULL;

    *right = MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS &&
             MPI_Comm_set_name(comm, name) == MPI_SUCCESS && sums(comm, turn) && *right;
    return comm;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Comm *comms = calloc((size_t) count, sizeof *comms), other;
    struct wire_exists first = {0}, alive, later;
    long long reused;
    long before, after;
    bool right = true;
    double begin, made;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (comms == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    before = memory();
    begin = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        comms[i] = make("one of many", i, &right);
        first = i == 0 ? wire_exists() : first;
    }
    made = MPI_Wtime() - begin;
    for (int i = 0; i < count; i++) {
        right = sums(comms[i], i + 1) && right;
    }
    alive = wire_exists();
    after = memory();
    harness_check(right, "%d communicators: right results", count);
    harness_check(alive.queue_pairs > 0 && alive.queue_pairs == first.queue_pairs,
                  "%d communicators: as many queue pairs as the first one", count);

    /* Check that the connections of a freed communicator are used again. */
    reused = harness_pvar("coll_gpuring_reused");
    MPI_Comm_free(&comms[count - 1]);
    comms[count - 1] = make("one of many", count, &right);
    harness_check(right && harness_pvar("coll_gpuring_reused") == reused + 1,
                  "a communicator uses the connections of a freed one");

    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&comms[i]);
    }
    other = make("after the others", 1, &right);
    later = wire_exists();
    harness_check(right && later.queue_pairs == first.queue_pairs,
                  "a communicator after the others: right results, the same queue pairs");
    if (harness_rank == 0) {
        printf("# %d communicators made in %.1f s: %d queue pairs, %ld KiB more memory, %ld KiB "
               "registered; after these: %d queue pairs\n",
               count, made, alive.queue_pairs, after - before, alive.registered / 1024,
               later.queue_pairs);
    }
    MPI_Comm_free(&other);
    free(comms);
    return harness_finish();
}
