/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test buffers that are still being filled when MPI is called. They are filled by copies that the
 * application considers synchronous (cuMemcpyHtoD from pageable memory, cuMemcpyDtoD and
 * cuMemsetD8), or by a kernel that still runs on a default stream. The MPI calls must read the new
 * data, and earlier work must not overwrite their results.
 *
 * Arguments: the stand-in driver for applications (test/standin/application); the sort of memory
 * (device, managed, pool, vmm, or context, which is device memory of an additional context); and
 * the work that fills the buffers: copies, or a kernel on the legacy stream (legacy) or on the
 * thread's default stream (thread). With `captured`, a blocking stream is also captured while MPI
 * is called, which forbids any use of the legacy stream.
 */
#include "harness.h"
#include "standin_find.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL     5000
#define LARGE     300000 /* elements: sent from GPU to GPU and not staged */
#define PASSES    3
#define KERNEL_MS 30

static int (*copy_in)(uint64_t to, const void *from, size_t bytes);
static int (*copy_within)(uint64_t to, uint64_t from, size_t bytes);
static int (*set)(uint64_t to, unsigned char value, size_t bytes);
static int (*finish)(void);
static int (*memory_alloc)(uint64_t *address, size_t bytes), (*memory_free)(uint64_t address);
static void *(*alloc_sort)(const char *sort, int gpu, size_t bytes);
static void (*free_sort)(void *memory);
static void (*copy)(void *to, const void *from, size_t bytes);
static void (*kernel)(int per_thread, void *to, const void *from, size_t bytes, int ms);
static void (*capture)(int capturing);
static const char *sort, *filler;
static int gpu;
static int *host;
static MPI_Comm comm;
static MPI_Op own_sum;

static void need(bool good, const char *what)
{
    if (!good) {
        printf("Bail out! cannot %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    need(found != NULL, name);
    memcpy(function, &found, sizeof found);
}

static bool of_context(void)
{
    return strcmp(sort, "device") == 0 || strcmp(sort, "context") == 0;
}

static int *allocate(int count)
{
    size_t bytes = (size_t) count * sizeof(int);
    uint64_t address = 0;

    if (!of_context()) {
        void *memory = alloc_sort(sort, gpu, bytes);

        need(memory != NULL, "allocate memory of the sort");
        return memory;
    }
    need(memory_alloc(&address, bytes) == 0, "allocate memory");
    return (int *) (uintptr_t) address;
}

static void release(int *memory)
{
    if (of_context()) {
        (void) memory_free((uint64_t) (uintptr_t) memory);
    } else {
        free_sort(memory);
    }
}

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *length; i++) {
        ((int *) inout)[i] += ((int *) in)[i];
    }
}

static void allreduce(int *from, int *to, int count)
{
    MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, comm);
}

static void allreduce_staged(int *from, int *to, int count)
{
    MPI_Allreduce(from, to, count, MPI_INT, own_sum, comm);
}

