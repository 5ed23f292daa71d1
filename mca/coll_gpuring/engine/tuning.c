/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/tuning.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/xml/pci_file.h"

#define TEXT_OF(name, text) text,
static const char *const algorithms[] = {GPURING_VALUES_algorithm(TEXT_OF) NULL};
static const char *const protocols[] = {GPURING_VALUES_protocol(TEXT_OF) NULL};
static const char *const memories[] = {"host", "cuda", NULL};

/* One line of which words are taken, and where to complain. */
struct line {
    char text[GPURING_TUNING_MAX_LINE + 1];
    char *rest;
    char *error;
    size_t size;
};

static int complain(const struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int complain(const struct line *line, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line->error, line->size, format, arguments);
    va_end(arguments);
    return GPURING_ERR_ARG;
}

static int find_name(const char *const *names, const char *word)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

/* *found: the number of the name that the word is; `wrong` begins the message if it is none. */
static int parse_name(const struct line *line, const char *wrong, const char *const *names,
                      const char *word, int *found)
{
    char known[128] = "";
    size_t used = 0;

    *found = find_name(names, word);
    if (*found >= 0) {
        return 0;
    }
    for (int i = 0; names[i] != NULL && used < sizeof known; i++) {
        used += (size_t) snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                  names[i]);
    }
    return complain(line, "%s '%s' is unknown; known are %s", wrong, word, known);
}

/* Copy a line; # ends it. */
static int line_start(struct line *line, const char *text, size_t length)
{
    const char *comment = memchr(text, '#', length);

    length = comment != NULL ? (size_t) (comment - text) : length;
    if (length > GPURING_TUNING_MAX_LINE) {
        return complain(line,
                        "[line-length] the line has more than %d characters; a rule needs fewer",
                        GPURING_TUNING_MAX_LINE);
    }
    for (size_t i = 0; i < length; i++) {
        bool blank = isspace((unsigned char) text[i]);

        if (!blank && (text[i] < '!' || text[i] > '~')) {
            return complain(line, "[not-text] byte 0x%02x is no text; write the file in ASCII",
                            (unsigned char) text[i]);
        }
        line->text[i] = blank ? ' ' : text[i];
    }
    line->text[length] = '\0';
    line->rest = line->text;
    return 0;
}

/* The next word; "" at the end. */
static const char *next_word(struct line *line)
{
    const char *word;

    while ((word = strsep(&line->rest, " ")) != NULL && *word == '\0') {
    }
    return word != NULL ? word : "";
}

static bool number(const char **at, uint64_t *value)
{
    char *end;

    if (!isdigit((unsigned char) **at)) {
        return false;
    }
    errno = 0;
    *value = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0;
}

/* N, N-M, N- or *. */
static bool parse_span(const char *text, struct gpuring_tuning_span *span)
{
    *span = (struct gpuring_tuning_span){0, UINT64_MAX};
    if (strcmp(text, "*") == 0) {
        return true;
    }
    if (!number(&text, &span->first)) {
        return false;
    }
    if (*text == '\0') {
        span->last = span->first;
        return true;
    }
    if (*text++ != '-') {
        return false;
    }
    return *text == '\0' ||
           (number(&text, &span->last) && *text == '\0' && span->first <= span->last);
}

static int parse_memory(const struct line *line, const char *value,
                        struct gpuring_tuning_rule *rule)
{
    int memory = find_name(memories, value);

    if (memory < 0 && strcmp(value, "*") != 0) {
        return complain(line, "[bad-memory] 'memory=%s': memory is host, cuda or *", value);
    }
    rule->memories = memory < 0 ? (1u << GPURING_TUNING_MEMORIES) - 1 : 1u << memory;
    return 0;
}

