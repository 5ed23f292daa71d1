/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpu_lines [--gpu N] [--seconds S] [--lines N] [--ranks N]: stress LL128. 2, 3, 4 and 8 ranks on
 * one GPU, or --ranks ranks, send lines of 128 bytes to each other in allreduces over rings and
 * direct exchanges. Each rank runs a kernel on a separate stream. Every call has new values, and
 * every element of the results is checked, so that stale data in a line is detected. Ends after S
 * seconds (default: 60) or N lines (default: 10^9), whichever is first. Prints TAP and the number
 * of lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/gpu/gpu.h"

#define ROOM        (UINT64_C(4) << 20) /* bytes of all ranks' vectors */
#define LINE_BYTES  120
#define PATIENCE_NS 1000000
#define CALLS       64 /* with the same connections, before new ones are made */

static uint64_t *input, *output, *input_image, *output_image;
static uint64_t lines, most_lines = UINT64_C(1000000000), calls, round_number;
static double end;

/* Return the value of element i of a rank. No other call or element has it. */
static uint64_t value_of(uint64_t round, uint64_t rank, uint64_t i)
{
    return (round * 8191 + rank * 131 + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool results_hold(uint64_t nranks, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sum = 0;

        for (uint64_t rank = 0; rank < nranks; rank++) {
            sum += value_of(round_number, rank, i);
        }
        for (uint64_t rank = 0; rank < nranks; rank++) {
            uint64_t found = output_image[rank * count + i];

            if (found != sum) {
                printf("# call %" PRIu64 ": element %" PRIu64 " of rank %" PRIu64
                       " is 0x%016" PRIx64 ", and not 0x%016" PRIx64 "\n",
                       round_number, i, rank, found, sum);
                return false;
            }
        }
    }
    return true;
}

static bool call(struct fabric *fabric, uint64_t count)
{
    uint64_t nranks = (uint64_t) fabric->plans->nranks;
    size_t bytes = nranks * count * sizeof *input;
    int status;

    round_number++;
    for (uint64_t v = 0; v < nranks * count; v++) {
        input_image[v] = value_of(round_number, v / count, v % count);
    }
    gpu_copy(input, input_image, bytes);
    for (uint64_t rank = 0; rank < nranks; rank++) {
        fabric_work(fabric, (int) rank, GPURING_TYPE_UINT64, GPURING_OP_SUM, count,
                    input + rank * count, output + rank * count, PATIENCE_NS);
    }
    status = gpu_run_streams(fabric);
    if (status != GPURING_OK) {
        printf("# call %" PRIu64 ": %s\n", round_number, gpuring_status_text(status));
        return false;
    }
    gpu_copy(output_image, output, bytes);
    calls++;
    /* In a direct exchange each rank sends its vector to all others. In a ring it sends the whole
     * vector except for its own part twice. */
    lines += (fabric->plans->plans[0]->algorithm == GPURING_ALGORITHM_RING ? 2 : nranks) *
             (nranks - 1) * count * sizeof *input / LINE_BYTES;
    return results_hold(nranks, count);
}

static bool time_left(void)
{
    return gpu_seconds() < end && lines < most_lines;
}

static bool stress(enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels,
                   uint64_t slot_bytes)
{
    uint64_t most = ROOM / sizeof *input / (uint64_t) nranks;
    struct test_plans plans;
    struct fabric fabric;
    bool good = true;

    test_plans_build(&plans, algorithm, nranks, nchannels);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_LL128, slot_bytes, 8);
    for (int i = 0; i < CALLS && good && time_left(); i++) {
        good = call(&fabric, gpu.stands_in ? 500 : most - (uint64_t) i * 37);
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    if (!good) {
        printf("# algorithm %d, %d ranks, %u channels, slots of %" PRIu64 " bytes\n",
               (int) algorithm, nranks, nchannels, slot_bytes);
    }
    return good;
}

static bool stress_ranks(int nranks)
{
    return stress(GPURING_ALGORITHM_RING, nranks, 4, 16384) &&
           stress(GPURING_ALGORITHM_DIRECT, nranks, 4, 16384) &&
           stress(GPURING_ALGORITHM_RING, nranks, 8, 1024);
}

int main(int argc, char **argv)
{
    static const int some[] = {2, 3, 4, 8};
    double seconds = 60;
    int ordinal = 0, nranks = 0;
    bool good = true;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--gpu") == 0) {
            ordinal = atoi(argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0) {
            seconds = atof(argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--lines") == 0) {
            most_lines = strtoull(argv[i + 1], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--ranks") == 0) {
            nranks = atoi(argv[i + 1]);
        } else {
            nranks = -1;
            break;
        }
    }
    if (nranks < 0 || nranks == 1 || nranks > GPU_STREAMS) {
        fprintf(stderr, "usage: gpu_lines [--gpu N] [--seconds S] [--lines N] [--ranks 2..%d]\n",
                GPU_STREAMS);
        return 2;
    }
    gpu_open(ordinal);
    input = gpu_alloc(ROOM);
    output = gpu_alloc(ROOM);
    input_image = gpu_alloc_pinned(ROOM);
    output_image = gpu_alloc_pinned(ROOM);
    end = gpu_seconds() + seconds;
    while (good && time_left()) {
        for (size_t k = 0; k < sizeof some / sizeof *some && good; k++) {
            good = stress_ranks(nranks > 0 ? nranks : some[k]);
        }
    }
    gpu_check(good && calls > 0, "LL128 lines under stress: %" PRIu64 " calls, %" PRIu64 " lines",
              calls, lines);
    gpu_free(input);
    gpu_free(output);
    gpu_free_pinned(input_image);
    gpu_free_pinned(output_image);
    gpu_close();
    return gpu_finish();
}
