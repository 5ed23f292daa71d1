/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Four ranks reduce; each rank prints what it has, in the order of ranks. */
#include <mpi.h>
#include <stdio.h>

#define COUNT 100003 /* more than one chunk, and no multiple of anything */

int main(int argc, char **argv)
{
    static long long sums[COUNT];
    static double maxima[COUNT];
    long long total = 0;
    double last = 0;
    int rank, size, small;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT; i++) {
        sums[i] = (long long) (rank + 1) * i;
        maxima[i] = i % size == rank ? i + 0.5 : -i;
    }
    small = 1 << rank;
    MPI_Allreduce(MPI_IN_PLACE, &small, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, sums, COUNT, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, maxima, COUNT, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        total += sums[i];
        last += maxima[i];
    }
    printf("rank %d of %d: %d, %lld, %.1f\n", rank, size, small, total, last);
    MPI_Finalize();
    return 0;
}
