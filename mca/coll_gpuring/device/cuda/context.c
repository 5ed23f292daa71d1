/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The application's context in which the device works, and errors of the driver. */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static bool is_destroyed(const struct gpuring_device *device)
{
    return __atomic_load_n(&device->destroyed, __ATOMIC_RELAXED);
}

bool gpuring_cuda_says_lost(CUresult result)
{
    return result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void gpuring_cuda_identify(struct gpuring_device *device)
{
    const struct gpuring_cuda_driver *driver = device->driver;
    CUcontext primary;
    unsigned int flags;
    int active = 0;

    device->identified = driver->ctx_id != NULL &&
                         driver->ctx_id(device->context, &device->context_id) == CUDA_SUCCESS;
    device->primary = !device->identified &&
                      driver->primary_state(device->gpu, &flags, &active) == CUDA_SUCCESS &&
                      active && driver->primary_retain(&primary, device->gpu) == CUDA_SUCCESS;
    if (device->primary) {
        (void) driver->primary_release(device->gpu);
        device->primary = primary == device->context;
    }
}

/*
 * Return true if the context was reset. cudaDeviceReset destroys the primary context, whose handle
 * is then reused for a new one. A driver crashes instead of returning an error if an object of the
 * old context is used. The number of the context changes with a reset. A driver without such
 * numbers (before CUDA 12) only shows a reset while there is no new context.
 */
static bool was_reset(const struct gpuring_device *device)
{
    const struct gpuring_cuda_driver *driver = device->driver;
    unsigned long long id = device->context_id;
    unsigned int flags;
    int active = 1;

    if (device->identified) {
        return gpuring_cuda_says_lost(driver->ctx_id(device->context, &id)) ||
               id != device->context_id;
    }
    return device->primary && driver->primary_state(device->gpu, &flags, &active) == CUDA_SUCCESS &&
           !active;
}

bool gpuring_cuda_is_lost(const struct gpuring_device *device)
{
    return device->driver != NULL && (is_destroyed(device) || was_reset(device));
}

bool gpuring_cuda_stream_works(const struct gpuring_stream *stream)
{
    return stream->stream == NULL || !gpuring_cuda_is_lost(stream->device);
}

void gpuring_cuda_lost(struct gpuring_device *device)
{
    __atomic_store_n(&device->destroyed, true, __ATOMIC_RELAXED);
}

/* Report a destroyed context. If it is certain, report it only once, and do not use its objects
 * again. */
static int context_destroyed(struct gpuring_device *device, bool sure)
{
    bool told = sure && __atomic_exchange_n(&device->reported, true, __ATOMIC_RELAXED);

    if (sure) {
        gpuring_cuda_lost(device);
    }
    if (!told) {
        gpuring_error("[context-destroyed] the CUDA context of GPU %d that coll/gpuring works "
                      "in (the context of the first GPU buffer that was passed to MPI) was "
                      "destroyed with cuCtxDestroy or cudaDeviceReset: collectives on "
                      "communicators that were connected in it return errors; messages, and "
                      "collectives on new communicators (MPI_Comm_dup), are staged through "
                      "host memory, which is slower; keep that context until MPI_Finalize",
                      device->ordinal);
    }
    return GPURING_ERR_CONTEXT;
}

int gpuring_cuda_report_lost(struct gpuring_device *device)
{
    return context_destroyed(device, true);
}

int gpuring_cuda_check(struct gpuring_device *device, CUresult result, const char *what)
{
    char text[256];

    switch (result) {
    case CUDA_SUCCESS:
        return GPURING_OK;
    case CUDA_ERROR_NOT_READY:
        return GPURING_AGAIN;
    case CUDA_ERROR_DEINITIALIZED: /* in exit handlers, after the application's runtime */
        return GPURING_ERR_IO;
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return context_destroyed(device, true);
    case CUDA_ERROR_OUT_OF_MEMORY:
        gpuring_error(
            "[gpu-memory] cannot %s: %s; free GPU memory, or lower coll_gpuring_buffer_size or "
            "coll_gpuring_max_channels",
            what, gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_NOMEM;
    default:
        gpuring_error("cannot %s: %s", what,
                      gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_IO;
    }
}

int gpuring_cuda_check_error(struct gpuring_device *device, CUresult result, const char *what)
{
    return gpuring_cuda_says_lost(result) ? context_destroyed(device, true)
                                          : gpuring_cuda_check(device, result, what);
}

uint32_t gpuring_cuda_attribute(const struct gpuring_device *device, CUdevice_attribute name)
{
    int value = 0;

    return device->driver->device_attribute(&value, name, device->gpu) == CUDA_SUCCESS && value > 0
               ? (uint32_t) value
               : 0;
}

_Thread_local CUstreamCaptureMode gpuring_cuda_capture_mode;

CUresult gpuring_cuda_push(const struct gpuring_cuda_driver *driver, CUcontext context)
{
    CUresult result = driver->ctx_push(context);

    if (result == CUDA_SUCCESS) {
        gpuring_cuda_capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (driver->capture_mode(&gpuring_cuda_capture_mode) != CUDA_SUCCESS) {
            /* unchanged, so that leave keeps it */
            gpuring_cuda_capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        }
    }
    return result;
}

int gpuring_cuda_enter_other(struct gpuring_device *device, CUcontext context)
{
    CUresult result = gpuring_cuda_push(device->driver, context);
    char text[256];

    if (result != CUDA_SUCCESS) {
        gpuring_error("cannot make the CUDA context of a buffer current: %s",
                      gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_IO;
    }
    return GPURING_OK;
}

int gpuring_cuda_enter(struct gpuring_device *device)
{
    CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;

    if (device->driver == NULL) {
        gpuring_error("the CUDA device is used before it was attached to a GPU");
        return GPURING_ERR_ARG;
    }
    if (!is_destroyed(device) && !was_reset(device)) {
        result = gpuring_cuda_push(device->driver, device->context);
    }
    return result == CUDA_ERROR_INVALID_CONTEXT
               ? context_destroyed(device, false)
               : gpuring_cuda_check(device, result, "make the CUDA context current");
}

bool gpuring_cuda_enter_to_release(struct gpuring_device *device)
{
    if (device->driver == NULL || is_destroyed(device)) {
        return false;
    }
    if (was_reset(device)) {
        gpuring_cuda_lost(device);
        return false;
    }
    return gpuring_cuda_push(device->driver, device->context) == CUDA_SUCCESS ||
           gpuring_cuda_push(device->driver, device->context) == CUDA_SUCCESS;
}

bool gpuring_cuda_context_of(const struct gpuring_cuda_driver *driver, CUdevice gpu,
                             const struct gpuring_pointer *pointer, CUcontext *context)
{
    CUcontext current = NULL;
    unsigned int flags;
    int active = 0;

    if (pointer->context != NULL) {
        *context = pointer->context;
        return true;
    }
    if (driver->ctx_current(&current) == CUDA_SUCCESS && current != NULL) {
        CUdevice of_current;

        if (driver->ctx_device(&of_current) == CUDA_SUCCESS && of_current == gpu) {
            *context = current;
            return true;
        }
    }
    if (driver->primary_state(gpu, &flags, &active) == CUDA_SUCCESS && active &&
        driver->primary_retain(context, gpu) == CUDA_SUCCESS) {
        /* The context remains active, because the application holds a reference. */
        (void) driver->primary_release(gpu);
        return true;
    }
    return false;
}
