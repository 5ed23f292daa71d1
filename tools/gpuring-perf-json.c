/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* JSON files. */
#include "gpuring-perf.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Check that the file can be written before the measurements, which may take hours. Leave no new
 * file.
 */
int perf_json_try(const char *path)
{
    bool is_new = access(path, F_OK) != 0;
    FILE *file;

    if (strcmp(path, "-") == 0) {
        return 0;
    }
    file = fopen(path, "a");

    if (file == NULL || fclose(file) != 0) {
        perf_message("[cannot-write] cannot write %s: %s", path, strerror(errno));
        return -1;
    }
    if (is_new) {
        (void) unlink(path);
    }
    return 0;
}

int perf_json_write(const struct json_t *document, const char *path)
{
    const size_t flags = JSON_INDENT(1) | JSON_PRESERVE_ORDER;
    int status;

    errno = 0;
    if (strcmp(path, "-") == 0) {
        status = json_dumpf(document, stdout, flags);
        putchar('\n');
    } else {
        status = json_dump_file(document, path, flags);
    }
    if (status != 0) {
        perf_message("[cannot-write] cannot write %s: %s", path,
                     errno != 0 ? strerror(errno) : "no JSON");
    }
    return status;
}
