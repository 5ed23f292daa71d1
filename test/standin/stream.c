/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Streams and events. A stream is a queue with a thread that runs its tasks (task.h); an event is
 * the position in a queue at which it was recorded.
 */
#include "test/standin/task.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "test/ptx/ptx.h"

#define LATE_MS 200

/* The legacy stream and blocking streams wait for each other. Default streams are not counted as
 * objects of a program. */
enum sort { NON_BLOCKING, BLOCKING, OF_THREAD, LEGACY };

struct CUstream_st {
    struct standin_owner owner;
    enum sort sort;
    pthread_t of_thread; /* OF_THREAD: the thread that owns the stream */
    int priority;
    pthread_t thread;
    struct ptx_machine *machine; /* interpreter of `thread` for PTX kernels */
    pthread_mutex_t lock;        /* guards all below */
    pthread_cond_t change;
    struct standin_task *first, **last;
    uint64_t queued, finished;
    int waiters; /* threads that wait for tasks of this stream */
    bool late;   /* true if there have been late tasks */
    bool closing;
    atomic_int waiting;       /* number of kernels that have not started */
    struct CUstream_st *next; /* guarded by streams_lock */
};

struct CUevent_st {
    struct standin_owner owner;
    struct CUstream_st *stream; /* stream of the last record, or NULL */
    uint64_t position;
};

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *all_streams, *ended_streams;

/* Sleep for LATE_MS, or until a thread waits for the stream. The caller holds the lock. */
static void delay(struct CUstream_st *stream)
{
    struct timespec end;
    int result = 0;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += LATE_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (stream->waiters == 0 && !stream->closing && result == 0) {
        result = pthread_cond_timedwait(&stream->change, &stream->lock, &end);
    }
}

/* Wait until the stream has finished `position` tasks. The caller does not hold the lock. */
static void wait_until(struct CUstream_st *stream, uint64_t position)
{
    pthread_mutex_lock(&stream->lock);
    stream->waiters++;
    pthread_cond_broadcast(&stream->change);
    while (stream->finished < position) {
        pthread_cond_wait(&stream->change, &stream->lock);
    }
    stream->waiters--;
    pthread_mutex_unlock(&stream->lock);
}

