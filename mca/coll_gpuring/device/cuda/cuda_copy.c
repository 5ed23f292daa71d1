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
 * nothing reports their end. When the device's own context is lost, all buffers are of other
 * contexts, even if one of these has the old context's handle.
 *
 * Where processes take turns on a GPU (several of them, without MPS), a copy to it of less than 32
 * KiB waits for the turn of its process: 143 us on an H200. Larger ones do not, and two rows of
 * half the bytes do not, either: 8 us. But where no other process has the GPU they take 7 us, and
 * one row 5 (doc/results/gpu.md). Nobody tells a process whether it has to take turns, so without
 * MPS small copies are timed: when many were slow, the later ones have two rows.
 */
#include <stdint.h>
#include <stdlib.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * The highest: what the application has queued on other streams makes our blocks wait as little as
 * can be, while other ranks wait for them. Drivers take the nearest priority that they have.
 */
#define STREAM_PRIORITY (-100)

#define SMALL_COPY  ((size_t) 32 << 10) /* below, a copy of one row may wait for a turn */
#define SLOW_NS     50000               /* no copy of that size takes so long by itself */
#define SLOW_WEIGHT 16 /* of a slow copy, against one that is not, as all from the GPU are */
#define SLOW_ENOUGH (4 * SLOW_WEIGHT) /* then others have the GPU, and the rest gets two rows */

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr) (uintptr_t) pointer;
}

static void destroy(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    CUresult result = device->driver->stream_sync(stream->stream);

    if (gpuring_cuda_says_lost(result)) {
        gpuring_cuda_lost(device);
        return;
    }
    (void) gpuring_cuda_check(device, result, "finish what a stream has begun");
    if (stream->event != NULL) {
        (void) device->driver->event_destroy(stream->event);
    }
    (void) device->driver->stream_destroy(stream->stream);
}

