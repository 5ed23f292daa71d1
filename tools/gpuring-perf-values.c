/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The values of gpuring-perf's options. Each is checked, and none is silently corrected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring-perf.h"

int perf_value_factor(const char *text, double *factor)
{
    char *end = NULL;

    *factor = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*factor) || *factor <= 1.0) {
        return perf_message("[bad-option] --factor %s: give a number above 1", text);
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

/* Select the known names that a comma-separated list contains, or all of them if it contains "all".
 * Set chosen[] to their indices, in the order of the known names. */
static int select_names(const char *option, const char *list, const char *(*known)(size_t index),
                        size_t chosen[PERF_MAX_CHOSEN], size_t *count)
{
    bool is_chosen[PERF_MAX_CHOSEN] = {false};
    char entry[64];
    size_t length;

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        bool any = false;

        at += *at == ',';
        length = strcspn(at, ",");
        snprintf(entry, sizeof entry, "%.*s", (int) length, at);
        for (size_t i = 0; known(i) != NULL; i++) {
            bool same = strcmp(entry, "all") == 0 || strcmp(entry, known(i)) == 0;

            is_chosen[i] |= same;
            any |= same;
        }
        if (!any || length >= sizeof entry) {
            return argument_unknown(option, entry, known, perf_message);
        }
    }
    *count = 0;
    for (size_t i = 0; i < PERF_MAX_CHOSEN; i++) {
        if (is_chosen[i]) {
            chosen[(*count)++] = i;
        }
    }
    return 0;
}

int perf_select_types(const char *list, struct perf_options *options)
{
    size_t chosen[PERF_MAX_CHOSEN];
    int status = select_names("--type", list, type_name, chosen, &options->ntypes);

    for (size_t i = 0; status == 0 && i < options->ntypes; i++) {
        options->types[i] = perf_type_at(chosen[i]);
    }
    return status;
}

int perf_select_ops(const char *list, struct perf_options *options)
{
    size_t chosen[PERF_MAX_CHOSEN];
    int status = select_names("--op", list, op_name, chosen, &options->nops);

    for (size_t i = 0; status == 0 && i < options->nops; i++) {
        options->ops[i] = perf_op_at(chosen[i]);
    }
    return status;
}

int perf_select_memory(const char *name, enum perf_memory *memory)
{
    if (strcmp(name, "host") == 0) {
        *memory = PERF_MEMORY_HOST;
    } else if (strcmp(name, "cuda") == 0) {
        *memory = PERF_MEMORY_CUDA;
    } else {
        return perf_message("[bad-option] --memory %s: host or cuda", name);
    }
    return 0;
}

int perf_select_collective(const char *name, struct perf_options *options)
{
    options->all = strcmp(name, "all") == 0;
    options->collective = perf_collective_find(options->all ? "allreduce" : name);
    if (options->collective == NULL) {
        return argument_unknown("--collective", name, collective_name, perf_message);
    }
    return 0;
}
