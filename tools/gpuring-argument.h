/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_ARGUMENT_H
#define GPURING_ARGUMENT_H

/* What the tools share: values on their command lines, and messages. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Each reads digits at *text and moves it behind what was read; nothing else may begin a number (no
 * sign, no blank).  Returns 0, or -1: no number, or out of range; then nothing has changed.
 */
int argument_number(const char **text, uint64_t low, uint64_t high, uint64_t *value);
/* With K, M or G (powers of 1024, small letters too) behind it or without. */
int argument_bytes(const char **text, uint64_t *bytes);

/* The whole text is such a number. */
int argument_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value);

/*
 * Return the known word that differs from `word` least, or NULL if none is like it. known(i) is the
 * i-th known word, NULL after the last one.
 */
const char *argument_nearest(const char *word, const char *(*known)(size_t index));

/* "TOOL: ..." on standard error. */
void argument_message(const char *tool, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
