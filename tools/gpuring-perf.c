/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf: measure MPI collectives and check their results at every position.
 *
 * For each size, gpuring-perf fills the buffers, makes one call and checks its result, makes
 * warm-up calls (for some time before the first size, so that the processes have settled) and timed
 * calls, and again fills, calls and checks, because a path may only be used after the first calls.
 * The time is the slowest rank's mean over the timed calls. Percentiles are over the calls, each
 * with the time of its slowest rank.
 */
#include "gpuring-perf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_ERROR = 2 };

static int timed_calls(struct perf_bench *bench, const struct perf_case *what,
                       struct perf_call *call, int iterations, double *mean)
{
    double total = 0;

    if (bench->options->enqueue) {
        int status = perf_enqueue_timed(call, iterations, bench->options->graph, mean);

        for (int i = 0; i < iterations; i++) {
            bench->times[i] = *mean;
        }
        return status;
    }
    for (int i = 0; i < iterations; i++) {
        if (bench->options->barrier && MPI_Barrier(bench->barriers) != MPI_SUCCESS) {
            return -1;
        }
        double start = MPI_Wtime();

        if (what->collective->run(call) != MPI_SUCCESS) {
            return -1;
        }
        bench->times[i] = (MPI_Wtime() - start) * 1e6;
        total += bench->times[i];
    }
    *mean = total / iterations;
    return 0;
}

/* Return the smallest value such that at least the fraction `part` of all values is not larger. */
static double percentile(const double *sorted, int n, double part)
{
    int at = (int) (part * n + 0.999999) - 1;

    return sorted[at < 0 ? 0 : at >= n ? n - 1 : at];
}

