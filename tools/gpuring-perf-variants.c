/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Measure several ways to serve a collective (variants) alternately in one job.
 *
 * Each variant has a duplicate of the world. Parameters apply when a communicator is wired up, so
 * the duplicate is connected while coll_gpuring_algorithm and _protocol have the values of the
 * variant. At each size, all variants are measured in several rounds of alternating order, so that
 * other load on the machine affects all of them equally.
 */
#include "gpuring-perf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"

#define LEFT_OUT  2.0   /* times the best one */
#define BUDGET_US 10000 /* time of a variant in a round, unless one call takes longer */
#define FIRST                                                                         \
    64 /* bytes of a variant's first call: more than Open MPI's own calls have, which \
          are not counted */

static bool has_no_data(const struct perf_bench *bench)
{
    return bench->options->collective->shape == PERF_NO_DATA;
}

static struct perf_case case_of(const struct perf_bench *bench, size_t bytes)
{
    return perf_bench_case(bench, bench->options->types[0], bench->options->ops[0], bytes);
}

/* ---- Creating them ---- */

#define COUNTER(v, name, id, text, help) PERF_COUNTER_calls_##id,
static const enum perf_counter by_algorithm[] = {GPURING_ALGORITHMS(COUNTER, )};
#undef COUNTER
#define COUNTER(name, id, ...) PERF_COUNTER_calls_##id,
static const enum perf_counter by_protocol[] = {KERNELS_PROTOCOLS(COUNTER)};
#undef COUNTER

/* Return true if the variant served the one call that was counted. Barriers that the previous
 * component serves are not counted. */
static bool served(const struct perf_bench *bench, const struct perf_variant *variant)
{
    const uint64_t *counts = variant->served.value;

    if (variant->algorithm == PERF_VARIANT_AS_SET) {
        return !has_no_data(bench) || counts[PERF_COUNTER_calls] == 1;
    }
    if (variant->algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS) {
        return counts[PERF_COUNTER_fallbacks] == (has_no_data(bench) ? 0 : 1);
    }
    return counts[by_algorithm[variant->algorithm - 1]] == 1 &&
           counts[by_protocol[variant->protocol - 1]] == 1;
}

static int call_end(struct perf_variant *variant, const struct perf_case *what)
{
    return what->collective->finish == NULL ||
                   what->collective->finish(&variant->call) == MPI_SUCCESS
               ? 0
               : -1;
}

/* Prepare calls on the variant's communicator, and make one call whose result is checked. */
static int call_begin(struct perf_bench *bench, struct perf_variant *variant,
                      const struct perf_case *what, long long *wrong)
{
    struct perf_counts before;

    variant->call = perf_bench_call(bench, what);
    variant->call.comm = variant->comm;
    if (perf_counters_read(&before) != 0 ||
        (what->collective->prepare != NULL &&
         what->collective->prepare(&variant->call) != MPI_SUCCESS) ||
        perf_bench_checked(bench, what, &variant->call, wrong) != 0 ||
        perf_counters_since(&before, &variant->served) != 0) {
        return -1;
    }
    return 0;
}

static int set_parameters(const struct perf_variant *variant)
{
    return variant->algorithm == PERF_VARIANT_AS_SET ||
                   (perf_counters_set("algorithm", variant->algorithm_name) == 0 &&
                    perf_counters_set("protocol", variant->protocol_name) == 0)
               ? 0
               : -1;
}