/* memory=.. nodes=.. ranks=.. bytes=.. */
static int parse_conditions(struct line *line, struct gpuring_tuning_rule *rule)
{
    static const char *const names[] = {"memory=", "nodes=", "ranks=", "bytes="};
    struct gpuring_tuning_span *const spans[] = {NULL, &rule->nodes, &rule->ranks, &rule->bytes};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *word = next_word(line), *value = word + strlen(names[i]);

        if (strncmp(word, names[i], strlen(names[i])) != 0) {
            return complain(line,
                            "[bad-condition] '%s' is not %s: a rule has memory=, nodes=, ranks= "
                            "and bytes= in this order, with * to match all",
                            word, names[i]);
        }
        if (spans[i] == NULL) {
            if (parse_memory(line, value, rule) != 0) {
                return GPURING_ERR_ARG;
            }
        } else if (!parse_span(value, spans[i])) {
            return complain(
                line, "[bad-range] '%s' is no number; give N, N-M with N not above M, N- or *",
                word);
        }
    }
    return 0;
}

/* previous, or ALGORITHM [PROTOCOL]. */
static int parse_server(struct line *line, struct gpuring_tuning_rule *rule)
{
    const char *word = next_word(line);

    if (*word == '\0') {
        return complain(line, "[no-algorithm] nothing serves; add previous, or an algorithm");
    }
    if (parse_name(line, "[bad-algorithm]", algorithms, word, &rule->algorithm) != 0) {
        return GPURING_ERR_ARG;
    }
    word = next_word(line);
    if (*word != '\0' && rule->algorithm != GPURING_PARAM_ALGORITHM_PREVIOUS) {
        if (parse_name(line, "[bad-protocol]", protocols, word, &rule->protocol) != 0) {
            return GPURING_ERR_ARG;
        }
        word = next_word(line);
    }
    return *word == '\0'
               ? 0
               : complain(line,
                          "[extra-word] '%s' is one word too many; a rule ends with previous, or "
                          "with an algorithm and a protocol",
                          word);
}

int gpuring_tuning_line(const char *text, size_t length, struct gpuring_tuning_rule *rule,
                        char *error, size_t size)
{
    struct line line = {.error = error, .size = size};
    int status = line_start(&line, text, length);
    const char *word = status == 0 ? next_word(&line) : "";

    *rule = (struct gpuring_tuning_rule){.protocol = GPURING_PARAM_PROTOCOL_AUTO};
    if (*word == '\0') {
        return status;
    }
    if (strcmp(word, "allreduce") != 0) {
        return complain(
            &line, "[bad-collective] '%s' is no collective that can be tuned; allreduce is", word);
    }
    status = parse_conditions(&line, rule);
    if (status == 0) {
        status = parse_server(&line, rule);
    }
    return status == 0 ? 1 : status;
}

/* The first line with words is the version's. */
static int parse_version(const char *text, size_t length, bool *found, char *error, size_t size)
{
    struct line line = {.error = error, .size = size};
    int status = line_start(&line, text, length);
    const char *name = status == 0 ? next_word(&line) : "", *version = next_word(&line);
    bool named = strcmp(name, "gpuring-tuning") == 0;

    *found = *name != '\0';
    if (*found && (!named || strcmp(version, "1") != 0 || *next_word(&line) != '\0')) {
        return complain(
            &line,
            "[bad-version] '%s': the first line of a tuning file is '%s' (other versions are "
            "unknown here)",
            named && *version != '\0' ? version : name, GPURING_TUNING_VERSION_LINE);
    }
    return status;
}

/* Rules of the text into room for GPURING_TUNING_MAX_RULES; *line: the number of the last one. */
static int parse_lines(const char *text, size_t bytes, struct gpuring_tuning *tuning,
                       unsigned *line, char *error, size_t size)
{
    const char *end = text + bytes;
    bool version = false;

    for (*line = 1; text < end; ++*line) {
        const char *next = memchr(text, '\n', (size_t) (end - text));
        size_t length = (size_t) ((next != NULL ? next : end) - text);
        struct gpuring_tuning_rule rule;
        int status = version ? gpuring_tuning_line(text, length, &rule, error, size)
                             : parse_version(text, length, &version, error, size);

        if (status < 0) {
            return status;
        }
        if (status > 0 && tuning->count == GPURING_TUNING_MAX_RULES) {
            snprintf(error, size, "[too-many-rules] more than %d rules; join ranges",
                     GPURING_TUNING_MAX_RULES);
            return GPURING_ERR_ARG;
        }
        if (status > 0) {
            tuning->rules[tuning->count++] = rule;
        }
        text = next != NULL ? next + 1 : end;
    }
    if (!version) {
        snprintf(error, size, "[bad-version] no line '%s', with which a tuning file begins",
                 GPURING_TUNING_VERSION_LINE);
        return GPURING_ERR_ARG;
    }
    return GPURING_OK;
}