static void *stream_main(void *argument)
{
    struct CUstream_st *stream = argument;

    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct standin_task *task = stream->first;

        if (task != NULL) {
            stream->first = task->next;
            if (stream->first == NULL) {
                stream->last = &stream->first;
            }
            if (task->late) {
                delay(stream);
            }
            pthread_mutex_unlock(&stream->lock);
            if (task->kind == TASK_WAIT) {
                wait_until(task->after, task->position);
            }
            standin_task_run(task, &stream->machine, stream->owner.context, &stream->waiting);
            free(task->staged);
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

static CUresult append(CUstream stream, struct standin_task description)
{
    struct standin_task *task = malloc(sizeof *task);

    if (task == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *task = description;
    task->next = NULL;
    if (stream == standin_captured()) {
        standin_graph_append(task);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&stream->lock);
    *stream->last = task;
    stream->last = &task->next;
    stream->queued++;
    atomic_fetch_add(&stream->waiting, task->kind == TASK_KERNEL || task->kind == TASK_MOVE);
    stream->late = stream->late || task->late;
    pthread_cond_broadcast(&stream->change);
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

static uint64_t queued_in(CUstream stream)
{
    uint64_t queued;

    pthread_mutex_lock(&stream->lock);
    queued = stream->queued;
    pthread_mutex_unlock(&stream->lock);
    return queued;
}

/* Let the next tasks of a stream wait for all tasks that are queued on another stream. */
static CUresult append_wait(CUstream stream, CUstream after)
{
    return append(stream, (struct standin_task){
                              .kind = TASK_WAIT, .after = after, .position = queued_in(after)});
}

/* Return true if tasks of `stream` must wait for earlier tasks of `other`. */
static bool follows(const struct CUstream_st *stream, const struct CUstream_st *other)
{
    return other != stream && standin_same(other->owner, stream->owner) &&
           ((stream->sort == LEGACY && other->sort != NON_BLOCKING) ||
            (stream->sort != NON_BLOCKING && other->sort == LEGACY));
}

static CUresult append_waits(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *other = all_streams; other != NULL; other = other->next) {
        if (result == CUDA_SUCCESS && follows(stream, other)) {
            result = append_wait(stream, other);
        }
    }
    pthread_mutex_unlock(&streams_lock);
    return result;
}

CUresult standin_stream_queue(CUstream stream, struct standin_task description)
{
    CUresult result = CUDA_SUCCESS;

    if (stream == NULL || stream == CU_STREAM_PER_THREAD) {
        return CUDA_ERROR_INVALID_HANDLE; /* the component never uses them */
    }
    if (stream == CU_STREAM_LEGACY) {
        stream = standin_stream_legacy();
        if (stream == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    STANDIN_NEED_OWNER(stream->owner);
    if (stream->sort != NON_BLOCKING) {
        result = append_waits(stream);
    }
    return result == CUDA_SUCCESS ? append(stream, description) : result;
}

struct standin_owner standin_stream_owner(CUstream stream)
{
    return stream->owner;
}

int standin_stream_priority(CUstream stream)
{
    return stream->priority;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    STANDIN_ENTER(stream_priority);
    STANDIN_NEED_OWNER(stream->owner);
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

static CUresult create(CUstream *stream, enum sort sort, int priority)
{
    struct CUstream_st *created = calloc(1, sizeof *created);

    if (created == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    created->owner = standin_own();
    created->sort = sort;
    created->of_thread = pthread_self();
    created->priority = priority;
    created->last = &created->first;
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->change, NULL);
    if (pthread_create(&created->thread, NULL, stream_main, created) != 0) {
        free(created);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&streams_lock);
    created->next = all_streams;
    all_streams = created;
    pthread_mutex_unlock(&streams_lock);
    *stream = created;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CUresult result;

    STANDIN_ENTER(stream_create);
    STANDIN_NEED_CONTEXT();
    if (flags != CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE; /* ours must not block the default stream */
    }
    result = create(stream, NON_BLOCKING, priority);
    if (result == CUDA_SUCCESS) {
        standin_count((*stream)->owner, STANDIN_STREAM, 1);
    }
    return result;
}

void standin_stream_block(CUstream stream)
{
    stream->sort = BLOCKING;
}

/* Return a default stream of the current context, or NULL if it has not been used. */
static CUstream find_default(enum sort sort)
{
    struct standin_owner owner = standin_own();
    struct CUstream_st *stream;

    pthread_mutex_lock(&streams_lock);
    stream = all_streams;
    while (stream != NULL && (stream->sort != sort || !standin_same(stream->owner, owner) ||
                              (sort == OF_THREAD && stream->of_thread != pthread_self()))) {
        stream = stream->next;
    }
    pthread_mutex_unlock(&streams_lock);
    return stream;
}

static CUstream make_default(enum sort sort)
{
    CUstream stream = find_default(sort);

    return stream != NULL || create(&stream, sort, 0) == CUDA_SUCCESS ? stream : NULL;
}

CUstream standin_stream_legacy(void)
{
    return make_default(LEGACY);
}

CUstream standin_stream_of_thread(void)
{
    return make_default(OF_THREAD);
}

/* Finish the queued tasks of a stream that was removed from the list, and end its thread. */
static void end_stream(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->change);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    ptx_machine_free(stream->machine);
    stream->machine = NULL;
}

static CUresult destroy_stream(CUstream stream)
{
    struct CUstream_st **link = &all_streams;

    STANDIN_NEED_OWNER(stream->owner);
    if (atomic_load(&stream->waiting) > 0) { /* a real driver would not wait for it */
        standin_report("pid %d misuses cuStreamDestroy_v2: a kernel has not begun\n",
                       (int) getpid());
    }
    pthread_mutex_lock(&streams_lock);
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_mutex_unlock(&streams_lock);
    end_stream(stream);
    standin_count(stream->owner, STANDIN_STREAM, -1);
    if (stream->sort != NON_BLOCKING) { /* the legacy stream may still use it */
        stream->next = ended_streams;
        ended_streams = stream;
        return CUDA_SUCCESS;
    }
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->change);
    free(stream);
    return CUDA_SUCCESS;
}

/* Keep the structures, so that a later use of the handles can be detected. */
void standin_end_streams(struct standin_owner owner)
{
    struct CUstream_st **link = &all_streams, *ended = NULL;

    pthread_mutex_lock(&streams_lock);
    while (*link != NULL) {
        struct CUstream_st *stream = *link;

        if (standin_same(stream->owner, owner)) {
            *link = stream->next;
            stream->next = ended;
            ended = stream;
        } else {
            link = &stream->next;
        }
    }
    pthread_mutex_unlock(&streams_lock);
    for (; ended != NULL; ended = ended->next) {
        end_stream(ended);
    }
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    STANDIN_RELEASE(stream_destroy, destroy_stream(stream));
}

static void wait_for_stream(struct CUstream_st *stream)
{
    wait_until(stream, queued_in(stream));
}

void standin_wait_for_streams(void)
{
    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = all_streams; stream != NULL; stream = stream->next) {
        wait_for_stream(stream);
    }
    pthread_mutex_unlock(&streams_lock);
}

void standin_wait_for_late(void)
{
    struct standin_owner owner = standin_own();

    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = all_streams; stream != NULL; stream = stream->next) {
        if (stream->late && standin_same(stream->owner, owner)) {
            wait_for_stream(stream);
        }
    }
    pthread_mutex_unlock(&streams_lock);
}

/* Only the thread's default stream is supported. It has no other tasks, and it waits for the legacy
 * stream, where tasks may start late. */
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
    STANDIN_ENTER(host_function);
    STANDIN_NEED_CONTEXT();
    if (stream != CU_STREAM_PER_THREAD) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    standin_wait_for_late();
    function(argument);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    STANDIN_ENTER(stream_sync);
    if (stream == CU_STREAM_PER_THREAD) {
        STANDIN_NEED_CONTEXT();
        return CUDA_SUCCESS; /* see cuLaunchHostFunc */
    }
    STANDIN_NEED_OWNER(stream->owner);
    wait_for_stream(stream);
    return CUDA_SUCCESS;
}

static bool is_idle(CUstream stream)
{
    bool idle;

    pthread_mutex_lock(&stream->lock);
    idle = stream->finished == stream->queued;
    pthread_mutex_unlock(&stream->lock);
    return idle;
}

/* Return true if the legacy stream and all streams that it waits for are idle. (An H100 with CUDA
 * 13.0 does the same.) */
static bool legacy_is_idle(void)
{
    struct standin_owner owner = standin_own();
    bool idle = true;

    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = all_streams; stream != NULL; stream = stream->next) {
        idle = idle && (stream->sort == NON_BLOCKING || !standin_same(stream->owner, owner) ||
                        is_idle(stream));
    }
    pthread_mutex_unlock(&streams_lock);
    return idle;
}