static void sendrecv(int *from, int *to, int count)
{
    MPI_Sendrecv(from, count, MPI_INT, (harness_rank + 1) % harness_size, 0, to, count, MPI_INT,
                 (harness_rank + harness_size - 1) % harness_size, 0, comm, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(int *from, int *to, int count);
    int count;
    bool sums;
} cases[] = {
    {"a collective", allreduce, SMALL, true},
    {"a staged collective", allreduce_staged, SMALL, true},
    {"a staged message", sendrecv, SMALL, false},
    {"a direct message", sendrecv, LARGE, false},
};

static int value(int rank, int pass, int i)
{
    return 1000 * rank + 7 * pass + i % 777;
}

static int expected(bool sums, int pass, int i)
{
    int sum = 0;

    if (!sums) {
        return value((harness_rank + harness_size - 1) % harness_size, pass, i);
    }
    for (int rank = 0; rank < harness_size; rank++) {
        sum += value(rank, pass, i);
    }
    return sum;
}

/* Start work on a default stream that ends much later. It clears the output, and fills the input
 * from memory that MPI never sees. */
static void run_kernels(int *from, int *to, int *scratch, int pass, int count)
{
    size_t bytes = (size_t) count * sizeof(int);
    int per_thread = strcmp(filler, "thread") == 0;

    memset(host, 0xee, bytes);
    copy(scratch + count, host, bytes);
    for (int i = 0; i < count; i++) {
        host[i] = value(harness_rank, pass, i);
    }
    copy(scratch, host, bytes);
    kernel(per_thread, to, scratch + count, bytes, KERNEL_MS);
    kernel(per_thread, from, scratch, bytes, KERNEL_MS);
}

/* Fill a buffer. If `within`, copy from GPU memory that MPI never sees. */
static void fill(int *memory, int *scratch, int pass, int count, bool within)
{
    size_t bytes = (size_t) count * sizeof(int);
    uint64_t to = (uint64_t) (uintptr_t) memory;

    for (int i = 0; i < count; i++) {
        host[i] = value(harness_rank, pass, i);
    }
    if (within) {
        copy(scratch, host, bytes);
        need(copy_within(to, (uint64_t) (uintptr_t) scratch, bytes) == 0, "copy on the GPU");
    } else {
        need(copy_in(to, host, bytes) == 0, "copy to the GPU");
    }
    memset(host, 0xff, bytes); /* it may be used again when the copy returns */
}

static int count_wrong(const int *memory, int count, bool sums, int pass)
{
    int wrong = 0;

    need(finish() == 0, "synchronize");
    copy(host, memory, (size_t) count * sizeof(int));
    for (int i = 0; i < count; i++) {
        wrong += host[i] != expected(sums, pass, i);
    }
    return wrong;
}

/* Use new buffers, so that MPI sees them for the first time in the first pass. */
static void check_case(size_t c, bool within)
{
    int count = cases[c].count;
    int *from = allocate(count), *to = allocate(count), *scratch = allocate(2 * count);
    bool copies = strcmp(filler, "copies") == 0, captured = strcmp(filler, "captured") == 0;

    for (int pass = 0; pass < PASSES; pass++) {
        int wrong;

        if (copies) {
            need(set((uint64_t) (uintptr_t) to, 0xee, (size_t) count * sizeof(int)) == 0,
                 "set memory");
            fill(from, scratch, pass, count, within);
        } else {
            run_kernels(from, to, scratch, pass, count);
        }
        if (captured) { /* as a program has to, before it begins a capture */
            need(finish() == 0, "synchronize");
            capture(2);
        }
        cases[c].call(from, to, count);
        capture(0);
        wrong = count_wrong(to, count, cases[c].sums, pass);
        harness_check(wrong == 0, "%s memory, %s after %s, pass %d (%d of %d wrong)", sort,
                      cases[c].name,
                      !copies  ? filler
                      : within ? "cuMemcpyDtoD"
                               : "cuMemcpyHtoD",
                      pass, wrong, count);
    }
    release(from);
    release(to);
    release(scratch);
}

int main(int argc, char **argv)
{
    int (*retain)(void **context, int gpu), (*push)(void *context), (*pop)(void **context);
    int (*primary_release)(int gpu);
    void *(*context_make)(int gpu);
    void (*context_end)(void *context);
    void *application, *context;
    const char *local;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    need(argc == 4, "start without three arguments");
    sort = argv[2];
    filler = argv[3];
    application = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    need(application != NULL, "load the driver for applications");
    find(application, "cuMemcpyHtoD_v2", &copy_in);
    find(application, "cuMemcpyDtoD_v2", &copy_within);
    find(application, "cuMemsetD8_v2", &set);
    find(application, "cuCtxSynchronize", &finish);
    standin_find("cuMemAlloc_v2", &memory_alloc);
    standin_find("cuMemFree_v2", &memory_free);
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuDevicePrimaryCtxRelease_v2", &primary_release);
    standin_find("cuCtxPushCurrent_v2", &push);
    standin_find("cuCtxPopCurrent_v2", &pop);
    standin_find("gpuring_standin_alloc", &alloc_sort);
    standin_find("gpuring_standin_free", &free_sort);
    standin_find("gpuring_standin_copy", &copy);
    standin_find("gpuring_standin_kernel", &kernel);
    standin_find("gpuring_standin_capture", &capture);
    standin_find("gpuring_standin_context", &context_make);
    standin_find("gpuring_standin_context_end", &context_end);
    local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    gpu = (local != NULL ? atoi(local) : 0) % atoi(getenv("GPURING_STANDIN_GPUS"));
    host = malloc(LARGE * sizeof(int));
    need(host != NULL && retain(&context, gpu) == 0, "begin");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Op_create(add, 1, &own_sum);
    if (strcmp(sort, "context") == 0) { /* the primary one is the component's */
        float *first = harness_alloc(64);

        MPI_Allreduce(MPI_IN_PLACE, first, 1, MPI_FLOAT, MPI_SUM, comm);
        harness_free(first);
        context = context_make(gpu);
    }
    need(push(context) == 0, "make a context current");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        check_case(c, false);
        if (strcmp(filler, "copies") == 0) {
            check_case(c, true);
        }
    }
    MPI_Op_free(&own_sum);
    MPI_Comm_free(&comm);
    need(finish() == 0 && pop(&context) == 0, "end");
    if (strcmp(sort, "context") == 0) {
        context_end(context);
    }
    (void) primary_release(gpu);
    free(host);
    return harness_finish();
}