int gpuring_tuning_parse(const char *text, size_t bytes, struct gpuring_tuning *tuning, char *error,
                         size_t size)
{
    char what[256] = "";
    unsigned line = 0;
    int status;

    *tuning =
        (struct gpuring_tuning){.rules = calloc(GPURING_TUNING_MAX_RULES, sizeof *tuning->rules)};
    if (tuning->rules == NULL) {
        snprintf(error, size, "out of memory for its rules");
        return GPURING_ERR_NOMEM;
    }
    status = parse_lines(text, bytes, tuning, &line, what, sizeof what);
    if (status != GPURING_OK) {
        snprintf(error, size, "line %u: %s", line, what);
        gpuring_tuning_clear(tuning);
    }
    return status;
}

void gpuring_tuning_clear(struct gpuring_tuning *tuning)
{
    free(tuning->rules);
    *tuning = (struct gpuring_tuning){.rules = NULL};
}

char *gpuring_tuning_load(const char *path, size_t *bytes, char *error, size_t size)
{
    char why[200], *text = NULL;

    if (pci_file_read(path, GPURING_TUNING_MAX_FILE, &text, bytes, why, sizeof why) != 0) {
        snprintf(error, size, "%s: %s", path, why);
    }
    return text;
}

int gpuring_tuning_read(const char *path, struct gpuring_tuning *tuning, char *error, size_t size)
{
    char what[320];
    size_t bytes;
    char *text = gpuring_tuning_load(path, &bytes, error, size);
    int status;

    *tuning = (struct gpuring_tuning){.rules = NULL};
    if (text == NULL) {
        return GPURING_ERR_IO;
    }
    status = gpuring_tuning_parse(text, bytes, tuning, what, sizeof what);
    if (status != GPURING_OK) {
        snprintf(error, size, "%s, %s", path, what);
    }
    free(text);
    return status;
}

/* ---- What follows from the rules ---- */

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

int gpuring_tuned_find(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                       uint64_t nodes, uint64_t ranks, struct gpuring_tuned **tuned)
{
    struct gpuring_tuned *found =
        malloc(sizeof *found + (size_t) tuning->count * sizeof *found->range);

    *tuned = NULL;
    if (found == NULL) {
        return GPURING_ERR_NOMEM;
    }
    found->count = 0;
    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];
        bool previous = rule->algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS;

        if ((rule->memories & 1u << memory) != 0 && inside(&rule->nodes, nodes) &&
            inside(&rule->ranks, ranks)) {
            /* auto is 0; the others follow the core's order */
            found->range[found->count++] = (struct gpuring_tuned_range){
                .bytes = rule->bytes,
                .algorithm = (int8_t) (previous ? -1 : rule->algorithm - 1),
                .protocol = (int8_t) (rule->protocol - 1),
                .previous = previous,
            };
        }
    }
    if (found->count > 0) {
        *tuned = found;
    } else {
        free(found);
    }
    return GPURING_OK;
}

void gpuring_tuned_text(const struct gpuring_tuned *tuned, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < tuned->count && used < size; i++) {
        const struct gpuring_tuned_range *range = &tuned->range[i];
        const char *protocol = protocol_text(range->protocol + 1);
        char bytes[48];

        span_text(&range->bytes, bytes, sizeof bytes);
        used += (size_t) snprintf(text + used, size - used, "%s%s %s%s%s", i > 0 ? ", " : "", bytes,
                                  range->previous ? "previous" : algorithms[range->algorithm + 1],
                                  *protocol != '\0' ? " " : "", protocol);
    }
}
