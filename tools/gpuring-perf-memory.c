/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory of the buffers. CUDA memory needs no CUDA toolkit: the driver is loaded with dlopen, and
 * the few entry points are declared here according to the CUDA driver API reference.
 */
#include "gpuring-perf.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 4096

typedef unsigned long long cuda_pointer; /* CUdeviceptr */

static struct {
    void *handle;
    int device;
    int (*init)(unsigned int flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(cuda_pointer *pointer, size_t bytes);
    int (*free)(cuda_pointer pointer);
    int (*stream_create)(void **stream, unsigned int flags, int priority);
    int (*stream_destroy)(void *stream);
    int (*stream_sync)(void *stream);
    int (*copy)(cuda_pointer to, cuda_pointer from, size_t bytes, void *stream);
    /* For graphs, loaded by perf_graph_open: */
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_destroy)(void *graph);
    int (*launch)(void *executable, void *stream);
    int (*executable_destroy)(void *executable);
    void *context; /* the GPU's primary context, current only during our calls */
    void *stream;  /* for copies */
} cuda;

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING: copies do not wait for other work */

static enum perf_memory kind = PERF_MEMORY_HOST;

static int cuda_check(int result, const char *what)
{
    if (result != 0) {
        perf_message("CUDA: cannot %s (CUresult %d)", what, result);
        return -1;
    }
    return 0;
}

/* Load a symbol. dlsym returns a data pointer, which memcpy converts to a function pointer without
 * a cast. */
static int cuda_symbol(const char *name, void *function)
{
    void *symbol = dlsym(cuda.handle, name);

    if (symbol == NULL) {
        perf_message("libcuda.so.1 has no %s", name);
        return -1;
    }
    memcpy(function, &symbol, sizeof symbol);
    return 0;
}

/* A function of the driver, and the pointer to it. */
struct symbol {
    const char *name;
    void *function;
};

static int cuda_symbols(const struct symbol *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (cuda_symbol(symbols[i].name, symbols[i].function) != 0) {
            return -1;
        }
    }
    return 0;
}

static int cuda_enter(void)
{
    return cuda_check(cuda.push(cuda.context), "use the context");
}

/* Leave the context, and return the status of what was done in it. */
static int cuda_leave(int status)
{
    void *popped;

    (void) cuda_check(cuda.pop(&popped), "leave the context");
    return status;
}

/* Call a function of the driver in the context. Return 0, or -1 after a message. */
#define CUDA(what, ...) (cuda_enter() == 0 ? cuda_leave(cuda_check(__VA_ARGS__, what)) : -1)

int perf_memory_gpus(void)
{
    int (*init)(unsigned int flags), (*device_count)(int *count), count = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbols[2] = {NULL, NULL};

    if (driver != NULL) {
        symbols[0] = dlsym(driver, "cuInit");
        symbols[1] = dlsym(driver, "cuDeviceGetCount");
    }
    if (symbols[0] != NULL && symbols[1] != NULL) {
        memcpy(&init, &symbols[0], sizeof init);
        memcpy(&device_count, &symbols[1], sizeof device_count);
        count = init(0) == 0 && device_count(&count) == 0 ? count : 0;
    }
    return count; /* the driver stays loaded, because it does not survive dlclose */
}

static int cuda_open(int local_rank)
{
    static const struct symbol symbols[] = {
        {"cuInit", &cuda.init},
        {"cuDeviceGetCount", &cuda.device_count},
        {"cuDeviceGet", &cuda.device_get},
        {"cuDevicePrimaryCtxRetain", &cuda.retain},
        {"cuDevicePrimaryCtxRelease_v2", &cuda.release},
        {"cuCtxPushCurrent_v2", &cuda.push},
        {"cuCtxPopCurrent_v2", &cuda.pop},
        {"cuMemAlloc_v2", &cuda.alloc},
        {"cuMemFree_v2", &cuda.free},
        {"cuStreamCreateWithPriority", &cuda.stream_create},
        {"cuStreamDestroy_v2", &cuda.stream_destroy},
        {"cuStreamSynchronize", &cuda.stream_sync},
        {"cuMemcpyAsync", &cuda.copy},
    };
    int count = 0;

    cuda.handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda.handle == NULL) {
        return perf_message("--memory cuda: no CUDA driver on this host (%s)", dlerror());
    }
    if (cuda_symbols(symbols, sizeof symbols / sizeof symbols[0]) != 0 ||
        cuda_check(cuda.init(0), "start the driver") != 0 ||
        cuda_check(cuda.device_count(&count), "count the GPUs") != 0) {
        return -1;
    }
    if (count == 0) {
        return perf_message("--memory cuda: the driver sees no GPU (CUDA_VISIBLE_DEVICES?)");
    }
    if (cuda_check(cuda.device_get(&cuda.device, local_rank % count), "get the GPU") != 0 ||
        cuda_check(cuda.retain(&cuda.context, cuda.device), "create a context") != 0) {
        return -1;
    }
    return CUDA("create a stream", cuda.stream_create(&cuda.stream, NON_BLOCKING, 0));
}

