/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Measure an allreduce of the host executor without MPI: two ranks are threads of one process on
 * cores 0 and 1. Used to choose protocols, chunk sizes and thresholds; not part of the tests.
 *
 *   exec_bench [smallest bytes [largest bytes [slot bytes ...]]]
 *
 * Prints the best of several means for each size, algorithm, protocol and slot size, in ns per
 * operation and GB/s of the vector.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/util/status.h"

#define NRANKS  2
#define NSLOTS  8
#define REPEATS 7

struct bench {
    struct gpuring_plan *plans[NRANKS];
    enum gpuring_protocol protocol;
    uint64_t slot_bytes, count;
    int iterations;
    float *input[NRANKS], *output[NRANKS];
    struct gpuring_fifo_end sends[NRANKS];
    struct gpuring_fifo_end recvs[NRANKS];
    void *memory[NRANKS];
    double ns[NRANKS];
    pthread_barrier_t barrier;
};

struct rank {
    struct bench *bench;
    int rank;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void once(struct bench *bench, int rank)
{
    const struct gpuring_plan_lane *lane = &bench->plans[rank]->lanes[0];
    struct gpuring_lane run = {
        .steps = lane->steps,
        .refs = lane->refs,
        .recvs = &bench->recvs[rank],
        .sends = &bench->sends[rank],
        .count = bench->count,
        .chunk = gpuring_chunk_max(bench->protocol, bench->slot_bytes, sizeof(float)),
        .nsteps = lane->nsteps,
        .nchunks = lane->nchunks,
    };
    struct gpuring_work work = {.input = bench->input[rank],
                                .output = bench->output[rank],
                                .type = GPURING_TYPE_FLOAT,
                                .op = GPURING_OP_SUM,
                                .protocol = bench->protocol,
                                .nlanes = 1,
                                .lanes = &run,
                                .patience = 1000};

    while (gpuring_work_run_host(&work) == GPURING_AGAIN) {
    }
}

static void *rank_main(void *argument)
{
    struct rank *self = argument;
    struct bench *bench = self->bench;
    double best = 1e30;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(self->rank, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double start;

        pthread_barrier_wait(&bench->barrier);
        start = now();
        for (int i = 0; i < bench->iterations; i++) {
            once(bench, self->rank);
        }
        start = (now() - start) / bench->iterations;
        best = start < best ? start : best;
    }
    bench->ns[self->rank] = best;
    return NULL;
}

static void connect_ranks(struct bench *bench)
{
    size_t counters = sizeof(struct gpuring_fifo_tail) + sizeof(struct gpuring_fifo_head) +
                      gpuring_fifo_short_bytes(NSLOTS);

    for (int rank = 0; rank < NRANKS; rank++) {
        uint8_t *base;

        if (posix_memalign(&bench->memory[rank], 4096, counters + NSLOTS * bench->slot_bytes)) {
            abort();
        }
        base = bench->memory[rank];
        memset(base, 0, counters + NSLOTS * bench->slot_bytes);
        bench->sends[rank] = (struct gpuring_fifo_end){
            .slots = base + counters,
            .tail = (void *) base,
            .head = (void *) (base + sizeof(struct gpuring_fifo_tail)),
            .slot_bytes = bench->slot_bytes,
            .nslots = NSLOTS,
        };
        bench->recvs[1 - rank] = (struct gpuring_fifo_end){
            .slots = base + counters,
            .tail = (void *) base,
            .head = (void *) (base + sizeof(struct gpuring_fifo_tail)),
            .slot_bytes = bench->slot_bytes,
            .nslots = NSLOTS,
        };
    }
}

static void measure(struct bench *bench, const char *name)
{
    struct rank ranks[NRANKS];
    pthread_t threads[NRANKS];
    uint64_t bytes = bench->count * sizeof(float);
    double ns;

    bench->iterations = bytes < 4096 ? 5000 : bytes < 65536 ? 1000 : bytes < 2097152 ? 100 : 3;
    connect_ranks(bench);
    pthread_barrier_init(&bench->barrier, NULL, NRANKS);
    for (int rank = 0; rank < NRANKS; rank++) {
        ranks[rank] = (struct rank){bench, rank};
        pthread_create(&threads[rank], NULL, rank_main, &ranks[rank]);
    }
    for (int rank = 0; rank < NRANKS; rank++) {
        pthread_join(threads[rank], NULL);
    }
    ns = bench->ns[0] > bench->ns[1] ? bench->ns[0] : bench->ns[1];
    printf("%10llu %-14s slot %8llu %12.0f ns %8.2f GB/s\n", (unsigned long long) bytes, name,
           (unsigned long long) bench->slot_bytes, ns, (double) bytes / ns);
    fflush(stdout);
    pthread_barrier_destroy(&bench->barrier);
    free(bench->memory[0]);
    free(bench->memory[1]);
}

/* Measure every protocol, except LL at sizes for which it is never used. */
static void measure_plan(struct bench *bench, const char *algorithm, uint64_t slot)
{
    static const char *const protocols[] = {"simple", "ll", "ll128"};

    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        char name[32];

        if (protocol == GPURING_PROTOCOL_LL && bench->count > 65536 / sizeof(float)) {
            continue;
        }
        snprintf(name, sizeof name, "%s %s", algorithm, protocols[protocol]);
        bench->protocol = (enum gpuring_protocol) protocol;
        bench->slot_bytes = slot;
        measure(bench, name);
    }
}

int main(int argc, char **argv)
{
    uint64_t smallest = argc > 1 ? strtoull(argv[1], NULL, 0) : 8;
    uint64_t largest = argc > 2 ? strtoull(argv[2], NULL, 0) : 64 << 20;
    struct bench bench = {0};

    for (int rank = 0; rank < NRANKS; rank++) {
        bench.input[rank] = malloc(largest);
        bench.output[rank] = malloc(largest);
        if (bench.input[rank] == NULL || bench.output[rank] == NULL) {
            return 1;
        }
        memset(bench.input[rank], 0, largest);
        memset(bench.output[rank], 0, largest);
    }
    for (uint64_t bytes = smallest; bytes <= largest; bytes *= 4) {
        for (int direct = 0; direct < 2; direct++) {
            for (int rank = 0; rank < NRANKS; rank++) {
                struct gpuring_channel channel = {
                    .ring = {.prev = 1 - rank, .next = 1 - rank, .index = rank}};
                struct gpuring_plan_input input = {.rank = rank,
                                                   .nranks = NRANKS,
                                                   .channels = &channel,
                                                   .nrings = 1,
                                                   .ndirect = 1};
                int status =
                    gpuring_plan_build(direct ? GPURING_ALGORITHM_DIRECT : GPURING_ALGORITHM_RING,
                                       &input, &bench.plans[rank]);

                if (status != GPURING_OK) {
                    return 1;
                }
            }
            bench.count = bytes / sizeof(float);
            for (int i = 3; i < (argc > 3 ? argc : 4); i++) {
                measure_plan(&bench, direct ? "direct" : "ring",
                             argc > 3 ? strtoull(argv[i], NULL, 0) : 65536);
            }
            gpuring_plan_free(bench.plans[0]);
            gpuring_plan_free(bench.plans[1]);
        }
    }
    for (int rank = 0; rank < NRANKS; rank++) {
        free(bench.input[rank]);
        free(bench.output[rank]);
    }
    return 0;
}
