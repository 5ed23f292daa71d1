/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf --tuning: write a tuning file for this memory and number of nodes and ranks. For one
 * collective after the other, all algorithms, protocols and the previous component are measured in
 * several rounds (gpuring-perf-variants.c). An algorithm that takes more than twice the time of our
 * best one in the first round is omitted from the other rounds.
 *
 * The algorithm of ours with the smallest median is selected. The choice for the previous size is
 * kept if it takes at most MARGIN longer. The size is left to the previous component if that is
 * faster by more than MARGIN, in the median of the rounds' ratios. If the rounds do not show which
 * one is faster, and the median is within a factor of FAR, the decision for the previous size is
 * kept.
 */
#include "gpuring-perf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/coll_gpuring/engine/tuning.h"
#include "mca/coll_gpuring/params.h"
#include "mca/topo_pci/predict/pci_predict.h"

#define MARGIN   0.03
#define FAR      1.25
#define PREVIOUS 0 /* the first variant */

/* Result for one size. */
struct finding {
    size_t bytes;
    int best;     /* variant of ours */
    bool left;    /* previous is faster */
    double ratio; /* previous / best, median */
};

struct tune {
    struct perf_bench *bench;
    struct perf_variants set;
    int nodes;
    struct finding findings[PERF_MAX_SIZES];
    int nfindings;
};

/* Do not measure ll128 on GPU memory: no measurement shows whether wide stores stay whole. */
static int last_protocol(const struct tune *tune)
{
    return tune->bench->options->memory == PERF_MEMORY_CUDA ? GPURING_PARAM_PROTOCOL_LL
                                                            : GPURING_PARAM_PROTOCOL_LL128;
}

static int variants_open(struct tune *tune)
{
    int status =
        perf_variant_add(&tune->set, GPURING_PARAM_ALGORITHM_PREVIOUS, GPURING_PARAM_PROTOCOL_AUTO);

    if (status == 0) {
        tune->nodes = perf_counters_nodes();
    }
    for (int a = GPURING_PARAM_ALGORITHM_RING; a < GPURING_PARAM_ALGORITHM_PREVIOUS && status == 0;
         a++) {
        for (int p = GPURING_PARAM_PROTOCOL_SIMPLE; p <= last_protocol(tune) && status >= 0; p++) {
            status = perf_variant_add(&tune->set, a, p);
        }
        status = status > 0 ? 0 : status;
    }
    return status;
}

/* ---- Deciding, on rank 0 ---- */

/* Return true if the size is left to the previous component. ratio: its time divided by ours. */
static bool is_left(const struct finding *before, const struct perf_median *ratio)
{
    bool shown = ratio->low > 1 || ratio->high < 1;

    if (before == NULL || shown || ratio->value > FAR || ratio->value < 1 / FAR) {
        return ratio->value < 1 - MARGIN;
    }
    return before->left;
}

static void decide(void *argument, size_t bytes)
{
    struct tune *tune = argument;
    struct finding *finding = &tune->findings[tune->nfindings];
    const struct perf_variants *set = &tune->set;
    struct perf_median ratio;
    int best = -1;

    for (int v = PREVIOUS + 1; v < set->count; v++) {
        if (set->at[v].active &&
            (best < 0 || perf_variant_time(set, v) < perf_variant_time(set, best))) {
            best = v;
        }
    }
    if (tune->nfindings > 0 && set->at[finding[-1].best].active &&
        perf_variant_time(set, finding[-1].best) <= (1 + MARGIN) * perf_variant_time(set, best)) {
        best = finding[-1].best;
    }
    ratio = perf_variants_ratio(set, PREVIOUS, best);
    *finding = (struct finding){
        .bytes = bytes,
        .best = best,
        .ratio = ratio.value,
        .left = is_left(tune->nfindings > 0 ? &finding[-1] : NULL, &ratio),
    };
    tune->nfindings++;
    printf("%12zu  %10.2f  %10.2f  %8.2f  %-8s %-7s %s\n", bytes, perf_variant_time(set, best),
           perf_variant_time(set, PREVIOUS), finding->ratio, set->at[best].algorithm_name,
           set->at[best].protocol_name, finding->left ? "previous" : "coll/gpuring");
}

static bool alike(const struct finding *a, const struct finding *b)
{
    return a->left == b->left && (a->left || a->best == b->best);
}

int perf_tune_number(const struct perf_collective *collective)
{
    return pci_collective_parse(collective->name);
}

/* Return the rule for findings first .. last. A rule ends at the geometric mean of its last size
 * and the next one. */
static struct gpuring_tuning_rule rule_of(const struct tune *tune, int first, int last)
{
    const struct finding *at = tune->findings;
    const struct perf_variant *variant = &tune->set.at[at[last].left ? PREVIOUS : at[last].best];
    struct gpuring_tuning_rule rule = {
        .collective = perf_tune_number(tune->bench->options->collective),
        .memories = 1u << (tune->bench->options->memory == PERF_MEMORY_CUDA ? GPURING_TUNING_CUDA
                                                                            : GPURING_TUNING_HOST),
        .nodes = {(uint64_t) tune->nodes, (uint64_t) tune->nodes},
        .ranks = {(uint64_t) tune->bench->nranks, (uint64_t) tune->bench->nranks},
        .bytes = {0, UINT64_MAX},
        .algorithm = variant->algorithm,
        .protocol = variant->protocol,
    };

