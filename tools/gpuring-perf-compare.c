/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf --compare: what serves with the parameters as they are, and the component that would
 * serve without coll/gpuring, in turns in one job. Jobs differ from each other, by where their
 * processes run and what else does, often by more than what is to be shown.
 */
#include "gpuring-perf.h"

#include <math.h>
#include <stdio.h>

#include "mca/coll_gpuring/params.h"

enum { AS_SET, PREVIOUS };

struct comparison {
    struct perf_variants set;
    double logarithms; /* of the ratios */
    int sizes, nodes;
};

static void report(void *argument, size_t bytes)
{
    struct comparison *comparison = argument;
    const struct perf_variants *set = &comparison->set;
    struct perf_median ratio = perf_variants_ratio(set, PREVIOUS, AS_SET);
    struct perf_counts counts = set->at[AS_SET].served;
    char served[128];

    if (comparison->nodes > 1) { /* the progress thread may count a single call's bytes later */
        counts.value[PERF_COUNTER_net_bytes]++;
    }
    perf_report_served(&counts, served, sizeof served);
    printf("%12zu  %10.2f  %10.2f  %7.3f  %7.3f  %7.3f  %s\n", bytes,
           perf_variant_time(set, AS_SET), perf_variant_time(set, PREVIOUS), ratio.value, ratio.low,
           ratio.high, served);
    comparison->logarithms += log(ratio.value);
    comparison->sizes++;
}

static void print_header(const struct perf_bench *bench)
{
    int rounds = bench->options->rounds;

    printf("# gpuring-perf --compare: %s of %s memory, %d ranks, %d rounds\n",
           bench->options->collective->name, perf_memory_name(), bench->nranks, rounds);
    printf("# ratio: median over the rounds of previous / as set; above 1, as set is faster\n");
    if (2 * pow(0.5, rounds) <= 1 - PERF_CONFIDENCE) {
        printf("# from .. to: where that lies with %.0f %% confidence, as the rounds differ\n",
               100 * PERF_CONFIDENCE);
    } else {
        printf("# from .. to: of all rounds, which are too few to say more\n");
    }
    printf("#%11s  %10s  %10s  %7s  %7s  %7s  %s\n#%11s  %10s  %10s\n", "size", "as set",
           "previous", "ratio", "from", "to", "served by", "(B)", "(us)", "(us)");
}

static const char *why_not(int status)
{
    if (!perf_counters_present()) {
        return perf_counters_absent();
    }
    return status > 0 ? "coll/gpuring does not serve this, so there is nothing to compare; "
                        "host memory needs --mca coll_gpuring_priority 90 --mca "
                        "coll_gpuring_device host, GPU memory --memory cuda, and two ranks"
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
        if (bench->rank == 0) {
            print_header(bench);
        }
        status = perf_variants_sweep(&comparison.set, report, &comparison);
    }
    if (status == 0 && bench->rank == 0 && comparison.sizes > 0) {
        printf("# geometric mean of the ratios: %.3f\n",
               exp(comparison.logarithms / comparison.sizes));
    }
    if (status >= 0) {
        perf_variants_close(&comparison.set);
    }
    return status;
}
