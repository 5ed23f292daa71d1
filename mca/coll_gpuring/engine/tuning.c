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
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/xml/pci_file.h"

#define TEXT_OF(name, text) text,
static const char *const algorithms[] = {GPURING_VALUES_algorithm(TEXT_OF) NULL};
static const char *const protocols[] = {GPURING_VALUES_protocol(TEXT_OF) NULL};
static const char *const memories[] = {"host", "cuda", "*", NULL};
#undef TEXT_OF
#define TEXT_OF(name, text, factor) text,
static const char *const collectives[] = {PCI_COLLECTIVES(TEXT_OF) NULL};
#undef TEXT_OF
#define ALL_MEMORIES ((1u << GPURING_TUNING_MEMORIES) - 1)

/* A line whose words are read, and the buffer for an error message. */
struct line {
    char text[GPURING_TUNING_MAX_LINE + 1];
    char *rest;
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int complain(const struct line *line,
                                                          const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line->error, line->size, format, arguments);
    va_end(arguments);
    return GPURING_ERR_ARG;
}

/* Find the index of a word in `names`. `wrong` is the beginning of the message for an unknown
 * word. */
static int parse_name(const struct line *line, const char *wrong, const char *const *names,
                      const char *word, int *found)
{
    char known[160] = "";
    size_t used = 0;

    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], word) == 0) {
            *found = i;
            return 0;
        }
        used += (size_t) snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                  names[i]);
    }
    return complain(line, "%s '%s' is unknown; known are %s", wrong, word, known);
}

/* Copy a line up to the first #. Refuse characters that are not ASCII. */
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
            return complain(line, "[not-text] byte 0x%02x is not text; write the file in ASCII",
                            (unsigned char) text[i]);
        }
        line->text[i] = blank ? ' ' : text[i];
    }
    line->text[length] = '\0';
    line->rest = line->text;
    return 0;
}

/* Return the next word, or "" at the end. */
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

/* Parse N, N-M, N- or *. */
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

/* Parse memory=.. nodes=.. ranks=.. bytes=.. */
static int parse_conditions(struct line *line, struct gpuring_tuning_rule *rule)
{
    static const char *const names[] = {"memory=", "nodes=", "ranks=", "bytes="};
    struct gpuring_tuning_span *const spans[] = {NULL, &rule->nodes, &rule->ranks, &rule->bytes};
    int memory = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *word = next_word(line), *value = word + strlen(names[i]);

        if (strncmp(word, names[i], strlen(names[i])) != 0) {
            return complain(line,
                            "[bad-condition] '%s' is not %s: a rule has memory=, nodes=, ranks= "
                            "and bytes= in this order, with * to match all",
                            word, names[i]);
        }
        if (spans[i] == NULL) {
            if (parse_name(line, "[bad-memory]", memories, value, &memory) != 0) {
                return GPURING_ERR_ARG;
            }
        } else if (!parse_span(value, spans[i])) {
            return complain(line,
                            "[bad-range] '%s' is not a number or range; write N, N-M with N not "
                            "above M, N- or *",
                            word);
        }
    }
    rule->memories = memory < GPURING_TUNING_MEMORIES ? 1u << memory : ALL_MEMORIES;
    return 0;
}

/* Parse previous, or ALGORITHM [PROTOCOL]. */
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
    status = parse_name(&line, "[bad-collective]", collectives, word, &rule->collective);
    if (status == 0) {
        status = parse_conditions(&line, rule);
    }
    if (status == 0) {
        status = parse_server(&line, rule);
    }
    return status == 0 ? 1 : status;
}

/* Check the first line that contains words, which must be the version line. */
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

/* Parse the rules into an array of GPURING_TUNING_MAX_RULES. *line is set to the number of the last
 * line read. */
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

/* ---- Using the rules ---- */

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

/* Write the sizes of a rule and what serves them: "0-4095 ring simple". */
static int range_text(const struct gpuring_tuning_rule *rule, char *text, size_t size)
{
    bool named = rule->protocol != GPURING_PARAM_PROTOCOL_AUTO;
    char bytes[48];

    span_text(&rule->bytes, bytes, sizeof bytes);
    return snprintf(text, size, "%s %s%s%s", bytes, algorithms[rule->algorithm], named ? " " : "",
                    named ? protocols[rule->protocol] : "");
}

int gpuring_tuning_text(const struct gpuring_tuning_rule *rule, char *text, size_t size)
{
    int memory = rule->memories == ALL_MEMORIES ? GPURING_TUNING_MEMORIES
                                                : rule->memories == 1u << GPURING_TUNING_CUDA;
    char nodes[48], ranks[48], range[96];

    span_text(&rule->nodes, nodes, sizeof nodes);
    span_text(&rule->ranks, ranks, sizeof ranks);
    (void) range_text(rule, range, sizeof range);
    return snprintf(text, size, "%s memory=%s nodes=%s ranks=%s bytes=%s",
                    collectives[rule->collective], memories[memory], nodes, ranks, range);
}

uint64_t gpuring_tuning_fingerprint(const struct gpuring_tuning *tuning)
{
    uint64_t hash = GPURING_HASH_START;

    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];
        const uint64_t values[] = {(uint64_t) rule->collective, rule->memories,
                                   rule->nodes.first,           rule->nodes.last,
                                   rule->ranks.first,           rule->ranks.last,
                                   rule->bytes.first,           rule->bytes.last,
                                   (uint64_t) rule->algorithm,  (uint64_t) rule->protocol};

        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            hash = gpuring_hash_number(hash, values[v]);
        }
    }
    return hash > GPURING_TUNING_BROKEN ? hash : hash + 2;
}

bool gpuring_tuning_names(const struct gpuring_tuning *tuning, int collective, int algorithm)
{
    for (uint32_t i = 0; i < tuning->count; i++) {
        if (tuning->rules[i].collective == collective && tuning->rules[i].algorithm == algorithm) {
            return true;
        }
    }
    return false;
}

bool gpuring_tuning_names_protocol(const struct gpuring_tuning *tuning, int protocol)
{
    for (uint32_t i = 0; i < tuning->count; i++) {
        if (tuning->rules[i].protocol == protocol) {
            return true;
        }
    }
    return false;
}

static bool span_contains(const struct gpuring_tuning_span *span, uint64_t value)
{
    return span->first <= value && value <= span->last;
}

int gpuring_tuning_match(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                         uint64_t nodes, uint64_t ranks, struct gpuring_tuning *matching)
{
    struct gpuring_tuning_rule *rules = calloc(tuning->count + 1, sizeof *rules);

    *matching = (struct gpuring_tuning){.rules = rules};
    if (rules == NULL) {
        return GPURING_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];

        if ((rule->memories & 1u << memory) != 0 && span_contains(&rule->nodes, nodes) &&
            span_contains(&rule->ranks, ranks)) {
            rules[matching->count++] = *rule;
        }
    }
    return GPURING_OK;
}

void gpuring_tuning_summary(const struct gpuring_tuning *matching, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < matching->count && used < size; i++) {
        const struct gpuring_tuning_rule *rule = &matching->rules[i];
        char range[96];

        (void) range_text(rule, range, sizeof range);
        used += (size_t) snprintf(text + used, size - used, "%s%s %s", i > 0 ? ", " : "",
                                  collectives[rule->collective], range);
    }
}
