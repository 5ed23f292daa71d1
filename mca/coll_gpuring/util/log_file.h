/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Log lines in a file, each with its time. Processes may share a file, because each line is
 * appended with one write. The functions neither log nor exit. Threads: gpuring_log_file_write may
 * be called from any thread between open and close.
 */
#ifndef GPURING_UTIL_LOG_FILE_H
#define GPURING_UTIL_LOG_FILE_H

#include <stddef.h>

/*
 * Replace %h in `pattern` with `host`, %p with the process id and %% with %. Returns 0, or
 * GPURING_ERR_ARG if another % occurs or `size` bytes do not hold the path.
 */
int gpuring_log_file_path(const char *pattern, const char *host, char *path, size_t size);

/* Open a file, created if need be, to append to. Returns a descriptor, or -1 with errno. */
int gpuring_log_file_open(const char *path);

/* Append "2026-11-27T03:44:40.123456Z LINE\n", in UTC. A line that cannot be written is lost. */
void gpuring_log_file_write(int fd, const char *line);

#endif
