/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * communicators [TIMES]: measure the setup and the teardown of a communicator in microseconds:
 * MPI_Comm_dup, the first MPI_Allreduce on it (8 bytes; it connects the ranks if
 * coll_gpuring_connect_after is 0) and MPI_Comm_free.
 * Also measure MPI_Win_create with MPI_Win_free, which create communicators internally. Prints the
 * medians on one line.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum part { DUP, FIRST, FREE, WINDOW, PARTS };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double since(double *begin)
{
    double now = MPI_Wtime(), took = now - *begin;

    *begin = now;
    return took * 1e6;
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 200, rank;
    double *took[PARTS], value = 1, sum;
    static double exposed[8];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int part = 0; part < PARTS; part++) {
        took[part] = malloc((size_t) (times > 0 ? times : 1) * sizeof *took[part]);
    }
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < times; i++) {
        MPI_Comm comm;
        MPI_Win window;
        double begin;

        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        took[DUP][i] = since(&begin);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        took[FIRST][i] = since(&begin);
        MPI_Comm_free(&comm);
        took[FREE][i] = since(&begin);
        MPI_Win_create(exposed, sizeof exposed, sizeof exposed[0], MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window);
        MPI_Win_free(&window);
        took[WINDOW][i] = since(&begin);
    }
    for (int part = 0; part < PARTS; part++) {
        qsort(took[part], (size_t) times, sizeof *took[part], by_size);
        if (rank == 0 && times > 0) {
            printf("%.1f%s", took[part][times / 2], part + 1 < PARTS ? " " : "\n");
        }
        free(took[part]);
    }
    MPI_Finalize();
    return 0;
}
