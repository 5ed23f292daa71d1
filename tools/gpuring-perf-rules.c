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

#define RULE_ROOM 256

struct perf_rules {
    const char *path;
    char *old; /* NULL: there is no file yet */
    char *new_path;
    FILE *new_file;
};

/* Load the tuning file if it exists. Fail if the path is another file, which must not be
 * overwritten. */
static int load(struct perf_rules *file)
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

static char *new_path_of(const char *path)
{
    size_t room = strlen(path) + 32;
    char *new_path = malloc(room);

    if (new_path == NULL) {
        perf_message("out of memory");
        return NULL;
    }
    snprintf(new_path, room, "%s.%ld", path, (long) getpid());
    return new_path;
}

/* Open the new file next to the old one, which it replaces when it is complete. */
static int open_new(struct perf_rules *file)
{
    file->new_file = fopen(file->new_path, "w");
    if (file->new_file == NULL) {
        perf_message("[cannot-write] cannot write %s: %s", file->new_path, strerror(errno));
        return -1;
    }
    return 0;
}

/* Check before the measurements, which may take hours, that the file can be written. */
static int try_new(struct perf_rules *file)
{
    if (open_new(file) != 0) {
        return -1;
    }
    (void) fclose(file->new_file);
    file->new_file = NULL;
    (void) unlink(file->new_path);
    return 0;
}

struct perf_rules *perf_rules_open(const char *path)
{
    struct perf_rules *file = calloc(1, sizeof *file);

    if (file == NULL) {
        perf_message("out of memory");
        return NULL;
    }
    file->path = path;
    file->new_path = new_path_of(path);
    if (file->new_path == NULL || load(file) != 0 || try_new(file) != 0) {
        perf_rules_close(file);
        return NULL;
    }
    return file;
}

void perf_rules_close(struct perf_rules *file)
{
    if (file == NULL) {
        return;
    }
    if (file->new_file != NULL) {
        (void) fclose(file->new_file);
        (void) unlink(file->new_path);
    }
    free(file->old);
    free(file->new_path);
    free(file);
}

static bool same_span(const struct gpuring_tuning_span *a, const struct gpuring_tuning_span *b)
{
    return a->first == b->first && a->last == b->last;
}

/* Copy the old file's lines up to the version line (head) or after it, without the rules for this
 * collective and shape. */
static void copy_old(const struct perf_rules *file, const struct gpuring_tuning_rule *shape,
                     bool head)
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
            fprintf(file->new_file, "%.*s\n", (int) length, line);
        }
        before = before && !version;
        line += length + (line[length] == '\n');
    }
}

int perf_rules_write(struct perf_rules *file, const struct gpuring_tuning_rule *rules,
                     char *const *remarks, size_t count)
{
    bool failed;

    if (open_new(file) != 0) {
        perf_rules_close(file);
        return -1;
    }
    if (file->old == NULL) {
        fprintf(file->new_file, "%s\n", GPURING_TUNING_VERSION_LINE);
    }
    copy_old(file, &rules[0], true);
    for (size_t i = 0; i < count;
         i++) { /* before the old rules, because the first rule that matches applies */
        char text[RULE_ROOM];

        (void) gpuring_tuning_text(&rules[i], text, sizeof text);
        fprintf(file->new_file, "%s  # %s\n", text, remarks[i]);
    }
    copy_old(file, &rules[0], false);
    failed = ferror(file->new_file) != 0;
    failed = fclose(file->new_file) != 0 || failed;
    file->new_file = NULL;
    if (failed || rename(file->new_path, file->path) != 0) {
        perf_message("[cannot-write] cannot write %s: %s", file->path, strerror(errno));
        (void) unlink(file->new_path);
        perf_rules_close(file);
        return -1;
    }
    perf_rules_close(file);
    return 0;
}