#define ENDS_CAPTURE "a blocking stream is captured, which this ends"

CUresult cuStreamQuery(CUstream stream)
{
    STANDIN_ENTER(stream_query);
    if (stream == CU_STREAM_LEGACY) {
        STANDIN_NEED_CONTEXT();
        STANDIN_REFUSE_IF(standin_captures_blocking(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                          ENDS_CAPTURE);
        return legacy_is_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    }
    STANDIN_NEED_OWNER(stream->owner);
    return is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* This is the only query of the legacy stream that is permitted while a blocking stream is
 * captured. */
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    STANDIN_ENTER(is_capturing);
    STANDIN_NEED_CONTEXT();
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream != CU_STREAM_LEGACY) {
        STANDIN_NEED_OWNER(stream->owner);
        *status = standin_captured() == stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE : *status;
        return CUDA_SUCCESS;
    }
    return standin_captures_blocking() ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    STANDIN_ENTER(stream_context);
    STANDIN_REFUSE_IF(
        stream == NULL || stream == CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE,
        "the component uses the legacy stream by its handle, and no other default one");
    if (stream == CU_STREAM_LEGACY) {
        STANDIN_NEED_CONTEXT();
        *context = standin_current();
        return CUDA_SUCCESS;
    }
    *context = stream->owner.context;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    STANDIN_ENTER(event_create);
    STANDIN_NEED_CONTEXT();
    if (flags != CU_EVENT_DISABLE_TIMING) {
        return CUDA_ERROR_INVALID_VALUE; /* because timing makes events slow */
    }
    *event = calloc(1, sizeof **event);
    if (*event == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*event)->owner = standin_own();
    standin_count((*event)->owner, STANDIN_EVENT, 1);
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    STANDIN_NEED_OWNER(event->owner);
    standin_count(event->owner, STANDIN_EVENT, -1);
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    STANDIN_RELEASE(event_destroy, destroy_event(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;

    STANDIN_ENTER(event_record);
    STANDIN_NEED_OWNER(event->owner);
    if (stream == CU_STREAM_LEGACY) {
        STANDIN_REFUSE_IF(standin_captures_blocking(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                          ENDS_CAPTURE);
        stream = standin_stream_legacy();
        result = stream != NULL ? append_waits(stream) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    STANDIN_NEED_OWNER(stream->owner);
    event->position = queued_in(stream);
    event->stream = stream;
    return CUDA_SUCCESS;
}

/* The event may belong to another context. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    STANDIN_ENTER(stream_wait);
    STANDIN_NEED_OWNER(stream->owner);
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return event->stream == NULL
               ? CUDA_SUCCESS
               : append(stream, (struct standin_task){.kind = TASK_WAIT,
                                                      .after = event->stream,
                                                      .position = event->position});
}

CUresult cuEventQuery(CUevent event)
{
    bool reached;

    STANDIN_ENTER(event_query);
    STANDIN_NEED_OWNER(event->owner);
    if (event->stream == NULL) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&event->stream->lock);
    reached = event->stream->finished >= event->position;
    pthread_mutex_unlock(&event->stream->lock);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
