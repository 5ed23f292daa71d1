/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What an installed but idle component costs a call: times MPI_Allreduce of one int on
 * MPI_COMM_WORLD many times and prints the best mean of several blocks, in
 * nanoseconds. Run by overhead.sh with and without the component.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 50
#define CALLS  20000

int main(int argc, char **argv)
{
    double best = 1e9;
    int rank, in = 1, out = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int block = 0; block < BLOCKS; block++) {
        double start = MPI_Wtime(), mean;

        for (int i = 0; i < CALLS; i++) {
            MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
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
