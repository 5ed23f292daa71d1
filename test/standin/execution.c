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

#include "kernels/work.h"

enum task_kind { TASK_COPY, TASK_SET, TASK_KERNEL };

struct task {
    enum task_kind kind;
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* of a copy */
    unsigned char value;
    struct gpuring_work *work;
    struct task *next;
};

struct CUstream_st {
    int gpu; /* of its context */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t change;
    struct task *first, **last;
    uint64_t queued, finished;
    bool closing;
    struct CUstream_st *next; /* guarded by streams_lock */
};

struct CUevent_st {
    int gpu;                    /* of its context */
    struct CUstream_st *stream; /* of the last record; NULL: never recorded */
    uint64_t position;
};

static atomic_int streams, events;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *all_streams;

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

static bool imported(const void *address)
{
    enum standin_kind kind;
    int gpu;

    return standin_memory_kind(address, &kind, &gpu) && kind == STANDIN_IMPORTED;
}

/* The chunks that a work has sent so far into memory of other processes. */
static uint64_t sent_to_others(const struct gpuring_work *work)
{
    uint64_t chunks = 0;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane *lane = &work->lanes[i];

        for (uint32_t s = 0; s < lane->nsteps; s++) {
            const uint16_t *sends = lane->refs + lane->steps[s].refs + lane->steps[s].noperands;

            for (uint32_t k = 0; k < lane->steps[s].nsends; k++) {
                const struct gpuring_send *send = &lane->sends[sends[k]];

                chunks += imported(send->slots) ? send->step : 0;
            }
        }
    }
    return chunks;
}

/* Flip a bit in what each lane has sent last into memory of another process. */
static void corrupt_sent(const struct gpuring_work *work)
{
    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane *lane = &work->lanes[i];
        const struct gpuring_step *step = &lane->steps[lane->nsteps - 1];

        for (uint32_t k = 0; k < step->nsends; k++) {
            const struct gpuring_send *send =
                &lane->sends[lane->refs[step->refs + step->noperands + k]];
            uint64_t slot = (send->step - 1) % send->nslots;

            if (send->step > 0 && imported(send->slots) && send->tail->size[slot] > 0) {
                send->slots[slot * send->slot_bytes + send->tail->size[slot] / 2] ^= 1;
            }
        }
    }
}

/* One kernel: run the work until it is final or has waited for its patience. */
static void run_kernel(struct gpuring_work *work)
{
    uint64_t end = now_ns() + work->patience;
    struct gpuring_work slice = *work; /* the lanes are shared, so their state persists */
    struct timespec nap = {.tv_nsec = (long) standin_slow_us() % 1000000 * 1000};
    int gpu = gpu_acquire();
    uint64_t sent = sent_to_others(work);

    slice.patience = 64;
    if (nap.tv_nsec > 0) {
        nanosleep(&nap, NULL);
    }
    while (gpuring_work_run_host(&slice) > 0 && now_ns() < end) {
        sched_yield();
    }
    if (sent_to_others(work) > sent && standin_corrupts()) {
        corrupt_sent(work);
    }
    gpu_release(gpu);
}

