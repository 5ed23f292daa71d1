/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/gpu/gpu.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/device/cuda/driver.h"
#include "mca/coll_gpuring/util/status.h"

#define LIMIT_SECONDS 60.0

struct gpu gpu;

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
static const struct gpuring_cuda_driver *driver;
static CUdeviceptr first; /* memory from which the device layer learns which GPU to use */
static int checks, failures;

static void need(bool good, const char *what)
{
    if (!good) {
        printf("Bail out! cannot %s\n", what);
        exit(1);
    }
}

static void *fabric_alloc(size_t bytes, int wires)
{
    return wires ? gpu_alloc(bytes) : gpu_alloc_pinned(bytes);
}

static void fabric_release(void *memory, int wires)
{
    if (wires) {
        gpu_free(memory);
    } else {
        gpu_free_pinned(memory);
    }
}

/* Create a context of the GPU, like an application. */
static void start_application(int ordinal)
{
    const char *reason = "";
    CUcontext context;
    int count = 0;

    driver = gpuring_cuda_driver(false, &reason);
    if (driver == NULL) {
        printf("Bail out! %s\n", reason);
        exit(1);
    }
    need(driver->device_count(&count) == CUDA_SUCCESS && ordinal < count, "find the GPU");
    need(driver->primary_retain(&context, ordinal) == CUDA_SUCCESS &&
             driver->ctx_push(context) == CUDA_SUCCESS &&
             driver->alloc(&first, 4096) == CUDA_SUCCESS,
         "make a context of the GPU");
}

void gpu_open(int ordinal)
{
    static const struct fabric_memory memory = {fabric_alloc, fabric_release};
    static const uint8_t stand_in[15] = {'s'}; /* the number of the GPU follows */
    struct gpuring_device_identity identity;
    struct gpuring_pointer pointer;

    start_application(ordinal);
    pointer = ops->classify(NULL, (void *) (uintptr_t) first);
    need(ops->open(&gpu.device) == GPURING_OK && ops->attach(gpu.device, &pointer) == GPURING_OK &&
             ops->prepare(gpu.device) == GPURING_OK,
         "attach to the GPU");
    need(ops->identity(gpu.device, &identity) == GPURING_OK, "identify the GPU");
    gpu.capability = (int) identity.capability;
    need(driver->device_attribute(&gpu.processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                  ordinal) == CUDA_SUCCESS,
         "count the multiprocessors");
    for (int i = 0; i < GPU_STREAMS; i++) {
        need(ops->stream_create(gpu.device, &gpu.streams[i]) == GPURING_OK, "create a stream");
    }
    gpu.stands_in = memcmp(identity.uuid, stand_in, sizeof stand_in) == 0;
    snprintf(gpu.name, sizeof gpu.name, "compute capability %u.%u, %d multiprocessors, at %s",
             identity.capability / 10, identity.capability % 10, gpu.processors,
             identity.pci_bus_id);
    printf("# %s: %s\n", gpu.stands_in ? "THE STAND-IN DRIVER, THIS IS NO RESULT OF A GPU" : "GPU",
           gpu.name);
    fabric_memory = &memory;
}

void gpu_open_of_rank(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK"), *all = getenv("GPURING_TEST_GPUS");
    int gpus = all != NULL ? atoi(all) : 1;

    gpu_open((local != NULL ? atoi(local) : 0) % (gpus > 0 ? gpus : 1));
}

void gpu_close(void)
{
    for (int i = 0; i < GPU_STREAMS; i++) {
        ops->stream_destroy(gpu.streams[i]);
    }
    ops->close(gpu.device);
    need(driver->free(first) == CUDA_SUCCESS, "free device memory");
}

void *gpu_alloc(size_t bytes)
{
    void *memory = NULL;

    need(ops->alloc(gpu.device, bytes > 0 ? bytes : 1, &memory) == GPURING_OK,
         "allocate device memory");
    return memory;
}

void *gpu_alloc_pinned(size_t bytes)
{
    void *memory = NULL;

    need(ops->alloc_pinned(gpu.device, bytes > 0 ? bytes : 1, &memory) == GPURING_OK,
         "allocate pinned memory");
    return memory;
}

void gpu_free(void *memory)
{
    ops->free(gpu.device, memory);
}

void gpu_free_pinned(void *memory)
{
    ops->free_pinned(gpu.device, memory);
}

void gpu_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        need(ops->copy(gpu.streams[0], to, from, bytes) == GPURING_OK &&
                 ops->synchronize(gpu.streams[0]) == GPURING_OK,
             "copy");
    }
}

int gpu_run(struct gpuring_work *work)
{
    double end = gpu_seconds() + LIMIT_SECONDS;
    int status = ops->launch(gpu.streams[0], work);

    while (status == GPURING_OK || status == GPURING_AGAIN) {
        status = ops->poll(gpu.streams[0], work);
        if (status == GPURING_OK) {
            return GPURING_OK;
        }
        if (gpu_seconds() > end) {
            return GPURING_ERR_TIMEOUT;
        }
        sched_yield();
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}

double gpu_median(double *times, int n)
{
    qsort(times, (size_t) n, sizeof *times, compare);
    return times[n / 2];
}

int gpu_run_streams(struct fabric *fabric)
{
    int nranks = fabric->plans->nranks, done = 0, status = GPURING_OK;
    bool ended[GPU_STREAMS] = {false};
    double end = gpu_seconds() + LIMIT_SECONDS;

    need(nranks <= GPU_STREAMS, "run that many ranks");
    for (int rank = 0; rank < nranks && status == GPURING_OK; rank++) {
        status = ops->launch(gpu.streams[rank], &fabric->ranks[rank].work);
    }
    while (status == GPURING_OK && done < nranks) {
        for (int rank = 0; rank < nranks && status >= 0; rank++) {
            if (!ended[rank]) {
                status = ops->poll(gpu.streams[rank], &fabric->ranks[rank].work);
                ended[rank] = status == GPURING_OK;
                done += ended[rank];
            }
        }
        status = status == GPURING_AGAIN ? GPURING_OK : status;
        if (gpu_seconds() > end) {
            status = GPURING_ERR_TIMEOUT;
        }
        sched_yield();
    }
    return status;
}

double gpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

void gpu_check(bool good, const char *format, ...)
{
    va_list arguments;

    checks++;
    failures += !good;
    printf("%sok %d - ", good ? "" : "not ", checks);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("%s\n", gpu.stands_in ? " (stand-in driver)" : "");
    fflush(stdout);
}

int gpu_finish(void)
{
    printf("1..%d\n", checks);
    return failures == 0 ? 0 : 1;
}
