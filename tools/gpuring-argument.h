/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_ARGUMENT_H
#define GPURING_ARGUMENT_H

/* Shared by the tools: values on command lines, and messages. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Read the digits at *text and move *text past them. A number must begin with a digit (no sign, no
 * blank). Return 0, or -1 without changing anything if there is no number or it is out of range.
 */
int argument_number(const char **text, uint64_t low, uint64_t high, uint64_t *value);
/* Read a number with an optional suffix K, M or G (powers of 1024, also in lower case). */
int argument_bytes(const char **text, uint64_t *bytes);

/* Read a number that must be the whole text. */
int argument_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value);

/* Print a message about the command line, and return the status that ends the parsing. */
typedef int argument_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Refuse a word that is none of the known ones, and name the most similar one. known(i) is the i-th
 * known word, NULL after the last one. */
int argument_unknown(const char *option, const char *word, const char *(*known)(size_t index),
                     argument_refuse *refuse);

enum argument_kind {
    ARGUMENT_OTHER, /* pass it to `take` */
    ARGUMENT_VALUE, /* the same, with its value */
    ARGUMENT_FLAG,  /* set a bool */
    ARGUMENT_TEXT,  /* set a const char * */
    ARGUMENT_COUNT, /* set an int or unsigned to a number from `least` to `most` */
    ARGUMENT_BYTES, /* set a size_t to a number of bytes */
};

/* A row of a table of options, which ends with a row without a name. */
struct argument_option {
    const char *name;
    int letter; /* of the short form; from 256 on: there is none */
    enum argument_kind kind;
    size_t offset; /* of the member that is set */
    int least, most;
};
#define ARGUMENT_LETTERS 320 /* letters are lower */

/*
 * Read all options, from the first argument on. Sets members of *options, and given[letter] of each
 * option that is given. take(letter, value, options) applies the other options; it returns 0, or a
 * status that ends the parsing. Returns 0, or the status of take or refuse. optind is then the
 * index of the first argument that is no option.
 */
int argument_parse(int argc, char **argv, const struct argument_option *table, void *options,
                   bool given[ARGUMENT_LETTERS],
                   int (*take)(int letter, const char *value, void *options),
                   argument_refuse *refuse);

/* Print "TOOL: ..." to standard error. */
void argument_message(const char *tool, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
