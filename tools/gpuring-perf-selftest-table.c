/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpuring-perf-selftest.h"
#include "gpuring_version.h"

static const struct {
    const char *column, *hint;
    bool messages;
} ways[SELFTEST_WAY_COUNT] = {
#define WAY(name, column, cuda, protocol, level, hint) {column, hint, sizeof(protocol) == 1},
    SELFTEST_WAYS(WAY)
#undef WAY
};

/* ---- The progress bar ---- */

/* Open the terminal for the progress bar. mpirun redirects the output of the ranks, so isatty()
 * would not detect a terminal. */
void selftest_bar_open(struct selftest *test)
{
    test->bar = test->bench->rank == 0 ? open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
}

void selftest_bar_draw(struct selftest *test)
{
    double part = (double) test->done / (double) test->all;
    double time = (MPI_Wtime() - test->begin) / test->options.seconds;
    double shown = part < 1 && time > part ? part : time < 1 ? time : 1;
    char text[96];
    int length;

    if (test->bar >= 0) {
        length = snprintf(text, sizeof text, "\rselftest [%-40.*s] %3.0f %%  pass %d",
                          (int) (40 * shown), "########################################",
                          100 * shown, test->pass + 1);
        if (write(test->bar, text, (size_t) length) < 0) {
            selftest_bar_close(test);
        }
    }
}

void selftest_bar_close(struct selftest *test)
{
    if (test->bar >= 0) {
        (void) !write(test->bar, "\n", 1);
        close(test->bar);
        test->bar = -1;
    }
}

/* ---- Results ---- */

enum selftest_verdict selftest_verdict(const struct selftest_result *result)
{
    return result->failed > 0   ? SELFTEST_FAILED
           : result->wrong > 0  ? SELFTEST_WRONG
           : result->silent > 0 ? SELFTEST_SILENT
           : result->used > 0   ? SELFTEST_RIGHT
                                : SELFTEST_UNUSED;
}

static const char *verdict_text(const struct selftest_result *result)
{
    static const char *const texts[] = {"not used", "ok", "SILENT", "WRONG", "FAILED"};

    return texts[selftest_verdict(result)];
}

void selftest_merge(struct selftest_result *into, const struct selftest_result *from)
{
    into->calls += from->calls;
    into->failed += from->failed;
    into->used += from->used;
    into->net += from->net;
    into->silent += from->silent;
    into->wrong += from->wrong;
    if (from->microseconds > into->microseconds) { /* the slower rank's */
        into->microseconds = from->microseconds;
        into->bytes = from->bytes;
    }
}

static double speed(const struct selftest_result *result)
{
    return result->microseconds > 0 ? result->bytes / result->microseconds / 1e3 : 0;
}

struct output {
    const struct selftest *test;
    bool table;
    json_t *pairs, *rows; /* NULL without --json */
    int paths, bad;
};

static void count_path(struct output *output, const struct selftest_result *result,
                       const char *what, const char *hint)
{
    enum selftest_verdict verdict = selftest_verdict(result);

    output->paths += verdict != SELFTEST_UNUSED;
    output->bad += verdict != SELFTEST_UNUSED && verdict != SELFTEST_RIGHT;
    if (verdict == SELFTEST_SILENT) {
        perf_message(
            "[selftest-silent] %s: data that one GPU writes does not reach the other, or not "
            "as a whole, so the path is not used; [peer-silent], [wrong-lines] or "
            "[torn-lines] in the log names the remedy",
            what);
    } else if (verdict == SELFTEST_WRONG) {
        perf_message(
            "[selftest-wrong] %s: %lld wrong elements in %d calls; until the cause is found, "
            "run with %s",
            what, result->wrong, result->calls, hint);
    } else if (verdict == SELFTEST_FAILED) {
        perf_message("[selftest-failed] %s: %d of %d calls returned an error; until the cause is "
                     "found, run with %s",
                     what, result->failed, result->calls, hint);
    }
}

static void add_json(json_t *list, json_t *entry, const struct selftest_result *result)
{
    if (list == NULL || entry == NULL) {
        json_decref(entry);
        return;
    }
    (void) json_object_set_new(entry, "verdict", json_string(verdict_text(result)));
    (void) json_object_set_new(entry, "calls", json_integer(result->calls));
    (void) json_object_set_new(entry, "failed", json_integer(result->failed));
    (void) json_object_set_new(entry, "wrong", json_integer(result->wrong));
    (void) json_object_set_new(entry, "network", json_boolean(result->net > 0));
    (void) json_object_set_new(entry, "bytes", json_real(result->bytes));
    (void) json_object_set_new(entry, "gbps", json_real(speed(result)));
    (void) json_array_append_new(list, entry);
}

