/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Shared by all measurements: sizes, buffers, a call and its check. */
#include "gpuring-perf.h"

#include <limits.h>

/* Return true on all ranks if every rank passed true. */
bool perf_all_well(bool well)
{
    int mine = well, all = 0;

    return MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS && all;
}

int perf_iterations(const struct perf_options *options, size_t bytes)
{
    if (options->iterations > 0) {
        return options->iterations;
    }
    return bytes <= 4096 ? 1000 : bytes <= 262144 ? 200 : bytes <= 4194304 ? 50 : 10;
}

size_t perf_bench_blocks(const struct perf_bench *bench)
{
    size_t send = perf_collective_send_blocks(bench->options->collective, (size_t) bench->nranks);
    size_t recv = perf_collective_recv_blocks(bench->options->collective, (size_t) bench->nranks);

    return send > recv ? send : recv;
}

bool perf_bench_countable(const struct perf_bench *bench, size_t count)
{
    size_t all = count * perf_bench_blocks(bench);

    if (all > INT_MAX) {
        perf_message("%zu elements are more than an int counts: MPI takes no larger size", all);
    }
    return all <= INT_MAX;
}

/* Return the elements of a block so that all blocks have at most `bytes`; at least 1 unless bytes
 * is 0. */
size_t perf_bench_count(const struct perf_bench *bench, const struct perf_type *type, size_t bytes)
{
    size_t count = bytes / type->bytes / perf_bench_blocks(bench);

    return count == 0 && bytes > 0 ? 1 : count;
}

struct perf_case perf_bench_case(const struct perf_bench *bench, const struct perf_type *type,
                                 const struct perf_op *op, size_t bytes)
{
    const struct perf_options *options = bench->options;

    return (struct perf_case){
        .collective = options->collective,
        .type = type,
        .op = perf_collective_reduces(options->collective) ? op : NULL,
        .root = options->root,
        .count = perf_bench_count(bench, type, bytes),
        .rank = bench->rank,
        .nranks = bench->nranks,
        .in_place = options->in_place,
    };
}

/* Return the send buffer of the call. */
static const void *input_of(const struct perf_bench *bench, const struct perf_case *what)
{
    enum perf_shape shape = what->collective->shape;
    bool root_alone = shape == PERF_REDUCE_ROOT || shape == PERF_GATHER;
    bool one_buffer = shape == PERF_BCAST || (what->in_place && shape != PERF_SCATTER &&
                                              (!root_alone || bench->rank == what->root));

    return one_buffer ? bench->recv : bench->send;
}

static int fill_buffers(struct perf_bench *bench, const struct perf_case *what)
{
    size_t bytes = what->count * what->type->bytes * perf_bench_blocks(bench);
    enum perf_shape shape = what->collective->shape;
    bool contributes = (shape != PERF_BCAST && shape != PERF_SCATTER) || bench->rank == what->root;
    int status;

    perf_data_poison(bench->host, bytes);
    status = perf_memory_write(bench->recv, bench->host, bytes);
    if (status == 0 && contributes) {
        perf_data_fill(what, bench->host);
        status = perf_memory_write((void *) (uintptr_t) input_of(bench, what), bench->host, bytes);
    }
    return status;
}

static int check_result(struct perf_bench *bench, const struct perf_case *what, long long *wrong)
{
    size_t bytes = what->count * what->type->bytes *
                   perf_collective_recv_blocks(what->collective, (size_t) what->nranks);
    size_t first = 0, mine;

    if (perf_memory_read(bench->host, bench->recv, bytes) != 0) {
        return -1;
    }
    mine = perf_data_check(what, bench->host, &first);
    if (mine > 0) {
        perf_message("rank %d: %zu wrong elements of %s %s, count %zu; the first is element %zu",
                     bench->rank, mine, what->type->name, what->op != NULL ? what->op->name : "",
                     what->count, first);
    }
    *wrong += (long long) mine;
    return 0;
}

int perf_bench_checked(struct perf_bench *bench, const struct perf_case *what,
                       struct perf_call *call, long long *wrong)
{
    if (fill_buffers(bench, what) != 0 || what->collective->run(call) != MPI_SUCCESS) {
        return -1;
    }
    return bench->options->no_check ? 0 : check_result(bench, what, wrong);
}

struct perf_call perf_bench_call(struct perf_bench *bench, const struct perf_case *what)
{
    bool one_buffer = input_of(bench, what) == bench->recv;
    bool keeps =
        what->in_place && what->collective->shape == PERF_SCATTER && bench->rank == what->root;

    for (int r = 0; r < bench->nranks; r++) {
        bench->counts[r] = (int) what->count;
        bench->displs[r] = r * (int) what->count;
    }
    return (struct perf_call){
        .send = one_buffer ? MPI_IN_PLACE : bench->send,
        .recv = keeps ? MPI_IN_PLACE : bench->recv,
        .count = (int) what->count,
        .counts = bench->counts,
        .displs = bench->displs,
        .type = what->type,
        .op = what->op,
        .root = what->root,
        .comm = MPI_COMM_WORLD,
        .request = MPI_REQUEST_NULL,
    };
}

int perf_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

int perf_bench_connect(const struct perf_case *what, struct perf_call *call)
{
    return what->collective->blocking(call) == MPI_SUCCESS ? 0 : -1;
}

size_t perf_next_size(const struct perf_options *options, size_t bytes)
{
    double next;

    if (options->step_bytes > 0) {
        return bytes > SIZE_MAX - options->step_bytes ? SIZE_MAX : bytes + options->step_bytes;
    }
    if (bytes == 0) {
        return 1;
    }
    next = (double) bytes * options->factor;
    return next >= (double) SIZE_MAX   ? SIZE_MAX
           : next < (double) bytes + 1 ? bytes + 1
                                       : (size_t) next;
}
