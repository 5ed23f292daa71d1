/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Streams and copies. Buffers of the application may belong to other contexts than the device's, on
 * its GPU or on another one:
 *
 *     host and the device's context      on the stream
 *     between contexts                   on the stream, as a copy between peers
 *     host and another context           on a stream created there for the copy, synchronously
 *
 * Nothing is kept in other contexts. They exist while their buffers are used by a call, but nothing
 * reports their destruction. If the device's context is lost, all buffers belong to other contexts,
 * even if one of these has the old context's handle.
 *
 * If several processes use a GPU without MPS, only one of them executes at a time, and a copy of
 * less than 32 KiB to the GPU waits for the time slice of its process: 143 us on an H200. Larger
 * copies do not wait, and neither does a copy of two rows with half the bytes each, which takes 8
 * us. If no other process uses the GPU, two rows take 7 us and one row takes 5
 * (doc/results/gpu.md). A process cannot query whether it shares the GPU, so small copies are timed
 * without MPS. After many slow ones, small copies have two rows.
 */
#include <stdint.h>
#include <stdlib.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * The highest priority, because other ranks wait for our thread blocks, which should wait as little
 * as possible for the application's work on other streams. Drivers use the nearest valid priority.
 */
#define STREAM_PRIORITY (-100)

#define SMALL_COPY ((size_t) 32 << 10) /* smaller copies of one row may wait for a time slice */
#define SLOW_NS    50000               /* longer than any copy of this size needs */
#define SLOW_WEIGHT \
    16 /* of a slow copy, relative to a fast one; all copies from the GPU are fast */
#define SLOW_ENOUGH (4 * SLOW_WEIGHT) /* from here on, use two rows for small copies */

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr) (uintptr_t) pointer;
}

static void stream_release(struct gpuring_stream *stream)
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
    gpuring_cuda_graph_destroy(stream);
    (void) device->driver->stream_destroy(stream->stream);
}

void gpuring_cuda_stream_destroy(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    gpuring_cuda_linger_leave(stream);
    if (stream->stream != NULL && gpuring_cuda_enter_to_release(stream->device)) {
        stream_release(stream);
        gpuring_cuda_leave(stream->device);
    }
    free(stream->linger);
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

/* Return the context in which memory must be copied; NULL: any. */
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

/* Stream and contexts of a copy. The context of the stream is current. */
struct way {
    CUstream stream;
    CUcontext to, from; /* of a copy between contexts; otherwise NULL */
    bool other;         /* the stream was created for this copy in another context */
};

/* Let a copy follow the default streams. That of the device's context is only followed by the first
 * copy after the stream was last waited for. */
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

/* Call follow in the device's context, which has been entered. Leave the context after an error. */
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

/* Create a stream in the context of the other buffer, which is current. */
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

/* Begin a copy on a stream that is created for it in another context. */
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

/* Return a context for memory on a GPU, or NULL for host memory. */
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

/* Begin a copy after the device's context was lost. Refuse streams of that context, because they
 * may copy memory that was lost with it, which the driver would treat as host memory. */
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
        return gpuring_cuda_report_lost(device); /* staging only copies between host and GPU */
    }
    return begin_there(device, there != NULL ? there : other, way);
}

static int copy_begin(struct gpuring_stream *stream, const void *to, const void *from,
                      struct way *way)
{
    struct gpuring_device *device = stream->device;
    CUcontext there = NULL;
    int status;

    gpuring_cuda_linger_leave(stream);
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
    /* Entering detects a lost context, which also covers the case that begin_lost describes. */
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

static int copy_end(struct gpuring_device *device, const struct way *way, CUresult result)
{
    const char *what = "copy between host and device";
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

/* Record the start of a copy. Time it if it is small and the only one on the stream. */
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
        gpuring_info("[takes-turns] small copies to GPU %d wait because other processes use "
                     "it without CUDA MPS: from now on they are copied as two rows, which "
                     "avoids this; start MPS with nvidia-cuda-mps-control -d",
                     device->ordinal);
    }
}

/* Record that the stream's copies have ended, or are still running. Count a timed copy once. */
static void end_timing(struct gpuring_stream *stream, bool ended)
{
    bool slow = stream->copy_begun > 0 && gpuring_now_ns() - stream->copy_begun >= SLOW_NS;

    if (stream->copy_begun > 0 && (slow || ended)) {
        count_timed(stream->device, slow);
        stream->copy_begun = 0;
    }
    stream->copies = stream->copies && !ended;
}

