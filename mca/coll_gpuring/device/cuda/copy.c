/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Streams and copies. Buffers of the application may be of other contexts than the device's, on its
 * GPU or on others:
 *
 *     host and the device's context      on the stream
 *     between contexts                   on the stream, as a copy between peers
 *     host and another context           on a stream made there for the copy, which is waited for
 *
 * Nothing is kept in the other contexts: they exist as long as their buffers are in a call, and
 * nothing reports their end.
 */
#include <stdlib.h>

#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * The highest: what the application has queued on other streams makes our blocks wait as little as
 * can be, while other ranks wait for them. Drivers take the nearest priority that they have.
 */
#define STREAM_PRIORITY (-100)

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr) (uintptr_t) pointer;
}

void gpuring_cuda_stream_destroy(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (gpuring_cuda_enter_to_release(stream->device)) {
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
        status = gpuring_cuda_check(device,
                                    device->driver->stream_create(
                                        &created->stream, CU_STREAM_NON_BLOCKING, STREAM_PRIORITY),
                                    "create a stream");
        gpuring_cuda_leave(device);
    }
    if (status != GPURING_OK) {
        gpuring_cuda_stream_destroy(created);
        return status;
    }
    *stream = created;
    return GPURING_OK;
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

/* How a copy goes, with the context of its stream current. */
struct way {
    CUstream stream;
    CUcontext to, from; /* of a copy between peers; NULL: it is none */
    bool other;         /* the stream is made for this copy, in another context */
};

static int begin(struct gpuring_stream *stream, const void *to, const void *from, struct way *way)
{
    struct gpuring_device *device = stream->device;
    CUcontext there = NULL;
    int status;

    *way = (struct way){.stream = stream->stream};
    if (__atomic_load_n(&device->strangers, __ATOMIC_RELAXED)) {
        way->to = context_at(device, to);
        way->from = context_at(device, from);
        if (way->to == NULL || way->from == NULL ||
            (way->to == device->context && way->from == device->context)) {
            there = way->to != NULL ? way->to : way->from;
            way->to = way->from = NULL;
        }
    }
    if (there == NULL || there == device->context) {
        return gpuring_cuda_enter(device);
    }
    /* What is ours may be gone with our context: the driver would take it for host memory. */
    status = gpuring_cuda_enter(device);
    if (status == GPURING_OK) {
        gpuring_cuda_leave(device);
        status = gpuring_cuda_enter_other(device, there);
    }
    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(
        device, device->driver->stream_create(&way->stream, CU_STREAM_NON_BLOCKING, 0),
        "create a stream in the CUDA context of a buffer");
    way->other = status == GPURING_OK;
    if (status != GPURING_OK) {
        gpuring_cuda_leave(device);
    }
    return status;
}

static int end(struct gpuring_device *device, const struct way *way, CUresult result,
               const char *what)
{
    int status;

    if (way->other) {
        result = result == CUDA_SUCCESS ? device->driver->stream_sync(way->stream) : result;
        (void) device->driver->stream_destroy(way->stream);
    }
    status = way->other ? gpuring_cuda_check(device, result, what)
                        : gpuring_cuda_check_stream(device, result, what);
    gpuring_cuda_leave(device);
    return status;
}

int gpuring_cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    struct way way;
    int status = begin(stream, to, from, &way);
    CUresult result;

    if (status != GPURING_OK) {
        return status;
    }
    result = way.to != NULL
                 ? driver->copy_peer_async(address_of(to), way.to, address_of(from), way.from,
                                           bytes, way.stream)
                 : driver->copy_async(address_of(to), address_of(from), bytes, way.stream);
    return end(stream->device, &way, result, "copy between host and device");
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
        return status;
    }
    return end(stream->device, &way,
               way.to != NULL ? copy_peer_rows(driver, &way, &copy)
                              : driver->copy_rows_async(&copy, way.stream),
               "copy rows between host and device");
}

/* What the driver says of the stream's copies. */
static int ask(struct gpuring_stream *stream, CUresult (*call)(CUstream), const char *what)
{
    int status = gpuring_cuda_enter(stream->device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check_stream(stream->device, call(stream->stream), what);
        gpuring_cuda_leave(stream->device);
    }
    return status;
}

int gpuring_cuda_copied(struct gpuring_stream *stream)
{
    return ask(stream, stream->device->driver->stream_query, "ask for the end of copies");
}

int gpuring_cuda_synchronize(struct gpuring_stream *stream)
{
    return ask(stream, stream->device->driver->stream_sync, "finish copies");
}
