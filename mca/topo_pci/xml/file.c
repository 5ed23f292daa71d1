/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/topo_pci/xml/pci_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_ROOM 65536 /* bytes, doubled while the file has more */

/* Read the whole file, or slightly more than `limit` bytes, and append a NUL. NULL: see errno. */
static char *read_all(int fd, size_t limit, size_t *size)
{
    size_t room = FIRST_ROOM, used = 0;
    char *buffer = malloc(room), *grown;
    ssize_t n = 1;

    while (buffer && n && used <= limit) {
        if (used + 1 == room) {
            room *= 2;
            grown = realloc(buffer, room);
            if (!grown) {
                free(buffer);
            }
            buffer = grown;
            continue;
        }
        n = read(fd, buffer + used, room - used - 1);
        if (n < 0 && errno != EINTR) {
            int rc = errno;
            free(buffer);
            errno = rc;
            return NULL;
        }
        used += n > 0 ? (size_t) n : 0;
    }
    if (buffer) {
        buffer[used] = '\0';
        *size = used;
    }
    return buffer;
}

int pci_file_read_open(int fd, size_t limit, char **text, size_t *size, char *why, size_t room)
{
    size_t length = 0;
    char *all = read_all(fd, limit, &length);

    if (!all) {
        int rc = -errno;
        snprintf(why, room, "cannot be read: %s", strerror(-rc));
        return rc;
    }
    if (length > limit) {
        snprintf(why, room, "[too-long] is longer than %zu MiB; use a smaller file", limit >> 20);
        free(all);
        return -E2BIG;
    }
    *text = all;
    *size = length;
    return 0;
}

/* Return 0 if the descriptor is a regular file, otherwise an error with its text. */
static int check_kind(int fd, char *why, size_t room)
{
    struct stat info;

    if (fstat(fd, &info)) {
        int rc = -errno;
        snprintf(why, room, "%s", strerror(-rc));
        return rc;
    }
    if (S_ISDIR(info.st_mode)) {
        snprintf(why, room,
                 "[not-a-file] is not a regular file but a folder; name a file in "
                 "it");
        return -EISDIR;
    }
    if (!S_ISREG(info.st_mode)) {
        snprintf(why, room,
                 "[not-a-file] is not a regular file but a %s; write the text to a file, and "
                 "name this file",
                 S_ISFIFO(info.st_mode) ? "pipe" : "device");
        return -EINVAL;
    }
    return 0;
}

int pci_file_read(const char *path, size_t limit, char **text, size_t *size, char *why, size_t room)
{
    /* O_NONBLOCK: do not wait for a writer if the path is a pipe. It has no effect on a file. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;

    if (fd < 0) {
        rc = -errno;
        snprintf(why, room, "%s", strerror(-rc));
        return rc;
    }
    rc = check_kind(fd, why, room);
    if (!rc) {
        rc = pci_file_read_open(fd, limit, text, size, why, room);
    }
    close(fd);
    return rc;
}

int pci_file_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    char *got;

    if (!file) {
        return -1;
    }
    got = fgets(line, (int) size, file);
    fclose(file);
    if (!got) {
        return -1;
    }
    line[strcspn(line, "\n")] = '\0';
    return 0;
}

/* Write a text, and close the descriptor. Return 0 or -1: see errno. */
static int write_all(int fd, const char *text, size_t size)
{
    int rc = 0;

    while (!rc && size > 0) {
        ssize_t n = write(fd, text, size);

        if (n < 0 && errno != EINTR) {
            rc = errno;
        }
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t) n : 0;
    }
    if (close(fd) && !rc) {
        rc = errno;
    }
    errno = rc;
    return rc ? -1 : 0;
}

/* Write to a device, to a pipe that has a reader, or through a symbolic link. */
static int write_special(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ? -1 : write_all(fd, text, size);
}

/* Write a new file next to `path`, which then replaces it. */
static int replace(const char *path, const char *text, size_t size)
{
    size_t room = strlen(path) + 32;
    char *next = malloc(room);
    int fd, rc = -1;

    if (next) {
        snprintf(next, room, "%s.%ld", path, (long) getpid());
        unlink(next); /* of an earlier process that was killed */
        fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        rc = fd < 0 ? -1 : write_all(fd, text ? text : "", size);
        if (fd >= 0 && (rc || !text || rename(next, path))) {
            int code = errno;
            unlink(next);
            errno = code;
            rc = text ? -1 : rc;
        }
    }
    free(next);
    return rc;
}

int pci_file_write(const char *path, const char *text, size_t size, char *why, size_t room)
{
    struct stat info;
    int rc;

    if (!path) {
        rc = write_all(dup(STDOUT_FILENO), text, size);
    } else if (lstat(path, &info) || S_ISREG(info.st_mode)) {
        rc = replace(path, text, size);
    } else {
        rc = text ? write_special(path, text, size) : access(path, W_OK);
    }
    if (rc) {
        rc = -errno;
        snprintf(why, room, "%s%s",
                 rc == -ENXIO ? "[no-reader] no process reads this pipe" : strerror(-rc),
                 rc == -ENOSPC ? "; make room, or write to another place" : "");
    }
    return rc;
}
