/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Text files. A file that a user names must be a regular file of limited size, because opening a
 * pipe waits for a writer and a device may never end.
 */
#ifndef TOPO_PCI_XML_PCI_FILE_H
#define TOPO_PCI_XML_PCI_FILE_H

#include <stddef.h>

/*
 * Read a file of up to `limit` bytes. *text ends with a NUL that *size does not count; the caller
 * frees it. Returns 0, the negative errno value of open(2) or read(2), -EINVAL (a pipe, socket or
 * device), -EISDIR, -E2BIG or -ENOMEM. After an error only `why` (of `room` bytes) is set, to the
 * problem and its remedy, without the path. Never waits.
 */
int pci_file_read(const char *path, size_t limit, char **text, size_t *size, char *why,
                  size_t room);

/* Read an open descriptor of any kind in the same way, and wait until it ends. */
int pci_file_read_open(int fd, size_t limit, char **text, size_t *size, char *why, size_t room);

/* Read the first line of a file in /proc or /sys, without its newline. -1: there is none. */
int pci_file_line(const char *path, char *line, size_t size);

/*
 * Write a text to a file, which is replaced in one step, to a device or pipe, or to standard output
 * (path NULL). Without a text, only check that this is possible, and change nothing. Returns 0, or
 * a negative errno value and the reason in `why`, for example that it is a pipe without a reader,
 * for which the function does not wait. A file then remains as it was.
 */
int pci_file_write(const char *path, const char *text, size_t size, char *why, size_t room);

#endif
