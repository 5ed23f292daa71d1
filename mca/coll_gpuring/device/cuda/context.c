/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Contexts of the application: which one the device works in, and whether that still exists. */
#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* One answer that tells nothing, of a driver in trouble, does not make it lost. */
static bool marker_is_there(const struct gpuring_device *device)
{
    unsigned long long id = 0;
    CUresult result =
        device->driver->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device->marker);

    return result == CUDA_SUCCESS ? id == device->marker_id : result != CUDA_ERROR_INVALID_VALUE;
}

/* As far as it is known. */
static bool is_lost(const struct gpuring_device *device)
{
    return __atomic_load_n(&device->lost, __ATOMIC_RELAXED);
}

bool gpuring_cuda_lost(struct gpuring_device *device)
{
    if (!is_lost(device) && device->marker != 0 && !marker_is_there(device) &&
        !marker_is_there(device)) {
        __atomic_store_n(&device->lost, true, __ATOMIC_RELAXED);
    }
    return is_lost(device);
}

static _Thread_local CUstreamCaptureMode capture_mode; /* of the application, between the two */

int gpuring_cuda_enter_context(const struct gpuring_device *device, CUcontext context,
                               const char *what)
{
    int status = gpuring_cuda_check(device, device->driver->ctx_push(context), what);

    if (status == GPURING_OK) {
        capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (device->driver->capture_mode(&capture_mode) != CUDA_SUCCESS) {
            capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* unchanged: leave sets no other */
        }
    }
    return status;
}

int gpuring_cuda_enter_again(struct gpuring_device *device)
{
    if (device->driver == NULL) {
        gpuring_error("the CUDA device is used before it was attached to a GPU");
        return GPURING_ERR_ARG;
    }
    if (gpuring_cuda_lost(device)) {
        return GPURING_ERR_IO;
    }
    return gpuring_cuda_enter_context(device, device->context, "make the CUDA context current");
}

int gpuring_cuda_enter(struct gpuring_device *device)
{
    int status = gpuring_cuda_enter_again(device);

    if (status != GPURING_OK && is_lost(device) &&
        !__atomic_exchange_n(&device->told, true, __ATOMIC_RELAXED)) {
        gpuring_error("the CUDA context of GPU %d that coll/gpuring works in was destroyed "
                      "(cuCtxDestroy, cudaDeviceReset): what was made in it is gone, and "
                      "communicators that worked with it fail; keep the context of the first GPU "
                      "buffer given to MPI until MPI_Finalize, or go on with communicators made "
                      "afterwards (MPI_Comm_dup)",
                      device->ordinal);
    }
    return status;
}

bool gpuring_cuda_enter_to_release(struct gpuring_device *device)
{
    return gpuring_cuda_enter_again(device) == GPURING_OK ||
           (device->driver != NULL && !is_lost(device) &&
            gpuring_cuda_enter_context(device, device->context, "make the CUDA context current") ==
                GPURING_OK);
}

bool gpuring_cuda_enter_any(struct gpuring_device *device)
{
    static const struct gpuring_pointer anywhere = {.kind = GPURING_POINTER_VMM};
    CUcontext context;

    return device->driver != NULL && is_lost(device) &&
           gpuring_cuda_context_of(device->driver, device->gpu, &anywhere, &context) &&
           gpuring_cuda_enter_context(device, context, "make a CUDA context current") == GPURING_OK;
}

void gpuring_cuda_leave(const struct gpuring_device *device)
{
    CUcontext popped;

    (void) device->driver->capture_mode(&capture_mode);
    (void) device->driver->ctx_pop(&popped);
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
        /* It stays active: the application's own reference keeps it. */
        (void) driver->primary_release(gpu);
        return true;
    }
    return false;
}

static int find_context(struct gpuring_device *device, const struct gpuring_pointer *pointer)
{
    if (gpuring_cuda_context_of(device->driver, device->gpu, pointer, &device->context)) {
        return GPURING_OK;
    }
    gpuring_error("the memory of GPU %d belongs to no context that this thread can use; make a "
                  "context of the GPU current (cudaSetDevice) before the call",
                  pointer->ordinal);
    return GPURING_ERR_UNSUPPORTED;
}

/* Kernels are given the host's addresses of host memory. */
static int check_addresses(const struct gpuring_device *device)
{
    int same = 1;

    if (device->driver->device_attribute(
            &same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device->gpu) !=
            CUDA_SUCCESS ||
        same != 0) {
        return GPURING_OK;
    }
    gpuring_error("GPU %d does not use the host's addresses for registered host memory, as it does "
                  "under Linux on its own machine: coll/gpuring cannot work with it; run without "
                  "it (coll_gpuring_device=off)",
                  device->ordinal);
    return GPURING_ERR_UNSUPPORTED;
}

/* Without memory for it the device works all the same. */
static void place_marker(struct gpuring_device *device)
{
    if (device->driver->alloc(&device->marker, 1) != CUDA_SUCCESS ||
        device->driver->pointer_attribute(&device->marker_id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                          device->marker) != CUDA_SUCCESS) {
        if (device->marker != 0) {
            (void) device->driver->free(device->marker);
        }
        device->marker = 0;
        gpuring_info("no byte of GPU memory for a marker: it will not be noticed if the "
                     "application destroys its CUDA context before MPI_Finalize");
    }
}

/* With the context current. */
static int make_first(struct gpuring_device *device)
{
    int status = gpuring_cuda_check(
        device, device->driver->stream_create(&device->uploads, CU_STREAM_NON_BLOCKING),
        "create a stream");

    if (status == GPURING_OK) {
        place_marker(device);
    }
    return status;
}

int gpuring_cuda_attach(struct gpuring_device *device, const struct gpuring_pointer *pointer)
{
    const char *reason;
    int status;

    if (device->driver != NULL) {
        return GPURING_OK;
    }
    device->driver = gpuring_cuda_driver(false, &reason);
    if (device->driver == NULL) {
        gpuring_error("%s", reason);
        return GPURING_ERR_UNSUPPORTED;
    }
    device->ordinal = pointer->ordinal;
    status = gpuring_cuda_check(device, device->driver->device_get(&device->gpu, pointer->ordinal),
                                "find the GPU of a buffer");
    if (status == GPURING_OK) {
        status = check_addresses(device);
    }
    if (status == GPURING_OK) {
        status = find_context(device, pointer);
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_enter(device);
    }
    if (status == GPURING_OK) {
        status = make_first(device);
        gpuring_cuda_leave(device);
    }
    if (status != GPURING_OK) { /* the next call begins anew */
        device->driver = NULL;
        device->uploads = NULL;
    }
    return status;
}

void gpuring_cuda_detach(struct gpuring_device *device)
{
    bool current = device->driver != NULL && gpuring_cuda_enter_to_release(device);

    gpuring_cuda_import_close_all(device, current);
    gpuring_cuda_unload_kernels(device, current);
    if (current) {
        if (device->uploads != NULL) {
            (void) device->driver->stream_destroy(device->uploads);
        }
        if (device->marker != 0) {
            (void) device->driver->free(device->marker);
        }
        gpuring_cuda_leave(device);
    }
}

bool gpuring_cuda_reaches(const struct gpuring_device *device,
                          const struct gpuring_pointer *pointer)
{
    switch (pointer->kind) {
    case GPURING_POINTER_HOST:
    case GPURING_POINTER_REGISTERED:
        return false;
    case GPURING_POINTER_MANAGED:
        return pointer->ordinal == device->ordinal;
    default:
        return pointer->ordinal == device->ordinal &&
               (pointer->context == NULL || pointer->context == device->context);
    }
}
