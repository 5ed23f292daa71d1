/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpu_bench [--gpu N] [--bytes N] [--rounds N] [--blocks N]: measure the kernels on one GPU in one
 * process, and print Markdown for doc/results. Efficiency is the rate at which the kernels of a
 * ring move bytes through device memory (every operand read, every result and slot written),
 * compared with the rate of copies within the device. Latency is the time of an allreduce of 8
 * bytes with launch and completion. Slots and lanes have the component's defaults for the number of
 * ranks that share the GPU. --blocks selects another number of blocks per rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "test/gpu/gpu.h"

#define PATIENCE_NS  10000000
#define SMALL_ROUNDS 200

static size_t bytes = UINT64_C(256) << 20;
static int rounds = 10, blocks;

static double *times_for(int n)
{
    double *times = calloc((size_t) n, sizeof *times);

    if (times == NULL) {
        printf("Bail out! out of memory\n");
        exit(1);
    }
    return times;
}

/* Return the bytes per second that copies of the driver read and write. */
static double copy_rate(void)
{
    uint8_t *from = gpu_alloc(bytes), *to = gpu_alloc(bytes);
    double *times = times_for(rounds), rate;

    gpu_copy(to, from, bytes);
    for (int i = 0; i < rounds; i++) {
        double start = gpu_seconds();

        gpu_copy(to, from, bytes);
        times[i] = gpu_seconds() - start;
    }
    rate = 2.0 * (double) bytes / gpu_median(times, rounds);
    free(times);
    gpu_free(from);
    gpu_free(to);
    return rate;
}

/* Return the number of bytes that all lanes read and write for a vector. */
static double traffic(const struct test_plans *plans, double vector)
{
    double moved = 0;

    for (int rank = 0; rank < plans->nranks; rank++) {
        const struct gpuring_plan *plan = plans->plans[rank];

        for (uint32_t i = 0; i < plan->nlanes; i++) {
            const struct gpuring_plan_lane *lane = &plan->lanes[i];
            double chunk = vector * (double) (lane->part_end - lane->part_begin) /
                           (double) plan->weight / lane->nchunks;

            for (uint32_t k = 0; k < lane->nsteps; k++) {
                uint32_t which;
                const struct gpuring_step *step = gpuring_lane_step(lane, k, &which);

                moved += chunk * (step->noperands + step->nsends +
                                  (step->flags & GPURING_STEP_STORE ? 1 : 0));
            }
        }
    }
    return moved;
}

/* Return the median time of allreduces over one fabric, with all ranks as lanes of one kernel. */
static double time_allreduce(struct fabric *fabric, uint64_t count, int n)
{
    uint64_t all = (uint64_t) fabric->plans->nranks * count * sizeof(float);
    uint8_t *input = gpu_alloc(all), *output = gpu_alloc(all);
    double *times = times_for(n), result;

    for (int i = -1; i < n; i++) {
        double start;
        int status;

        fabric_work_all(fabric, GPURING_TYPE_FLOAT, GPURING_OP_SUM, count, input, output, count,
                        PATIENCE_NS);
        start = gpu_seconds();
        status = gpu_run(fabric->work);
        if (status != GPURING_OK) {
            printf("Bail out! the allreduce ended with: %s\n", gpuring_status_text(status));
            exit(1);
        }
        if (i >= 0) {
            times[i] = gpu_seconds() - start;
        }
    }
    result = gpu_median(times, n);
    free(times);
    gpu_free(input);
    gpu_free(output);
    return result;
}

/* Return the number of rings, which is the number of blocks per rank, for ranks that share the
 * GPU. */
static uint32_t lanes(int nranks)
{
    struct pci_costs costs;

    if (blocks > 0) {
        return (uint32_t) blocks;
    }
    if (pci_costs_gpu(&costs) != 0) {
        printf("Bail out! the cost model's table is wrong\n");
        exit(1);
    }
    return pci_lanes(&costs, gpu.capability, (uint32_t) (gpu.processors / nranks), 1, 0);
}

static void efficiency(int nranks, double copies)
{
    uint32_t channels = lanes(nranks);
    uint64_t slot = gpuring_params.buffer_size / GPURING_ENGINE_SLOTS;
    uint64_t count = bytes / sizeof(float);
    struct test_plans plans;
    struct fabric fabric;
    double seconds, moved;

    test_plans_build(&plans, GPURING_ALGORITHM_RING, nranks, channels);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, slot, GPURING_ENGINE_SLOTS);
    seconds = time_allreduce(&fabric, count, rounds);
    moved = traffic(&plans, (double) bytes);
    printf("| %d ranks, %u blocks, slots of %u KiB | %.1f | %.1f | %.0f |\n", nranks,
           channels * (uint32_t) nranks, (uint32_t) (slot >> 10), seconds * 1e3,
           moved / seconds / 1e9, 100 * moved / seconds / copies);
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

static void latency(int nranks)
{
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build(&plans, GPURING_ALGORITHM_DIRECT, nranks, 1);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_LL, GPURING_ENGINE_FLAGGED_SLOT_BYTES,
                  GPURING_ENGINE_SLOTS);
    printf("| %d | %.1f |\n", nranks, time_allreduce(&fabric, 2, SMALL_ROUNDS) * 1e6);
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

int main(int argc, char **argv)
{
    int ordinal = 0;
    double copies;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--gpu") == 0) {
            ordinal = atoi(argv[++i]);
        } else if (i + 1 < argc && strcmp(argv[i], "--bytes") == 0) {
            bytes = strtoull(argv[++i], NULL, 0);
        } else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0) {
            rounds = atoi(argv[++i]);
        } else if (i + 1 < argc && strcmp(argv[i], "--blocks") == 0) {
            blocks = atoi(argv[++i]);
        } else {
            fprintf(stderr, "usage: gpu_bench [--gpu N] [--bytes N] [--rounds N] [--blocks N]\n");
            return 2;
        }
    }
    gpu_open(ordinal);
    copies = copy_rate();
    printf("\nCopies of %zu bytes within the device read and write %.1f GB/s (median of %d).\n\n",
           bytes, copies / 1e9, rounds);
    printf("| ring, Simple, float sum, %zu bytes per rank | ms | GB/s moved | %% of copies |\n"
           "|---|--:|--:|--:|\n",
           bytes);
    for (int nranks = 2; nranks <= 8; nranks *= 2) {
        efficiency(nranks, copies);
    }
    printf("\n| ranks in one kernel, direct, LL, 8 bytes | us |\n|--:|--:|\n");
    for (int nranks = 2; nranks <= 8; nranks *= 2) {
        latency(nranks);
    }
    gpu_close();
    return 0;
}
