/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA device: memory, streams and copies through the driver API. Contexts belong to the
 * application: every function makes the attached one current for its own duration only.
 */
#include "mca/coll_gpuring/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define UNIT ((size_t) 2 << 20) /* of the driver's memory */

int gpuring_cuda_check(const struct gpuring_device *device, CUresult result, const char *what)
{
    char text[256];

    switch (result) {
    case CUDA_SUCCESS:
        return GPURING_OK;
    case CUDA_ERROR_NOT_READY:
        return GPURING_AGAIN;
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        /* The application's runtime is gone already (exit handlers): nothing to tell anybody. */
        return GPURING_ERR_IO;
    case CUDA_ERROR_OUT_OF_MEMORY:
        gpuring_error("cannot %s: %s; free GPU memory, or lower coll_gpuring_buffer_size or "
                      "coll_gpuring_max_channels",
                      what, gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_NOMEM;
    default:
        gpuring_error("cannot %s: %s", what,
                      gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_IO;
    }
}

int gpuring_cuda_enter(const struct gpuring_device *device)
{
    if (device->driver == NULL) {
        gpuring_error("the CUDA device is used before it was attached to a GPU");
        return GPURING_ERR_ARG;
    }
    return gpuring_cuda_check(device, device->driver->ctx_push(device->context),
                              "make the CUDA context current");
}

bool gpuring_cuda_enter_to_release(const struct gpuring_device *device)
{
    return gpuring_cuda_enter(device) == GPURING_OK ||
           (device->driver != NULL && device->driver->ctx_push(device->context) == CUDA_SUCCESS);
}

void gpuring_cuda_leave(const struct gpuring_device *device)
{
    CUcontext popped;

    (void) device->driver->ctx_pop(&popped);
}

uint32_t gpuring_cuda_attribute(const struct gpuring_device *device, CUdevice_attribute name)
{
    int value = 0;

    return device->driver->device_attribute(&value, name, device->gpu) == CUDA_SUCCESS && value > 0
               ? (uint32_t) value
               : 0;
}

static int cuda_open(struct gpuring_device **device)
{
    struct gpuring_device *created = calloc(1, sizeof *created);

    if (created == NULL || pthread_mutex_init(&created->lock, NULL) != 0) {
        gpuring_error("out of memory for the CUDA device");
        free(created);
        return GPURING_ERR_NOMEM;
    }
    *device = created;
    return GPURING_OK;
}

static void cuda_close(struct gpuring_device *device)
{
    if (device == NULL) {
        return;
    }
    if (device->driver != NULL && device->driver->ctx_push(device->context) == CUDA_SUCCESS) {
        gpuring_cuda_import_close_all(device);
        gpuring_cuda_unload_kernels(device);
        if (device->uploads != NULL) {
            (void) device->driver->stream_destroy(device->uploads);
        }
        gpuring_cuda_leave(device);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* The context to work in: the pointer's, the thread's, or the device's primary one if active. */
static int find_context(struct gpuring_device *device, const struct gpuring_pointer *pointer)
{
    const struct gpuring_cuda_driver *driver = device->driver;
    CUcontext current = NULL;
    unsigned int flags;
    int active = 0;

    if (pointer->context != NULL) {
        device->context = pointer->context;
        return GPURING_OK;
    }
    if (driver->ctx_current(&current) == CUDA_SUCCESS && current != NULL) {
        CUdevice gpu;

        if (driver->ctx_device(&gpu) == CUDA_SUCCESS && gpu == device->gpu) {
            device->context = current;
            return GPURING_OK;
        }
    }
    if (driver->primary_state(device->gpu, &flags, &active) == CUDA_SUCCESS && active &&
        driver->primary_retain(&device->context, device->gpu) == CUDA_SUCCESS) {
        /* It stays active: the application's own reference keeps it. */
        (void) driver->primary_release(device->gpu);
        return GPURING_OK;
    }
    gpuring_error("the memory of GPU %d belongs to no context that this thread can use; make a "
                  "context of the GPU current (cudaSetDevice) before the call",
                  pointer->ordinal);
    return GPURING_ERR_UNSUPPORTED;
}

static int cuda_attach(struct gpuring_device *device, const struct gpuring_pointer *pointer)
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
    status = gpuring_cuda_check(device, device->driver->device_get(&device->gpu, pointer->ordinal),
                                "find the GPU of a buffer");
    if (status == GPURING_OK) {
        status = find_context(device, pointer);
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_enter(device);
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(
            device, device->driver->stream_create(&device->uploads, CU_STREAM_NON_BLOCKING),
            "create a stream");
        gpuring_cuda_leave(device);
    }
    if (status != GPURING_OK) { /* the next call begins anew */
        device->driver = NULL;
        device->uploads = NULL;
    }
    return status;
}

static int cuda_identity(struct gpuring_device *device, struct gpuring_device_identity *identity)
{
    CUuuid uuid;
    int status;

    memset(identity, 0, sizeof *identity);
    identity->kind = GPURING_DEVICE_CUDA;
    status = gpuring_cuda_check(
        device,
        device->driver->device_pci(identity->pci_bus_id, sizeof identity->pci_bus_id, device->gpu),
        "read the PCI bus id of the GPU");
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->device_uuid(&uuid, device->gpu),
                                    "read the UUID of the GPU");
    }
    if (status != GPURING_OK) {
        return status;
    }
    memcpy(identity->uuid, uuid.bytes, sizeof identity->uuid);
    identity->capability =
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    identity->gdr =
        (gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) ? 1 : 0) |
        (gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) ? 2 : 0);
    return GPURING_OK;
}

