/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Streams and copies. Buffers of the application may be of other contexts than the device's, on its
 * GPU or on others:
 *
 *     host and the device's context      on the stream
 *     host and another context           on a stream made there for the time of the copy
 *     between contexts                   on the stream, as a copy between peers
 *
 * Nothing is kept in the other contexts: they exist as long as their buffers are in a call, and
 * nobody tells when they cease to.
 */
#include <stdlib.h>

#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct cuda_visit {
    CUcontext context;
    CUstream stream;
    struct cuda_visit *next;
};

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr) (uintptr_t) pointer;
}

static void visit_end(const struct gpuring_stream *stream, struct cuda_visit *visit, bool current)
{
    if (current) {
        (void) stream->device->driver->stream_destroy(visit->stream);
    }
    free(visit);
}

static int enter_other(const struct gpuring_device *device, CUcontext context)
{
    return gpuring_cuda_enter_context(device, context, "make the CUDA context of a buffer current");
}

static bool visit_enter(const struct gpuring_stream *stream, CUcontext context)
{
    return enter_other(stream->device, context) == GPURING_OK ||
           enter_other(stream->device, context) == GPURING_OK;
}

/* Wait for all of them, and end them. */
static int end_visits(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int status = GPURING_OK;

    while (stream->visits != NULL) {
        struct cuda_visit *visit = stream->visits;
        bool current = visit_enter(stream, visit->context);
        CUresult result =
            current ? device->driver->stream_sync(visit->stream) : CUDA_ERROR_INVALID_CONTEXT;
        int ended = gpuring_cuda_check(device, result, "finish copies in another context");

        status = status == GPURING_OK ? ended : status;
        stream->visits = visit->next;
        visit_end(stream, visit, current);
        if (current) {
            gpuring_cuda_leave(device);
        }
    }
    return status;
}

/* GPURING_AGAIN while one of them copies; else they are ended. */
static int poll_visits(struct gpuring_stream *stream)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    bool running = false;

    for (struct cuda_visit *visit = stream->visits; visit != NULL; visit = visit->next) {
        if (visit_enter(stream, visit->context)) {
            running = running || driver->stream_query(visit->stream) == CUDA_ERROR_NOT_READY;
            gpuring_cuda_leave(stream->device);
        }
    }
    return running ? GPURING_AGAIN : end_visits(stream);
}

/* The stream of this one in that context, which is current then. */
static int visit(struct gpuring_stream *stream, CUcontext context, CUstream *where)
{
    struct gpuring_device *device = stream->device;
    struct cuda_visit *found = stream->visits;
    int status;

    while (found != NULL && found->context != context) {
        found = found->next;
    }
    status = enter_other(device, context);
    if (status != GPURING_OK || found != NULL) {
        *where = found != NULL ? found->stream : NULL;
        return status;
    }
    found = calloc(1, sizeof *found);
    if (found == NULL) {
        gpuring_error("out of memory for a stream");
        status = GPURING_ERR_NOMEM;
    } else {
        status = gpuring_cuda_check(
            device, device->driver->stream_create(&found->stream, CU_STREAM_NON_BLOCKING),
            "create a stream in the CUDA context of a buffer");
    }
    if (status != GPURING_OK) {
        free(found);
        gpuring_cuda_leave(device);
        return status;
    }
    found->context = context;
    found->next = stream->visits;
    stream->visits = found;
    *where = found->stream;
    return GPURING_OK;
}

void gpuring_cuda_stream_destroy(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    (void) end_visits(stream);
    if (gpuring_cuda_enter_to_release(stream->device)) {
        if (stream->event != NULL) {
            (void) stream->device->driver->event_destroy(stream->event);
        }
        if (stream->stream != NULL) {
            (void) stream->device->driver->stream_destroy(stream->stream);
        }
        gpuring_cuda_leave(stream->device);
    }
    free(stream);
}

int gpuring_cuda_stream_create(struct gpuring_device *device, struct gpuring_stream **stream)
{
    struct gpuring_stream *created = calloc(1, sizeof *created);
    int status;

    if (created == NULL) {
        gpuring_error("out of memory for a stream");
        return GPURING_ERR_NOMEM;
    }
    created->device = device;
    status = gpuring_cuda_enter(device);
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(
            device, device->driver->stream_create(&created->stream, CU_STREAM_NON_BLOCKING),
            "create a stream");
        if (status == GPURING_OK) {
            status = gpuring_cuda_check(
                device, device->driver->event_create(&created->event, CU_EVENT_DISABLE_TIMING),
                "create an event");
        }
        gpuring_cuda_leave(device);
    }
    if (status != GPURING_OK) {
        gpuring_cuda_stream_destroy(created);
        return status;
    }
    *stream = created;
    return GPURING_OK;
}

