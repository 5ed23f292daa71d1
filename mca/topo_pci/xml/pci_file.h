/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Text files. What is read whole, as a user has named it, must be a regular file of bounded
 * size: to open a pipe is to wait for somebody who writes, and a device need not end.
 */
#ifndef TOPO_PCI_XML_PCI_FILE_H
#define TOPO_PCI_XML_PCI_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * All of a file of up to `limit` bytes. *text ends in a zero that *size does not count; the caller
 * frees it. Returns 0, or the negative errno value of open(2) or read(2), -EINVAL (a pipe, socket
 * or device), -EISDIR, -E2BIG or -ENOMEM: then only `why` (of `room` bytes) is set, to what is
 * wrong and what to do, without the path. Never waits.
 */
int pci_file_read(const char *path, size_t limit, char **text, size_t *size, char *why,
                  size_t room);

/* The same of an open descriptor, whatever that is; waits until it ends. */
int pci_file_read_open(int fd, size_t limit, char **text, size_t *size, char *why, size_t room);

/* The first line of a file of the system, in /proc or /sys, without its end. -1: there is none. */
int pci_file_line(const char *path, char *line, size_t size);

/* A file to be written from its begin, or what else the path names. NULL: `why` says why not; so
 * where it is a pipe that nobody reads, which is not waited for. */
FILE *pci_file_create(const char *path, char *why, size_t room);

#endif