static void run_copy(const struct task *task)
{
    for (size_t row = 0; row < task->rows; row++) {
        memmove(task->to + row * task->to_pitch, task->from + row * task->from_pitch, task->bytes);
    }
    if (task->bytes > 0 && imported(task->to) && standin_corrupts()) {
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
    STANDIN_NEED_GPU(stream->gpu);
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

CUresult standin_enqueue(CUstream stream, struct gpuring_work *work)
{
    return enqueue(stream, (struct task){.kind = TASK_KERNEL, .work = work});
}

CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char value, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(set_async);
    STANDIN_NEED_CONTEXT();
    if (stream != NULL) {
        STANDIN_NEED_GPU(stream->gpu);
    }
    STANDIN_REFUSE_IF(
        !standin_memory_reached((void *) (uintptr_t) pointer, bytes, standin_current()->gpu),
        CUDA_ERROR_INVALID_VALUE, "no such memory of this GPU");
    return enqueue(stream, (struct task){.kind = TASK_SET,
                                         .to = (uint8_t *) (uintptr_t) pointer,
                                         .bytes = bytes,
                                         .value = value});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(copy_async);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(!standin_memory_within((void *) (uintptr_t) to, bytes) ||
                          !standin_memory_within((void *) (uintptr_t) from, bytes),
                      CUDA_ERROR_INVALID_VALUE, "beyond the end of an allocation");
    return enqueue(stream, (struct task){.kind = TASK_COPY,
                                         .to = (uint8_t *) (uintptr_t) to,
                                         .from = (const uint8_t *) (uintptr_t) from,
                                         .bytes = bytes,
                                         .rows = 1});
}

/* Do all rows lie within an allocation, if the first one does? */
static bool rows_within(CUdeviceptr first, size_t pitch, const CUDA_MEMCPY2D *copy)
{
    return copy->Height == 0 ||
           standin_memory_within((void *) (uintptr_t) first,
                                 (copy->Height - 1) * pitch + copy->WidthInBytes);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    STANDIN_ENTER(copy_rows_async);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(!rows_within(copy->dstDevice, copy->dstPitch, copy) ||
                          !rows_within(copy->srcDevice, copy->srcPitch, copy),
                      CUDA_ERROR_INVALID_VALUE, "beyond the end of an allocation");
    if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED || copy->WidthInBytes > copy->srcPitch ||
        copy->WidthInBytes > copy->dstPitch || copy->srcPitch > INT32_MAX ||
        copy->dstPitch > INT32_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return enqueue(stream, (struct task){.kind = TASK_COPY,
                                         .to = (uint8_t *) (uintptr_t) copy->dstDevice +
                                               copy->dstXInBytes + copy->dstY * copy->dstPitch,
                                         .from = (const uint8_t *) (uintptr_t) copy->srcDevice +
                                                 copy->srcXInBytes + copy->srcY * copy->srcPitch,
                                         .bytes = copy->WidthInBytes,
                                         .rows = copy->Height,
                                         .to_pitch = copy->dstPitch,
                                         .from_pitch = copy->srcPitch});
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
    created->gpu = standin_current()->gpu;
    created->last = &created->first;
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->change, NULL);
    if (pthread_create(&created->thread, NULL, stream_main, created) != 0) {
        free(created);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&streams, 1);
    pthread_mutex_lock(&streams_lock);
    created->next = all_streams;
    all_streams = created;
    pthread_mutex_unlock(&streams_lock);
    *stream = created;
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
    struct CUstream_st **link = &all_streams;

    STANDIN_NEED_GPU(stream->gpu);
    pthread_mutex_lock(&streams_lock);
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_mutex_unlock(&streams_lock);
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

CUresult cuStreamDestroy_v2(CUstream stream)
{
    STANDIN_RELEASE(stream_destroy, destroy_stream(stream));
}

static void wait_for_stream(struct CUstream_st *stream)
{
    uint64_t position;

    pthread_mutex_lock(&stream->lock);
    position = stream->queued;
    while (stream->finished < position) {
        pthread_cond_wait(&stream->change, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
}

void standin_wait_for_streams(void)
{
    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = all_streams; stream != NULL; stream = stream->next) {
        wait_for_stream(stream);
    }
    pthread_mutex_unlock(&streams_lock);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    STANDIN_ENTER(stream_sync);
    STANDIN_NEED_GPU(stream->gpu);
    wait_for_stream(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    bool idle;

    STANDIN_ENTER(stream_query);
    STANDIN_NEED_GPU(stream->gpu);
    pthread_mutex_lock(&stream->lock);
    idle = stream->finished == stream->queued;
    pthread_mutex_unlock(&stream->lock);
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
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
    (*event)->gpu = standin_current()->gpu;
    atomic_fetch_add(&events, 1);
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    STANDIN_NEED_CONTEXT();
    free(event);
    atomic_fetch_sub(&events, 1);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    STANDIN_RELEASE(event_destroy, destroy_event(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    STANDIN_ENTER(event_record);
    STANDIN_NEED_GPU(stream->gpu);
    STANDIN_NEED_GPU(event->gpu);
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

long standin_held_objects(void)
{
    return atomic_load(&streams) + atomic_load(&events);
}

__attribute__((destructor)) static void report_leaks(void)
{
    const struct {
        const char *name;
        int count;
    } left[] = {{"streams", atomic_load(&streams)}, {"events", atomic_load(&events)}};

    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (left[i].count != 0) {
            standin_report("pid %d leaks %d %s\n", (int) getpid(), left[i].count, left[i].name);
        }
    }
}
