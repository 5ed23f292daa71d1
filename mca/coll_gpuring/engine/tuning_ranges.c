/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What follows from the rules of a tuning file: texts, the fingerprint, and ranges of sizes. */
#include "mca/coll_gpuring/engine/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/status.h"

#define TEXT_OF(name, text) text,
static const char *const algorithms[] = {GPURING_VALUES_algorithm(TEXT_OF)};
static const char *const protocols[] = {GPURING_VALUES_protocol(TEXT_OF)};
static const char *const memories[] = {"host", "cuda"};

static void span_text(const struct gpuring_tuning_span *span, char *text, size_t size)
{
    if (span->last == UINT64_MAX) {
        snprintf(text, size, span->first == 0 ? "*" : "%" PRIu64 "-", span->first);
    } else if (span->first == span->last) {
        snprintf(text, size, "%" PRIu64, span->first);
    } else {
        snprintf(text, size, "%" PRIu64 "-%" PRIu64, span->first, span->last);
    }
}

static const char *protocol_text(int protocol)
{
    return protocol == GPURING_PARAM_PROTOCOL_AUTO ? "" : protocols[protocol];
}

int gpuring_tuning_text(const struct gpuring_tuning_rule *rule, char *text, size_t size)
{
    bool all = rule->memories == (1u << GPURING_TUNING_MEMORIES) - 1;
    const char *memory = all ? "*" : memories[(rule->memories & 1u << GPURING_TUNING_CUDA) != 0];
    const char *protocol = protocol_text(rule->protocol);
    char nodes[48], ranks[48], bytes[48];

    span_text(&rule->nodes, nodes, sizeof nodes);
    span_text(&rule->ranks, ranks, sizeof ranks);
    span_text(&rule->bytes, bytes, sizeof bytes);
    return snprintf(text, size, "allreduce memory=%s nodes=%s ranks=%s bytes=%s %s%s%s", memory,
                    nodes, ranks, bytes, algorithms[rule->algorithm], *protocol != '\0' ? " " : "",
                    protocol);
}

uint64_t gpuring_tuning_fingerprint(const struct gpuring_tuning *tuning)
{
    uint64_t hash = GPURING_HASH_START;

    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];
        const uint64_t values[] = {
            rule->memories,    rule->nodes.first,          rule->nodes.last,
            rule->ranks.first, rule->ranks.last,           rule->bytes.first,
            rule->bytes.last,  (uint64_t) rule->algorithm, (uint64_t) rule->protocol};

        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            hash = gpuring_hash_number(hash, values[v]);
        }
    }
    return hash > GPURING_TUNING_BROKEN ? hash : hash + 2;
}

bool gpuring_tuning_names(const struct gpuring_tuning *tuning, int algorithm)
{
    for (uint32_t i = 0; i < tuning->count; i++) {
        if (tuning->rules[i].algorithm == algorithm) {
            return true;
        }
    }
    return false;
}

static bool inside(const struct gpuring_tuning_span *span, uint64_t value)
{
    return span->first <= value && value <= span->last;
}

/* The first rule for the shape that holds the size; NULL: none. */
static const struct gpuring_tuning_rule *match(const struct gpuring_tuning *tuning,
                                               enum gpuring_tuning_memory memory, uint64_t nodes,
                                               uint64_t ranks, uint64_t bytes)
{
    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];

        if ((rule->memories & 1u << memory) != 0 && inside(&rule->nodes, nodes) &&
            inside(&rule->ranks, ranks) && inside(&rule->bytes, bytes)) {
            return rule;
        }
    }
    return NULL;
}

/* auto is 0; the others follow the core's order. */
static struct gpuring_tuned_range range_of(const struct gpuring_tuning_rule *rule, uint64_t last)
{
    bool previous = rule != NULL && rule->algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS;

    return (struct gpuring_tuned_range){
        .last = last,
        .algorithm = (int8_t) (rule != NULL && !previous ? rule->algorithm - 1 : -1),
        .protocol = (int8_t) (rule != NULL ? rule->protocol - 1 : -1),
        .previous = previous,
    };
}

static int compare_bounds(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The sizes with which any rule's range ends, or after which one begins; ascending. */
static uint32_t find_bounds(const struct gpuring_tuning *tuning, uint64_t *bounds)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_span *bytes = &tuning->rules[i].bytes;

        if (bytes->first > 0) {
            bounds[count++] = bytes->first - 1;
        }
        bounds[count++] = bytes->last;
    }
    bounds[count++] = UINT64_MAX;
    qsort(bounds, count, sizeof *bounds, compare_bounds);
    return count;
}

int gpuring_tuned_find(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                       uint64_t nodes, uint64_t ranks, struct gpuring_tuned **tuned)
{
    size_t room = 2 * (size_t) tuning->count + 1;
    uint64_t *bounds = malloc(room * sizeof *bounds);
    struct gpuring_tuned *found = malloc(sizeof *found + room * sizeof *found->range);
    bool any = false;

    *tuned = NULL;
    if (bounds == NULL || found == NULL) {
        free(bounds);
        free(found);
        return GPURING_ERR_NOMEM;
    }
    found->count = 0;
    room = find_bounds(tuning, bounds);
    for (size_t i = 0; i < room; i++) {
        const struct gpuring_tuning_rule *rule = match(tuning, memory, nodes, ranks, bounds[i]);
        struct gpuring_tuned_range range = range_of(rule, bounds[i]);
        struct gpuring_tuned_range *before = &found->range[found->count];

        any = any || rule != NULL;
        if (found->count > 0 && before[-1].algorithm == range.algorithm &&
            before[-1].protocol == range.protocol && before[-1].previous == range.previous) {
            before[-1].last = range.last;
        } else {
            *before = range;
            found->count++;
        }
    }
    free(bounds);
    if (any) {
        *tuned = found;
    } else {
        free(found);
    }
    return GPURING_OK;
}

void gpuring_tuned_text(const struct gpuring_tuned *tuned, char *text, size_t size)
{
    uint64_t first = 0;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < tuned->count && used < size; i++) {
        const struct gpuring_tuned_range *range = &tuned->range[i];
        struct gpuring_tuning_span span = {first, range->last};
        const char *protocol = protocol_text(range->protocol + 1);
        char bytes[48];

        span_text(&span, bytes, sizeof bytes);
        used += (size_t) snprintf(text + used, size - used, "%s%s %s%s%s", i > 0 ? ", " : "", bytes,
                                  range->previous ? "previous" : algorithms[range->algorithm + 1],
                                  *protocol != '\0' ? " " : "", protocol);
        first = range->last + 1;
    }
}
