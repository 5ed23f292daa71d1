/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "gpuring-argument.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int argument_number(const char **text, uint64_t low, uint64_t high, uint64_t *value)
{
    unsigned long long number;
    char *end;

    if (!isdigit((unsigned char) **text)) {
        return -1;
    }
    errno = 0;
    number = strtoull(*text, &end, 10);
    if (errno != 0 || number < low || number > high) {
        return -1;
    }
    *value = number;
    *text = end;
    return 0;
}

int argument_bytes(const char **text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    const char *after = *text, *unit;
    uint64_t number;
    unsigned shift;

    if (argument_number(&after, 0, UINT64_MAX, &number) != 0) {
        return -1;
    }
    unit = *after != '\0' ? strchr(units, toupper((unsigned char) *after)) : NULL;
    shift = unit != NULL ? 10 * (unsigned) (unit - units + 1) : 0;
    if (number > UINT64_MAX >> shift) {
        return -1;
    }
    *bytes = number << shift;
    *text = after + (unit != NULL);
    return 0;
}

int argument_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    uint64_t number;

    if (argument_number(&text, low, high, &number) != 0 || *text != '\0') {
        return -1;
    }
    *value = number;
    return 0;
}

#define WORD_MAX 32 /* longer words resemble no known word */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Return the number of letters to insert, remove or replace to turn a into b (Levenshtein
 * distance). */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], length = strlen(b);

    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = row[j];

            row[j] = least(diagonal + (a[i - 1] != b[j - 1]), least(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[length];
}

const char *argument_nearest(const char *word, const char *(*known)(size_t index))
{
    size_t length = strlen(word), best = length / 3 + 1; /* a third of the letters may be wrong */
    const char *nearest = NULL, *candidate;

    for (size_t i = 0; length <= WORD_MAX && (candidate = known(i)) != NULL; i++) {
        size_t away = strlen(candidate) <= WORD_MAX ? distance(word, candidate) : best + 1;

        if (away < best || (away == best && nearest == NULL)) {
            best = away;
            nearest = candidate;
        }
    }
    return nearest;
}

void argument_message(const char *tool, const char *format, va_list args)
{
    fprintf(stderr, "%s: ", tool);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}
