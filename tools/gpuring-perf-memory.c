/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Where the buffers lie. CUDA memory needs no CUDA toolkit: the driver is loaded by dlopen, and the
 * few entry points are declared here after the CUDA driver API reference.
 */
#include "gpuring-perf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 4096

typedef unsigned long long cuda_pointer; /* CUdeviceptr */

static struct {
    void *library;
    int device;
    int (*init)(unsigned int flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*set_current)(void *context);
    int (*alloc)(cuda_pointer *pointer, size_t bytes);
    int (*free)(cuda_pointer pointer);
    int (*write)(cuda_pointer to, const void *from, size_t bytes);
    int (*read)(void *to, cuda_pointer from, size_t bytes);
} cuda;

static enum perf_memory kind = PERF_MEMORY_HOST;

static int cuda_check(int result, const char *what)
{
    if (result != 0) {
        perf_message("CUDA: cannot %s (CUresult %d)", what, result);
        return -1;
    }
    return 0;
}

/* dlsym gives a data pointer; the copy makes a function pointer of it without a cast. */
static int cuda_symbol(const char *name, void *function)
{
    void *symbol = dlsym(cuda.library, name);

    if (symbol == NULL) {
        perf_message("libcuda.so.1 has no %s", name);
        return -1;
    }
    memcpy(function, &symbol, sizeof symbol);
    return 0;
}

static int cuda_symbols(void)
{
    if (cuda_symbol("cuInit", &cuda.init) != 0 ||
        cuda_symbol("cuDeviceGetCount", &cuda.device_count) != 0 ||
        cuda_symbol("cuDeviceGet", &cuda.device_get) != 0 ||
        cuda_symbol("cuDevicePrimaryCtxRetain", &cuda.retain) != 0 ||
        cuda_symbol("cuDevicePrimaryCtxRelease_v2", &cuda.release) != 0 ||
        cuda_symbol("cuCtxSetCurrent", &cuda.set_current) != 0 ||
        cuda_symbol("cuMemAlloc_v2", &cuda.alloc) != 0 ||
        cuda_symbol("cuMemFree_v2", &cuda.free) != 0 ||
        cuda_symbol("cuMemcpyHtoD_v2", &cuda.write) != 0 ||
        cuda_symbol("cuMemcpyDtoH_v2", &cuda.read) != 0) {
        return -1;
    }
    return 0;
}

static int cuda_open(int local_rank)
{
    void *context = NULL;
    int count = 0;

    cuda.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda.library == NULL) {
        perf_message("--memory cuda: no CUDA driver on this host (%s)", dlerror());
        return -1;
    }
    if (cuda_symbols() != 0 || cuda_check(cuda.init(0), "start the driver") != 0 ||
        cuda_check(cuda.device_count(&count), "count the GPUs") != 0) {
        return -1;
    }
    if (count == 0) {
        perf_message("--memory cuda: the driver sees no GPU (CUDA_VISIBLE_DEVICES?)");
        return -1;
    }
    if (cuda_check(cuda.device_get(&cuda.device, local_rank % count), "get the GPU") != 0 ||
        cuda_check(cuda.retain(&context, cuda.device), "create a context") != 0 ||
        cuda_check(cuda.set_current(context), "use the context") != 0) {
        return -1;
    }
    return 0;
}

int perf_memory_open(enum perf_memory memory, int local_rank)
{
    kind = memory;
    return memory == PERF_MEMORY_CUDA ? cuda_open(local_rank) : 0;
}

void perf_memory_close(void)
{
    if (kind == PERF_MEMORY_CUDA && cuda.library != NULL) {
        (void) cuda_check(cuda.release(cuda.device), "release the context");
    }
}

const char *perf_memory_name(void)
{
    return kind == PERF_MEMORY_CUDA ? "cuda" : "host";
}

void *perf_memory_alloc(size_t bytes)
{
    cuda_pointer device = 0;
    void *pointer = NULL;

    bytes = bytes == 0 ? 1 : bytes;
    if (kind == PERF_MEMORY_CUDA) {
        return cuda_check(cuda.alloc(&device, bytes), "allocate device memory") == 0
                   ? (void *) (uintptr_t) device
                   : NULL;
    }
    if (posix_memalign(&pointer, ALIGNMENT, bytes) != 0) {
        perf_message("out of memory for a buffer of %zu bytes; try a smaller --end", bytes);
        return NULL;
    }
    return pointer;
}

void perf_memory_free(void *pointer)
{
    if (pointer == NULL) {
        return;
    }
    if (kind == PERF_MEMORY_CUDA) {
        (void) cuda_check(cuda.free((uintptr_t) pointer), "free device memory");
    } else {
        free(pointer);
    }
}

int perf_memory_write(void *to, const void *host, size_t bytes)
{
    if (kind == PERF_MEMORY_CUDA && bytes > 0) {
        return cuda_check(cuda.write((uintptr_t) to, host, bytes), "copy to the device");
    }
    memcpy(to, host, bytes);
    return 0;
}

int perf_memory_read(void *host, const void *from, size_t bytes)
{
    if (kind == PERF_MEMORY_CUDA && bytes > 0) {
        return cuda_check(cuda.read(host, (uintptr_t) from, bytes), "copy from the device");
    }
    memcpy(host, from, bytes);
    return 0;
}
