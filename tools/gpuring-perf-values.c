/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The values of gpuring-perf's options. Each is checked, and none is silently corrected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring-perf.h"

int perf_value_bytes(const char *option, const char *text, size_t *bytes)
{
    const char *at = text;
    uint64_t value;

    if (argument_bytes(&at, &value) != 0 || *at != '\0' || value > SIZE_MAX) {
        perf_message(
            "[bad-option] %s %s: give a number of bytes: digits, then K, M or G (powers of "
            "1024) or nothing",
            option, text);
        return -1;
    }
    *bytes = (size_t) value;
    return 0;
}

int perf_value_count(const char *option, const char *text, int least, int *count)
{
    uint64_t value;

    if (argument_whole(text, (uint64_t) least, 100000000, &value) != 0) {
        perf_message("[bad-option] %s %s: give a whole number from %d on", option, text, least);
        return -1;
    }
    *count = (int) value;
    return 0;
}

int perf_value_factor(const char *text, double *factor)
{
    char *end = NULL;

    *factor = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*factor) || *factor <= 1.0) {
        perf_message("[bad-option] --factor %s: give a number above 1", text);
        return -1;
    }
    return 0;
}

/* Return true if `name` occurs in the comma-separated list. An entry "all" matches every name. */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t entry = strcspn(at, ",");

        if ((entry == length && strncmp(at, name, length) == 0) ||
            (entry == 3 && strncmp(at, "all", 3) == 0)) {
            return true;
        }
    }
    return false;
}

/* Report an unknown word, and the most similar known word. Return -1. */
static int unknown(const char *option, const char *word, const char *(*known)(size_t index))
{
    const char *nearest = argument_nearest(word, known);

    if (nearest != NULL) {
        perf_message("[bad-option] %s: '%s' is not known; did you mean '%s'?", option, word,
                     nearest);
    } else {
        perf_message("[bad-option] %s: '%s' is not known (see --help)", option, word);
    }
    return -1;
}

static bool is_known(const char *word, const char *(*known)(size_t index))
{
    const char *candidate;

    for (size_t i = 0; (candidate = known(i)) != NULL; i++) {
        if (strcmp(candidate, word) == 0) {
            return true;
        }
    }
    return false;
}

/* Report the first unknown entry of the list. */
static int check_list(const char *option, const char *list, const char *(*known)(size_t index))
{
    char entry[64];

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");

        snprintf(entry, sizeof entry, "%.*s", (int) length, at);
        if (length >= sizeof entry || (strcmp(entry, "all") != 0 && !is_known(entry, known))) {
            return unknown(option, entry, known);
        }
    }
    return 0;
}

static const char *type_name(size_t index)
{
    const struct perf_type *type = perf_type_at(index);

    return type != NULL ? type->name : NULL;
}

static const char *op_name(size_t index)
{
    const struct perf_op *op = perf_op_at(index);

    return op != NULL ? op->name : NULL;
}

static const char *collective_name(size_t index)
{
    const struct perf_collective *collective = perf_collective_at(index);

    return collective != NULL ? collective->name : NULL;
}

int perf_select_types(const char *list, struct perf_options *options)
{
    const struct perf_type *type;
    size_t room = 0;

    if (check_list("--type", list, type_name) != 0) {
        return -1;
    }
    while (perf_type_at(room) != NULL) {
        room++;
    }
    free(options->types);
    options->ntypes = 0;
    options->types = calloc(room, sizeof *options->types);
    if (options->types == NULL) {
        perf_message("out of memory");
        return -1;
    }
    for (size_t i = 0; (type = perf_type_at(i)) != NULL; i++) {
        if (listed(list, type->name)) {
            options->types[options->ntypes++] = type;
        }
    }
    return 0;
}

int perf_select_ops(const char *list, struct perf_options *options)
{
    const struct perf_op *op;
    size_t room = 0;

    if (check_list("--op", list, op_name) != 0) {
        return -1;
    }
    while (perf_op_at(room) != NULL) {
        room++;
    }
    free(options->ops);
    options->nops = 0;
    options->ops = calloc(room, sizeof *options->ops);
    if (options->ops == NULL) {
        perf_message("out of memory");
        return -1;
    }
    for (size_t i = 0; (op = perf_op_at(i)) != NULL; i++) {
        if (listed(list, op->name)) {
            options->ops[options->nops++] = op;
        }
    }
    return 0;
}

int perf_select_memory(const char *name, enum perf_memory *memory)
{
    if (strcmp(name, "host") == 0) {
        *memory = PERF_MEMORY_HOST;
    } else if (strcmp(name, "cuda") == 0) {
        *memory = PERF_MEMORY_CUDA;
    } else {
        perf_message("[bad-option] --memory %s: host or cuda", name);
        return -1;
    }
    return 0;
}

int perf_select_collective(const char *name, struct perf_options *options)
{
    options->all = strcmp(name, "all") == 0;
    options->collective = perf_collective_find(options->all ? "allreduce" : name);
    if (options->collective == NULL) {
        return unknown("--collective", name, collective_name);
    }
    return 0;
}
