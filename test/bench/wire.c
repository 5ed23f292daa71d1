/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * wire COLLECTIVE BEGIN END FACTOR [SECONDS]: measure calls over the modelled wire of test/wire,
 * for wire.sh. All ranks begin each call at the same time of the node's clock, and the time of a
 * call is the time of its slowest rank. MPI's own messages synchronise the ranks, so the wire is
 * idle between calls.
 *
 * Prints for each size: bytes of the vector, or of all blocks that one rank sends or receives,
 * nanoseconds of the wire (the bytes of one port in one direction, and one latency), nanoseconds of
 * the fastest and of the median call, and of the median call on the ports of rank 0's node:
 * messages with data, all sends, sends with a completion, nanoseconds without data between the
 * first and the last byte, messages in flight on average, and polls of rank 0.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/wire/wire.h"

#define MOST 4096

static char *input, *output;
static int rank, nranks;

static void run_allreduce(int bytes)
{
    MPI_Allreduce(input, output, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void run_bcast(int bytes)
{
    MPI_Bcast(input, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void run_allgather(int bytes)
{
    MPI_Allgather(input, bytes / nranks, MPI_BYTE, output, bytes / nranks, MPI_BYTE,
                  MPI_COMM_WORLD);
}

static void run_alltoall(int bytes)
{
    MPI_Alltoall(input, bytes / nranks, MPI_BYTE, output, bytes / nranks, MPI_BYTE, MPI_COMM_WORLD);
}

/* Two nodes with equal numbers of ranks. share: the part of the vector that one port sends to the
 * other node, in 1 / (2 nranks). */
static const struct collective {
    const char *name;
    void (*run)(int bytes);
    int share, share_of_rank;
} collectives[] = {{"allreduce", run_allreduce, 2, 0},
                   {"bcast", run_bcast, 2, 0},
                   {"allgather", run_allgather, 1, 0},
                   {"alltoall", run_alltoall, 0, 1}};

struct sample {
    uint64_t ns;
    struct gpuring_wire_counts counts;
};

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* Combine a number of each rank: every rank gets the maximum. */
static uint64_t largest(uint64_t mine)
{
    uint64_t other;

    for (int i = 1; i < nranks && rank == 0; i++) {
        MPI_Recv(&other, 8, MPI_BYTE, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mine = other > mine ? other : mine;
    }
    if (rank != 0) {
        MPI_Send(&mine, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&mine, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 1; i < nranks && rank == 0; i++) {
        MPI_Send(&mine, 8, MPI_BYTE, i, 2, MPI_COMM_WORLD);
    }
    return mine;
}

static int compare(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    return getenv(name) != NULL ? strtoull(getenv(name), NULL, 0) : otherwise;
}

/* Return the time that the wire needs, in ns. */
static uint64_t ideal(const struct collective *what, int bytes)
{
    uint64_t slower = setting("GPURING_WIRE_SLOWER", 1);
    uint64_t sent =
        (uint64_t) bytes * (uint64_t) (what->share + what->share_of_rank * nranks / 2) / 2;

    return (sent * 8 / setting("GPURING_WIRE_GBPS", 100) + setting("GPURING_WIRE_LATENCY", 2000)) *
           slower;
}

/* Read and reset the counts of the first node. */
static void read_counts(gpuring_wire_counts_function *wire_counts,
                        struct gpuring_wire_counts *counts)
{
    if (rank == 0) {
        wire_counts(counts);
    }
}

static void measure(const struct collective *what, int bytes, uint64_t limit,
                    gpuring_wire_counts_function *wire_counts)
{
    static struct sample samples[MOST];
    uint64_t end = now() + limit, wire = ideal(what, bytes);
    int count = 0;
    const struct sample *median;

    for (int i = 0; i < 3; i++) {
        what->run(bytes);
    }
    largest(0);
    while (largest(now()) < end || count < 5) {
        uint64_t begin = largest(now()) + 100000;

        read_counts(wire_counts, &samples[count].counts); /* resets them */
        while (now() < begin) {
        }
        what->run(bytes);
        samples[count].ns = largest(now() - begin);
        read_counts(wire_counts, &samples[count].counts);
        if (++count == MOST) {
            break;
        }
        end = largest(end);
    }
    qsort(samples, (size_t) count, sizeof *samples, compare);
    median = &samples[count / 2];
    if (rank == 0) {
        printf(
            "%d %llu %llu %llu %llu %llu %llu %llu %.2f %llu\n", bytes, (unsigned long long) wire,
            (unsigned long long) samples[0].ns, (unsigned long long) median->ns,
            (unsigned long long) median->counts.messages, (unsigned long long) median->counts.posts,
            (unsigned long long) median->counts.signalled, (unsigned long long) median->counts.idle,
            median->counts.span > 0 ? (double) median->counts.flight / (double) median->counts.span
                                    : 0.0,
            (unsigned long long) median->counts.polls);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    gpuring_wire_counts_function *counts =
        library != NULL ? (gpuring_wire_counts_function *) dlsym(library, "gpuring_wire_counts")
                        : NULL;
    gpuring_wire_data_function *copy =
        library != NULL ? (gpuring_wire_data_function *) dlsym(library, "gpuring_wire_data") : NULL;
    const struct collective *what = NULL;
    int begin, end;
    double seconds;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        what = argc > 1 && strcmp(collectives[i].name, argv[1]) == 0 ? &collectives[i] : what;
    }
    if (what == NULL || argc < 5 || counts == NULL || copy == NULL) {
        fprintf(stderr, "usage: wire COLLECTIVE BEGIN END FACTOR [SECONDS], over test/wire\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    begin = atoi(argv[2]);
    end = atoi(argv[3]);
    seconds = argc > 5 ? atof(argv[5]) : 0.5;
    input = calloc((size_t) end, 1);
    output = calloc((size_t) end, 1);
    /* With data, because connecting the ranks tests the network. Sizes differ in connections. */
    for (int bytes = begin; bytes <= end; bytes *= atoi(argv[4])) {
        what->run(bytes);
    }
    copy(0);
    for (int bytes = begin; bytes <= end; bytes *= atoi(argv[4])) {
        measure(what, bytes, (uint64_t) (seconds * 1e9), counts);
    }
    MPI_Finalize();
    return 0;
}
