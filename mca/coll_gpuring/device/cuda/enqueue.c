/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Works in a stream of the application. The kernels are those of launch.c. No host thread polls for
 * their end or launches them again, so their patience never ends. The stream orders them before and
 * after its other work, so they do not follow the default stream.
 */
#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Return the handle of a stream. In CUDA programs, NULL is the legacy or the per-thread default
 * stream, depending on how the program was compiled. Here it is the legacy one. */
static CUstream explicit_stream(void *stream)
{
    return stream != NULL ? (CUstream) stream : CU_STREAM_LEGACY;
}

int gpuring_cuda_stream_owner(void *stream, struct gpuring_pointer *owner)
{
    const char *reason = NULL;
    const struct gpuring_cuda_driver *driver = gpuring_cuda_driver(false, &reason);
    CUcontext context = NULL, popped;
    CUdevice gpu = -1;
    CUresult result;
    char text[256];

    if (driver == NULL) {
        if (reason != NULL) {
            gpuring_error("%s", reason);
        }
        return GPURING_ERR_UNSUPPORTED;
    }
    if (stream == CU_STREAM_PER_THREAD) {
        gpuring_error("[stream-per-thread] the per-thread default stream is a different "
                      "stream in each thread, so that calls on a communicator would have no "
                      "order; create a stream");
        return GPURING_ERR_UNSUPPORTED;
    }
    result = driver->stream_context(explicit_stream(stream), &context);
    if (result == CUDA_SUCCESS && context != NULL) {
        result = driver->ctx_push(context);
    }
    if (result == CUDA_SUCCESS && context != NULL) {
        result = driver->ctx_device(&gpu);
        (void) driver->ctx_pop(&popped);
    }
    if (result != CUDA_SUCCESS || context == NULL) {
        gpuring_error(
            "[stream-invalid] cannot find the GPU of the stream %p: %s; give the handle of a "
            "stream of this process, and make a context of its GPU current "
            "(cudaSetDevice) before the call",
            stream, gpuring_cuda_error(driver, result, text, sizeof text));
        return GPURING_ERR_ARG;
    }
    *owner = (struct gpuring_pointer){
        .kind = GPURING_POINTER_DEVICE, .ordinal = (int) gpu, .context = context};
    return GPURING_OK;
}

/* As `captures` in device.h, between enter and leave. */
static int find_capture(struct gpuring_device *device, void *stream, bool *captured)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = device->driver->is_capturing(explicit_stream(stream), &capture);

    if (result != CUDA_SUCCESS || capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
        gpuring_error(
            "[stream-captured] the stream cannot be used while a blocking stream is captured "
            "into a CUDA graph, or its own capture has failed; end the capture before the "
            "call (cudaStreamEndCapture)");
        return GPURING_ERR_UNSUPPORTED;
    }
    *captured = capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return GPURING_OK;
}

int gpuring_cuda_captures(struct gpuring_device *device, void *stream, bool *captured)
{
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = find_capture(device, stream, captured);
        gpuring_cuda_leave(device);
    }
    return status;
}

int gpuring_cuda_enqueue(struct gpuring_device *device, void *stream, struct gpuring_work *work,
                         struct gpuring_work *in_graph, bool *captured)
{
    int number = gpuring_kernel_number(work->type, work->op, work->protocol), status;
    void *arguments[1];

    if (number < 0 || device->functions[number] == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    status = gpuring_cuda_enter(device);
    if (status != GPURING_OK) {
        return status;
    }
    status = find_capture(device, stream, captured);
    if (status == GPURING_OK) {
        arguments[0] = *captured ? in_graph : work; /* the driver copies it */
        status = gpuring_cuda_check_stream(
            device,
            device->driver->launch(device->functions[number], work->nlanes, 1, 1,
                                   gpuring_kernel_threads(work), 1, 1, 0, explicit_stream(stream),
                                   arguments, NULL),
            "launch a kernel in a stream of the program");
    }
    gpuring_cuda_leave(device);
    return status;
}

int gpuring_cuda_enqueue_copy(struct gpuring_device *device, void *stream, void *to,
                              const void *from, size_t bytes)
{
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check_stream(device,
                                       device->driver->copy_async((CUdeviceptr) (uintptr_t) to,
                                                                  (CUdeviceptr) (uintptr_t) from,
                                                                  bytes, explicit_stream(stream)),
                                       "copy in a stream of the program");
    gpuring_cuda_leave(device);
    return status;
}
