/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_ARGUMENT_H
#define GPURING_ARGUMENT_H

/* Shared by the tools: values on command lines, and messages. */

#include <stdarg.h>
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

/*
 * Return the known word that is most similar to `word`, or NULL if none is similar. known(i) is the
 * i-th known word, NULL after the last one.
 */
const char *argument_nearest(const char *word, const char *(*known)(size_t index));

/* Print "TOOL: ..." to standard error. */
void argument_message(const char *tool, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
