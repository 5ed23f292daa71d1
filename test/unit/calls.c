/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/calls.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/reference.h"

#define GUARD      64 /* bytes before and after each output that must not change */
#define GUARD_BYTE 0xa5

struct buffers {
    uint8_t *input, *output, *memory[2];
};

static void buffers_create(struct buffers *buffers, const struct call *call, int rank)
{
    size_t size = gpuring_type_info(call->type)->size, bytes = call->count * size;
    size_t shift = call->mapped ? 0 : (call->shift + (size_t) rank) % 16;
    size_t other = call->mapped ? 0 : 15 - shift;

    for (int i = 0; i < 2; i++) {
        buffers->memory[i] = malloc(bytes + 16 + 2 * GUARD);
        assert_non_null(buffers->memory[i]);
        memset(buffers->memory[i], GUARD_BYTE, bytes + 16 + 2 * GUARD);
    }
    buffers->input = buffers->memory[0] + GUARD + shift;
    buffers->output = call->in_place ? buffers->input : buffers->memory[1] + GUARD + other;
    for (uint64_t i = 0; i < call->count; i++) {
        reference_input(call->type, call->op, rank, i, buffers->input + i * size);
    }
}

static void buffers_destroy(struct buffers *buffers)
{
    free(buffers->memory[0]);
    free(buffers->memory[1]);
}

/* Return 0 if the output is right, and the bytes around it and the input have not changed. */
static int buffers_check(const struct buffers *buffers, const struct call *call, int rank,
                         int nranks)
{
    size_t size = gpuring_type_info(call->type)->size, bytes = call->count * size;
    uint8_t expected[64];

    for (uint64_t i = 0; i < call->count; i++) {
        reference_result(call->type, call->op, nranks, i, expected);
        if (!reference_equal(call->type, expected, buffers->output + i * size)) {
            print_error("rank %d: element %llu is wrong\n", rank, (unsigned long long) i);
            return -1;
        }
        reference_input(call->type, call->op, rank, i, expected);
        if (!call->in_place && !reference_equal(call->type, expected, buffers->input + i * size)) {
            print_error("rank %d: input %llu has changed\n", rank, (unsigned long long) i);
            return -1;
        }
    }
    for (size_t i = 1; i <= GUARD; i++) {
        if (buffers->output[-(ptrdiff_t) i] != GUARD_BYTE ||
            buffers->output[bytes + i - 1] != GUARD_BYTE) {
            print_error("rank %d: wrote beyond its output\n", rank);
            return -1;
        }
    }
    return 0;
}

/* Let a rank access the buffers of its peers. The tables of all ranks are in `table`. */
static void map_buffers(struct fabric *fabric, int rank, const struct buffers *buffers,
                        struct gpuring_mapped *table)
{
    const struct gpuring_plan *plan = fabric->plans->plans[rank];
    struct gpuring_mapped *own = table + rank * fabric->plans->nranks;

    for (uint32_t i = 0; i < plan->lanes[0].nsends; i++) {
        int peer = plan->sends[i].peer;

        assert_int_equal(plan->recvs[i].peer, peer); /* both directions have the same order */
        own[i] = (struct gpuring_mapped){buffers[peer].input, buffers[peer].output};
    }
    fabric->ranks[rank].work.mapped = own;
    fabric->ranks[rank].work.chunk = UINT64_C(1) << 20;
    fabric->ranks[rank].work.slice = 0;
}

/* Run ranks in turn, the last rank first, until all are done. Return 0 or the first error. */
int call_run_in_turn(struct fabric *fabric, call_executor executor)
{
    int running = fabric->plans->nranks;

    for (int round = 0; running > 0 && round < 1000000; round++) {
        running = 0;
        for (int rank = fabric->plans->nranks - 1; rank >= 0; rank--) {
            int status = executor(&fabric->ranks[rank].work);

            if (status < 0) {
                return status;
            }
            running += status == GPURING_AGAIN;
        }
    }
    return running == 0 ? GPURING_OK : GPURING_ERR_TIMEOUT;
}

struct rank_thread {
    struct gpuring_work *work;
    call_executor executor;
    int status;
};

static void *rank_main(void *argument)
{
    struct rank_thread *self = argument;

    while ((self->status = self->executor(self->work)) == GPURING_AGAIN) {
        sched_yield();
    }
    return NULL;
}

