/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Streams, events, copies and kernels. A stream is a queue with a thread; an event is the position
 * in a queue at which it was recorded. Kernels are works run by the host executor.
 */
#include "test/standin/standin.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "kernels/image.h"
#include "kernels/work.h"

enum task_kind { TASK_COPY, TASK_SET, TASK_KERNEL };

struct task {
    enum task_kind kind;
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
    unsigned char value;
    struct gpuring_work *work;
    struct task *next;
};

struct CUstream_st {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t change;
    struct task *first, **last;
    uint64_t queued, finished;
    bool closing;
};

struct CUevent_st {
    struct CUstream_st *stream; /* of the last record; NULL: never recorded */
    uint64_t position;
};

struct CUmod_st {
    int unused;
};

struct CUfunc_st {
    char name[128];
    struct CUfunc_st *next;
};

static atomic_int streams, events, modules;

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * UINT64_C(1000000000) + (uint64_t) time.tv_nsec;
}

/* A lock that stands for the GPU where processes cannot run on it together; -1: none. */
static int gpu_acquire(void)
{
    const char *path = getenv("GPURING_STANDIN_EXCLUSIVE");
    int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        flock(fd, LOCK_EX);
    }
    return fd;
}

static void gpu_release(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

/* One kernel: run the work until it is final or has waited for its patience. */
static void run_kernel(struct gpuring_work *work)
{
    uint64_t end = now_ns() + work->patience;
    struct gpuring_work slice = *work; /* the lanes are shared, so their state persists */
    struct timespec nap = {.tv_nsec = (long) standin_slow_us() % 1000000 * 1000};
    int gpu = gpu_acquire();

    slice.patience = 64;
    if (nap.tv_nsec > 0) {
        nanosleep(&nap, NULL);
    }
    while (gpuring_work_run_host(&slice) > 0 && now_ns() < end) {
        sched_yield();
    }
    gpu_release(gpu);
}

static void run_copy(const struct task *task)
{
    enum standin_kind kind;
    int gpu;
    bool between = standin_memory_kind(task->to, &kind, &gpu) && kind <= STANDIN_IMPORTED &&
                   standin_memory_kind(task->from, &kind, &gpu) && kind <= STANDIN_IMPORTED;

    memmove(task->to, task->from, task->bytes);
    if (between && task->bytes > 0 && standin_corrupts_copy()) {
        task->to[task->bytes / 2] ^= 1;
    }
}

static void run(const struct task *task)
{
    standin_memory_open();
    switch (task->kind) {
    case TASK_COPY:
        run_copy(task);
        break;
    case TASK_SET:
        memset(task->to, task->value, task->bytes);
        break;
    case TASK_KERNEL:
        run_kernel(task->work);
        break;
    }
    standin_memory_close();
}

static void *stream_main(void *argument)
{
    struct CUstream_st *stream = argument;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct task *task = stream->first;

        if (task != NULL) {
            stream->first = task->next;
            if (stream->first == NULL) {
                stream->last = &stream->first;
            }
            pthread_mutex_unlock(&stream->lock);
            run(task);
            free(task);
            pthread_mutex_lock(&stream->lock);
            stream->finished++;
            pthread_cond_broadcast(&stream->change);
        } else if (stream->closing) {
            break;
        } else {
            pthread_cond_wait(&stream->change, &stream->lock);
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static CUresult enqueue(struct CUstream_st *stream, struct task description)
{
    struct task *task;

    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE; /* we never use the default stream */
    }
    task = malloc(sizeof *task);
    if (task == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *task = description;
    task->next = NULL;
    pthread_mutex_lock(&stream->lock);
    *stream->last = task;
    stream->last = &task->next;
    stream->queued++;
    pthread_cond_broadcast(&stream->change);
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char value, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(set_async);
    STANDIN_NEED_CONTEXT();
    return enqueue(stream, (struct task){.kind = TASK_SET,
                                         .to = (uint8_t *) (uintptr_t) pointer,
                                         .bytes = bytes,
                                         .value = value});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(copy_async);
    STANDIN_NEED_CONTEXT();
    return enqueue(stream, (struct task){.kind = TASK_COPY,
                                         .to = (uint8_t *) (uintptr_t) to,
                                         .from = (const uint8_t *) (uintptr_t) from,
                                         .bytes = bytes});
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    struct CUstream_st *created;

    STANDIN_ENTER(stream_create);
    STANDIN_NEED_CONTEXT();
    if (flags != CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE; /* ours must not wait for the default stream */
    }
    created = calloc(1, sizeof *created);
    if (created == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    created->last = &created->first;
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->change, NULL);
    if (pthread_create(&created->thread, NULL, stream_main, created) != 0) {
        free(created);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&streams, 1);
    *stream = created;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    STANDIN_ENTER(stream_destroy);
    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->change);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->change);
    free(stream);
    atomic_fetch_sub(&streams, 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    uint64_t position;

    STANDIN_ENTER(stream_sync);
    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&stream->lock);
    position = stream->queued;
    while (stream->finished < position) {
        pthread_cond_wait(&stream->change, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    STANDIN_ENTER(event_create);
    STANDIN_NEED_CONTEXT();
    if (flags != CU_EVENT_DISABLE_TIMING) {
        return CUDA_ERROR_INVALID_VALUE; /* timing makes events slow */
    }
    *event = calloc(1, sizeof **event);
    if (*event == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&events, 1);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    STANDIN_ENTER(event_destroy);
    STANDIN_NEED_CONTEXT();
    free(event);
    atomic_fetch_sub(&events, 1);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    STANDIN_ENTER(event_record);
    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&stream->lock);
    event->stream = stream;
    event->position = stream->queued;
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    bool reached;

    STANDIN_ENTER(event_query);
    STANDIN_NEED_CONTEXT();
    if (event->stream == NULL) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&event->stream->lock);
    reached = event->stream->finished >= event->position;
    pthread_mutex_unlock(&event->stream->lock);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    STANDIN_ENTER(module_load);
    STANDIN_NEED_CONTEXT();
    if (image == NULL) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = calloc(1, sizeof **module);
    if (*module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&modules, 1);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    STANDIN_ENTER(module_unload);
    STANDIN_NEED_CONTEXT();
    free(module);
    atomic_fetch_sub(&modules, 1);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct CUfunc_st *known; /* live as long as the process, as functions of a driver do */
    struct CUfunc_st *found;

    STANDIN_ENTER(module_function);
    STANDIN_NEED_CONTEXT();
    (void) module;
    pthread_mutex_lock(&lock);
    for (found = known; found != NULL && strcmp(found->name, name) != 0; found = found->next) {
    }
    if (found == NULL && strlen(name) < sizeof found->name) {
        found = calloc(1, sizeof *found);
        if (found != NULL) {
            strcpy(found->name, name);
            found->next = known;
            known = found;
        }
    }
    pthread_mutex_unlock(&lock);
    *function = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **arguments, void **extra)
{
    struct gpuring_work *work;
    enum standin_kind kind;
    const char *name;
    int gpu;

    STANDIN_ENTER(launch);
    STANDIN_NEED_CONTEXT();
    work = *(struct gpuring_work **) arguments[0];
    if (extra != NULL || shared != 0 || grid_y != 1 || grid_z != 1 || block_y != 1 ||
        block_z != 1 || block_x != GPURING_KERNEL_THREADS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* What a GPU could not read would fail there: works and lanes must be pinned or on the GPU. */
    if (!standin_memory_kind(work, &kind, &gpu) || !standin_memory_kind(work->lanes, &kind, &gpu) ||
        !standin_memory_kind((const void *) (uintptr_t) work->abort, &kind, &gpu)) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    name = gpuring_kernel_name(work->type, work->op, work->protocol);
    if (grid_x != work->nlanes || name == NULL || strcmp(name, function->name) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return enqueue(stream, (struct task){.kind = TASK_KERNEL, .work = work});
}

__attribute__((destructor)) static void report_leaks(void)
{
    const struct {
        const char *name;
        int count;
    } left[] = {{"streams", atomic_load(&streams)},
                {"events", atomic_load(&events)},
                {"modules", atomic_load(&modules)}};

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (left[i].count != 0) {
            standin_report("pid %d leaks %d %s\n", (int) getpid(), left[i].count, left[i].name);
        }
    }
}