/* Copy, and wait until the copy is complete. */
static int cuda_copy(cuda_pointer to, cuda_pointer from, size_t bytes, const char *what)
{
    if (bytes == 0) {
        return 0;
    }
    return CUDA(what, cuda.copy(to, from, bytes, cuda.stream)) == 0
               ? CUDA(what, cuda.stream_sync(cuda.stream))
               : -1;
}

int perf_memory_open(enum perf_memory memory, int local_rank)
{
    kind = memory;
    return memory == PERF_MEMORY_CUDA ? cuda_open(local_rank) : 0;
}

void perf_memory_close(void)
{
    if (kind == PERF_MEMORY_CUDA && cuda.stream != NULL) {
        (void) CUDA("destroy the stream", cuda.stream_destroy(cuda.stream));
        cuda.stream = NULL;
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
        return CUDA("allocate device memory", cuda.alloc(&device, bytes)) == 0
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
    if (kind == PERF_MEMORY_HOST) {
        free(pointer);
    } else {
        (void) CUDA("free device memory", cuda.free((uintptr_t) pointer));
    }
}

int perf_memory_write(void *to, const void *host, size_t bytes)
{
    if (kind == PERF_MEMORY_CUDA) {
        return cuda_copy((uintptr_t) to, (uintptr_t) host, bytes, "copy to the device");
    }
    memcpy(to, host, bytes);
    return 0;
}

int perf_memory_read(void *host, const void *from, size_t bytes)
{
    if (kind == PERF_MEMORY_CUDA) {
        return cuda_copy((uintptr_t) host, (uintptr_t) from, bytes, "copy from the device");
    }
    memcpy(host, from, bytes);
    return 0;
}

void *perf_memory_stream(void)
{
    return cuda.stream;
}

int perf_memory_synchronize(void)
{
    return CUDA("wait for the stream", cuda.stream_sync(cuda.stream));
}

int perf_graph_open(void)
{
    static const struct symbol symbols[] = {
        {"cuStreamBeginCapture_v2", &cuda.begin},
        {"cuStreamEndCapture", &cuda.end},
        {"cuGraphInstantiateWithFlags", &cuda.instantiate},
        {"cuGraphDestroy", &cuda.graph_destroy},
        {"cuGraphLaunch", &cuda.launch},
        {"cuGraphExecDestroy", &cuda.executable_destroy},
    };

    return cuda_symbols(symbols, sizeof symbols / sizeof symbols[0]);
}

int perf_graph_begin(void)
{
    return CUDA("begin a capture", cuda.begin(cuda.stream, 0));
}

void *perf_graph_end(void)
{
    void *graph = NULL, *executable = NULL;

    if (CUDA("end a capture", cuda.end(cuda.stream, &graph)) == 0) {
        if (CUDA("instantiate a graph", cuda.instantiate(&executable, graph, 0)) != 0) {
            executable = NULL;
        }
        (void) CUDA("destroy a graph", cuda.graph_destroy(graph));
    }
    return executable;
}

int perf_graph_launch(void *graph)
{
    return CUDA("launch a graph", cuda.launch(graph, cuda.stream));
}

void perf_graph_free(void *graph)
{
    if (graph != NULL) {
        (void) CUDA("destroy a graph", cuda.executable_destroy(graph));
    }
}
