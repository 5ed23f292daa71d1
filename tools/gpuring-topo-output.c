/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Messages, and output that is written completely or not at all. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpuring-argument.h"
#include "gpuring-topo.h"

void topo_message(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    va_start(args, format);
    argument_message("gpuring-topo", format, args);
    va_end(args);
}

static int fd_write(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, text, length);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return -1;
        }
        text += written;
        length -= (size_t) written;
    }
    return 0;
}

static int failed(const char *what, const char *path)
{
    topo_message("%s %s: %s%s", what, path, strerror(errno),
                 errno == ENOSPC ? "; make room or write elsewhere with -o" : "");
    return TOPO_EXIT_FAILURE;
}

/* Return the permissions that this process gives to new files. */
static mode_t mode_new(void)
{
    mode_t mask = umask(0);

    umask(mask);
    return 0666 & ~mask;
}

/* Write a new file in the folder of PATH, and rename it to PATH. */
static int file_replace(const char *path, const char *text, size_t length)
{
    size_t size = strlen(path) + sizeof(".XXXXXX");
    char *temporary = malloc(size);
    int fd, status = TOPO_EXIT_FAILURE;

    if (!temporary) {
        return failed("cannot write", path);
    }
    snprintf(temporary, size, "%s.XXXXXX", path);
    fd = mkstemp(temporary);
    if (fd < 0) {
        failed("cannot create a file next to", path);
    } else if (fd_write(fd, text, length) != 0 || fchmod(fd, mode_new()) != 0 || fsync(fd) != 0) {
        failed("cannot write", path);
        close(fd);
        unlink(temporary);
    } else if (close(fd) != 0 || rename(temporary, path) != 0) {
        failed("cannot write", path);
        unlink(temporary);
    } else {
        status = TOPO_EXIT_OK;
    }
    free(temporary);
    return status;
}

/* Write directly to a device or a pipe. */
static int special_write(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "we");

    if (!file) {
        return failed("cannot open", path);
    }
    if (fd_write(fileno(file), text, length) != 0) {
        failed("cannot write", path);
        fclose(file);
        return TOPO_EXIT_FAILURE;
    }
    return fclose(file) == 0 ? TOPO_EXIT_OK : failed("cannot write", path);
}

int topo_output_write(const char *path, const char *text, size_t length)
{
    struct stat status;

    if (!path) {
        return fd_write(STDOUT_FILENO, text, length) == 0
                   ? TOPO_EXIT_OK
                   : failed("cannot write", "standard output");
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return special_write(path, text, length);
    }
    return file_replace(path, text, length);
}
