/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpu_lanes [--gpu N] [--part I/N] [--collectives]: test the kernels with many ranks on one GPU in
 * one process. The ranks are lanes of one launch, or kernels on separate streams. Allreduce is
 * tested with all types and operations over all protocols and algorithms, with buffers at every
 * misalignment and sizes around every chunk, window, line and batch of the kernels. Every byte of
 * the outputs and around them is checked. The other collectives are tested with one type over all
 * protocols and algorithms. Prints TAP.
 *
 * --part I/N runs every N-th call, beginning with call I, for slow tools. --collectives runs only
 * the other collectives; with N = COLLECTIVE_CALLS, one call of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/image.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/gpu/gpu.h"
#include "test/unit/calls.h"
#include "test/unit/collective_calls.h"
#include "test/unit/reference.h"

#define GUARD       64
#define GUARD_BYTE  0xa5
#define ROOM        (UINT64_C(1) << 20) /* bytes of all ranks' vectors */
#define SMALL_SLOT  1024
#define LARGE_SLOT  (256 << 10)
#define PATIENCE_NS 1000000

/* Vectors of all ranks, and copies of them in pinned memory. */
static uint8_t *input, *output, *input_image, *output_image;
static unsigned long part, parts = 1, turn, calls;

/* Layout of the memory of one call, in bytes. */
struct place {
    size_t size, input, output, bytes;
    uint64_t stride; /* distance between the vectors of two ranks, in elements */
};

static struct place place_of(const struct call *call, int nranks)
{
    struct place place = {.size = gpuring_type_info(call->type)->size};

    place.stride = call->count + 5;
    place.input = GUARD + call->shift % 16;
    place.output = call->in_place ? place.input : GUARD + 15 - call->shift % 16;
    place.bytes = (uint64_t) nranks * place.stride * place.size + 2 * GUARD + 16;
    return place;
}

static void fill(const struct call *call, const struct place *place, int nranks)
{
    memset(input_image, GUARD_BYTE, place->bytes);
    for (int rank = 0; rank < nranks; rank++) {
        uint8_t *vector =
            input_image + place->input + (uint64_t) rank * place->stride * place->size;

        for (uint64_t i = 0; i < call->count; i++) {
            reference_input(call->type, call->op, rank, i, vector + i * place->size);
        }
    }
    gpu_copy(input, input_image, place->bytes);
    if (!call->in_place) {
        memset(output_image, GUARD_BYTE, place->bytes);
        gpu_copy(output, output_image, place->bytes);
    }
}

/* Return true if every byte outside the vectors still has the guard value. */
static bool surroundings_hold(const uint8_t *image, size_t start, const struct call *call,
                              const struct place *place, int nranks)
{
    size_t at = 0, vector = call->count * place->size;

    for (int rank = 0; rank <= nranks; rank++) {
        size_t next =
            rank < nranks ? start + (size_t) rank * place->stride * place->size : place->bytes;

        for (; at < next; at++) {
            if (image[at] != GUARD_BYTE) {
                return false;
            }
        }
        at += vector;
    }
    return true;
}

static bool results_hold(const struct call *call, const struct place *place, int nranks)
{
    const uint8_t *image = call->in_place ? input_image : output_image;
    uint8_t expected[64];

    gpu_copy(input_image, input, place->bytes);
    gpu_copy(output_image, output, place->bytes);
    for (int rank = 0; rank < nranks; rank++) {
        uint64_t offset = (uint64_t) rank * place->stride * place->size;

        for (uint64_t i = 0; i < call->count; i++) {
            reference_result(call->type, call->op, nranks, i, expected);
            if (!reference_equal(call->type, expected,
                                 image + place->output + offset + i * place->size)) {
                printf("# rank %d: element %llu is wrong\n", rank, (unsigned long long) i);
                return false;
            }
            reference_input(call->type, call->op, rank, i, expected);
            if (!call->in_place &&
                !reference_equal(call->type, expected,
                                 input_image + place->input + offset + i * place->size)) {
                printf("# rank %d: input %llu has changed\n", rank, (unsigned long long) i);
                return false;
            }
        }
    }
    if (!surroundings_hold(image, place->output, call, place, nranks)) {
        printf("# a byte beside the outputs has changed\n");
        return false;
    }
    return true;
}

