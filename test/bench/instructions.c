/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * instructions CALL CALLS RANK [repeat]: make CALLS calls of 8 bytes on MPI_COMM_WORLD in the
 * function `counted`, whose instructions instructions.sh counts. RANK makes each call later than
 * the other ranks, so that it does not wait for them. There is a barrier before each call, unless
 * the last argument is `repeat`.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if MPI_VERSION < 4
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

#define WARM    20    /* calls before those that are counted */
#define LATE_US 20000 /* enough for the calls of other ranks, also if ranks share cores */

static double in = 1, out;
static MPI_Request request;

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(void)
{
    MPI_Bcast(&out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void reduce(void)
{
    MPI_Reduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void ibcast(void)
{
    MPI_Ibcast(&out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void iallreduce(void)
{
    MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Start the persistent call that main has created. */
static void started(void)
{
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"barrier", barrier},       {"bcast", bcast},   {"reduce", reduce},
             {"allreduce", allreduce},   {"ibcast", ibcast}, {"iallreduce", iallreduce},
             {"allreduce_init", started}};

/* Return the function for a call, or NULL if the name is unknown. */
static void (*find(const char *name))(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) == 0) {
            return calls[i].call;
        }
    }
    return NULL;
}

static __attribute__((noinline)) void counted(void (*call)(void))
{
    call();
    __asm__ volatile(""); /* otherwise the compiler makes this a jump, which has no end */
}

int main(int argc, char **argv)
{
    void (*call)(void) = argc > 3 ? find(argv[1]) : NULL;
    int ncalls = argc > 3 ? atoi(argv[2]) : 0, late = argc > 3 ? atoi(argv[3]) : 0, rank;
    bool repeat = argc > 4 && strcmp(argv[4], "repeat") == 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (call == NULL || ncalls < 1 || (argc > 4 && !repeat)) {
        fprintf(stderr, "usage: instructions CALL CALLS RANK [repeat]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    allreduce(); /* connects the ranks, so that barriers are served, too */
    if (call == started) {
        INIT(Allreduce)(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    }
    for (int i = 0; i < WARM + ncalls; i++) {
        if (!repeat) {
            barrier();
        }
        if (rank == late) {
            usleep(LATE_US);
        }
        if (i < WARM) {
            call();
        } else {
            counted(call);
        }
    }
    if (call == started) {
        MPI_Request_free(&request);
    }
    MPI_Finalize();
    return 0;
}
