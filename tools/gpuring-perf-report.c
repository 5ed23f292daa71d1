/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Output: a table with the columns of nccl-tests, and JSON. Rank 0 only. */
#include "gpuring-perf.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring_version.h"

struct perf_report {
    const struct perf_options *options;
    int nranks;
    bool table;
    json_t *document, *rows; /* NULL without --json */
    size_t nrows;
    double busbw;
    long long wrong;
    struct perf_counts served;
};

static uint64_t count_of(const struct perf_counts *counts, enum perf_counter counter)
{
    return counts->value[counter];
}

/* Write the names of the counters that are not 0: "ring", "ring+tree", ... */
static void list_served(const struct perf_counts *counts, const enum perf_counter *which,
                        const char *const *names, size_t n, char *text, size_t room)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < n && used < room; i++) {
        if (count_of(counts, which[i]) > 0) {
            used +=
                (size_t) snprintf(text + used, room - used, "%s%s", used > 0 ? "+" : "", names[i]);
        }
    }
}

void perf_report_served(const struct perf_counts *counts, char *text, size_t room)
{
#define COUNTER(v, name, id, text, help) PERF_COUNTER_calls_##id,
#define TEXT(v, name, id, text, help)    text,
    static const enum perf_counter algorithms[] = {GPURING_ALGORITHMS(COUNTER, )};
    static const char *const algorithm_names[] = {GPURING_ALGORITHMS(TEXT, )};
#undef COUNTER
#undef TEXT
#define COUNTER(name, id, ...) PERF_COUNTER_calls_##id,
#define TEXT(name, id, ...)    #id,
    static const enum perf_counter protocols[] = {KERNELS_PROTOCOLS(COUNTER)};
    static const char *const protocol_names[] = {KERNELS_PROTOCOLS(TEXT)};
#undef COUNTER
#undef TEXT
    char algorithm[64], protocol[64];
    uint64_t calls = count_of(counts, PERF_COUNTER_calls);
    uint64_t fallbacks = count_of(counts, PERF_COUNTER_fallbacks);

    if (calls == 0) {
        snprintf(text, room, "other%s",
                 count_of(counts, PERF_COUNTER_staged) > 0 ? " (staged)"
                 : fallbacks > 0                           ? " (fallback)"
                                                           : "");
        return;
    }
    list_served(counts, algorithms, algorithm_names, GPURING_ALGORITHM_COUNT, algorithm,
                sizeof algorithm);
    list_served(counts, protocols, protocol_names, GPURING_PROTOCOL_COUNT, protocol,
                sizeof protocol);
    snprintf(text, room, "gpuring%s%s%s%s %s%s", algorithm[0] != '\0' ? " " : "", algorithm,
             protocol[0] != '\0' ? "/" : "", protocol,
             count_of(counts, PERF_COUNTER_net_bytes) > 0 ? "shm+net" : "shm",
             fallbacks > 0 ? " (some fallbacks)" : "");
}

static void print_header(const struct perf_report *report, const char *mpi_version)
{
    const struct perf_options *options = report->options;

    printf("# gpuring-perf %s: %s over %d ranks, %s memory%s, root %d\n", GPURING_VERSION,
           options->collective->name, report->nranks, perf_memory_name(),
           options->in_place ? ", in place" : "", options->root);
    printf("# %s\n", mpi_version);
    if (!perf_counters_present()) {
        printf("# %s\n# Other components serve\n", perf_counters_absent());
    }
    printf("#\n#%11s %12s %14s %6s %10s %9s %9s %8s", "size", "count", "type", "redop", "time",
           "algbw", "busbw", "#wrong");
    if (options->percentiles) {
        printf(" %9s %9s %9s %9s %9s", "min", "p50", "p90", "p99", "max");
    }
    printf("  %s\n", "served by");
    printf("#%11s %12s %14s %6s %10s %9s %9s %8s", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
           "(GB/s)", "");
    if (options->percentiles) {
        printf(" %9s %9s %9s %9s %9s", "(us)", "(us)", "(us)", "(us)", "(us)");
    }
    printf("\n");
}

struct perf_report *perf_report_open(const struct perf_options *options, int nranks,
                                     const char *mpi_version)
{
    struct perf_report *report = calloc(1, sizeof *report);

    if (report == NULL) {
        perf_message("out of memory");
        return NULL;
    }
    report->options = options;
    report->nranks = nranks;
    report->table = options->json == NULL || strcmp(options->json, "-") != 0;
    if (options->json != NULL && perf_json_try(options->json) != 0) {
        free(report);
        return NULL;
    }
    if (options->json != NULL) {
        report->rows = json_array();
        report->document = json_pack(
            "{s:s, s:s, s:i, s:s, s:b, s:b, s:s}", "version", GPURING_VERSION, "collective",
            options->collective->name, "ranks", nranks, "memory", perf_memory_name(), "in_place",
            options->in_place, "gpuring_loaded", perf_counters_present(), "mpi", mpi_version);
        if (report->rows == NULL || report->document == NULL) {
            perf_message("out of memory");
            json_decref(report->rows);
            json_decref(report->document);
            free(report);
            return NULL;
        }
    }
    if (report->table) {
        print_header(report, mpi_version);
    }
    return report;
}

