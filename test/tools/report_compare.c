/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Compare a report of gpuring-topo with the recorded report of the reference for the same machine.
 *
 *     report_compare REFERENCE.json REPORT.json
 *
 * Prints each difference. The exit status is 1 if there is one. The requirements are:
 *
 * - The machine and all paths are equal (classes and hops; bandwidths within 0.1 %).
 * - The report has every field of the reference.
 * - The bandwidth of the channels is at least that of the reference.
 * - Rings and trees are valid.
 * - For predictions see predictions().
 */

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static int differences;

static void differ(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void differ(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    differences++;
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    if (!root) {
        fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
        exit(2);
    }
    return root;
}

static int same_kind(const json_t *a, const json_t *b)
{
    return (json_is_number(a) && json_is_number(b)) || json_typeof(a) == json_typeof(b);
}

/* Permitted relative difference of predictions. */
#define PREDICTION_TOLERANCE 0.1

static int close_to(double a, double b)
{
    return fabs(a - b) <= 1e-3 * fabs(a);
}

/* Check that `got` has every field of `wanted` with the same type. Only the first element of an
 * array is compared. */
static void shape(const char *where, const json_t *wanted, const json_t *got)
{
    const char *key;
    json_t *value;

    if (!got || !same_kind(wanted, got)) {
        differ("%s: %s", where, got ? "of another kind" : "missing");
        return;
    }
    json_object_foreach((json_t *) wanted, key, value)
    {
        char below[512];

        /* Only the reference has reductions in switches. Our rules for LL128 differ. We search
         * rings and trees together. */
        if (strncmp(key, "NVLS", 4) == 0 || strstr(key, "LL128") || strstr(key, "searchRing") ||
            strstr(key, "searchTree")) {
            continue;
        }
        snprintf(below, sizeof(below), "%s.%s", where, key);
        shape(below, value, json_object_get(got, key));
    }
    if (json_is_array(wanted) && json_array_size(wanted) > 0 && json_array_size(got) > 0) {
        char below[512];

        snprintf(below, sizeof(below), "%s[]", where);
        shape(below, json_array_get(wanted, 0), json_array_get(got, 0));
    } else if (json_is_array(wanted) &&
               (json_array_size(wanted) > 0) != (json_array_size(got) > 0)) {
        differ("%s: empty in one of them", where);
    }
}

static void equal(const char *key, const json_t *reference, const json_t *report)
{
    const json_t *wanted = json_object_get(reference, key), *got = json_object_get(report, key);

    if (!json_equal(wanted, got)) {
        char *a = json_dumps(wanted, JSON_COMPACT | JSON_ENCODE_ANY);
        char *b = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);

        differ("%s: wanted %s, got %s", key, a ? a : "nothing", b ? b : "nothing");
        free(a);
        free(b);
    }
}

static void paths(const char *key, const json_t *reference, const json_t *report)
{
    const json_t *wanted = json_object_get(reference, key), *got = json_object_get(report, key);

    if (json_array_size(wanted) != json_array_size(got)) {
        differ("%s: %zu rows, not %zu", key, json_array_size(got), json_array_size(wanted));
        return;
    }
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *row = json_array_get(wanted, i), *other = json_array_get(got, i);

        if (json_array_size(row) != json_array_size(other)) {
            differ("%s[%zu] has %zu columns, not %zu", key, i, json_array_size(other),
                   json_array_size(row));
        }
        for (size_t j = 0; j < json_array_size(row); j++) {
            const char *class1, *class2;
            double bw1, bw2;
            int hops1, hops2;

            if (json_unpack(json_array_get(row, j), "[s,F,i]", &class1, &bw1, &hops1) != 0 ||
                json_unpack(json_array_get(other, j), "[s,F,i]", &class2, &bw2, &hops2) != 0 ||
                strcmp(class1, class2) != 0 || !close_to(bw1, bw2) || hops1 != hops2) {
                differ("%s[%zu][%zu] differs", key, i, j);
            }
        }
    }
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Compare the bandwidth of all channels, within a node and, if there are several, between nodes. */
static void channels(const char *pattern, const json_t *reference, const json_t *report, int nodes)
{
    const json_t *wanted = json_object_get(json_object_get(reference, "graphs"), pattern);
    const json_t *got = json_object_get(json_object_get(report, "graphs"), pattern);
    double intra = number(got, "nChannels") * number(got, "bwIntra");
    double inter = number(got, "nChannels") * number(got, "bwInter");

    if (intra < 0.999 * number(wanted, "nChannels") * number(wanted, "bwIntra")) {
        differ("%s: %g GB/s inside a node, less than the reference", pattern, intra);
    }
    if (nodes > 1 && inter < 0.999 * number(wanted, "nChannels") * number(wanted, "bwInter")) {
        differ("%s: %g GB/s between nodes, less than the reference", pattern, inter);
    }
    if (json_array_size(json_object_get(got, "channels")) != (size_t) number(got, "nChannels")) {
        differ("%s: not as many channels as stated", pattern);
    }
}