    if (first > 0) {
        rule.bytes.first =
            (uint64_t) sqrt((double) at[first - 1].bytes * (double) at[first].bytes) + 1;
    }
    if (last + 1 < tune->nfindings) {
        rule.bytes.last = (uint64_t) sqrt((double) at[last].bytes * (double) at[last + 1].bytes);
    }
    return rule;
}

static char *remark_of(const struct tune *tune, int first, int last)
{
    double low = INFINITY, high = 0;
    char *text = malloc(128);

    for (int i = first; i <= last; i++) {
        low = fmin(low, tune->findings[i].ratio);
        high = fmax(high, tune->findings[i].ratio);
    }
    if (text != NULL) {
        snprintf(text, 128, "time of previous / coll/gpuring: %.2f to %.2f", low, high);
    }
    return text;
}

static int write_rules(const struct tune *tune, struct perf_rules *file)
{
    struct gpuring_tuning_rule rules[PERF_MAX_SIZES];
    char *remarks[PERF_MAX_SIZES] = {NULL};
    size_t count = 0;
    int status = -1;
    bool memory = true;

    for (int first = 0, last; first < tune->nfindings; first = last + 1) {
        last = first;
        while (last + 1 < tune->nfindings &&
               alike(&tune->findings[first], &tune->findings[last + 1])) {
            last++;
        }
        rules[count] = rule_of(tune, first, last);
        remarks[count] = remark_of(tune, first, last);
        memory = memory && remarks[count] != NULL;
        count++;
    }
    if (memory) {
        status = perf_rules_write(file, rules, remarks, count);
    } else {
        perf_message("out of memory");
        perf_rules_close(file);
    }
    for (size_t i = 0; i < count; i++) {
        free(remarks[i]);
    }
    return status;
}

/* ---- All of it ---- */

static bool can_tune(const struct tune *tune)
{
    const char *why = NULL;

    if (!perf_counters_present()) {
        why = perf_counters_absent();
    } else if (tune->set.count < PREVIOUS + 2 || tune->nodes < 1) {
        why = "coll/gpuring does not serve it; start gpuring-perf with gpuring-run and two or "
              "more ranks, and with --memory cuda, or for host memory --mca "
              "coll_gpuring_device host";
    }
    if (why != NULL && tune->bench->rank == 0) {
        perf_message("[cannot-tune] --tuning: %s: %s", tune->bench->options->collective->name, why);
    }
    return why == NULL;
}

static void print_header(const struct tune *tune)
{
    printf("# gpuring-perf --tuning %s: %s of %s memory, %d node(s), %d ranks, %d rounds\n"
           "# previous serves where it is faster than the best one of coll/gpuring\n"
           "#%11s  %10s  %10s  %8s  %-16s %s\n#%11s  %10s  %10s  %8s\n",
           tune->bench->options->tune, tune->bench->options->collective->name, perf_memory_name(),
           tune->nodes, tune->bench->nranks, tune->bench->options->rounds, "size", "gpuring",
           "previous", "ratio", "best", "served by", "(B)", "(us)", "(us)", "");
}

static int tune_one(struct perf_bench *bench)
{
    struct tune tune = {.bench = bench, .set = {.bench = bench}};
    struct perf_rules *file = bench->rank == 0 ? perf_rules_open(bench->options->tune) : NULL;
    int status = 0;

    if (!perf_all_well(bench->rank != 0 || file != NULL)) {
        return 1;
    }
    if (perf_counters_present()) {
        status = variants_open(&tune);
    }
    if (status >= 0 && !perf_all_well(can_tune(&tune))) {
        status = 1;
    }
    if (status == 0 && bench->rank == 0) {
        print_header(&tune);
    }
    if (status == 0) {
        status = perf_variants_sweep(&tune.set, decide, &tune);
    }
    if (status == 0 && bench->rank == 0 && bench->wrong == 0) {
        status = write_rules(&tune, file) == 0 ? 0 : 1;
        file = NULL;
    }
    perf_rules_close(file);
    if (status >= 0) {
        perf_variants_close(&tune.set);
        status = perf_all_well(status == 0) ? 0 : 1;
    }
    return status;
}

int perf_tune(struct perf_bench *bench)
{
    const struct perf_options *given = bench->options;
    struct perf_options options = *given;
    const struct perf_collective *collective;
    int status =
        tune_one(bench); /* with `all`, this is allreduce, which is served if any collective is */

    for (size_t i = 0; options.all && status == 0 && (collective = perf_collective_at(i)) != NULL;
         i++) {
        if (perf_tune_number(collective) > PCI_COLLECTIVE_ALLREDUCE) {
            options.collective = collective;
            bench->options = &options;
            status = tune_one(bench) < 0 ? -1 : 0;
            bench->options = given;
        }
    }
    return status;
}