int call_run_threads(struct fabric *fabric, call_executor executor)
{
    struct rank_thread ranks[16];
    pthread_t threads[16];
    int status = GPURING_OK;

    assert_true(fabric->plans->nranks <= 16);
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        ranks[rank] = (struct rank_thread){.work = &fabric->ranks[rank].work, .executor = executor};
        assert_int_equal(pthread_create(&threads[rank], NULL, rank_main, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
        status = ranks[rank].status != GPURING_OK ? ranks[rank].status : status;
    }
    return status;
}

void call_run(struct fabric *fabric, const struct call *call,
              int (*run)(struct fabric *, call_executor), call_executor executor, uint64_t patience)
{
    int nranks = fabric->plans->nranks, status, wrong = 0;
    struct buffers *buffers = calloc((size_t) nranks, sizeof *buffers);
    struct gpuring_mapped *mapped = calloc((size_t) nranks * (size_t) nranks, sizeof *mapped);

    assert_non_null(buffers);
    assert_non_null(mapped);
    for (int rank = 0; rank < nranks; rank++) {
        buffers_create(&buffers[rank], call, rank);
        fabric_work(fabric, rank, call->type, call->op, call->count, buffers[rank].input,
                    buffers[rank].output, patience);
    }
    for (int rank = 0; call->mapped && rank < nranks; rank++) {
        map_buffers(fabric, rank, buffers, mapped);
    }
    status = run(fabric, executor);
    for (int rank = 0; rank < nranks; rank++) {
        wrong += status == GPURING_OK && buffers_check(&buffers[rank], call, rank, nranks) != 0;
        buffers_destroy(&buffers[rank]);
    }
    free(buffers);
    free(mapped);
    if (status != GPURING_OK || wrong != 0) {
        fail_msg(
            "status %d, %d ranks wrong: algorithm %d, protocol %d, %d ranks, %s %s, count %llu, "
            "%s, misaligned by %zu",
            status, wrong, (int) fabric->plans->plans[0]->algorithm, (int) fabric->protocol, nranks,
            gpuring_type_info(call->type)->name, gpuring_op_info(call->op)->name,
            (unsigned long long) call->count, call->in_place ? "in place" : "out of place",
            call->shift);
    }
}

size_t call_counts(const struct fabric *fabric, uint32_t type, uint64_t *counts)
{
    uint64_t size = gpuring_type_info(type)->size;
    uint64_t align = gpuring_chunk_align(size), line = gpuring_line_bytes(size) / size;
    uint64_t chunk = gpuring_chunk_max(fabric->protocol, fabric->slot_bytes, size);
    uint64_t window = chunk * fabric->plans->plans[0]->lanes[0].nchunks;
    const uint64_t list[] = {0,     1,         2,      3,          align - 1,
                             align, align + 1, line,   line + 1,   chunk - 1,
                             chunk, chunk + 1, window, window + 1, 2 * window + align + 3};

    memcpy(counts, list, sizeof list);
    return sizeof list / sizeof *list;
}

/* Check that every flag was written. */
static void expect_written(const uint64_t *lines, size_t bytes)
{
    for (size_t line = 0; line < bytes / 8; line++) {
        assert_true(lines[line] >> 32 != 0);
    }
}

void call_flag_wrap(call_executor executor)
{
    enum { slot_bytes = 1024 };
    static const uint64_t starts[] = {3 * GPURING_LL_CLEAN_PERIOD - 2, (UINT64_C(1) << 32) - 3};
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 3, 1);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_LL, slot_bytes, 4);
    for (size_t start = 0; start < 2; start++) {
        fabric_start_at(&fabric, starts[start]);
        for (uint64_t i = 0; i < 8; i++) {
            struct call call = {.type = GPURING_TYPE_UINT32,
                                .op = GPURING_OP_SUM,
                                .count = start == 0 ? 1 + i : 3 * 128 - i};

            call_run(&fabric, &call, call_run_in_turn, executor, 1);
        }
        if (start == 0) { /* calls with short pieces and with others have written every line */
            const struct gpuring_fifo_end *send = &fabric.ranks[0].sends[0];

            expect_written((const uint64_t *) (const void *) send->slots, 4 * slot_bytes);
            expect_written((const uint64_t *) (const void *) (send->slots - 4 * GPURING_FIFO_SHORT),
                           4 * GPURING_FIFO_SHORT);
        }
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}
