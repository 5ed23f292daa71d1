/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Write a tuning file. Rules for other shapes in it are kept. Rank 0 only. */
#include "gpuring-perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/engine/tuning.h"
#include "mca/topo_pci/xml/pci_file.h"

#define RULE_ROOM 256

struct perf_rules {
    const char *path;
    char *old; /* NULL: there is no file yet */
};

/* Load the tuning file if it exists. Fail if the path is another file, which must not be
 * overwritten. */
static int load_rules(struct perf_rules *file)
{
    struct gpuring_tuning tuning;
    char error[512];
    size_t bytes;

    if (access(file->path, F_OK) != 0 && errno == ENOENT) {
        return 0;
    }
    if (gpuring_tuning_read(file->path, &tuning, error, sizeof error) != 0) {
        perf_message("%s; correct it, or give --tuning a new file", error);
        return -1;
    }
    gpuring_tuning_clear(&tuning);
    file->old = gpuring_tuning_load(file->path, &bytes, error, sizeof error);
    if (file->old == NULL) {
        perf_message("%s", error);
        return -1;
    }
    return 0;
}

/* Write the file, or without a text, check that it can be written. */
static int write_file(const struct perf_rules *file, const char *text, size_t length)
{
    char why[128];

    return pci_file_write(file->path, text, length, why, sizeof why) == 0
               ? 0
               : perf_message("[cannot-write] cannot write %s: %s", file->path, why);
}

struct perf_rules *perf_rules_open(const char *path)
{
    struct perf_rules *file = calloc(1, sizeof *file);

    if (file == NULL) {
        perf_message("out of memory");
        return NULL;
    }
    file->path = path;
    if (load_rules(file) != 0 || write_file(file, NULL, 0) != 0) {
        perf_rules_close(file);
        return NULL;
    }
    return file;
}

void perf_rules_close(struct perf_rules *file)
{
    if (file != NULL) {
        free(file->old);
        free(file);
    }
}

static bool same_span(const struct gpuring_tuning_span *a, const struct gpuring_tuning_span *b)
{
    return a->first == b->first && a->last == b->last;
}

/* Copy the old file's lines up to the version line (head) or after it, without the rules for this
 * collective and shape. */
static void copy_old(FILE *out, const struct perf_rules *file,
                     const struct gpuring_tuning_rule *shape, bool head)
{
    bool before = true;

    for (const char *line = file->old; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        struct gpuring_tuning_rule rule;
        char error[RULE_ROOM];
        bool version =
            before && line[strspn(line, " \t\r\n")] != '#' && strspn(line, " \t\r") < length;
        bool replaced =
            !before && gpuring_tuning_line(line, length, &rule, error, sizeof error) > 0 &&
            rule.collective == shape->collective && rule.memories == shape->memories &&
            same_span(&rule.nodes, &shape->nodes) && same_span(&rule.ranks, &shape->ranks);

        if (before == head && !replaced) {
            fprintf(out, "%.*s\n", (int) length, line);
        }
        before = before && !version;
        line += length + (line[length] == '\n');
    }
}

int perf_rules_write(struct perf_rules *file, const struct gpuring_tuning_rule *rules,
                     char *const *remarks, size_t count)
{
    char *all = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&all, &length);
    bool failed = out == NULL;
    int status = -1;

    if (out != NULL) {
        if (file->old == NULL) {
            fprintf(out, "%s\n", GPURING_TUNING_VERSION_LINE);
        }
        copy_old(out, file, &rules[0], true);
        for (size_t i = 0; i < count;
             i++) { /* before the old rules, because the first rule that matches applies */
            char text[RULE_ROOM];

            (void) gpuring_tuning_text(&rules[i], text, sizeof text);
            fprintf(out, "%s  # %s\n", text, remarks[i]);
        }
        copy_old(out, file, &rules[0], false);
        failed = ferror(out) != 0;
        failed = fclose(out) != 0 || failed;
    }
    if (failed) {
        perf_message("out of memory");
    } else {
        status = write_file(file, all, length);
    }
    free(all);
    perf_rules_close(file);
    return status;
}
