/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "enqueued_driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "standin_find.h"
#include "tools/gpuring-perf.h"

struct driver driver;
static int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);

void driver_need(bool good, const char *what)
{
    if (!good) {
        printf("Bail out! cannot %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

#define DELAY_BYTES ((size_t) 64 << 20)
static char *delay; /* twice DELAY_BYTES, which are copied for at least 20 us */

/* On a GPU: copy for `ms` milliseconds, and then copy the data. */
static void copy_late(void *stream, void *to, const void *from, size_t bytes, int ms)
{
    for (int i = 0; i < 20 * ms; i++) {
        copy((uintptr_t) delay, (uintptr_t) delay + DELAY_BYTES, DELAY_BYTES, stream);
    }
    driver_need(copy((uintptr_t) to, (uintptr_t) from, bytes, stream) == 0, "copy in a stream");
}

static struct {
    void *stream, *graph;
    int (*begin)(void *stream, int mode), (*end)(void *stream, void **graph);
    int (*instantiate)(void **runs, void *graph, unsigned long long flags);
    int (*update)(void *runs, void *graph, void *info);
    int (*launch)(void *runs, void *stream), (*destroy)(void *runs);
} cuda;

static void cuda_begin(void *stream)
{
    cuda.stream = stream;
    driver_need(cuda.begin(stream, 0) == 0, "begin a capture");
}

static void *cuda_end(void)
{
    void *runs = NULL;

    driver_need(cuda.end(cuda.stream, &cuda.graph) == 0 &&
                    cuda.instantiate(&runs, cuda.graph, 0) == 0,
                "make a graph");
    return runs;
}

static bool cuda_update(void *graph)
{
    void *other = NULL;
    uint64_t info[3]; /* a result and two nodes */

    driver_need(cuda.end(cuda.stream, &other) == 0, "end a capture");
    return cuda.update(graph, other, info) == 0;
}

static void cuda_launch(void *graph, void *stream)
{
    driver_need(cuda.launch(graph, stream) == 0, "launch a graph");
}

static void cuda_free(void *graph)
{
    (void) cuda.destroy(graph);
}

/* Use the functions of the stand-in driver, if it is loaded. */
static void find_standin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL && dlsym(library, "gpuring_standin_kernel_in") != NULL) {
        standin_find("gpuring_standin_kernel_in", &driver.kernel);
        standin_find("gpuring_standin_graph_begin", &driver.graph_begin);
        standin_find("gpuring_standin_graph_end", &driver.graph_end);
        standin_find("gpuring_standin_graph_launch", &driver.graph_launch);
        standin_find("gpuring_standin_graph_update", &driver.graph_update);
        standin_find("gpuring_standin_graph_free", &driver.graph_free);
    } else {
        standin_find("cuStreamBeginCapture_v2", &cuda.begin);
        standin_find("cuStreamEndCapture", &cuda.end);
        standin_find("cuGraphInstantiateWithFlags", &cuda.instantiate);
        standin_find("cuGraphLaunch", &cuda.launch);
        standin_find("cuGraphExecUpdate_v2", &cuda.update);
        standin_find("cuGraphExecDestroy", &cuda.destroy);
        driver.graph_begin = cuda_begin;
        driver.graph_end = cuda_end;
        driver.graph_update = cuda_update;
        driver.graph_launch = cuda_launch;
        driver.graph_free = cuda_free;
        driver.kernel = copy_late;
        delay = harness_alloc(2 * DELAY_BYTES);
    }
}

void driver_open(void)
{
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int gpu = (local_rank != NULL ? atoi(local_rank) : 0) % perf_memory_gpus();
    int (*push)(void *context), (*retain)(void **context, int gpu);
    void *context;

    standin_find("cuCtxPushCurrent_v2", &push);
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuStreamCreateWithPriority", &driver.stream_create);
    standin_find("cuStreamDestroy_v2", &driver.stream_destroy);
    standin_find("cuStreamSynchronize", &driver.stream_sync);
    standin_find("cuStreamQuery", &driver.stream_query);
    standin_find("cuMemcpyAsync", &copy);
    find_standin();
    driver_need(retain(&context, gpu) == 0 && push(context) == 0, "use the context");
}

void driver_close(void)
{
    harness_free(delay);
}