/* Copy rows between contexts one by one. */
static CUresult copy_peer_rows(const struct gpuring_cuda_driver *driver, const struct way *way,
                               const struct gpuring_copy *copy)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t row = 0; row < copy->rows && result == CUDA_SUCCESS; row++) {
        result = driver->copy_peer_async(address_of(copy->to + row * copy->to_pitch), way->to,
                                         address_of(copy->from + row * copy->from_pitch), way->from,
                                         copy->bytes, way->stream);
    }
    return result;
}

static CUresult copy_rows(const struct gpuring_cuda_driver *driver, const struct gpuring_copy *copy,
                          CUstream stream)
{
    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = address_of(copy->from),
        .srcPitch = copy->from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = address_of(copy->to),
        .dstPitch = copy->to_pitch,
        .WidthInBytes = copy->bytes,
        .Height = copy->rows,
    };

    return driver->copy_rows_async(&rows, stream);
}

/* Copy at least two bytes in two rows. With an odd number, both rows contain one common byte. */
static CUresult copy_in_two_rows(const struct gpuring_cuda_driver *driver, char *to,
                                 const char *from, size_t bytes, CUstream stream)
{
    size_t half = bytes / 2;
    CUresult result =
        copy_rows(driver, &(struct gpuring_copy){to, from, half, half, half, 2}, stream);

    return result == CUDA_SUCCESS && bytes % 2 != 0
               ? copy_in_two_rows(driver, to + bytes - 2, from + bytes - 2, 2, stream)
               : result;
}

static CUresult copy_start(const struct gpuring_device *device, const struct gpuring_copy *copy,
                           const struct way *way)
{
    const struct gpuring_cuda_driver *driver = device->driver;

    if (way->to != NULL) {
        return copy_peer_rows(driver, way, copy);
    }
    if (copy->rows > 1) {
        return copy_rows(driver, copy, way->stream);
    }
    return copy->bytes >= 2 && copy->bytes < SMALL_COPY && takes_turns(device)
               ? copy_in_two_rows(driver, copy->to, copy->from, copy->bytes, way->stream)
               : driver->copy_async(address_of(copy->to), address_of(copy->from), copy->bytes,
                                    way->stream);
}

/* Start a copy. With `wait`, also wait for the stream's copies if that needs no other context. */
static int copy_one(struct gpuring_stream *stream, const struct gpuring_copy *copy, bool wait)
{
    struct way way;
    int status = copy_begin(stream, copy->to, copy->from, &way);
    CUresult result;

    if (status != GPURING_OK) {
        return status;
    }
    if (!way.other) {
        begin_timing(stream, copy->rows == 1 ? copy->bytes : SIZE_MAX);
    }
    result = copy_start(stream->device, copy, &way);
    if (wait && !way.other && result == CUDA_SUCCESS) {
        result = stream->device->driver->stream_sync(way.stream);
        end_timing(stream, true);
    }
    return copy_end(stream->device, &way, result);
}

int gpuring_cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy_one(
        stream, &(struct gpuring_copy){.to = to, .from = from, .bytes = bytes, .rows = 1}, false);
}

int gpuring_cuda_copy_runs(struct gpuring_stream *stream, const void *user, const void *other,
                           const struct gpuring_runs *runs, unsigned how)
{
    bool wait = (how & GPURING_COPY_WAIT) != 0;
    int status = GPURING_OK, waited = GPURING_OK;

    for (size_t i = 0; i < runs->count && status == GPURING_OK; i++) {
        struct gpuring_copy copy = gpuring_run_copy(gpuring_runs_at(runs, i), user, other, how);

        status = copy_one(stream, &copy, wait && i == runs->count - 1);
    }
    if (stream->copies && (wait || status != GPURING_OK)) {
        waited = gpuring_cuda_synchronize(stream);
    }
    return status == GPURING_OK ? waited : status;
}

/* Query, or wait for, the stream's copies. */
static int ask_stream(struct gpuring_stream *stream, CUresult (*call)(CUstream), const char *what)
{
    int status;

    if (stream->stream == NULL) {
        return GPURING_OK; /* copies in other contexts are synchronous */
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
    return ask_stream(stream, stream->device->driver->stream_query, "ask for the end of copies");
}

int gpuring_cuda_synchronize(struct gpuring_stream *stream)
{
    gpuring_cuda_linger_leave(stream);
    return ask_stream(stream, stream->device->driver->stream_sync, "finish copies");
}
