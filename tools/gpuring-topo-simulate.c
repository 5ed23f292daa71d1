/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Measure the cost of starting a large job for one rank (gpuring-topo-job.h). Each job runs in a
 * separate process, so that its memory can be measured.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuring-topo-job.h"

/* The jobs without --nodes: 8 to 131072 ranks of 8 GPUs. */
static const unsigned jobs_default[] = {1, 16, 256, 2048, 16384};

/* Measure a job in a separate process. Return 0, or a negative errno value. */
static int job_measure(const struct topo_machine *machine, uint32_t nodes,
                       struct topo_figures *figures)
{
    struct topo_job job;
    int ends[2], status;
    ssize_t got = 0;
    pid_t parent = getpid(), child;

    status = topo_job_prepare(machine, nodes, &job);
    if (status == 0 && pipe(ends) != 0) {
        status = -errno;
    }
    if (status != 0) {
        topo_job_free(&job);
        return status;
    }
    child = fork();
    if (child == 0) {
        /* Terminate the child when the parent ends for any reason. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        topo_job_run(&job, figures);
        _exit(write(ends[1], figures, sizeof *figures) == sizeof *figures ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0) {
        do {
            got = read(ends[0], figures, sizeof *figures);
        } while (got < 0 && errno == EINTR);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    topo_job_free(&job);
    if (child < 0) {
        return -EAGAIN;
    }
    return got == sizeof *figures
               ? figures->rc
               : -ENOMEM; /* the child was killed, most likely because it ran out of memory */
}

static void text_row(FILE *out, const struct topo_figures *f)
{
    fprintf(out, "%7" PRIu32 " %8" PRIu32 " %6" PRIu32 " %6" PRIu32 " %10.2f %10.2f %9.2f %9.2f",
            f->nodes, f->ranks, f->rings, f->trees, (double) f->rank_info_bytes / 0x100000,
            (double) f->wire_bytes / 0x100000, (double) f->view_bytes / 0x400,
            (double) f->connect_info_bytes / 0x400);
    fprintf(out, " %10.2f %9.2f %9.2f %10.2f %9.2f %9.2f %6" PRIu32 " %6" PRIu32 " %11.1f\n",
            f->compare_ms, f->views_ms, f->search_ms, f->connect_ms, f->plan_ms,
            (double) f->plan_bytes / 0x100000, f->connections, f->neighbours, f->memory_mib);
}

static void text_head(FILE *out, const struct topo_machine *machine)
{
    fprintf(out,
            "One rank's start of a job on copies of %s (%" PRIu32
            " GPUs): MiB gathered, KiB of letters, CPU ms, memory\n",
            machine->name, machine->gpus);
    fprintf(out, "%7s %8s %6s %6s %10s %10s %9s %9s %10s %9s %9s %10s %9s %9s %6s %6s %11s\n",
            "nodes", "ranks", "rings", "trees", "who MiB", "chans MiB", "views KiB", "sent KiB",
            "compare ms", "views ms", "search ms", "connect ms", "plans ms", "plans MiB", "conns",
            "peers", "memory MiB");
}

int topo_simulate_print(FILE *out, const struct topo_machine *machine)
{
    const struct topo_options *options = machine->options;
    size_t count = options->nodes_given ? 1 : sizeof jobs_default / sizeof *jobs_default;

    text_head(out, machine);
    for (size_t i = 0; i < count; i++) {
        uint32_t nodes = options->nodes_given ? options->nodes : jobs_default[i];
        struct topo_figures figures;
        int rc = job_measure(machine, nodes, &figures);

        if (rc != 0) {
            topo_message("%" PRIu32 " nodes: %s", nodes, strerror(-rc));
            return TOPO_EXIT_FAILURE;
        }
        text_row(out, &figures);
    }
    return TOPO_EXIT_OK;
}