static int rank_at(const json_t *list, size_t i)
{
    return (int) json_integer_value(json_array_get(list, i));
}

static void ring_check(const json_t *ring, size_t ranks)
{
    char *seen = calloc(ranks + 1, 1);

    for (size_t i = 0; seen && i < json_array_size(ring); i++) {
        int rank = rank_at(ring, i);

        if (rank < 0 || (size_t) rank >= ranks || seen[rank]++) {
            differ("a ring visits rank %d wrongly", rank);
        }
    }
    if (json_array_size(ring) != ranks) {
        differ("a ring has %zu of %zu ranks", json_array_size(ring), ranks);
    }
    free(seen);
}

/* Check that a tree has one root, that each other rank is a child of its parent, and that the root
 * can be reached from every rank. */
static void tree_check(const json_t *up, const json_t *down, size_t ranks)
{
    size_t roots = 0;

    if (json_array_size(up) != ranks || json_array_size(down) != ranks) {
        differ("a tree does not have %zu ranks", ranks);
        return;
    }
    for (size_t r = 0; r < ranks; r++) {
        int parent = rank_at(up, r), found = 0, at = (int) r;
        size_t steps = 0;

        roots += parent < 0;
        for (size_t i = 0; parent >= 0 && i < json_array_size(json_array_get(down, parent)); i++) {
            found += rank_at(json_array_get(down, (size_t) parent), i) == (int) r;
        }
        if (parent >= 0 && found != 1) {
            differ("rank %zu is no child of its parent %d", r, parent);
        }
        while (at >= 0 && steps++ <= ranks) {
            at = rank_at(up, (size_t) at);
        }
        if (steps > ranks) {
            differ("rank %zu does not reach the root of its tree", r);
            return;
        }
    }
    if (roots != 1) {
        differ("a tree has %zu roots", roots);
    }
}

static void final_check(const json_t *report)
{
    const json_t *final = json_object_get(report, "final");
    const json_t *rings = json_object_get(final, "rings"), *ups = json_object_get(final, "treeUp");
    const json_t *downs = json_object_get(final, "treeDown");
    size_t ranks = (size_t) number(report, "ranks"), n = (size_t) number(final, "nChannels");

    if (n == 0 || json_array_size(rings) != n || json_array_size(ups) != n ||
        json_array_size(downs) != n) {
        differ("final: not %zu rings and trees", n);
        return;
    }
    for (size_t c = 0; c < n; c++) {
        ring_check(json_array_get(rings, c), ranks);
        tree_check(json_array_get(ups, c), json_array_get(downs, c), ranks);
    }
}

static void own_fields(const json_t *report)
{
    static const char *const bounds[] = {"ag_nvlink", "ar_nvlink", "ag_all", "ar_all"};
    const json_t *bound = json_object_get(report, "bound");

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const json_t *value = json_object_get(bound, bounds[i]);

        if (!json_is_null(value) && !(json_is_number(value) && json_number_value(value) > 0)) {
            differ("bound.%s is neither null nor a bandwidth", bounds[i]);
        }
    }
}

