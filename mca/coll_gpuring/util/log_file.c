/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/log_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/status.h"

#define LINE_ROOM 1280 /* a text of log.c, its prefix and the time */

int gpuring_log_file_path(const char *pattern, const char *host, char *path, size_t size)
{
    size_t used = 0;

    for (const char *at = pattern; *at != '\0' && used < size; at++) {
        int length;

        if (*at != '%') {
            length = snprintf(path + used, size - used, "%c", *at);
        } else if (*++at == 'h') {
            length = snprintf(path + used, size - used, "%s", host);
        } else if (*at == 'p') {
            length = snprintf(path + used, size - used, "%ld", (long) getpid());
        } else if (*at == '%') {
            length = snprintf(path + used, size - used, "%%");
        } else {
            return GPURING_ERR_ARG;
        }
        used += (size_t) length;
    }
    return used > 0 && used < size ? GPURING_OK : GPURING_ERR_ARG;
}

int gpuring_log_file_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
}

void gpuring_log_file_write(int fd, const char *line)
{
    char text[LINE_ROOM];
    struct timespec now;
    struct tm utc;
    size_t length;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, sizeof text - length - 1, ".%06ldZ %s", now.tv_nsec / 1000, line);
    length = strlen(text);
    text[length++] = '\n';
    if (write(fd, text, length) < 0) {
        return; /* nothing can be done about it, and the line may be about this very disk */
    }
}