/* Run one call. Calls alternate between one launch for all ranks and one launch per rank. */
static bool run_call(struct fabric *fabric, const struct call *call)
{
    int nranks = fabric->plans->nranks, status;
    struct place place = place_of(call, nranks);
    bool streams = calls % 2 != 0;
    uint8_t *to = call->in_place ? input : output;

    if (turn++ % parts != part) {
        return true;
    }
    calls++;
    if (place.bytes > ROOM) {
        printf("# a call of %zu bytes is too large for this program\n", place.bytes);
        return false;
    }
    fill(call, &place, nranks);
    if (streams) {
        for (int rank = 0; rank < nranks; rank++) {
            uint64_t offset = (uint64_t) rank * place.stride * place.size;

            fabric_work(fabric, rank, call->type, call->op, call->count,
                        input + place.input + offset, to + place.output + offset, PATIENCE_NS);
        }
        status = gpu_run_streams(fabric);
    } else {
        fabric_work_all(fabric, call->type, call->op, call->count, input + place.input,
                        to + place.output, place.stride, PATIENCE_NS);
        status = gpu_run(fabric->work);
    }
    if (status == GPURING_OK && results_hold(call, &place, nranks)) {
        return true;
    }
    printf("# %s: algorithm %d, protocol %d, %d ranks as %s, %s %s, count %llu, %s, misaligned by "
           "%zu\n",
           gpuring_status_text(status), (int) fabric->plans->plans[0]->algorithm,
           (int) fabric->protocol, nranks, streams ? "kernels on streams" : "lanes of one kernel",
           gpuring_type_info(call->type)->name, gpuring_op_info(call->op)->name,
           (unsigned long long) call->count, call->in_place ? "in place" : "out of place",
           call->shift);
    return false;
}

static const char *const algorithm_names[GPURING_ALGORITHM_COUNT] = {
    [GPURING_ALGORITHM_RING] = "ring",
    [GPURING_ALGORITHM_TREE] = "tree",
    [GPURING_ALGORITHM_DIRECT] = "direct",
    [GPURING_ALGORITHM_TWO_SHOT] = "two-shot",
};
static const char *const protocol_names[GPURING_PROTOCOL_COUNT] = {
    [GPURING_PROTOCOL_SIMPLE] = "Simple",
    [GPURING_PROTOCOL_LL] = "LL",
    [GPURING_PROTOCOL_LL128] = "LL128",
};

static void all_types(enum gpuring_algorithm algorithm, enum gpuring_protocol protocol, int nranks,
                      uint32_t nchannels)
{
    unsigned long before = calls, wrong = 0;
    struct test_plans plans;
    struct fabric fabric;
    uint64_t counts[CALL_COUNTS];
    size_t at = 0;

    test_plans_build(&plans, algorithm, nranks, nchannels);
    fabric_create(&fabric, &plans, protocol, SMALL_SLOT, 4);
    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        size_t ncounts = call_counts(&fabric, type, counts);

        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            for (int i = 0; i < 3 && gpuring_kernel_name(type, op, protocol) != NULL; i++, at++) {
                struct call call = {.type = type,
                                    .op = op,
                                    .count = counts[at % ncounts],
                                    .in_place = at / ncounts % 2 != 0,
                                    .shift = at % 16};

                wrong += !run_call(&fabric, &call);
            }
        }
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    gpu_check(wrong == 0, "all types and operations: %s, %s, %d ranks, %u channels: %lu calls",
              algorithm_names[algorithm], protocol_names[protocol], nranks, nchannels,
              calls - before);
}

/* One type of each size that a GPU folds. */
static const uint32_t sizes[] = {GPURING_TYPE_UINT8, GPURING_TYPE_INT16, GPURING_TYPE_FLOAT,
                                 GPURING_TYPE_DOUBLE, GPURING_TYPE_COMPLEX_DOUBLE};

/* Run calls with each of the counts, at every misalignment, in place and out of place. Return the
 * number of wrong calls. */
static unsigned long every_offset(struct fabric *fabric, uint32_t type, const uint64_t *counts,
                                  size_t ncounts)
{
    unsigned long wrong = 0;

    for (size_t i = 0; i < 32 * ncounts; i++) {
        struct call call = {.type = type,
                            .op = GPURING_OP_SUM,
                            .count = counts[i / 32],
                            .in_place = (int) (i / 16 % 2),
                            .shift = i % 16};

        wrong += !run_call(fabric, &call);
    }
    return wrong;
}

static void boundaries(enum gpuring_algorithm algorithm, enum gpuring_protocol protocol)
{
    unsigned long before = calls, wrong = 0;
    struct test_plans plans;
    struct fabric fabric;
    uint64_t counts[CALL_COUNTS];

    test_plans_build(&plans, algorithm, 3, 1);
    /* Rings use slices, and the other algorithms chunks that fill a slot. */
    fabric_create(&fabric, &plans, protocol, SMALL_SLOT,
                  algorithm == GPURING_ALGORITHM_RING ? FABRIC_SLICED : 2);
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
        size_t ncounts = call_counts(&fabric, sizes[t], counts);

        wrong += every_offset(&fabric, sizes[t], counts, ncounts);
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    gpu_check(wrong == 0, "offsets 0..15 around chunks, windows and lines: %s, %s: %lu calls",
              algorithm_names[algorithm], protocol_names[protocol], calls - before);
}