void gpuring_cuda_stream_destroy(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->stream != NULL && gpuring_cuda_enter_to_release(stream->device)) {
        destroy(stream);
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
    if (status == GPURING_ERR_CONTEXT && gpuring_cuda_is_lost(device)) {
        *stream = created;
        return GPURING_OK;
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device,
                                    device->driver->stream_create(
                                        &created->stream, CU_STREAM_NON_BLOCKING, STREAM_PRIORITY),
                                    "create a stream");
        if (status == GPURING_OK) {
            status = gpuring_cuda_check(device,
                                        gpuring_cuda_follow_create(device->driver, &created->event),
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

bool gpuring_cuda_stream_works(const struct gpuring_stream *stream)
{
    return stream->stream == NULL || !gpuring_cuda_is_lost(stream->device);
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

/* The default streams that the copy must follow. Of the device's context: once for all copies until
 * the stream is waited for. */
static CUresult follow(struct gpuring_stream *stream, const struct way *way)
{
    CUresult result = stream->copies ? CUDA_SUCCESS : gpuring_cuda_follow(stream);

    if (result == CUDA_SUCCESS && way->to != NULL) {
        result = gpuring_cuda_follow_context(stream, way->to);
    }
    if (result == CUDA_SUCCESS && way->to != NULL) {
        result = gpuring_cuda_follow_context(stream, way->from);
    }
    return result;
}

/* The same with the device's context entered, which is left after an error. */
static int follow_entered(struct gpuring_stream *stream, const struct way *way)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_check_stream(device, follow(stream, way),
                                           "wait for the application's default stream");

    if (status != GPURING_OK) {
        gpuring_cuda_leave(device);
    }
    return status;
}

/* Make a stream in the context of the other buffer, which is current. */
static CUresult create_other(const struct gpuring_cuda_driver *driver, struct way *way)
{
    CUresult result = driver->stream_create(&way->stream, CU_STREAM_NON_BLOCKING, 0);

    way->other = result == CUDA_SUCCESS;
    if (way->other) {
        result = gpuring_cuda_follow_other(driver, way->stream);
    }
    if (way->other && result != CUDA_SUCCESS) {
        (void) driver->stream_destroy(way->stream);
    }
    return result;
}

/* Begin a copy on a stream that is made for it in another context. */
static int begin_there(struct gpuring_device *device, CUcontext there, struct way *way)
{
    int status = gpuring_cuda_enter_other(device, there);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(device, create_other(device->driver, way),
                                "create a stream in the CUDA context of a buffer");
    if (status != GPURING_OK) {
        gpuring_cuda_leave(device);
    }
    return status;
}

/* A context of memory on a GPU, or NULL for host memory. */
static CUcontext context_of_buffer(struct gpuring_device *device, const void *address)
{
    struct gpuring_pointer pointer = gpuring_cuda_classify(device, address);
    CUcontext context = NULL;
    CUdevice gpu;

    if (pointer.kind != GPURING_POINTER_HOST && pointer.kind != GPURING_POINTER_REGISTERED &&
        device->driver->device_get(&gpu, pointer.ordinal) == CUDA_SUCCESS) {
        (void) gpuring_cuda_context_of(device->driver, gpu, &pointer, &context);
    }
    return context;
}

/* Without the device's own context. What a stream of that context copies may be memory that was
 * lost with it, which the driver would take for host memory. */
static int begin_lost(struct gpuring_stream *stream, const void *to, const void *from,
                      struct way *way)
{
    struct gpuring_device *device = stream->device;
    CUcontext there, other;

    if (stream->stream != NULL) {
        return gpuring_cuda_report_lost(device);
    }
    there = context_of_buffer(device, to);
    other = context_of_buffer(device, from);
    if ((there == NULL) == (other == NULL)) {
        return gpuring_cuda_report_lost(device); /* staging copies between host and GPU alone */
    }
    return begin_there(device, there != NULL ? there : other, way);
}

static int begin(struct gpuring_stream *stream, const void *to, const void *from, struct way *way)
{
    struct gpuring_device *device = stream->device;
    CUcontext there = NULL;
    int status;

    *way = (struct way){.stream = stream->stream};
    if (__atomic_load_n(&device->destroyed, __ATOMIC_RELAXED)) {
        return begin_lost(stream, to, from, way);
    }
    if (__atomic_load_n(&device->saw_foreign_context, __ATOMIC_RELAXED)) {
        way->to = context_at(device, to);
        way->from = context_at(device, from);
        if (way->to == NULL || way->from == NULL ||
            (way->to == device->context && way->from == device->context)) {
            there = way->to != NULL ? way->to : way->from;
            way->to = way->from = NULL;
        }
    }
    /* A context that is lost is found by entering it, which also guards what begin_lost says. */
    status = gpuring_cuda_enter(device);
    if (status == GPURING_ERR_CONTEXT && gpuring_cuda_is_lost(device)) {
        return begin_lost(stream, to, from, way);
    }
    if (status != GPURING_OK) {
        return status;
    }
    if (there == NULL || there == device->context) {
        return follow_entered(stream, way);
    }
    gpuring_cuda_leave(device);
    return begin_there(device, there, way);
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

static bool takes_turns(const struct gpuring_device *device)
{
    return __atomic_load_n(&device->slow_copies, __ATOMIC_RELAXED) >= SLOW_ENOUGH;
}

/* A copy is begun: it is timed if it is small and the stream's only one. */
static void begin_timing(struct gpuring_stream *stream, size_t bytes)
{
    const struct gpuring_device *device = stream->device;
    bool timed = !device->mps && !stream->copies && bytes < SMALL_COPY && !takes_turns(device);

    stream->copy_begun = timed ? gpuring_now_ns() : 0;
    stream->copies = true;
}

static void count_timed(struct gpuring_device *device, bool slow)
{
    int count = __atomic_load_n(&device->slow_copies, __ATOMIC_RELAXED);

    if (count >= SLOW_ENOUGH) {
        return;
    }
    count = slow ? count + SLOW_WEIGHT : count > 0 ? count - 1 : 0;
    __atomic_store_n(&device->slow_copies, count, __ATOMIC_RELAXED);
    if (count >= SLOW_ENOUGH) {
        gpuring_info("[takes-turns] small copies to GPU %d wait because other processes use it "
                     "without CUDA MPS: from now on they are made in two rows, which do not wait; "
                     "start MPS with nvidia-cuda-mps-control -d",
                     device->ordinal);
    }
}

/* The stream's copies have ended, or have not: one that was timed counts once. */
static void end_timing(struct gpuring_stream *stream, bool ended)
{
    bool slow = stream->copy_begun > 0 && gpuring_now_ns() - stream->copy_begun >= SLOW_NS;

    if (stream->copy_begun > 0 && (slow || ended)) {
        count_timed(stream->device, slow);
        stream->copy_begun = 0;
    }
    stream->copies = stream->copies && !ended;
}

static CUDA_MEMCPY2D rows_of(const void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t bytes, size_t rows)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = address_of(from),
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = address_of(to),
        .dstPitch = to_pitch,
        .WidthInBytes = bytes,
        .Height = rows,
    };
}

/* Of at least two bytes. The last one of an odd number goes with the one before it, once more. */
static CUresult copy_in_two_rows(const struct gpuring_cuda_driver *driver, char *to,
                                 const char *from, size_t bytes, CUstream stream)
{
    CUDA_MEMCPY2D copy = rows_of(to, bytes / 2, from, bytes / 2, bytes / 2, 2);
    CUresult result = driver->copy_rows_async(&copy, stream);

    return result == CUDA_SUCCESS && bytes % 2 != 0
               ? copy_in_two_rows(driver, to + bytes - 2, from + bytes - 2, 2, stream)
               : result;
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
    if (!way.other) {
        begin_timing(stream, bytes);
    }
    if (way.to != NULL) {
        result = driver->copy_peer_async(address_of(to), way.to, address_of(from), way.from, bytes,
                                         way.stream);
    } else if (bytes >= 2 && bytes < SMALL_COPY && takes_turns(stream->device)) {
        result = copy_in_two_rows(driver, to, from, bytes, way.stream);
    } else {
        result = driver->copy_async(address_of(to), address_of(from), bytes, way.stream);
    }
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
    CUDA_MEMCPY2D copy = rows_of(to, to_pitch, from, from_pitch, bytes, rows);
    struct way way;
    int status = begin(stream, to, from, &way);

    if (status != GPURING_OK) {
        return status;
    }
    if (!way.other) {
        begin_timing(stream, SIZE_MAX);
    }
    return end(stream->device, &way,
               way.to != NULL ? copy_peer_rows(driver, &way, &copy)
                              : driver->copy_rows_async(&copy, way.stream),
               "copy rows between host and device");
}

/* What the driver says of the stream's copies. */
static int ask(struct gpuring_stream *stream, CUresult (*call)(CUstream), const char *what)
{
    int status;

    if (stream->stream == NULL) {
        return GPURING_OK; /* copies in other contexts have ended when they return */
    }
    status = gpuring_cuda_enter(stream->device);
    if (status == GPURING_OK) {
        status = gpuring_cuda_check_stream(stream->device, call(stream->stream), what);
        end_timing(stream, status != GPURING_AGAIN);
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
