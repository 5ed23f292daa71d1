/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Order between the application's work on the default stream and our work. Our streams are
 * non-blocking: they do not wait for other streams, and no stream waits for them. MPI requires that
 * a buffer is ready when a call is made. However, programs that launch kernels on the legacy
 * default stream and call MPI without synchronising have always worked with an Open MPI built with
 * CUDA, whose streams are blocking.
 *
 *   - wait: before a kernel or the first of several copies, record an event on the legacy stream,
 *     and let our stream wait for it. The event also follows all blocking streams, including
 *     per-thread default streams.
 *   - warn: query the legacy stream in the first calls, and warn once if its work is still running.
 *   - none: do nothing.
 *
 * Blocking streams would cost less, but the application's kernels on the legacy stream would then
 * wait for our kernels, which wait for other ranks (doc/results/gpu.md).
 *
 * While a blocking stream is captured into a graph, the driver refuses any use of the legacy
 * stream, and the refusal invalidates the capture. Only cuStreamIsCapturing is allowed. It is
 * therefore called first, and if it fails, we neither wait nor warn.
 */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define QUERIES 100 /* maximum for `warn` */

static enum gpuring_default_stream mode = GPURING_DEFAULT_STREAM_WAIT;
static int queries = QUERIES; /* atomic: number of remaining queries */

void gpuring_cuda_default_stream(enum gpuring_default_stream chosen)
{
    mode = chosen;
    __atomic_store_n(&queries, QUERIES, __ATOMIC_RELAXED);
}

bool gpuring_cuda_follow_queries(void)
{
    return mode == GPURING_DEFAULT_STREAM_WARN && __atomic_load_n(&queries, __ATOMIC_RELAXED) > 0;
}

static bool usable(const struct gpuring_cuda_driver *driver)
{
    CUstreamCaptureStatus status;

    return driver->is_capturing(CU_STREAM_LEGACY, &status) == CUDA_SUCCESS;
}

static void query_default(const struct gpuring_device *device)
{
    if (!gpuring_cuda_follow_queries() || !usable(device->driver) ||
        __atomic_fetch_sub(&queries, 1, __ATOMIC_RELAXED) <= 0 ||
        device->driver->stream_query(CU_STREAM_LEGACY) != CUDA_ERROR_NOT_READY ||
        __atomic_exchange_n(&queries, 0, __ATOMIC_RELAXED) < 0) {
        return;
    }
    gpuring_warn(
        "[default-stream] MPI was called with GPU buffers while work of this program was "
        "still running on the CUDA default stream of GPU %d, for which coll/gpuring does "
        "not wait: results are undefined if that work uses the same buffers. Call "
        "cudaStreamSynchronize before MPI, or set coll_gpuring_default_stream=wait; if the "
        "work uses other buffers, set it to none",
        device->ordinal);
}

/* Record the event on the legacy stream of the current context. Return false if there is nothing to
 * wait for, or if *result is an error. */
static bool record_event(const struct gpuring_cuda_driver *driver, CUevent event, CUresult *result)
{
    *result = CUDA_SUCCESS;
    if (!usable(driver)) {
        return false;
    }
    *result = driver->event_record(event, CU_STREAM_LEGACY);
    return *result == CUDA_SUCCESS;
}

CUresult gpuring_cuda_follow_create(const struct gpuring_cuda_driver *driver, CUevent *event)
{
    return mode == GPURING_DEFAULT_STREAM_WAIT
               ? driver->event_create(event, CU_EVENT_DISABLE_TIMING)
               : CUDA_SUCCESS;
}

CUresult gpuring_cuda_follow(struct gpuring_stream *stream)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    CUresult result = CUDA_SUCCESS;

    query_default(stream->device);
    if (stream->event != NULL && record_event(driver, stream->event, &result)) {
        result = driver->stream_wait(stream->stream, stream->event, 0);
    }
    return result;
}

bool gpuring_cuda_follow_idle(const struct gpuring_stream *stream)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;

    return stream->event == NULL || !usable(driver) ||
           driver->stream_query(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

/* Create an event and record the work of the current context in it. *event is NULL if there is
 * nothing to wait for. */
static CUresult follow_current(const struct gpuring_cuda_driver *driver, CUevent *event)
{
    CUresult result;

    *event = NULL;
    result = gpuring_cuda_follow_create(driver, event);
    if (*event != NULL && !record_event(driver, *event, &result)) {
        (void) driver->event_destroy(*event);
        *event = NULL;
    }
    return result;
}

CUresult gpuring_cuda_follow_other(const struct gpuring_cuda_driver *driver, CUstream stream)
{
    CUevent event;
    CUresult result = follow_current(driver, &event);

    if (event != NULL) {
        result = driver->stream_wait(stream, event, 0);
        (void) driver->event_destroy(event); /* the driver keeps it until it has completed */
    }
    return result;
}

CUresult gpuring_cuda_follow_context(const struct gpuring_stream *stream, CUcontext context)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    CUresult result;
    CUcontext popped;
    CUevent event;

    if (context == stream->device->context || mode != GPURING_DEFAULT_STREAM_WAIT) {
        return CUDA_SUCCESS;
    }
    result = driver->ctx_push(context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = follow_current(driver, &event);
    (void) driver->ctx_pop(&popped);
    if (event != NULL) {
        result = driver->stream_wait(stream->stream, event, 0);
        if (driver->ctx_push(context) == CUDA_SUCCESS) {
            (void) driver->event_destroy(event);
            (void) driver->ctx_pop(&popped);
        }
    }
    return result;
}
