/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * overhead [COLLECTIVE [multiple]]: measure calls with an installed but idle component. Times
 * MPI_Allreduce, another collective or MPI_Sendrecv of one int on MPI_COMM_WORLD, and prints the
 * best mean of several blocks of calls in nanoseconds. With `multiple` the thread level is
 * MPI_THREAD_MULTIPLE. overhead.sh runs this program with and without the component.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 50
#define CALLS  20000

static int in = 1, out[1024]; /* one int for each rank */

static void allreduce(void)
{
    MPI_Allreduce(&in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(void)
{
    MPI_Allgather(&in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
}

static void bcast(void)
{
    MPI_Bcast(out, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

/* Make two calls of the PML. A single rank sends to itself. */
static void sendrecv(void)
{
    static int rank = -1, size;

    if (rank < 0) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
    MPI_Sendrecv(&in, 1, MPI_INT, (rank + 1) % size, 0, out, 1, MPI_INT, (rank + size - 1) % size,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(void);
} collectives[] = {
    {"allreduce", allreduce}, {"allgather", allgather}, {"bcast", bcast}, {"sendrecv", sendrecv}};

/* Return the function for a collective, or NULL if the name is unknown. */
static void (*find(const char *name))(void)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        if (strcmp(name, collectives[i].name) == 0) {
            return collectives[i].call;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    void (*call)(void) = find(argc > 1 ? argv[1] : "allreduce");
    double best = 1e9;
    bool multiple = argc > 2 && strcmp(argv[2], "multiple") == 0;
    int wanted = multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, rank, size, provided;

    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (call == NULL || (argc > 2 && !multiple) || size > (int) (sizeof out / sizeof *out)) {
        fprintf(stderr, "usage: overhead [allreduce|allgather|bcast|sendrecv [multiple]], up to "
                        "1024 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (provided < wanted) {
        fprintf(stderr, "overhead: this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int block = 0; block < BLOCKS; block++) {
        double start = MPI_Wtime(), mean;

        for (int i = 0; i < CALLS; i++) {
            call();
        }
        mean = (MPI_Wtime() - start) / CALLS * 1e9;
        best = mean < best ? mean : best;
    }
    if (rank == 0) {
        printf("%.1f\n", best);
    }
    MPI_Finalize();
    return 0;
}