struct gpuring_device *gpuring_cuda_stream_device(const struct gpuring_stream *stream)
{
    return stream->device;
}

/* The context that memory must be copied in; NULL: any. */
static CUcontext context_at(struct gpuring_device *device, const void *address)
{
    struct gpuring_pointer pointer = gpuring_cuda_classify(device, address);
    CUcontext context = device->context;
    CUdevice gpu;

    if (pointer.kind == GPURING_POINTER_HOST || pointer.kind == GPURING_POINTER_REGISTERED ||
        pointer.kind == GPURING_POINTER_MANAGED) {
        return NULL;
    }
    if (!gpuring_cuda_reaches(device, &pointer) &&
        device->driver->device_get(&gpu, pointer.ordinal) == CUDA_SUCCESS) {
        (void) gpuring_cuda_context_of(device->driver, gpu, &pointer, &context);
    }
    return context;
}

/* How a copy goes. */
struct way {
    CUstream stream;
    CUcontext to, from; /* of a copy between peers; NULL: it is none */
};

/* Finds it, with its context current. */
static int begin(struct gpuring_stream *stream, const void *to, const void *from, struct way *way)
{
    struct gpuring_device *device = stream->device;
    CUcontext here = device->context, there;

    *way = (struct way){.stream = stream->stream};
    if (__atomic_load_n(&device->strangers, __ATOMIC_RELAXED) && !gpuring_cuda_lost(device)) {
        way->to = context_at(device, to);
        way->from = context_at(device, from);
        there = way->to != NULL ? way->to : way->from;
        if (way->to == NULL || way->from == NULL || (way->to == here && way->from == here)) {
            way->to = way->from = NULL;
            if (there != NULL && there != here) {
                return visit(stream, there, &way->stream);
            }
        }
    }
    return gpuring_cuda_enter(device);
}

/* What was begun in other contexts is not left there by a call that fails. */
static int end(struct gpuring_stream *stream, int status)
{
    gpuring_cuda_leave(stream->device);
    if (status != GPURING_OK) {
        (void) end_visits(stream);
    }
    return status;
}

int gpuring_cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    struct way way;
    int status = begin(stream, to, from, &way);
    CUresult result;

    if (status != GPURING_OK) {
        (void) end_visits(stream);
        return status;
    }
    result = way.to != NULL
                 ? driver->copy_peer_async(address_of(to), way.to, address_of(from), way.from,
                                           bytes, way.stream)
                 : driver->copy_async(address_of(to), address_of(from), bytes, way.stream);
    return end(stream, gpuring_cuda_check(stream->device, result, "copy between host and device"));
}

/* Between peers: one by one. */
static CUresult copy_peer_rows(const struct gpuring_cuda_driver *driver, const struct way *way,
                               const CUDA_MEMCPY2D *copy)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t row = 0; row < copy->Height && result == CUDA_SUCCESS; row++) {
        result = driver->copy_peer_async(copy->dstDevice + row * copy->dstPitch, way->to,
                                         copy->srcDevice + row * copy->srcPitch, way->from,
                                         copy->WidthInBytes, way->stream);
    }
    return result;
}

int gpuring_cuda_copy_rows(struct gpuring_stream *stream, void *to, size_t to_pitch,
                           const void *from, size_t from_pitch, size_t bytes, size_t rows)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = address_of(from),
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = address_of(to),
        .dstPitch = to_pitch,
        .WidthInBytes = bytes,
        .Height = rows,
    };
    struct way way;
    int status = begin(stream, to, from, &way);

    if (status != GPURING_OK) {
        (void) end_visits(stream);
        return status;
    }
    status = gpuring_cuda_check(stream->device,
                                way.to != NULL ? copy_peer_rows(driver, &way, &copy)
                                               : driver->copy_rows_async(&copy, way.stream),
                                "copy rows between host and device");
    return end(stream, status);
}

int gpuring_cuda_copied(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter_again(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->stream_query(stream->stream),
                                    "ask for the end of copies");
        gpuring_cuda_leave(device);
    }
    if (status == GPURING_OK && stream->visits != NULL) {
        return poll_visits(stream);
    }
    if (status != GPURING_AGAIN) {
        (void) end_visits(stream);
    }
    return status;
}

int gpuring_cuda_synchronize(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int visited = end_visits(stream), status = gpuring_cuda_enter_again(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->stream_sync(stream->stream),
                                    "finish copies");
        gpuring_cuda_leave(device);
    }
    return status == GPURING_OK ? visited : status;
}