/*
 * Test sizes around the unit that a whole block processes in one step within a chunk. Simple: 5
 * packs of 16 bytes for each thread that moves data, or 2 in a kernel that folds all types. LL: 8
 * or 16 bytes for each thread, of which there are GPURING_LL_THREADS to GPURING_KERNEL_THREADS.
 * LL128: 2 lines for eight threads.
 */
static void batches(enum gpuring_protocol protocol)
{
    const uint64_t threads = GPURING_KERNEL_THREADS, movers = threads - GPURING_KERNEL_CONTROL;
    const uint64_t most = protocol == GPURING_PROTOCOL_LL ? 8 : 2;
    unsigned long before = calls, wrong = 0;
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 2, 1);
    fabric_create(&fabric, &plans, protocol, LARGE_SLOT, 2);
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
        uint64_t size = gpuring_type_info(sizes[t])->size;
        uint64_t unit = protocol == GPURING_PROTOCOL_SIMPLE
                            ? (sizes[t] == GPURING_TYPE_FLOAT ? 80 : 32) * movers
                        : protocol == GPURING_PROTOCOL_LL ? 8 * GPURING_LL_THREADS
                                                          : threads / 4 * gpuring_line_bytes(size);
        uint64_t counts[16];
        size_t n = 0;

        for (uint64_t k = 1; k <= most; k *= 2) {
            /* Each of the two ranks has a chunk: half of the vector. */
            uint64_t whole = 2 * k * unit / size;

            counts[n++] = whole - 1;
            counts[n++] = whole;
            counts[n++] = whole + 1;
            counts[n++] = whole + 2 * gpuring_chunk_align(size) + 1;
        }
        wrong += every_offset(&fabric, sizes[t], counts, n);
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    gpu_check(wrong == 0, "offsets 0..15 around the batches of a block: %s: %lu calls",
              protocol_names[protocol], calls - before);
}

