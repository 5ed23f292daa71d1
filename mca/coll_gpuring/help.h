/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The texts of help-mpi-coll-gpuring.txt, which are compiled in as well: a component that was
 * copied without the file has them, and a file of another version is told apart.
 */
#ifndef GPURING_HELP_H
#define GPURING_HELP_H

#include <stdbool.h>
#include <stddef.h>

/* Does this file hold the same texts? */
bool gpuring_help_same(const char *path);

/* The text of a topic, to be filled in by printf; empty if there is none. */
void gpuring_help_format(const char *topic, char *format, size_t size);

#endif
