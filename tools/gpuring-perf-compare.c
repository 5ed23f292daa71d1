/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf --compare: measure the collective with the parameters as they are set and with the
 * component that would serve without coll/gpuring, alternately in one job. Two jobs often differ by
 * more than the difference in question, because of the cores of their processes and other load.
 */
#include "gpuring-perf.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpuring_version.h"
#include "mca/coll_gpuring/params.h"

enum { AS_SET, PREVIOUS };

struct comparison {
    struct perf_variants set;
    char previous[64]; /* name of the component, "tuned" */
    bool table;
    json_t *rows;      /* NULL without --json */
    double logarithms; /* of the ratios */
    int sizes, nodes;
    bool failed; /* out of memory */
};

static void add_row(struct comparison *comparison, size_t bytes, const struct perf_median *ratio,
                    const char *served)
{
    const struct perf_variants *set = &comparison->set;
    json_t *row = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:s}", "size_bytes", (json_int_t) bytes,
                            "as_set_us", perf_variant_time(set, AS_SET), "without_us",
                            perf_variant_time(set, PREVIOUS), "ratio", ratio->value, "ratio_low",
                            ratio->low, "ratio_high", ratio->high, "served_by", served);

    if (row == NULL || json_array_append_new(comparison->rows, row) != 0) {
        comparison->failed = true;
    }
}

static void report_size(void *argument, size_t bytes)
{
    struct comparison *comparison = argument;
    const struct perf_variants *set = &comparison->set;
    struct perf_median ratio = perf_variants_ratio(set, PREVIOUS, AS_SET);
    struct perf_counts counts = set->at[AS_SET].served;
    char served[128];

    if (comparison->nodes >
        1) { /* the progress thread may count the bytes of a single call later */
        counts.value[PERF_COUNTER_net_bytes]++;
    }
    perf_report_served(&counts, served, sizeof served);
    if (comparison->table) {
        printf("%12zu  %10.2f  %10.2f  %7.3f  %7.3f  %7.3f  %s\n", bytes,
               perf_variant_time(set, AS_SET), perf_variant_time(set, PREVIOUS), ratio.value,
               ratio.low, ratio.high, served);
    }
    if (comparison->rows != NULL) {
        add_row(comparison, bytes, &ratio, served);
    }
    comparison->logarithms += log(ratio.value);
    comparison->sizes++;
}

/* Return true if this number of rounds allows a confidence interval. */
static bool enough(int rounds)
{
    return 2 * pow(0.5, rounds) <= 1 - PERF_CONFIDENCE;
}

static void print_header(const struct perf_bench *bench, const char *previous)
{
    int rounds = bench->options->rounds;

    printf("# gpuring-perf --compare: %s of %s memory, %d ranks, %d rounds\n",
           bench->options->collective->name, perf_memory_name(), bench->nranks, rounds);
    printf("# %s: the component that would serve without coll/gpuring\n", previous);
    printf("# ratio: median over the rounds of %s / as set; above 1, as set is faster\n", previous);
    if (enough(rounds)) {
        printf("# from .. to: interval of the ratio with %.0f %% confidence, from the "
               "differences of the rounds\n",
               100 * PERF_CONFIDENCE);
    } else {
        printf("# from .. to: of all rounds, which are too few to say more\n");
    }
    printf("#%11s  %10s  %10s  %7s  %7s  %7s  %s\n#%11s  %10s  %10s\n", "size", "as set", previous,
           "ratio", "from", "to", "served by", "(B)", "(us)", "(us)");
}

static int write_json(const struct comparison *comparison, const struct perf_bench *bench)
{
    const struct perf_options *options = bench->options;
    json_t *document = json_pack(
        "{s:s, s:s, s:i, s:i, s:s, s:b, s:i, s:s, s:f, s:O}", "version", GPURING_VERSION,
        "collective", options->collective->name, "ranks", bench->nranks, "nodes", comparison->nodes,
        "memory", perf_memory_name(), "in_place", options->in_place, "rounds", options->rounds,
        "without", comparison->previous, "geometric_mean_ratio",
        exp(comparison->logarithms / comparison->sizes), "results", comparison->rows);
    int status = -1;

    if (document == NULL || comparison->failed ||
        json_object_set_new(document, "confidence",
                            enough(options->rounds) ? json_real(PERF_CONFIDENCE) : json_null()) !=
            0) {
        perf_message("out of memory");
    } else {
        status = perf_json_write(document, options->json);
    }
    json_decref(document);
    return status;
}

/* Prepare the output on rank 0. Return 0, or -1 with a message. */
static int report_open(struct comparison *comparison, const struct perf_bench *bench)
{
    const struct perf_options *options = bench->options;

    comparison->table = options->json == NULL || strcmp(options->json, "-") != 0;
    perf_counters_previous(options->collective->name, comparison->previous,
                           sizeof comparison->previous);
    if (options->json != NULL && perf_json_try(options->json) != 0) {
        return -1;
    }
    if (options->json != NULL && (comparison->rows = json_array()) == NULL) {
        perf_message("out of memory");
        return -1;
    }
    if (comparison->table) {
        print_header(bench, comparison->previous);
    }
    return 0;
}

static int report_close(const struct comparison *comparison, const struct perf_bench *bench)
{
    if (comparison->table && comparison->sizes > 0) {
        printf("# geometric mean of the ratios: %.3f\n",
               exp(comparison->logarithms / comparison->sizes));
    }
    return comparison->rows != NULL ? write_json(comparison, bench) : 0;
}

static const char *why_not(int status)
{
    if (!perf_counters_present()) {
        return perf_counters_absent();
    }
    return status > 0 ? "coll/gpuring does not serve this, so there is nothing to compare; "
                        "start gpuring-perf with gpuring-run and two or more ranks, and with "
                        "--memory cuda, or for host memory --mca coll_gpuring_device host"
                      : NULL;
}

int perf_compare(struct perf_bench *bench)
{
    struct comparison comparison = {.set = {.bench = bench}};
    const char *why;
    int status = 0;

    if (perf_counters_present()) {
        status = perf_variant_add(&comparison.set, PERF_VARIANT_AS_SET, 0);
        if (status == 0) {
            status = perf_variant_add(&comparison.set, GPURING_PARAM_ALGORITHM_PREVIOUS,
                                      GPURING_PARAM_PROTOCOL_AUTO);
        }
    }
    why = status < 0 ? NULL : why_not(status);
    if (why != NULL && bench->rank == 0) {
        perf_message("[cannot-compare] --compare: %s", why);
    }
    if (status >= 0 && !perf_all_well(why == NULL)) {
        status = 1;
    }
    if (status == 0) {
        comparison.nodes = perf_counters_nodes();
        if (!perf_all_well(bench->rank != 0 || report_open(&comparison, bench) == 0)) {
            status = 1;
        }
    }
    if (status == 0) {
        status = perf_variants_sweep(&comparison.set, report_size, &comparison);
    }
    if (status == 0 && bench->rank == 0) {
        status = report_close(&comparison, bench) == 0 ? 0 : 1;
    }
    json_decref(comparison.rows);
    if (status >= 0) {
        perf_variants_close(&comparison.set);
    }
    return status;
}