static void cuda_free(struct gpuring_device *device, void *pointer)
{
    if (pointer != NULL) {
        gpuring_cuda_unexport(device, pointer);
    }
    if (pointer != NULL && gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->free((CUdeviceptr) (uintptr_t) pointer),
                                  "free device memory");
        gpuring_cuda_leave(device);
    }
}

/* Allocate, then fill from `table`, or with zeros if that is NULL; done when it returns. */
static int allocate_filled(struct gpuring_device *device, const void *table, size_t bytes,
                           void **pointer)
{
    CUdeviceptr address = 0;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(device, device->driver->alloc(&address, bytes),
                                "allocate device memory");
    if (status == GPURING_OK) {
        CUresult filled = table == NULL
                              ? device->driver->set_async(address, 0, bytes, device->uploads)
                              : device->driver->copy_async(address, (CUdeviceptr) (uintptr_t) table,
                                                           bytes, device->uploads);

        status = gpuring_cuda_check(device, filled, "initialise device memory");
        if (status == GPURING_OK) {
            status = gpuring_cuda_check(device, device->driver->stream_sync(device->uploads),
                                        "initialise device memory");
        }
        if (status != GPURING_OK) {
            (void) device->driver->free(address);
        }
    }
    gpuring_cuda_leave(device);
    if (status == GPURING_OK) {
        *pointer = (void *) (uintptr_t) address;
    }
    return status;
}

/*
 * Whole units: of smaller allocations the driver puts several into one, anywhere in it. A process
 * that maps one of them gets the whole unit, with what others have there; and network devices take
 * whole pages only.
 */
static int cuda_alloc(struct gpuring_device *device, size_t bytes, void **pointer)
{
    size_t units = bytes / UNIT + (bytes % UNIT != 0);

    return allocate_filled(device, NULL, units * UNIT, pointer);
}

static int cuda_upload(struct gpuring_device *device, void *table, size_t bytes, void **where)
{
    return allocate_filled(device, table, bytes, where);
}

static int cuda_reach(struct gpuring_device *device, void *memory, size_t bytes)
{
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(
            device,
            device->driver->host_register(
                memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
            "let the GPU reach host memory (is the memory lock limit too low? ulimit -l)");
        gpuring_cuda_leave(device);
    }
    return status;
}

static void cuda_unreach(struct gpuring_device *device, void *memory)
{
    if (gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->host_unregister(memory),
                                  "give back host memory that the GPU reached");
        gpuring_cuda_leave(device);
    }
}

static int cuda_alloc_pinned(struct gpuring_device *device, size_t bytes, void **pointer)
{
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(
        device,
        device->driver->host_alloc(pointer, bytes,
                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        "allocate pinned host memory");
    gpuring_cuda_leave(device);
    if (status == GPURING_OK) {
        memset(*pointer, 0, bytes);
    }
    return status;
}

static void cuda_free_pinned(struct gpuring_device *device, void *pointer)
{
    if (pointer != NULL && gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->host_free(pointer),
                                  "free pinned host memory");
        gpuring_cuda_leave(device);
    }
}

static void cuda_stream_destroy(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
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

static int cuda_stream_create(struct gpuring_device *device, struct gpuring_stream **stream)
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
        cuda_stream_destroy(created);
        return status;
    }
    *stream = created;
    return GPURING_OK;
}

static int cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device,
                                    device->driver->copy_async((CUdeviceptr) (uintptr_t) to,
                                                               (CUdeviceptr) (uintptr_t) from,
                                                               bytes, stream->stream),
                                    "copy between host and device");
        gpuring_cuda_leave(device);
    }
    return status;
}

static int cuda_copy_rows(struct gpuring_stream *stream, void *to, size_t to_pitch,
                          const void *from, size_t from_pitch, size_t bytes, size_t rows)
{
    struct gpuring_device *device = stream->device;
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = (CUdeviceptr) (uintptr_t) from,
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = (CUdeviceptr) (uintptr_t) to,
        .dstPitch = to_pitch,
        .WidthInBytes = bytes,
        .Height = rows,
    };
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->copy_rows_async(&copy, stream->stream),
                                    "copy rows between host and device");
        gpuring_cuda_leave(device);
    }
    return status;
}

static int cuda_copied(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->stream_query(stream->stream),
                                    "ask for the end of copies");
        gpuring_cuda_leave(device);
    }
    return status;
}

static int cuda_synchronize(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->stream_sync(stream->stream),
                                    "finish copies");
        gpuring_cuda_leave(device);
    }
    return status;
}

const struct gpuring_device_ops gpuring_device_cuda = {
    .name = "cuda",
    .kind = GPURING_DEVICE_CUDA,
    .open = cuda_open,
    .close = cuda_close,
    .attach = cuda_attach,
    .identity = cuda_identity,
    .possible = gpuring_cuda_loaded,
    .classify = gpuring_cuda_classify,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .export = gpuring_cuda_export,
    .import = gpuring_cuda_import,
    .unimport = gpuring_cuda_unimport,
    .unexport = gpuring_cuda_unexport,
    .upload = cuda_upload,
    .unload = cuda_free,
    .reach = cuda_reach,
    .unreach = cuda_unreach,
    .alloc_pinned = cuda_alloc_pinned,
    .free_pinned = cuda_free_pinned,
    .nic_access = gpuring_cuda_nic_access,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .copied = cuda_copied,
    .launch = gpuring_cuda_launch,
    .poll = gpuring_cuda_poll,
    .synchronize = cuda_synchronize,
};
