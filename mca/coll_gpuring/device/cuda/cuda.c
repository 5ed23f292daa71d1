/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA device: memory through the driver API. Contexts belong to the application. Every
 * function makes the attached context current only until it returns (device/cuda/context.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MADV_DONTFORK */
#endif
#include "mca/coll_gpuring/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define UNIT          ((size_t) 2 << 20) /* size of the driver's allocation units */
#define ATTRIBUTE_MPS 133                /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, CUDA 12 */

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

static int find_context(struct gpuring_device *device, const struct gpuring_pointer *pointer)
{
    if (gpuring_cuda_context_of(device->driver, device->gpu, pointer, &device->context)) {
        gpuring_cuda_identify(device);
        return GPURING_OK;
    }
    gpuring_error("[no-context] the memory of GPU %d belongs to no context that this thread can "
                  "use; make a context of the GPU current (cudaSetDevice) before the call",
                  pointer->ordinal);
    return GPURING_ERR_UNSUPPORTED;
}

/* Check that the GPU uses the host's addresses for host memory, because kernels receive these. */
static int check_addresses(const struct gpuring_device *device)
{
    int same = 1;

    if (device->driver->device_attribute(
            &same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device->gpu) !=
            CUDA_SUCCESS ||
        same != 0) {
        return GPURING_OK;
    }
    gpuring_error("[gpu-addresses] GPU %d does not use the host's addresses for registered host "
                  "memory, which coll/gpuring needs; run without it (coll_gpuring_device=off)",
                  device->ordinal);
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
        if (reason != NULL) {
            gpuring_error("%s", reason);
        }
        return GPURING_ERR_UNSUPPORTED;
    }
    device->ordinal = pointer->ordinal;
    status = gpuring_cuda_check(device, device->driver->device_get(&device->gpu, pointer->ordinal),
                                "find the GPU of a buffer");
    if (status == GPURING_OK) {
        status = check_addresses(device);
    }
    if (status == GPURING_OK) {
        device->needs_driver_completion =
            gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0;
        device->mps = gpuring_cuda_attribute(device, (CUdevice_attribute) ATTRIBUTE_MPS) != 0;
        status = find_context(device, pointer);
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_enter(device);
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(
            device, device->driver->stream_create(&device->uploads, CU_STREAM_NON_BLOCKING, 0),
            "create a stream");
        gpuring_cuda_leave(device);
    }
    if (status != GPURING_OK) { /* the next call tries again */
        device->driver = NULL;
        device->uploads = NULL;
    }
    return status;
}

static void cuda_close(struct gpuring_device *device)
{
    if (device == NULL) {
        return;
    }
    if (gpuring_cuda_enter_to_release(device)) {
        if (device->module != NULL) {
            (void) device->driver->module_unload(device->module);
        }
        if (device->uploads != NULL) {
            (void) device->driver->stream_destroy(device->uploads);
        }
        gpuring_cuda_leave(device);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
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
    identity->sms =
        (uint16_t) gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    identity->mps = device->mps;
    identity->gdr =
        (gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) ? 1 : 0) |
        (gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) ? 2 : 0);
    return GPURING_OK;
}

static void cuda_free(struct gpuring_device *device, void *pointer)
{
    if (pointer != NULL && gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->free((CUdeviceptr) (uintptr_t) pointer),
                                  "free device memory");
        gpuring_cuda_leave(device);
    }
}

static int allocate_memory(struct gpuring_device *device, size_t bytes, void **pointer)
{
    CUdeviceptr address = 0;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(device, device->driver->alloc(&address, bytes),
                                "allocate device memory");
    gpuring_cuda_leave(device);
    if (status == GPURING_OK) {
        *pointer = (void *) (uintptr_t) address;
    }
    return status;
}

/* Fill memory with `table`, or with zeros if it is NULL. Wait for completion. */
static int fill_memory(struct gpuring_device *device, void *pointer, const void *table,
                       size_t bytes)
{
    CUdeviceptr address = (CUdeviceptr) (uintptr_t) pointer;
    int status = gpuring_cuda_enter(device);
    CUresult filled;

    if (status != GPURING_OK) {
        return status;
    }
    filled = table == NULL ? device->driver->set_async(address, 0, bytes, device->uploads)
                           : device->driver->copy_async(address, (CUdeviceptr) (uintptr_t) table,
                                                        bytes, device->uploads);
    status = gpuring_cuda_check_stream(device, filled, "initialise device memory");
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device, device->driver->stream_sync(device->uploads),
                                    "initialise device memory");
    }
    gpuring_cuda_leave(device);
    return status;
}

/*
 * Allocate whole units. The driver places several smaller allocations in one unit, at any offset. A
 * process that maps one of them maps the whole unit with the data of others. Network devices also
 * require whole pages.
 */
