/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How often the driver is asked where a buffer lies: once for each buffer of a call at most, and
 * nothing else is asked of it in a call on host memory. Counted by the stand-in driver.
 */
#include "harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define COUNT 1000

static long (*calls)(const char *symbol);
static float *gpu, *gpu_too, host[COUNT], host_too[COUNT];
static MPI_Comm comm;

static void find_counter(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, "gpuring_standin_calls") : NULL;

    if (found == NULL) {
        printf("Bail out! the driver is not the stand-in\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memcpy(&calls, &found, sizeof calls);
}

static void allreduce_gpu(void)
{
    MPI_Allreduce(gpu, gpu_too, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void allreduce_gpu_in_place(void)
{
    MPI_Allreduce(MPI_IN_PLACE, gpu, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void scan_gpu(void)
{
    MPI_Scan(gpu, gpu_too, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void bcast_gpu(void)
{
    MPI_Bcast(gpu, COUNT, MPI_FLOAT, 0, comm);
}

static void allreduce_host(void)
{
    MPI_Allreduce(host, host_too, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void scan_host(void)
{
    MPI_Scan(host, host_too, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void bcast_host(void)
{
    MPI_Bcast(host, COUNT, MPI_FLOAT, 0, comm);
}

static void barrier(void)
{
    MPI_Barrier(comm);
}

static const struct {
    const char *name;
    void (*call)(void);
    int buffers;
    bool on_gpu;
} cases[] = {
    {"Allreduce on a GPU", allreduce_gpu, 2, true},
    {"Allreduce in place on a GPU", allreduce_gpu_in_place, 1, true},
    {"Scan on a GPU", scan_gpu, 2, true},
    {"Bcast on a GPU", bcast_gpu, 1, true},
    {"Allreduce on the host", allreduce_host, 2, false},
    {"Scan on the host", scan_host, 2, false},
    {"Bcast on the host", bcast_host, 1, false},
    {"Barrier", barrier, 0, false},
};

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    gpu = harness_alloc(sizeof host);
    gpu_too = harness_alloc(sizeof host);
    harness_write(gpu, host, sizeof host);
    find_counter();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long asked, all;

        cases[i].call(); /* what the first call makes */
        asked = calls("cuPointerGetAttributes");
        all = calls(NULL);
        cases[i].call();
        asked = calls("cuPointerGetAttributes") - asked;
        all = calls(NULL) - all;
        harness_check(asked <= cases[i].buffers, "%s: asks for %ld buffers", cases[i].name, asked);
        harness_check(cases[i].on_gpu ? all > asked : all == asked,
                      "%s: %ld calls of the driver in all", cases[i].name, all);
    }
    MPI_Comm_free(&comm);
    harness_free(gpu);
    harness_free(gpu_too);
    return harness_finish();
}