static void report_pair(struct output *output, const struct selftest_result *results, int a, int b)
{
    bool net = false;

    if (output->table) {
        printf("  %4d - %4d", a, b);
    }
    for (int way = 0; way < SELFTEST_WAY_COUNT; way++) {
        const struct selftest_result *result = &results[way];
        enum selftest_verdict verdict = selftest_verdict(result);
        char what[96];

        snprintf(what, sizeof what, "ranks %d and %d, %s %s", a, b,
                 ways[way].messages ? "messages" : "allreduce", ways[way].column);
        count_path(output, result, what,
                   result->net > 0 ? "another --mca coll_gpuring_net (mpi, ucx or verbs)"
                                   : ways[way].hint);
        net = net || result->net > 0;
        if (output->table && verdict == SELFTEST_RIGHT) {
            printf(" %9.2f", speed(result));
        } else if (output->table) {
            printf(" %9s", verdict == SELFTEST_UNUSED ? "-" : verdict_text(result));
        }
        add_json(output->pairs, json_pack("{si si ss}", "a", a, "b", b, "way", ways[way].column),
                 result);
    }
    if (output->table) {
        printf("  %s\n", net ? "network" : "node");
    }
}

static void report_pairs(struct output *output, const struct selftest_result *pairs)
{
    int n = output->test->bench->nranks;

    if (output->table) {
        printf("#\n#                  messages                      allreduce of two ranks\n# "
               "ranks     ");
        for (int way = 0; way < SELFTEST_WAY_COUNT; way++) {
            printf(" %9s", way == SELFTEST_MESSAGES ? "staged" : ways[way].column);
        }
        printf("  by\n");
    }
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            struct selftest_result merged[SELFTEST_WAY_COUNT];

            for (int way = 0; way < SELFTEST_WAY_COUNT; way++) {
                merged[way] = pairs[(a * n + b) * SELFTEST_WAY_COUNT + way];
                selftest_merge(&merged[way], &pairs[(b * n + a) * SELFTEST_WAY_COUNT + way]);
            }
            report_pair(output, merged, a, b);
        }
    }
}

static void report_rows(struct output *output, const struct selftest_result *rows)
{
    if (output->table) {
        printf("#\n# all ranks                               GB/s  verdict\n");
    }
    for (int row = 0; row < output->test->nrows; row++) {
        const char *name = output->test->names[row];

        count_path(output, &rows[row], name, "--mca coll_gpuring_algorithm previous");
        if (output->table) {
            printf("  %-36s %9.2f  %s\n", name, speed(&rows[row]), verdict_text(&rows[row]));
        }
        add_json(output->rows, json_pack("{ss}", "path", name), &rows[row]);
    }
}

/* Write the JSON file. Return 0, or -1 after a message. */
static int write_json(const struct output *output, double seconds)
{
    const struct selftest *test = output->test;
    json_t *document;
    int status;

    if (test->options.json == NULL) {
        return 0;
    }
    document =
        json_pack("{ss ss si ss sf si si si sO sO}", "tool", "gpuring-perf --selftest", "version",
                  GPURING_VERSION, "ranks", test->bench->nranks, "memory", perf_memory_name(),
                  "seconds", seconds, "passes", test->pass, "paths", output->paths, "bad",
                  output->bad, "pairs", output->pairs, "all", output->rows);
    if (document == NULL) {
        return perf_message("out of memory");
    }
    status = perf_json_write(document, test->options.json);
    json_decref(document);
    return status;
}

int selftest_report(const struct selftest *test, const struct selftest_result *pairs,
                    const struct selftest_result *rows)
{
    const char *json = test->options.json;
    struct output output = {.test = test, .table = json == NULL || strcmp(json, "-") != 0};
    double seconds = MPI_Wtime() - test->begin;
    int status;

    if (json != NULL) {
        output.pairs = json_array();
        output.rows = json_array();
    }
    if (output.table) {
        printf(
            "# gpuring-perf %s selftest: %d ranks, %d node(s), %s memory, %d pass(es) in %.0f s\n"
            "# GB/s of the fastest call of the largest size, while other pairs are busy; -: not "
            "used here\n",
            GPURING_VERSION, test->bench->nranks, perf_counters_nodes(), perf_memory_name(),
            test->pass, seconds);
    }
    report_pairs(&output, pairs);
    report_rows(&output, rows);
    if (output.table) {
        printf("#\n# %d of %d paths are right%s\n", output.paths - output.bad, output.paths,
               output.bad > 0 ? ": see the messages above" : "");
    }
    status = write_json(&output, seconds);
    json_decref(output.pairs);
    json_decref(output.rows);
    return status == 0 ? output.bad : -1;
}
