/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Table files of the cost model. */
#include "mca/topo_pci/predict/pci_predict.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/pci_file.h"

#define TABLE_DIMS     4
#define TABLE_WORDS    (1 + TABLE_DIMS + PCI_SIZE_COUNT)
#define TABLE_WORD     64 /* size of the longest word, with its NUL */
#define TABLE_MAX_FILE (1u << 20)

#define NAME(id, file, report) file,
static const char *const algorithms[] = {PCI_ALGORITHMS(NAME)};
static const char *const protocols[] = {PCI_PROTOCOLS(NAME)};
static const char *const hops[] = {PCI_HOPS(NAME)};
static const char *const spans[] = {PCI_SPANS(NAME)};
static const char *const generations[] = {PCI_GENERATIONS(NAME)};
static const char *const hosts[] = {PCI_HOSTS(NAME)};
static const char *const capabilities[] = {PCI_CAPABILITIES(NAME)};
static const char *const gpu_figures[] = {PCI_GPU_FIGURES(NAME)};
static const char *const ways[] = {PCI_WAYS(NAME)};
static const char *const way_figures[] = {PCI_WAY_FIGURES(NAME)};
static const char *const executor_figures[] = {PCI_EXECUTOR_FIGURES(NAME)};
static const char *const call_figures[] = {PCI_CALL_FIGURES(NAME)};

/* A dimension. If it has no names, its indices are numbers. */
struct dimension {
    char letter; /* in PCI_COST_TABLES */
    const char *title;
    const char *const *names;
    unsigned count;
};

static const struct dimension dimensions[] = {
    {'A', "algorithm", algorithms, PCI_ALGORITHM_COUNT},
    {'P', "protocol", protocols, PCI_PROTOCOL_COUNT},
    {'H', "kind of hop", hops, PCI_HOP_COUNT},
    {'S', "number of nodes", spans, PCI_SPAN_COUNT},
    {'G', "generation", generations, PCI_GENERATION_COUNT},
    {'V', "host processor", hosts, PCI_HOST_COUNT},
    {'L', "size", NULL, PCI_SIZE_COUNT},
    {'C', "compute capability", capabilities, PCI_CAPABILITY_COUNT},
    {'F', "figure of a GPU", gpu_figures, PCI_GPU_COUNT},
    {'W', "way", ways, PCI_WAY_COUNT},
    {'X', "figure of a way", way_figures, PCI_WAY_FIGURE_COUNT},
    {'E', "figure of the executor", executor_figures, PCI_EXECUTOR_COUNT},
    {'K', "figure of a call", call_figures, PCI_CALL_COUNT},
};

struct table {
    const char *name;
    size_t offset; /* of the member, an array of doubles without gaps */
    size_t bytes;
    const char *dims; /* letters of the dimensions */
};

#define TABLE(name, member, dims, meaning) \
    {name, offsetof(struct pci_costs, member), sizeof(((struct pci_costs *) 0)->member), dims},
static const struct table tables[] = {PCI_COST_TABLES(TABLE)};
#define TABLE_COUNT (sizeof tables / sizeof tables[0])

static unsigned table_dims(const struct table *table)
{
    return (unsigned) strlen(table->dims);
}

static const struct dimension *table_dim(const struct table *table, unsigned d)
{
    const struct dimension *dim = dimensions;

    while (dim->letter != table->dims[d]) {
        dim++;
    }
    return dim;
}

