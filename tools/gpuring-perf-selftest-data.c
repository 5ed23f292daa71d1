/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The data of the selftest: random words, and three patterns that reveal stuck or crossed bits and
 * misplaced data. Each call has different data than the calls before it, so that data left over
 * from an earlier call is detected.
 */
#include <string.h>

#include "gpuring-perf-selftest.h"

#define PATTERNS 4

static uint64_t mix_word(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Return word `at` of a rank's contribution to a call. */
static uint64_t word_of(const struct selftest *test, int rank, uint64_t serial, size_t at)
{
    uint64_t call = mix_word(test->seed + serial) + (uint64_t) rank * UINT64_C(0x9e3779b97f4a7c15);

    switch (serial % PATTERNS) {
    case 0:
        return mix_word(call + at);
    case 1: /* neighbouring words are inverted */
        return ((at + call) & 1) != 0 ? UINT64_C(0x5555555555555555) : UINT64_C(0xaaaaaaaaaaaaaaaa);
    case 2: /* a single bit */
        return UINT64_C(1) << (at + call) % 64;
    default: /* place and rank */
        return call << 40 ^ (uint64_t) rank << 32 ^ at;
    }
}

static void data_fill(const struct selftest *test, uint64_t *words, size_t count, uint64_t serial)
{
    for (size_t i = 0; i < count; i++) {
        words[i] = word_of(test, test->bench->rank, serial, i);
    }
}

/* Prepare both buffers. Return 0 or -1. */
static int data_prepare(struct selftest *test, size_t words, uint64_t serial)
{
    struct perf_bench *bench = test->bench;

    perf_data_poison(bench->host, words * 8);
    if (perf_memory_write(bench->recv, bench->host, words * 8) != 0) {
        return -1;
    }
    data_fill(test, bench->host, words, serial);
    return perf_memory_write(bench->send, bench->host, words * 8);
}

static void note_time(struct selftest_result *result, size_t bytes, double microseconds)
{
    if ((double) bytes > result->bytes ||
        ((double) bytes == result->bytes && microseconds < result->microseconds)) {
        result->bytes = (double) bytes;
        result->microseconds = microseconds;
    }
}

/* Count the words that differ from the sum of the ranks' contributions. */
static void verify(struct selftest *test, const int *ranks, int nranks, size_t words,
                   uint64_t serial, struct selftest_result *result)
{
    const uint64_t *got = test->bench->host;

    if (perf_memory_read(test->bench->host, test->bench->recv, words * 8) != 0) {
        result->failed++;
        return;
    }
    for (size_t i = 0; i < words; i++) {
        uint64_t expected = 0;

        for (int r = 0; r < nranks; r++) {
            expected += word_of(test, ranks[r], serial, i);
        }
        result->wrong += got[i] != expected;
    }
}

void selftest_exchange(struct selftest *test, MPI_Comm comm, int partner, size_t words,
                       uint64_t serial, struct selftest_result *result)
{
    struct perf_bench *bench = test->bench;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int other = partner < bench->rank ? 0 : 1, status;
    double start;

    result->calls++;
    result->failed += data_prepare(test, words, serial) != 0;
    start = MPI_Wtime();
    status = MPI_Irecv(bench->recv, (int) words, MPI_UINT64_T, other, 1, comm, &requests[0]);
    if (status == MPI_SUCCESS) {
        status = MPI_Isend(bench->send, (int) words, MPI_UINT64_T, other, 1, comm, &requests[1]);
    }
    if (status == MPI_SUCCESS) {
        status = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    if (status != MPI_SUCCESS) {
        result->failed++;
        return;
    }
    note_time(result, words * 8, (MPI_Wtime() - start) * 1e6);
    verify(test, &partner, 1, words, serial, result);
}

void selftest_sum(struct selftest *test, MPI_Comm comm, const int *ranks, int nranks, size_t words,
                  uint64_t serial, struct selftest_result *result)
{
    struct perf_bench *bench = test->bench;
    double start;

    result->calls++;
    result->failed += data_prepare(test, words, serial) != 0;
    start = MPI_Wtime();
    if (MPI_Allreduce(bench->send, bench->recv, (int) words, MPI_UINT64_T, MPI_SUM, comm) !=
        MPI_SUCCESS) {
        result->failed++;
        return;
    }
    note_time(result, words * 8, (MPI_Wtime() - start) * 1e6);
    verify(test, ranks, nranks, words, serial, result);
}

void selftest_collective(struct selftest *test, MPI_Comm comm,
                         const struct perf_collective *collective, size_t bytes,
                         struct selftest_result *result)
{
    struct perf_bench *bench = test->bench;
    struct perf_case what =
        perf_bench_case(bench, bench->options->types[0], bench->options->ops[0], bytes);
    struct perf_call call;
    double start;

    what.root = test->pass % bench->nranks;
    call = perf_bench_call(bench, &what);
    call.comm = comm;
    result->calls += 2;
    /* Make both calls even if the first one fails, because the other ranks make both. */
    result->failed += perf_bench_checked(bench, &what, &call, &result->wrong) != 0;
    start = MPI_Wtime();
    if (collective->run(&call) != MPI_SUCCESS) {
        result->failed++;
        return;
    }
    note_time(result, what.count * what.type->bytes * perf_bench_blocks(bench),
              (MPI_Wtime() - start) * 1e6);
}