/* Create the variant's communicator. Return 0, 1 (the variant is not offered here), or -1. */
static int variant_open(struct perf_bench *bench, struct perf_variant *variant)
{
    size_t most = bench->options->max_bytes; /* 0: barriers */
    struct perf_case what = case_of(bench, most < FIRST ? most : FIRST);
    struct perf_call first = perf_bench_call(bench, &what);
    long long wrong = 0;
    int number = 0;

    if (!perf_all_well(set_parameters(variant) == 0) ||
        MPI_Comm_dup(MPI_COMM_WORLD, &variant->comm) != MPI_SUCCESS) {
        return -1;
    }
    MPI_Comm_set_errhandler(variant->comm, MPI_ERRORS_RETURN);
    first.comm = variant->comm;
    /* Barriers are only served after another call has connected the ranks. */
    if ((has_no_data(bench) &&
         MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, MPI_SUM, variant->comm) != MPI_SUCCESS) ||
        perf_bench_connect(&what, &first) != 0 || call_begin(bench, variant, &what, &wrong) != 0 ||
        call_end(variant, &what) != 0) {
        return -1;
    }
    if (perf_all_well(wrong == 0 && served(bench, variant))) {
        return 0;
    }
    MPI_Comm_free(&variant->comm);
    return 1;
}

int perf_variant_add(struct perf_variants *set, int algorithm, int protocol)
{
#define TEXT_OF(name, text) text,
    static const char *const algorithms[] = {GPURING_VALUES_algorithm(TEXT_OF)};
    static const char *const protocols[] = {GPURING_VALUES_protocol(TEXT_OF)};
#undef TEXT_OF
    struct perf_variant *variant = &set->at[set->count];
    int status;

    *variant = (struct perf_variant){.algorithm = algorithm, .protocol = protocol};
    if (algorithm != PERF_VARIANT_AS_SET) {
        variant->algorithm_name = algorithms[algorithm];
        variant->protocol_name = protocols[protocol];
    }
    status = variant_open(set->bench, variant);
    if (status == 0) {
        variant->times = calloc((size_t) set->bench->options->rounds, sizeof *variant->times);
        set->count++;
        status = perf_all_well(variant->times != NULL) ? 0 : -1;
    }
    return status;
}

void perf_variants_close(struct perf_variants *set)
{
    for (int v = 0; v < set->count; v++) {
        MPI_Comm_free(&set->at[v].comm);
        free(set->at[v].times);
    }
    set->count = 0;
}

/* ---- Measuring ---- */

/* Time calls of a variant. On rank 0, *time is the slowest rank's mean in microseconds per call. */
static int time_calls(const struct perf_collective *collective, struct perf_variant *variant,
                      int calls, double *time)
{
    double start, mean;

    if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) {
        return -1;
    }
    start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        if (collective->run(&variant->call) != MPI_SUCCESS) {
            return -1;
        }
    }
    mean = (MPI_Wtime() - start) * 1e6 / calls;
    return MPI_Reduce(&mean, time, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0
                                                                                             : -1;
}