/* The words of a line, and the buffer for an error message. */
struct line {
    char words[TABLE_WORDS][TABLE_WORD];
    unsigned nwords;
    unsigned number;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static int complain(const struct line *line,
                                                          const char *format, ...)
{
    va_list args;
    int used;

    if (line->error == NULL || line->error_size == 0) {
        return -EINVAL;
    }
    used = snprintf(line->error, line->error_size, "line %u: ", line->number);
    va_start(args, format);
    if (used > 0 && (size_t) used < line->error_size) {
        (void) vsnprintf(line->error + used, line->error_size - (size_t) used, format, args);
    }
    va_end(args);
    return -EINVAL;
}

/* Split a line into words, up to the first #. */
static int split(struct line *line, const char *text, size_t length)
{
    size_t at = 0;

    line->nwords = 0;
    while (at < length && '#' != text[at]) {
        size_t start = at;

        if (isspace((unsigned char) text[at])) {
            at++;
            continue;
        }
        while (at < length && '#' != text[at] && !isspace((unsigned char) text[at])) {
            at++;
        }
        if (line->nwords == TABLE_WORDS) {
            return complain(line, "more than %d words", (int) TABLE_WORDS);
        }
        if (at - start >= TABLE_WORD || memchr(text + start, '\0', at - start) != NULL) {
            return complain(line, "word %u is too long or holds a null byte", line->nwords + 1);
        }
        memcpy(line->words[line->nwords], text + start, at - start);
        line->words[line->nwords++][at - start] = '\0';
    }
    return 0;
}

/* Return an index that is written as a number, or -1 if it is not below the dimension's count. */
static int number_index(const struct dimension *dim, const char *word)
{
    char *end;
    long value;

    if (!isdigit((unsigned char) word[0])) {
        return -1;
    }
    value = strtol(word, &end, 10);
    return '\0' == *end && value < (long) dim->count ? (int) value : -1;
}

static int name_index(const struct dimension *dim, const char *word)
{
    if (dim->names == NULL) {
        return number_index(dim, word);
    }
    for (unsigned i = 0; i < dim->count; i++) {
        if (strcmp(dim->names[i], word) == 0) {
            return (int) i;
        }
    }
    return -1;
}

/* Parse "name,name", "first-last" or "*" as a bit mask of indices. */
static int parse_index(const struct line *line, const struct dimension *dim, const char *word,
                       uint64_t *mask)
{
    char copy[TABLE_WORD];
    char *rest = copy, *part;

    *mask = 0;
    if (strcmp(word, "*") == 0) {
        *mask = (UINT64_C(1) << dim->count) - 1;
        return 0;
    }
    memcpy(copy, word, TABLE_WORD);
    while ((part = strsep(&rest, ",")) != NULL) {
        char *dash = dim->names == NULL ? strchr(part, '-') : NULL;
        int first, last;

        if (dash != NULL) {
            *dash++ = '\0';
        }
        first = name_index(dim, part);
        last = dash != NULL ? name_index(dim, dash) : first;
        if (first < 0 || last < first) {
            return complain(line, "unknown %s '%s'", dim->title, word);
        }
        for (int i = first; i <= last; i++) {
            *mask |= UINT64_C(1) << i;
        }
    }
    return 0;
}

static int parse_values(const struct line *line, unsigned first, double *values)
{
    for (unsigned i = first; i < line->nwords; i++) {
        char *end;

        values[i - first] = strtod(line->words[i], &end);
        if ('\0' != *end || !isfinite(values[i - first]) || values[i - first] < 0) {
            return complain(line, "'%s' is no finite number of 0 or more", line->words[i]);
        }
    }
    return 0;
}

/* Split the flat number of an element into its indices. */
static void element_indices(const struct table *table, size_t element, unsigned *indices)
{
    for (unsigned d = table_dims(table); d-- > 0;) {
        indices[d] = (unsigned) (element % table_dim(table, d)->count);
        element /= table_dim(table, d)->count;
    }
}

static double *table_values(const struct table *table, struct pci_costs *costs)
{
    return (double *) (void *) ((char *) costs + table->offset);
}

/* Set all elements that the masks select. With several values, the last index selects one. */
static void assign(const struct table *table, struct pci_costs *costs, const uint64_t *masks,
                   const double *values, unsigned nvalues)
{
    unsigned last = table_dims(table) - 1;
    double *elements = table_values(table, costs);

    for (size_t e = 0; e < table->bytes / sizeof(double); e++) {
        unsigned indices[TABLE_DIMS];
        bool selected = true;

        element_indices(table, e, indices);
        for (unsigned d = 0; d <= last; d++) {
            selected = selected && (masks[d] >> indices[d] & 1) != 0;
        }
        if (selected) {
            uint64_t before = masks[last] & ((UINT64_C(1) << indices[last]) - 1);

            elements[e] = values[1 == nvalues ? 0 : __builtin_popcountll(before)];
        }
    }
}

static const struct table *find_table(const char *name)
{
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        if (strcmp(tables[t].name, name) == 0) {
            return &tables[t];
        }
    }
    return NULL;
}

static int parse_line(const struct line *line, struct pci_costs *costs)
{
    const struct table *table = find_table(line->words[0]);
    uint64_t masks[TABLE_DIMS];
    double values[TABLE_WORDS];
    unsigned ndims, nvalues, selected;
    int rc;

    if (table == NULL) {
        return complain(line, "unknown table '%s'", line->words[0]);
    }
    ndims = table_dims(table);
    if (line->nwords < ndims + 2) {
        return complain(line, "'%s' takes %u indices and a value", table->name, ndims);
    }
    for (unsigned d = 0; d < ndims; d++) {
        rc = parse_index(line, table_dim(table, d), line->words[1 + d], &masks[d]);
        if (rc != 0) {
            return rc;
        }
    }
    nvalues = line->nwords - ndims - 1;
    selected = (unsigned) __builtin_popcountll(masks[ndims - 1]);
    if (nvalues != 1 && nvalues != selected) {
        return complain(line, "%u values for %u of %s", nvalues, selected,
                        table_dim(table, ndims - 1)->title);
    }
    rc = parse_values(line, ndims + 1, values);
    if (rc == 0) {
        assign(table, costs, masks, values, nvalues);
    }
    return rc;
}

int pci_costs_parse(const char *text, size_t length, struct pci_costs *costs, char *error,
                    size_t size)
{
    struct pci_costs copy = *costs;
    struct line line = {.error = error, .error_size = size};
    size_t at = 0;

    while (at < length) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line_length = end == NULL ? length - at : (size_t) (end - (text + at));
        int rc;

        line.number++;
        rc = split(&line, text + at, line_length);
        if (rc == 0 && line.nwords > 0) {
            rc = parse_line(&line, &copy);
        }
        if (rc != 0) {
            return rc;
        }
        at += line_length + 1;
    }
    *costs = copy;
    return 0;
}

int pci_costs_load(const char *path, struct pci_costs *costs, char *error, size_t size)
{
    char *text;
    size_t length;
    int rc = pci_file_read(path, TABLE_MAX_FILE, &text, &length, error, size);

    if (rc == 0) {
        rc = pci_costs_parse(text, length, costs, error, size);
        free(text);
    }
    return rc;
}
