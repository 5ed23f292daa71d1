/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Streams and events for applications. */
#include "test/standin/application/application.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define MOST_STREAMS 256

/* Sorts of an application's streams. The default stream and blocking streams wait for each
 * other. */
enum sort { DEFAULT, BLOCKING, NON_BLOCKING };

struct known {
    CUstream stream; /* NULL if the entry is free */
    struct standin_owner owner;
    enum sort sort;
};

/* An application's handle of an event. */
struct event {
    CUevent event; /* handle of the stand-in driver */
    struct standin_owner owner;
    bool interprocess;
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known known[MOST_STREAMS];

/* Create a stream and add it to `known`. The caller holds the lock, here and in the next
 * function. */
static CUresult add(CUstream *stream, enum sort sort)
{
    for (int i = 0; i < MOST_STREAMS; i++) {
        CUresult result;

        if (known[i].stream != NULL) {
            continue;
        }
        if (sort == DEFAULT) {
            *stream = standin_stream_legacy();
            result = *stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            result = application_driver()->stream_create(stream, CU_STREAM_NON_BLOCKING, 0);
        }
        if (result == CUDA_SUCCESS && sort == BLOCKING) {
            standin_stream_block(*stream);
        }
        if (result == CUDA_SUCCESS) {
            known[i] = (struct known){*stream, standin_own(), sort};
        }
        return result;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static struct known *find(CUstream stream)
{
    bool is_default = stream == NULL || stream == CU_STREAM_LEGACY;

    for (int i = 0; i < MOST_STREAMS; i++) {
        if (known[i].stream != NULL &&
            (is_default ? known[i].sort == DEFAULT && standin_owned(known[i].owner)
                        : known[i].stream == stream)) {
            return &known[i];
        }
    }
    return NULL;
}

CUresult application_stream(CUstream *stream)
{
    CUresult result = CUDA_SUCCESS;
    struct known *used;

    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&known_lock);
    used = find(*stream);
    if (used == NULL && (*stream == NULL || *stream == CU_STREAM_LEGACY)) {
        CUstream made;

        result = add(&made, DEFAULT);
        used = find(*stream);
    }
    if (used == NULL) {
        result = result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    } else {
        *stream = used->stream;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&known_lock);
    return result;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    CUresult result;

    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&known_lock);
    result = add(stream, flags == CU_STREAM_NON_BLOCKING ? NON_BLOCKING : BLOCKING);
    pthread_mutex_unlock(&known_lock);
    return result;
}

/* Destroy a stream. The caller holds the lock. */
static CUresult end(struct known *ended)
{
    CUresult result = application_enter(ended->owner);

    if (result == CUDA_SUCCESS) {
        result = application_driver()->stream_destroy(ended->stream);
        application_leave();
    }
    ended->stream = NULL;
    return result;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    pthread_mutex_lock(&known_lock);
    for (int i = 0; i < MOST_STREAMS && stream != NULL; i++) {
        if (known[i].stream == stream) {
            result = end(&known[i]);
        }
    }
    pthread_mutex_unlock(&known_lock);
    return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult result = application_stream(&stream);

    return result == CUDA_SUCCESS ? application_driver()->stream_sync(stream) : result;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void) stream;
    (void) flags;
    return cuEventSynchronize(event);
}

CUresult cuCtxSynchronize(void)
{
    STANDIN_NEED_CONTEXT();
    standin_wait_for_streams();
    return CUDA_SUCCESS;
}

static CUevent inner(CUevent event)
{
    return ((struct event *) (void *) event)->event;
}

/* Create an event. It never has timing, because cuEventElapsedTime is missing here. */
CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    struct event *created = calloc(1, sizeof *created);
    CUresult result;

    if (created == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = application_driver()->event_create(&created->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        free(created);
        return result;
    }
    created->owner = standin_own();
    created->interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
    *event = (CUevent) (void *) created;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    struct event *ended = (void *) event;
    CUresult result = application_enter(ended->owner);

    if (result == CUDA_SUCCESS) {
        result = application_driver()->event_destroy(ended->event);
        application_leave();
        free(ended);
    }
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result = application_stream(&stream);

    if (result == CUDA_SUCCESS && ((struct event *) (void *) event)->interprocess) {
        result = application_driver()->stream_sync(
            stream); /* because other processes cannot wait for it */
    }
    return result == CUDA_SUCCESS ? application_driver()->event_record(inner(event), stream)
                                  : result;
}

CUresult cuEventQuery(CUevent event)
{
    return application_events()->event_query(inner(event));
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = cuEventQuery(event);

    while (result == CUDA_ERROR_NOT_READY) {
        sched_yield();
        result = cuEventQuery(event);
    }
    return result;
}