/* Prepare each variant, check its results, and determine the number of calls per round. */
static int begin_all(struct perf_variants *set, const struct perf_case *what, int *calls)
{
    int most = perf_iterations(set->bench->options,
                               what->count * what->type->bytes * perf_bench_blocks(set->bench));

    for (int v = 0; v < set->count; v++) {
        long long wrong = 0, all = 0;
        double once = 0;

        if (call_begin(set->bench, &set->at[v], what, &wrong) != 0 ||
            MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS ||
            time_calls(what->collective, &set->at[v], 1, &once) != 0) {
            return -1;
        }
        set->bench->wrong += all;
        calls[v] = once * most <= BUDGET_US ? most : (int) (BUDGET_US / once) + 1;
    }
    return MPI_Bcast(calls, set->count, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : -1;
}

/* After the first round, omit variants that are far slower than the best, except the first one. */
static int leave_out(struct perf_variants *set)
{
    int active[PERF_MAX_VARIANTS];
    double best = INFINITY;

    for (int v = 1; v < set->count; v++) {
        best = fmin(best, set->at[v].times[0]);
    }
    for (int v = 0; v < set->count; v++) {
        active[v] = v == 0 || set->at[v].times[0] <= LEFT_OUT * best;
    }
    if (MPI_Bcast(active, set->count, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return -1;
    }
    for (int v = 0; v < set->count; v++) {
        set->at[v].active = active[v];
    }
    return 0;
}

static int measure_rounds(struct perf_variants *set, const struct perf_case *what)
{
    const struct perf_collective *collective = what->collective;
    int calls[PERF_MAX_VARIANTS], n = set->count;

    if (begin_all(set, what, calls) != 0) {
        return -1;
    }
    for (int v = 0; v < n; v++) {
        set->at[v].active = true;
    }
    for (int round = 0; round < set->bench->options->rounds; round++) {
        for (int i = 0; i < n; i++) {
            int v = round % 2 ? n - 1 - i : i; /* alternate the order */
            struct perf_variant *variant = &set->at[v];
            double warm;

            if (variant->active &&
                (time_calls(collective, variant, 1 + calls[v] / 10, &warm) != 0 ||
                 time_calls(collective, variant, calls[v], &variant->times[round]) != 0)) {
                return -1;
            }
        }
        if (round == 0 && leave_out(set) != 0) {
            return -1;
        }
    }
    for (int v = 0; v < n; v++) {
        if (call_end(&set->at[v], what) != 0) {
            return -1;
        }
    }
    return 0;
}

int perf_variants_sweep(struct perf_variants *set, perf_variants_fn *report, void *argument)
{
    const struct perf_options *options = set->bench->options;
    double settled = MPI_Wtime() + options->settle_ms * 1e-3;
    size_t before = SIZE_MAX;
    int sizes = 0;

    while (perf_all_well(MPI_Wtime() < settled)) {
    }
    for (size_t size = options->min_bytes; size <= options->max_bytes && sizes < PERF_MAX_SIZES;
         size = perf_next_size(options, size)) {
        struct perf_case what = case_of(set->bench, size);
        size_t bytes = what.count * what.type->bytes * perf_bench_blocks(set->bench);

        if (bytes == before) { /* larger by less than one element */
            continue;
        }
        before = bytes;
        sizes++;
        if (!perf_bench_countable(set->bench, what.count) || measure_rounds(set, &what) != 0) {
            perf_message("rank %d: a call of %zu bytes failed", set->bench->rank, size);
            return -1;
        }
        if (set->bench->rank == 0) {
            report(argument, bytes);
            fflush(stdout);
        }
    }
    return 0;
}

/* ---- Results, on rank 0 ---- */

/* Return the number of values to omit at each end of n sorted values, so that the range of the
 * others contains the true median with at least PERF_CONFIDENCE. Each value is above or below the
 * true median with equal probability. 0: there are too few values to omit any. */
static int outside(int n)
{
    double chance = pow(0.5, n), below = 0;
    int left_out = 0;

    for (int k = 0; k < n / 2; k++) {
        below += chance;
        if (2 * below > 1 - PERF_CONFIDENCE) {
            break;
        }
        left_out = k;
        chance *= (double) (n - k) / (k + 1);
    }
    return left_out;
}

static struct perf_median median_of(double *values, int n)
{
    int cut = outside(n);

    qsort(values, (size_t) n, sizeof *values, perf_compare_doubles);
    return (struct perf_median){
        .value = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2,
        .low = values[cut],
        .high = values[n - 1 - cut],
    };
}

double perf_variant_time(const struct perf_variants *set, int v)
{
    int rounds = set->bench->options->rounds;
    double times[PERF_MAX_ROUNDS];

    memcpy(times, set->at[v].times, (size_t) rounds * sizeof *times);
    return median_of(times, rounds).value;
}

struct perf_median perf_variants_ratio(const struct perf_variants *set, int v, int by)
{
    int rounds = set->bench->options->rounds;
    double ratios[PERF_MAX_ROUNDS];

    for (int round = 0; round < rounds; round++) {
        ratios[round] = set->at[v].times[round] / set->at[by].times[round];
    }
    return median_of(ratios, rounds);
}
