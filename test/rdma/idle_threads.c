/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Check that the component's threads use no CPU time when nothing is in flight. After some
 * allreduces, threads with names gpuring-* must have neither clock ticks nor context switches for
 * two seconds. Threads need some time to become idle, so it is enough if one of several windows of
 * two seconds is silent. Each rank prints one line.
 */
#include "test/mpi/harness.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WINDOWS 6

struct cost {
    int threads;
    long ticks, switches; /* sums since the threads started */
};

static bool read_text(const char *id, const char *name, char *text, size_t size)
{
    char path[128];
    FILE *file;
    size_t length;

    snprintf(path, sizeof path, "/proc/self/task/%.20s/%s", id, name);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    return length > 0;
}

static long value_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    long value = 0;

    return at != NULL && sscanf(at + strlen(name), ": %ld", &value) == 1 ? value : 0;
}

static void add_thread(const char *id, struct cost *cost)
{
    char text[4096];
    long user = 0, system = 0;
    const char *rest;

    if (!read_text(id, "comm", text, sizeof text) || strncmp(text, "gpuring-", 8) != 0 ||
        !read_text(id, "stat", text, sizeof text) || (rest = strrchr(text, ')')) == NULL ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) !=
            2) {
        return;
    }
    cost->threads++;
    cost->ticks += user + system;
    if (read_text(id, "status", text, sizeof text)) {
        cost->switches += value_of(text, "\nvoluntary_ctxt_switches") +
                          value_of(text, "nonvoluntary_ctxt_switches");
    }
}

static struct cost costs(void)
{
    struct cost cost = {0};
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            add_thread(entry->d_name, &cost);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return cost;
}

int main(int argc, char **argv)
{
    static int data[20000];
    struct cost busy, before, after = {0};
    bool silent = false;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    for (int i = 0; i < 50; i++) {
        MPI_Allreduce(MPI_IN_PLACE, data, i % 2 == 0 ? 2 : 20000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    busy = costs();
    for (int i = 0; i < WINDOWS && !silent; i++) {
        before = costs();
        sleep(2);
        after = costs();
        silent = after.ticks == before.ticks && after.switches == before.switches;
        printf("# rank %d: %d threads, over 2 s idle: %ld ticks, %ld changes of context\n",
               harness_rank, after.threads, after.ticks - before.ticks,
               after.switches - before.switches);
    }
    printf(
        "%s - rank %d: %d threads of the component, %ld changes of context while busy, none idle\n",
        silent && after.threads > 0 && busy.switches > 0 ? "ok" : "not ok", harness_rank,
        after.threads, busy.switches);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