static json_t *json_of_counts(const struct perf_counts *counts)
{
    static const char *const names[] = {
#define COUNTER_NAME(name) #name,
        PERF_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
    };
    json_t *object = json_object();

    for (int counter = 0; object != NULL && counter < PERF_COUNTER_COUNT; counter++) {
        if (json_object_set_new(object, names[counter],
                                json_integer((json_int_t) counts->value[counter])) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static int add_json(struct perf_report *report, const struct perf_row *row, const char *served)
{
    json_t *object = json_pack(
        "{s:I, s:I, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:o}",
        "size_bytes", (json_int_t) row->bytes, "count", (json_int_t) row->count, "type",
        row->type->name, "op", row->op != NULL ? row->op->name : "none", "root", row->root,
        "iterations", row->iterations, "time_us", row->time, "min_us", row->low, "p50_us", row->p50,
        "p90_us", row->p90, "p99_us", row->p99, "max_us", row->high, "algbw_GB_per_s", row->algbw,
        "busbw_GB_per_s", row->busbw, "served_by", served, "counters",
        json_of_counts(&row->served));

    if (object == NULL ||
        json_object_set_new(object, "wrong",
                            row->wrong < 0 ? json_null() : json_integer(row->wrong)) != 0 ||
        json_array_append_new(report->rows, object) != 0) {
        perf_message("out of memory");
        return -1;
    }
    return 0;
}

int perf_report_row(struct perf_report *report, const struct perf_row *row)
{
    char served[128], wrong[32];

    perf_report_served(&row->served, served, sizeof served);
    report->nrows++;
    report->busbw += row->busbw;
    report->wrong += row->wrong > 0 ? row->wrong : 0;
    for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
        report->served.value[counter] += row->served.value[counter];
    }
    if (report->table) {
        snprintf(wrong, sizeof wrong, row->wrong < 0 ? "N/A" : "%lld", row->wrong);
        printf(" %11zu %12zu %14s %6s %10.2f %9.3f %9.3f %8s", row->bytes, row->count,
               row->type->name, row->op != NULL ? row->op->name : "none", row->time, row->algbw,
               row->busbw, wrong);
        if (report->options->percentiles) {
            printf(" %9.2f %9.2f %9.2f %9.2f %9.2f", row->low, row->p50, row->p90, row->p99,
                   row->high);
        }
        printf("  %s\n", served);
        fflush(stdout);
    }
    return report->rows != NULL ? add_json(report, row, served) : 0;
}

/* Print the line that shows whether coll/gpuring is on. */
static void print_who(const struct perf_report *report)
{
    char served[128], net[64];
    uint64_t calls = count_of(&report->served, PERF_COUNTER_calls);
    uint64_t fallbacks = count_of(&report->served, PERF_COUNTER_fallbacks);

    if (!perf_counters_present()) {
        printf("# served by other components: coll/gpuring is not loaded\n");
        return;
    }
    perf_report_served(&report->served, served, sizeof served);
    perf_counters_parameter("net", net, sizeof net);
    if (calls == 0) {
        printf("# coll/gpuring served none of the timed calls (fallbacks: %llu); other "
               "components did. coll_gpuring_priority=90 turns it on, and "
               "coll_gpuring_verbose=1 prints the reasons\n",
               (unsigned long long) fallbacks);
        return;
    }
    printf("# coll/gpuring served %llu of %llu timed calls: %s; %llu bytes by the network%s%s\n",
           (unsigned long long) calls, (unsigned long long) (calls + fallbacks), served,
           (unsigned long long) count_of(&report->served, PERF_COUNTER_net_bytes),
           net[0] != '\0' ? ", coll_gpuring_net=" : "", net);
}

static int write_json(struct perf_report *report)
{
    if (json_object_set(report->document, "results", report->rows) != 0) {
        perf_message("out of memory");
        return -1;
    }
    return perf_json_write(report->document, report->options->json);
}

int perf_report_close(struct perf_report *report)
{
    int status = 0;

    if (report->table) {
        printf("# average bus bandwidth: %.3f GB/s; wrong elements: %lld%s\n",
               report->nrows > 0 ? report->busbw / (double) report->nrows : 0.0, report->wrong,
               report->options->no_check ? " (not checked)" : "");
        print_who(report);
    }
    if (report->rows != NULL) {
        status = write_json(report);
    }
    if (fflush(stdout) != 0) {
        perf_message("[cannot-write] cannot write the results: %s", strerror(errno));
        status = -1;
    }
    json_decref(report->rows);
    json_decref(report->document);
    free(report);
    return status;
}
