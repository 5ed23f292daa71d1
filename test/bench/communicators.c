/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * communicators [TIMES]: measure the setup and the teardown of a communicator in microseconds:
 * MPI_Comm_dup, the first MPI_Allreduce on it (8 bytes; it connects the ranks if
 * coll_gpuring_connect_after is 0) and MPI_Comm_free.
 * Also measure MPI_Win_create with MPI_Win_free, which create communicators internally. Prints the
 * medians on one line.
 *
 * communicators idle COUNT: measure MPI_Allreduce of 8 bytes on MPI_COMM_WORLD without other
 * communicators, and while COUNT communicators exist on which calls were made. Prints both medians.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#define LOOPS      41
#define LOOP_CALLS 1000

/* Return the median time of a call on MPI_COMM_WORLD in microseconds. */
static double call_time(void)
{
    double took[LOOPS], value = 1, sum;

    for (int i = 0; i < LOOPS; i++) {
        double begin = MPI_Wtime();

        for (int call = 0; call < LOOP_CALLS; call++) {
            MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        took[i] = since(&begin) / LOOP_CALLS;
    }
    qsort(took, LOOPS, sizeof *took, by_size);
    return took[LOOPS / 2];
}

static void measure_idle(int count, int rank)
{
    MPI_Comm *comms = malloc(((size_t) count + 1) * sizeof *comms);
    double without, value = 1, sum;

    (void) call_time();
    without = call_time();
    for (int i = 0; i < count; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comms[i]);
    }
    value = call_time();
    if (rank == 0) {
        printf("%.2f %.2f\n", without, value);
    }
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&comms[i]);
    }
    free(comms);
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 200, rank;
    double *took[PARTS], value = 1, sum;
    static double exposed[8];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && strcmp(argv[1], "idle") == 0) {
        measure_idle(atoi(argv[2]), rank);
        times = 0;
    }
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
