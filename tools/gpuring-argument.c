/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "gpuring-argument.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
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

/* Return the known word that is most similar to `word`, or NULL if none is similar. */
static const char *nearest_of(const char *word, const char *(*known)(size_t index))
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

int argument_unknown(const char *option, const char *word, const char *(*known)(size_t index),
                     argument_refuse *refuse)
{
    const char *nearest = nearest_of(word, known);

    return nearest != NULL
               ? refuse("[bad-option] %s: '%s' is not known; did you mean '%s'?", option, word,
                        nearest)
               : refuse("[bad-option] %s: '%s' is not known (see --help)", option, word);
}

static const struct argument_option *known_options; /* of the command line that is read */

static const char *option_name(size_t index)
{
    return known_options[index].name;
}

/* Refuse an option that getopt_long rejected: it is unknown, or its value is missing. */
static int refuse_option(const char *argument, int option, argument_refuse *refuse)
{
    const char *nearest =
        strncmp(argument, "--", 2) == 0 ? nearest_of(argument + 2, option_name) : NULL;

    if (option == ':') {
        return refuse("[bad-option] %s needs a value (see --help)", argument);
    }
    return nearest != NULL
               ? refuse("[bad-option] %s is not an option; did you mean --%s?", argument, nearest)
               : refuse("[bad-option] %s is not an option (see --help)", argument);
}

/* Set the member of an option whose kind is neither OTHER nor VALUE. */
static int set_member(const struct argument_option *option, const char *text, void *member,
                      argument_refuse *refuse)
{
    uint64_t number;

    switch (option->kind) {
    case ARGUMENT_FLAG:
        *(bool *) member = true;
        return 0;
    case ARGUMENT_TEXT:
        *(const char **) member = text;
        return 0;
    case ARGUMENT_COUNT:
        if (argument_whole(text, (uint64_t) option->least, (uint64_t) option->most, &number) != 0) {
            return refuse("[bad-option] --%s %s: give a whole number from %d to %d", option->name,
                          text, option->least, option->most);
        }
        *(int *) member = (int) number;
        return 0;
    default: {
        const char *at = text;

        if (argument_bytes(&at, &number) != 0 || *at != '\0' || number > SIZE_MAX) {
            return refuse("[bad-option] --%s %s: give a number of bytes: digits, then K, M or G "
                          "(powers of 1024) or nothing",
                          option->name, text);
        }
        *(size_t *) member = (size_t) number;
        return 0;
    }
    }
}

#define OPTIONS_MAX 48

int argument_parse(int argc, char **argv, const struct argument_option *table, void *options,
                   bool given[ARGUMENT_LETTERS],
                   int (*take)(int letter, const char *value, void *options),
                   argument_refuse *refuse)
{
    struct option longs[OPTIONS_MAX] = {{.name = NULL}};
    char shorts[2 * OPTIONS_MAX] = ":", *end = shorts + 1;
    int letter, status = 0;

    for (size_t i = 0; table[i].name != NULL; i++) {
        bool has_value = table[i].kind != ARGUMENT_OTHER && table[i].kind != ARGUMENT_FLAG;

        longs[i] = (struct option){.name = table[i].name,
                                   .has_arg = has_value ? required_argument : no_argument,
                                   .val = table[i].letter};
        if (table[i].letter < 256) {
            *end++ = (char) table[i].letter;
            *end = ':';
            end += has_value;
        }
    }
    *end = '\0';
    known_options = table;
    opterr = 0; /* this file prints the messages */
    while (status == 0 && (letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const struct argument_option *option = table;

        if (letter == '?' || letter == ':') {
            return refuse_option(argv[optind - 1], letter, refuse);
        }
        while (option->letter != letter) {
            option++;
        }
        given[letter] = true;
        status = option->kind == ARGUMENT_OTHER || option->kind == ARGUMENT_VALUE
                     ? take(letter, optarg, options)
                     : set_member(option, optarg, (char *) options + option->offset, refuse);
    }
    return status;
}

void argument_message(const char *tool, const char *format, va_list args)
{
    fprintf(stderr, "%s: ", tool);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}