/* Return the value of element i of rank `rank` in a round. No other round or element has it. */
static uint64_t stress_value(uint64_t round, int rank, uint64_t i)
{
    return (round * 8191 + (uint64_t) rank * 131 + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool stress_round(struct fabric *fabric, uint64_t round, uint64_t count)
{
    uint64_t *values = (uint64_t *) (void *) input_image;
    const uint64_t *sums = (const uint64_t *) (const void *) output_image;
    int nranks = fabric->plans->nranks;

    for (uint64_t v = 0; v < (uint64_t) nranks * count; v++) {
        values[v] = stress_value(round, (int) (v / count), v % count);
    }
    gpu_copy(input, input_image, (size_t) nranks * count * sizeof *values);
    for (int rank = 0; rank < nranks; rank++) {
        size_t offset = (size_t) rank * count * sizeof *values;

        fabric_work(fabric, rank, GPURING_TYPE_UINT64, GPURING_OP_SUM, count, input + offset,
                    output + offset, PATIENCE_NS);
    }
    if (gpu_run_streams(fabric) != GPURING_OK) {
        return false;
    }
    gpu_copy(output_image, output, (size_t) nranks * count * sizeof *values);
    for (uint64_t v = 0; v < (uint64_t) nranks * count; v++) {
        uint64_t expected = 0;

        for (int rank = 0; rank < nranks; rank++) {
            expected += stress_value(round, rank, v % count);
        }
        if (sums[v] != expected) {
            printf("# round %llu: element %llu of rank %llu is wrong\n", (unsigned long long) round,
                   (unsigned long long) (v % count), (unsigned long long) (v / count));
            return false;
        }
    }
    return true;
}

/*
 * Stress LL128 lines: kernels of all ranks write and read lines at the same time, with new values
 * in each round. If the flag of a line is visible before its data, a result is wrong. This test
 * uses one GPU. The tests with MPI cover lines between GPUs.
 */
#define STRESS_ROUNDS 2000

static void lines_stress(enum gpuring_algorithm algorithm, int nranks, uint32_t nchannels)
{
    unsigned long rounds = 0, wrong = 0;
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build(&plans, algorithm, nranks, nchannels);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_LL128, SMALL_SLOT, 2);
    for (uint64_t round = 0; round < STRESS_ROUNDS && wrong == 0; round++) {
        if (turn++ % parts == part) {
            wrong += !stress_round(&fabric, round, 500 + round * 37 % 3000);
            rounds++;
        }
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    gpu_check(wrong == 0, "LL128 lines under stress: %s, %d ranks: %lu calls",
              algorithm_names[algorithm], nranks, rounds);
}

/* Sizes of the vector or of a block for the other collectives. Every other size has blocks of
 * unequal sizes. */
#define COLLECTIVE_CALLS 4

static bool run_collective(struct fabric *fabric, struct collective_call *collective, int i)
{
    static const uint64_t counts[COLLECTIVE_CALLS] = {1, 300, 3000, 40000};
    int n = collective->nranks, status;

    collective->count = counts[i];
    collective->uneven = gpuring_collective_has_blocks(collective->collective) && i % 2 == 1;
    for (int s = 0; s < n; s++) {
        for (int r = 0; r < n; r++) {
            collective->counts[s][r] =
                counts[i] * (collective->uneven ? (uint64_t) ((s + 2 * r) % 3) : 1);
        }
    }
    collective_call_begin(fabric, collective, UINT64_MAX, PATIENCE_NS);
    status = gpu_run_streams(fabric);
    if (status == GPURING_OK) {
        collective_call_end(collective);
        return true;
    }
    printf("# %s: %s, count %llu\n", gpuring_status_text(status),
           gpuring_collective_text(collective->collective), (unsigned long long) counts[i]);
    return false;
}

static void collective_calls(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                             bool in_order, enum gpuring_protocol protocol)
{
    struct collective_call call = {.collective = collective,
                                   .algorithm = algorithm,
                                   .protocol = protocol,
                                   .nranks = 3,
                                   .root = 1};
    unsigned long before = calls, wrong = 0;
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build_on(&plans, collective, algorithm, call.nranks, 2, call.root, in_order);
    fabric_create(&fabric, &plans, protocol, SMALL_SLOT, FABRIC_SLICED);
    for (int i = 0; i < COLLECTIVE_CALLS; i++) {
        if (turn++ % parts == part) {
            calls++;
            wrong += !run_collective(&fabric, &call, i);
        }
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
    gpu_check(wrong == 0, "%s: %s, %s: %lu calls", gpuring_collective_text(collective),
              algorithm_names[algorithm], protocol_names[protocol], calls - before);
}

/* Test all other collectives. For trees, use the plan that folds in rank order if there is one. */
static void run_collectives(void)
{
    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        enum gpuring_collective collective = (enum gpuring_collective) c;

        for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
            enum gpuring_algorithm algorithm = (enum gpuring_algorithm) a;
            bool in_order = algorithm != GPURING_ALGORITHM_RING &&
                            gpuring_plan_exists(collective, algorithm, true, 2);

            for (int p = 0; p < GPURING_PROTOCOL_COUNT &&
                            (in_order || gpuring_plan_exists(collective, algorithm, false, 2));
                 p++) {
                collective_calls(collective, algorithm, in_order, (enum gpuring_protocol) p);
            }
        }
    }
}

static void run_allreduce(void)
{
    static const struct {
        enum gpuring_algorithm algorithm;
        int nranks;
        uint32_t nchannels;
    } shapes[] = {
        {GPURING_ALGORITHM_RING, 2, 1},     {GPURING_ALGORITHM_RING, 5, 2},
        {GPURING_ALGORITHM_RING, 8, 4},     {GPURING_ALGORITHM_TREE, 4, 2},
        {GPURING_ALGORITHM_DIRECT, 2, 1},   {GPURING_ALGORITHM_DIRECT, 6, 1},
        {GPURING_ALGORITHM_TWO_SHOT, 5, 2},
    };

    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            all_types(shapes[i].algorithm, (enum gpuring_protocol) protocol, shapes[i].nranks,
                      shapes[i].nchannels);
        }
        for (int algorithm = 0; algorithm < GPURING_ALGORITHM_COUNT; algorithm++) {
            boundaries((enum gpuring_algorithm) algorithm, (enum gpuring_protocol) protocol);
        }
        batches((enum gpuring_protocol) protocol);
    }
    lines_stress(GPURING_ALGORITHM_RING, 2, 4);
    lines_stress(GPURING_ALGORITHM_DIRECT, 4, 2);
}

int main(int argc, char **argv)
{
    bool collectives = false;
    int ordinal = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--gpu") == 0 && i + 1 < argc) {
            ordinal = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc &&
                   sscanf(argv[i + 1], "%lu/%lu", &part, &parts) == 2 && parts > 0) {
            i++;
        } else if (strcmp(argv[i], "--collectives") == 0) {
            collectives = true;
        } else {
            fprintf(stderr, "usage: gpu_lanes [--gpu N] [--part I/N] [--collectives]\n");
            return 2;
        }
    }
    gpu_open(ordinal);
    input = gpu_alloc(ROOM);
    output = gpu_alloc(ROOM);
    input_image = gpu_alloc_pinned(ROOM);
    output_image = gpu_alloc_pinned(ROOM);
    if (!collectives) {
        run_allreduce();
    }
    run_collectives();
    gpu_free(input);
    gpu_free(output);
    gpu_free_pinned(input_image);
    gpu_free_pinned(output_image);
    gpu_close();
    return gpu_finish();
}
