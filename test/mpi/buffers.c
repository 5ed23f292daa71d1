/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The buffers that test programs give to MPI, with gpuring-perf's functions for memory. */
#include "harness.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/gpuring-perf.h"

static bool on_gpu;
static const char *sort; /* sort of GPU memory, see test/standin/standin.h; NULL: cuMemAlloc */
static int gpu;
static void *(*alloc_sort)(const char *sort, int gpu, size_t bytes);
static void (*free_sort)(void *memory);

/* Messages of gpuring-perf's functions after a failure. */
int perf_message(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    printf("# rank %d: ", harness_rank);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    return -1;
}

static void need(bool good, const char *what)
{
    if (!good) {
        printf("Bail out! cannot %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

void harness_buffers_open(void)
{
    const char *memory = getenv("GPURING_TEST_MEMORY");
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    void *library, *found;

    on_gpu = memory != NULL && strcmp(memory, "cuda") == 0;
    need(perf_memory_open(on_gpu ? PERF_MEMORY_CUDA : PERF_MEMORY_HOST,
                          local_rank != NULL ? atoi(local_rank) : 0) == 0,
         "use the memory that GPURING_TEST_MEMORY asks for");
    sort = getenv("GPURING_TEST_SORT");
    if (sort == NULL) {
        return;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    need(library != NULL && (found = dlsym(library, "gpuring_standin_alloc")) != NULL,
         "find the stand-in driver, which GPURING_TEST_SORT needs");
    memcpy(&alloc_sort, &found, sizeof alloc_sort);
    found = dlsym(library, "gpuring_standin_free");
    memcpy(&free_sort, &found, sizeof free_sort);
    gpu = (local_rank != NULL ? atoi(local_rank) : 0) % atoi(getenv("GPURING_STANDIN_GPUS"));
}

void harness_buffers_close(void)
{
    perf_memory_close();
}

bool harness_on_gpu(void)
{
    return on_gpu;
}

void *harness_alloc(size_t bytes)
{
    void *buffer = sort != NULL ? alloc_sort(sort, gpu, bytes) : perf_memory_alloc(bytes);

    need(buffer != NULL, "allocate a buffer");
    return buffer;
}

void harness_free(void *buffer)
{
    if (sort != NULL) {
        free_sort(buffer);
    } else {
        perf_memory_free(buffer);
    }
}

void harness_write(void *buffer, const void *host, size_t bytes)
{
    need(perf_memory_write(buffer, host, bytes) == 0, "fill a buffer");
}

void harness_read(void *host, const void *buffer, size_t bytes)
{
    need(perf_memory_read(host, buffer, bytes) == 0, "read a buffer");
}