/* Return true if the channels of a pattern are equal in all respects that the cost model uses. */
static int same_channels(const char *pattern, const json_t *reference, const json_t *report)
{
    static const char *const numbers[] = {"nChannels", "bwIntra", "bwInter"};
    static const char *const texts[] = {"pattern", "typeIntra", "typeInter"};
    const json_t *a = json_object_get(json_object_get(reference, "graphs"), pattern);
    const json_t *b = json_object_get(json_object_get(report, "graphs"), pattern);
    int same = number(reference, "nodes") == 1 ||
               number(json_object_get(reference, "final"), "nChannels") ==
                   number(json_object_get(report, "final"), "nChannels");

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        same = same && close_to(number(a, numbers[i]), number(b, numbers[i]));
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        same = same && json_equal(json_object_get(a, texts[i]), json_object_get(b, texts[i]));
    }
    return same;
}

/* Compare the times of one size for all protocols of each algorithm whose channels are the same.
 * Return the number of compared times. */
static unsigned times(const json_t *wanted, const json_t *got, int same_ring, int same_tree)
{
    double bytes = number(wanted, "bytes");
    unsigned compared = 0;
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(wanted, "us"), key, value)
    {
        int same = strncmp(key, "Ring/", 5) == 0   ? same_ring
                   : strncmp(key, "Tree/", 5) == 0 ? same_tree
                                                   : 0;
        double us = json_number_value(value), ours = number(json_object_get(got, "us"), key);

        compared += same != 0;
        if (same && !(fabs(ours - us) <= PREDICTION_TOLERANCE * us)) {
            differ("%s at %.0f bytes: %g us, the reference says %g", key, bytes, ours, us);
        }
    }
    return compared;
}

/*
 * Compare allreduce_model. With the same channels, the times must be those of the reference. With
 * other channels, which have at least the same bandwidth, the best of ring and tree must not be
 * slower. Exception: the reference's best uses LL128 and ours cannot. Channels that reach more NICs
 * through more distant paths have more bandwidth, but these paths may split 128-byte stores.
 */
static void predictions(const json_t *reference, const json_t *report)
{
    const json_t *wanted = json_object_get(reference, "allreduce_model");
    const json_t *got = json_object_get(report, "allreduce_model");
    int same_ring = same_channels("ring", reference, report);
    int same_tree = same_channels("tree", reference, report);
    unsigned compared = 0;

    if (json_array_size(wanted) != json_array_size(got) || json_array_size(wanted) == 0) {
        differ("allreduce_model has %zu sizes, not %zu", json_array_size(got),
               json_array_size(wanted));
        return;
    }
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const json_t *a = json_array_get(wanted, i), *b = json_array_get(got, i);
        const json_t *best = json_object_get(a, "best_ring_tree");
        const char *protocol = json_string_value(json_object_get(best, "proto"));
        double us = number(best, "us"), ours = number(json_object_get(b, "best_ring_tree"), "us");
        int ll128 = protocol && strcmp(protocol, "LL128") == 0;

        equal("bytes", a, b);
        compared += times(a, b, same_ring, same_tree);
        if (!(ours > 0 &&
              (ours <= (1 + PREDICTION_TOLERANCE) * us || (ll128 && !(same_ring && same_tree))))) {
            differ("best at %.0f bytes: %g us, the reference says %g", number(a, "bytes"), ours,
                   us);
        }
        if (same_ring && same_tree && ours < (1 - PREDICTION_TOLERANCE) * us) {
            differ("best at %.0f bytes: %g us, the reference says %g", number(a, "bytes"), ours,
                   us);
        }
    }
    printf("%u predicted times compared\n", compared);
}

int main(int argc, char **argv)
{
    static const char *const same[] = {"name", "nodes", "ranks", "nvlink_p2p",
                                       "cpu",  "gpus",  "nets"};
    json_t *reference, *report;
    int nodes;

    if (argc != 3) {
        fprintf(stderr, "usage: %s REFERENCE.json REPORT.json\n", argv[0]);
        return 2;
    }
    reference = load(argv[1]);
    report = load(argv[2]);
    nodes = (int) number(reference, "nodes");
    shape("report", reference, report);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        equal(same[i], reference, report);
    }
    paths("gpu_to_gpu", reference, report);
    paths("gpu_to_net", reference, report);
    paths("net_to_gpu", reference, report);
    channels("ring", reference, report, nodes);
    channels("tree", reference, report, nodes);
    final_check(report);
    predictions(reference, report);
    own_fields(report);
    json_decref(reference);
    json_decref(report);
    return differences > 0;
}
