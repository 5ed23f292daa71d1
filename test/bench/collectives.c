/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * collectives COLLECTIVE BEGIN END FACTOR [SECONDS [fresh]]: measure a collective of any MPI for
 * collectives.sh. Each batch of calls begins with a barrier and two calls that are not timed. The
 * time of a batch is the time of its slowest rank.
 *
 * With `fresh`, each rank writes its input before each call, like a real program, and all ranks
 * begin at the same time of the node's clock, because ranks do not leave a barrier simultaneously.
 * Only the calls are timed. Without `fresh`, the input may still be in the caches of the ranks that
 * read it in the previous call.
 *
 * Prints for each size: bytes, lower quartile and median of the batches in microseconds per call,
 * and the number of batches in SECONDS (default 0.2). The size is the size of the vector, or of all
 * blocks that one rank sends or receives.
 */
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ) /* Open MPI 4.1 */
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 20000

static char *input, *output;
static int rank, nranks, fresh;
static MPI_Request request = MPI_REQUEST_NULL; /* of the persistent call, if there is one */

static void run_allreduce(int bytes)
{
    MPI_Allreduce(input, output, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_bcast(int bytes)
{
    MPI_Bcast(input, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void run_reduce(int bytes)
{
    MPI_Reduce(input, output, bytes / 4, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void run_allgather(int bytes)
{
    MPI_Allgather(input, bytes / nranks, MPI_BYTE, output, bytes / nranks, MPI_BYTE,
                  MPI_COMM_WORLD);
}

static void run_reduce_scatter_block(int bytes)
{
    MPI_Reduce_scatter_block(input, output, bytes / nranks / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_alltoall(int bytes)
{
    MPI_Alltoall(input, bytes / nranks, MPI_BYTE, output, bytes / nranks, MPI_BYTE, MPI_COMM_WORLD);
}

static void run_barrier(int bytes)
{
    (void) bytes;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_ibarrier(int bytes)
{
    MPI_Request one;

    (void) bytes;
    MPI_Ibarrier(MPI_COMM_WORLD, &one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
}

static void run_ibcast(int bytes)
{
    MPI_Request one;

    MPI_Ibcast(input, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
}

static void run_iallreduce(int bytes)
{
    MPI_Request one;

    MPI_Iallreduce(input, output, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
}

static void run_request(int bytes)
{
    (void) bytes;
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void create_barrier(int bytes)
{
    (void) bytes;
    INIT(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
}

static void create_bcast(int bytes)
{
    INIT(Bcast)(input, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
}

static void create_allreduce(int bytes)
{
    INIT(Allreduce)
    (input, output, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
}

static const struct collective {
    const char *name;
    void (*run)(int bytes);
    void (*create)(int bytes); /* creates `request` */
} collectives[] = {{"allreduce", run_allreduce, NULL},
                   {"bcast", run_bcast, NULL},
                   {"reduce", run_reduce, NULL},
                   {"allgather", run_allgather, NULL},
                   {"reduce_scatter_block", run_reduce_scatter_block, NULL},
                   {"alltoall", run_alltoall, NULL},
                   {"barrier", run_barrier, NULL},
                   {"ibarrier", run_ibarrier, NULL},
                   {"ibcast", run_ibcast, NULL},
                   {"iallreduce", run_iallreduce, NULL},
                   {"barrier_init", run_request, create_barrier},
                   {"bcast_init", run_request, create_bcast},
                   {"allreduce_init", run_request, create_allreduce}};

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* Wait until all ranks have entered, and then until the time that rank 0 chooses. Return the
 * time. */
static double start(void)
{
    double begin;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = now() + 10e-6;
    MPI_Bcast(&begin, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    while (now() < begin) {
    }
    return now();
}

/* Run one batch. Return the microseconds per call on rank 0. */
static double batch(void (*run)(int bytes), int bytes)
{
    int calls = bytes <= 8192 ? 200 : bytes <= 65536 ? 30 : bytes <= 1 << 20 ? 4 : 1;
    double begin, own, slowest = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    run(bytes);
    run(bytes);
    begin = now();
    own = 0;
    for (int i = 0; i < calls; i++) {
        if (fresh) {
            memset(input, 0, (size_t) bytes);
            begin = start();
        }
        run(bytes);
        own += fresh ? now() - begin : 0;
    }
    own = (fresh ? own : now() - begin) / calls * 1e6;
    MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

static void measure(const struct collective *what, int bytes, double seconds)
{
    static double times[BATCHES];
    double begin = now();
    int count = 0, more = 1;

    if (what->create != NULL) {
        what->create(bytes);
    }
    while (more) {
        times[count++] = batch(what->run, bytes);
        more = count < BATCHES && now() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        qsort(times, (size_t) count, sizeof *times, compare);
        printf("%d %.3f %.3f %d\n", bytes, times[count / 4], times[count / 2], count);
        fflush(stdout);
    }
    if (what->create != NULL) {
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    const struct collective *what = NULL;
    size_t room;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (size_t i = 0; argc >= 5 && i < sizeof collectives / sizeof *collectives; i++) {
        what = strcmp(argv[1], collectives[i].name) == 0 ? &collectives[i] : what;
    }
    if (what == NULL) {
        fprintf(stderr, "usage: collectives COLLECTIVE BEGIN END FACTOR [SECONDS [fresh]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    fresh = argc > 6 && strcmp(argv[6], "fresh") == 0;
    room = (size_t) atoi(argv[3]) + 4096;
    input = calloc(1, room);
    output = calloc(1, room);
    if (input == NULL || output == NULL) {
        fprintf(stderr, "collectives: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    memset(input, 0, room); /* touch each page, so that no page is the shared zero page */
    memset(output, 0, room);
    run_allreduce(4); /* coll/gpuring serves barriers of connected ranks only */
    for (int bytes = atoi(argv[2]); bytes <= atoi(argv[3]); bytes *= atoi(argv[4])) {
        measure(what, bytes, argc > 5 ? atof(argv[5]) : 0.2);
    }
    free(input);
    free(output);
    MPI_Finalize();
    return 0;
}