/* Combine the ranks' figures; the row is complete on rank 0. */
static int gather_row(struct perf_bench *bench, struct perf_row *row, double mean, long long wrong)
{
    double factor = perf_collective_bus_factor(bench->options->collective, (size_t) bench->nranks);
    uint64_t network[2] = {row->served.value[PERF_COUNTER_net_bytes],
                           row->served.value[PERF_COUNTER_net_retries]};
    int n = row->iterations;

    if (MPI_Reduce(bench->times, bench->slowest, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        MPI_Allreduce(&mean, &row->time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS ||
        MPI_Allreduce(&wrong, &row->wrong, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        MPI_Allreduce(MPI_IN_PLACE, network, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS) {
        return -1;
    }
    row->served.value[PERF_COUNTER_net_bytes] = network[0];
    row->served.value[PERF_COUNTER_net_retries] = network[1];
    bench->wrong += row->wrong;
    if (bench->options->no_check) {
        row->wrong = -1;
    }
    if (bench->rank == 0) {
        qsort(bench->slowest, (size_t) n, sizeof *bench->slowest, perf_compare_doubles);
        row->low = bench->slowest[0];
        row->p50 = percentile(bench->slowest, n, 0.50);
        row->p90 = percentile(bench->slowest, n, 0.90);
        row->p99 = percentile(bench->slowest, n, 0.99);
        row->high = bench->slowest[n - 1];
    }
    row->algbw = row->time > 0 ? (double) row->bytes / row->time / 1e3 : 0;
    row->busbw = row->algbw * factor;
    return 0;
}

/*
 * Make calls for some time before the first size. Processes that have just started often share a
 * core until the scheduler has distributed them, which takes longer than the warm-up calls.
 */
static int settle(struct perf_bench *bench, const struct perf_case *what, struct perf_call *call)
{
    double end = MPI_Wtime() + bench->options->settle_ms * 1e-3;
    int status = 0;

    bench->settled = true;
    while (perf_all_well(status == 0 && MPI_Wtime() < end)) {
        for (int i = 0; i < 8 && status == 0; i++) {
            status = what->collective->run(call) == MPI_SUCCESS ? 0 : -1;
        }
    }
    return status;
}

/* Measure one line of the table. */
static int measure(struct perf_bench *bench, const struct perf_case *what, size_t bytes)
{
    struct perf_call call = perf_bench_call(bench, what);
    struct perf_row row = {.bytes = bytes,
                           .count = what->count,
                           .type = what->type,
                           .op = what->op,
                           .root = what->root,
                           .iterations = perf_iterations(bench->options, bytes)};
    struct perf_counts before;
    long long wrong = 0;
    double mean = 0;
    int status = 0;

    if (!bench->settled && perf_bench_connect(what, &call) != 0) {
        return -1;
    }
    if (what->collective->prepare != NULL && what->collective->prepare(&call) != MPI_SUCCESS) {
        perf_message("%s cannot be prepared", what->collective->name);
        return -1;
    }
    status = perf_bench_checked(bench, what, &call, &wrong);
    if (status == 0 && !bench->settled) {
        status = settle(bench, what, &call);
    }
    for (int i = 0; i < bench->options->warmup && status == 0; i++) {
        status = what->collective->run(&call) == MPI_SUCCESS ? 0 : -1;
    }
    if (!perf_all_well(status == 0) || perf_counters_read(&before) != 0 ||
        timed_calls(bench, what, &call, row.iterations, &mean) != 0 ||
        perf_counters_since(&before, &row.served) != 0 ||
        perf_bench_checked(bench, what, &call, &wrong) != 0) {
        perf_message("rank %d: %s failed at %zu bytes", bench->rank, what->collective->name, bytes);
        return -1;
    }
    if (what->collective->finish != NULL && what->collective->finish(&call) != MPI_SUCCESS) {
        return -1;
    }
    if (gather_row(bench, &row, mean, wrong) != 0) {
        return -1;
    }
    return bench->report != NULL ? perf_report_row(bench->report, &row) : 0;
}

static int sweep(struct perf_bench *bench, const struct perf_type *type, const struct perf_op *op)
{
    const struct perf_options *options = bench->options;
    size_t before = SIZE_MAX;

    for (size_t size = options->min_bytes; size <= options->max_bytes;
         size = perf_next_size(options, size)) {
        struct perf_case what = perf_bench_case(bench, type, op, size);

        if (what.count == before) { /* larger by less than one element */
            continue;
        }
        before = what.count;
        if (!perf_bench_countable(bench, what.count) ||
            measure(bench, &what, what.count * type->bytes * perf_bench_blocks(bench)) != 0) {
            return -1;
        }
    }
    return 0;
}

static int run_all(struct perf_bench *bench)
{
    const struct perf_options *options = bench->options;

    for (size_t t = 0; t < options->ntypes; t++) {
        if (!perf_collective_reduces(options->collective)) {
            if (sweep(bench, options->types[t], NULL) != 0) {
                return -1;
            }
            continue;
        }
        for (size_t o = 0; o < options->nops; o++) {
            if (perf_op_fits(options->ops[o], options->types[t]) &&
                sweep(bench, options->types[t], options->ops[o]) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int local_rank(void)
{
    MPI_Comm node;
    int rank = 0;

    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) !=
        MPI_SUCCESS) {
        return 0;
    }
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

static bool duplicate_world(MPI_Comm *comm)
{
    bool well = MPI_Comm_dup(MPI_COMM_WORLD, comm) == MPI_SUCCESS;

    if (!well) {
        perf_message("MPI cannot duplicate MPI_COMM_WORLD to make barriers on it");
    }
    return well;
}

static bool bench_open(struct perf_bench *bench)
{
    const struct perf_options *options = bench->options;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    size_t least = 0;
    int length = 0;

    for (size_t t = 0; t < options->ntypes; t++) { /* the smallest size has one element per rank */
        least = options->types[t]->bytes > least ? options->types[t]->bytes : least;
    }
    least *= (size_t) bench->nranks;
    size_t room = options->max_bytes > least ? options->max_bytes : least;

    bench->max_iterations = perf_iterations(options, 0);
    if (perf_memory_open(options->memory, bench->local_rank) != 0) {
        return false;
    }
    bench->send = perf_memory_alloc(room);
    bench->recv = perf_memory_alloc(room);
    bench->host = malloc(room);
    bench->counts = calloc((size_t) bench->nranks, sizeof *bench->counts);
    bench->displs = calloc((size_t) bench->nranks, sizeof *bench->displs);
    bench->times = calloc((size_t) bench->max_iterations, sizeof *bench->times);
    bench->slowest = calloc((size_t) bench->max_iterations, sizeof *bench->slowest);
    if (bench->send == NULL || bench->recv == NULL || bench->host == NULL ||
        bench->counts == NULL || bench->displs == NULL || bench->times == NULL ||
        bench->slowest == NULL) {
        perf_message(
            "[no-memory] rank %d: out of memory for buffers of %zu bytes; try a smaller --end",
            bench->rank, room);
        return false;
    }
    (void) perf_counters_open();
    if (options->enqueue &&
        (perf_enqueue_open() != 0 || (options->graph && perf_graph_open() != 0))) {
        return false;
    }
    if (bench->rank == 0 && options->tune == NULL && !options->compare && !options->selftest) {
        MPI_Get_library_version(version, &length);
        version[strcspn(version, ",\n")] = '\0';
        bench->report = perf_report_open(options, bench->nranks, version);
        return bench->report != NULL;
    }
    return true;
}

static int bench_close(struct perf_bench *bench)
{
    int status = bench->report != NULL ? perf_report_close(bench->report) : 0;

    perf_enqueue_close();
    perf_counters_close();
    perf_memory_free(bench->send);
    perf_memory_free(bench->recv);
    free(bench->host);
    free(bench->counts);
    free(bench->displs);
    free(bench->times);
    free(bench->slowest);
    if (bench->barriers != MPI_COMM_NULL) {
        MPI_Comm_free(&bench->barriers);
    }
    return status;
}

static int benchmark(const struct perf_options *options, int rank, int nranks)
{
    struct perf_bench bench = {
        .options = options, .rank = rank, .nranks = nranks, .barriers = MPI_COMM_NULL};
    int status = EXIT_RIGHT;

    bench.local_rank = local_rank();
    if (!perf_all_well(duplicate_world(&bench.barriers) && bench_open(&bench))) {
        (void) bench_close(&bench);
        return EXIT_ERROR;
    }
    status = options->tune != NULL ? perf_tune(&bench)
             : options->compare    ? perf_compare(&bench)
             : options->selftest   ? perf_selftest(&bench)
                                   : run_all(&bench);
    if (status < 0) {
        MPI_Abort(MPI_COMM_WORLD, EXIT_ERROR); /* other ranks may be inside a call */
    }
    status = status > 0 ? EXIT_ERROR : bench.wrong > 0 ? EXIT_WRONG : EXIT_RIGHT;
    if (bench_close(&bench) != 0) {
        status = EXIT_ERROR;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    int rank, nranks, parsed, status;

    perf_selftest_environment(argc, argv);
    /* Measure this component from the first call on each communicator. */
    (void) setenv("OMPI_MCA_coll_gpuring_connect_after", "0", 0);
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        fputs("gpuring-perf: MPI does not start\n", stderr);
        return EXIT_ERROR;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

    parsed = perf_options_parse(argc, argv, rank == 0, &options);
    if (parsed == 0 && options.root >= nranks) {
        if (rank == 0) {
            perf_message("[bad-option] --root %d: there are %d ranks", options.root, nranks);
        }
        parsed = -1;
    }
    if (parsed != 0) {
        status = parsed > 0 ? EXIT_RIGHT : EXIT_ERROR;
    } else {
        status = benchmark(&options, rank, nranks);
    }
    MPI_Finalize();
    perf_memory_close(); /* after MPI_Finalize, because MPI uses its context */
    return status;
}