static int cuda_alloc(struct gpuring_device *device, size_t bytes, void **pointer)
{
    size_t units = bytes / UNIT + (bytes % UNIT != 0);
    int status = allocate_memory(device, units * UNIT, pointer);

    if (status == GPURING_OK) {
        status = fill_memory(device, *pointer, NULL, units * UNIT);
        if (status != GPURING_OK) {
            cuda_free(device, *pointer);
        }
    }
    return status;
}

static int register_memory(struct gpuring_device *device, void *memory, size_t bytes,
                           const char *what)
{
    int status = gpuring_cuda_enter(device);
    CUresult result;
    char text[256];

    if (status != GPURING_OK) {
        return status;
    }
    result = device->driver->host_register(
        memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) { /* host memory, not GPU memory */
        gpuring_error("[lock-limit] cannot %s of %zu bytes: %s; raise the limit on locked memory "
                      "(ulimit -l), or free host memory",
                      what, bytes, gpuring_cuda_error(device->driver, result, text, sizeof text));
        status = GPURING_ERR_NOMEM;
    } else {
        status = gpuring_cuda_check(device, result, what);
    }
    gpuring_cuda_leave(device);
    return status;
}

static void unregister_memory(struct gpuring_device *device, void *memory, const char *what)
{
    if (gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->host_unregister(memory), what);
        gpuring_cuda_leave(device);
    }
}

static int cuda_reach(struct gpuring_device *device, void *memory, size_t bytes)
{
    return register_memory(device, memory, bytes, "let the GPU reach host memory");
}

static void cuda_unreach(struct gpuring_device *device, void *memory)
{
    unregister_memory(device, memory, "give back host memory that the GPU reached");
}

/*
 * Pinned memory is allocated by us and registered with the driver. The driver would free its own
 * with the context, and later accesses by the host would fault. A page before the memory contains
 * its size. A child process does not inherit the memory, so that copy-on-write never moves pages
 * that the GPU uses.
 */
struct pinned {
    size_t mapped;
};

static size_t page_bytes(void)
{
    return (size_t) sysconf(_SC_PAGESIZE);
}

static int cuda_alloc_pinned(struct gpuring_device *device, size_t bytes, void **pointer)
{
    size_t page = page_bytes(), mapped = page + (bytes + page - 1) / page * page;
    struct pinned *head =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;

    if (head == MAP_FAILED) {
        gpuring_error("out of host memory: %zu bytes to be pinned for the GPU", bytes);
        return GPURING_ERR_NOMEM;
    }
    (void) madvise(head, mapped, MADV_DONTFORK);
    head->mapped = mapped;
    status = register_memory(device, (char *) head + page, mapped - page, "pin host memory");
    if (status != GPURING_OK) {
        munmap(head, mapped);
        return status;
    }
    *pointer = (char *) head + page;
    return GPURING_OK;
}

static void cuda_free_pinned(struct gpuring_device *device, void *pointer)
{
    if (pointer != NULL) {
        struct pinned *head = (struct pinned *) (void *) ((char *) pointer - page_bytes());

        unregister_memory(device, pointer, "give back pinned host memory");
        munmap(head, head->mapped);
    }
}

const struct gpuring_device_ops gpuring_device_cuda = {
    .name = "cuda",
    .kind = GPURING_DEVICE_CUDA,
    .toolkit = CUDA_VERSION,
    .open = cuda_open,
    .close = cuda_close,
    .attach = cuda_attach,
    .default_stream = gpuring_cuda_default_stream,
    .reaches = gpuring_cuda_reaches,
    .identity = cuda_identity,
    .possible = gpuring_cuda_loaded,
    .classify = gpuring_cuda_classify,
    .locate = gpuring_cuda_locate,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .export = gpuring_cuda_export,
    .import = gpuring_cuda_import,
    .allocation = gpuring_cuda_allocation,
    .unimport = gpuring_cuda_unimport,
    .prepare = gpuring_cuda_prepare,
    .alloc_table = allocate_memory,
    .upload = fill_memory,
    .unload = cuda_free,
    .reach = cuda_reach,
    .unreach = cuda_unreach,
    .alloc_pinned = cuda_alloc_pinned,
    .free_pinned = cuda_free_pinned,
    .nic_access = gpuring_cuda_nic_access,
    .stream_create = gpuring_cuda_stream_create,
    .linger = gpuring_cuda_linger,
    .stream_works = gpuring_cuda_stream_works,
    .lost = gpuring_cuda_is_lost,
    .stream_destroy = gpuring_cuda_stream_destroy,
    .copy = gpuring_cuda_copy,
    .copy_runs = gpuring_cuda_copy_runs,
    .copied = gpuring_cuda_copied,
    .launch = gpuring_cuda_launch,
    .poll = gpuring_cuda_poll,
    .moves = gpuring_cuda_moves,
    .move = gpuring_cuda_move,
    .moved = gpuring_cuda_moved,
    .synchronize = gpuring_cuda_synchronize,
    .stream_owner = gpuring_cuda_stream_owner,
    .enqueue = gpuring_cuda_enqueue,
    .enqueue_copy = gpuring_cuda_enqueue_copy,
    .captures = gpuring_cuda_captures,
};
