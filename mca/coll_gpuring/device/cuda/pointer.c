/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Classification of a user's pointer. One driver call queries all properties. A new buffer, and
 * memory without a context, need several calls (order.c). Before the application has loaded the
 * driver, no pointer can be a device pointer, and nothing is queried. For ordinary host memory, the
 * driver returns zeros and success.
 *
 * If the driver cannot be used or fails (every call fails after any kernel has faulted), the kind
 * is unknown. A device pointer must not be treated as host memory then, so memory that this process
 * cannot read counts as GPU memory. (Managed memory is readable, also for the component that
 * receives it.)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"

struct attributes {
    CUmemorytype memory_type;
    unsigned int managed;
    int ordinal;
    CUcontext context;
    unsigned int ipc_capable;
    CUmemoryPool pool;
    unsigned int synchronous; /* synchronous operations complete before they return */
};

static enum gpuring_pointer_kind kind_of(const struct attributes *a)
{
    if (a->managed) {
        return GPURING_POINTER_MANAGED;
    }
    if (a->memory_type == CU_MEMORYTYPE_HOST) {
        return GPURING_POINTER_REGISTERED;
    }
    if (a->memory_type != CU_MEMORYTYPE_DEVICE) {
        return GPURING_POINTER_HOST;
    }
    if (a->pool != NULL) {
        return GPURING_POINTER_POOL;
    }
    return a->ipc_capable ? GPURING_POINTER_DEVICE : GPURING_POINTER_VMM;
}

/* Return true if the application cannot have GPU memory. */
static bool nothing_there(CUresult result)
{
    return result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_NO_DEVICE;
}

/* Try to read a byte in two ways that return an error instead of faulting. Containers may forbid
 * the first one. Memory that neither can read counts as unreadable. */
static bool readable(const void *pointer)
{
    char byte;
    struct iovec to = {.iov_base = &byte, .iov_len = 1};
    struct iovec from = {.iov_base = (void *) (uintptr_t) pointer, .iov_len = 1};
    bool read = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;

    if (!read && errno != EFAULT) {
        int file = memfd_create("gpuring", MFD_CLOEXEC);

        read = file >= 0 && write(file, pointer, 1) == 1;
        if (file >= 0) {
            close(file);
        }
    }
    return read;
}

bool gpuring_cuda_reaches(const struct gpuring_device *device,
                          const struct gpuring_pointer *pointer)
{
    /* Do not call the driver here, because every call on a GPU needs this. */
    if (__atomic_load_n(&device->destroyed, __ATOMIC_RELAXED)) {
        return false;
    }
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

/*
 * Record that there are buffers of more than one context or GPU, so that copies classify each
 * buffer. Before the device is attached, its context is unknown, so two different contexts count as
 * well.
 */
static void note(struct gpuring_device *device, const struct gpuring_pointer *pointer)
{
    uintptr_t mark =
        pointer->context != NULL ? (uintptr_t) pointer->context : (uintptr_t) pointer->ordinal + 1;
    uintptr_t none = 0;

    if (device == NULL || __atomic_load_n(&device->saw_foreign_context, __ATOMIC_RELAXED)) {
        return;
    }
    if (device->driver == NULL) {
        if (__atomic_compare_exchange_n(&device->first, &none, mark, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED) ||
            none == mark) {
            return;
        }
    } else if (gpuring_cuda_reaches(device, pointer)) {
        return;
    }
    __atomic_store_n(&device->saw_foreign_context, true, __ATOMIC_RELAXED);
}

/* Query the driver. Sets *ordered to true if nothing has to be done for synchronous operations on
 * the memory. */
static struct gpuring_pointer query_pointer(struct gpuring_device *device,
                                            const struct gpuring_cuda_driver *driver,
                                            const void *pointer, bool *ordered)
{
    struct gpuring_pointer found = {.kind = GPURING_POINTER_HOST, .ordinal = -1};
    struct attributes a;
    CUresult result;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    };
    void *values[] = {&a.memory_type, &a.managed, &a.ordinal,    &a.context,
                      &a.ipc_capable, &a.pool,    &a.synchronous};

    *ordered = true;
    if (driver == NULL && !gpuring_cuda_loaded()) {
        return found;
    }
    memset(&a, 0, sizeof a);
    result = driver == NULL ? CUDA_ERROR_NOT_SUPPORTED
                            : driver->pointer_attributes(sizeof names / sizeof *names, names,
                                                         values, (CUdeviceptr) (uintptr_t) pointer);
    if (result != CUDA_SUCCESS) {
        if (!nothing_there(result) && !readable(pointer)) {
            found.kind = GPURING_POINTER_DEVICE;
            found.ordinal = 0;
        }
        return found;
    }
    found.kind = kind_of(&a);
    if (found.kind != GPURING_POINTER_HOST) {
        found.ordinal = a.ordinal;
        found.context = a.context;
    }
    if (found.kind != GPURING_POINTER_HOST && found.kind != GPURING_POINTER_REGISTERED) {
        note(device, &found);
        *ordered = a.synchronous != 0;
    }
    return found;
}

struct gpuring_pointer gpuring_cuda_classify(struct gpuring_device *device, const void *pointer)
{
    const struct gpuring_cuda_driver *driver = gpuring_cuda_driver(true, NULL);
    bool ordered;
    struct gpuring_pointer found = query_pointer(device, driver, pointer, &ordered);

    if (!ordered) {
        gpuring_cuda_force_sync_memops(driver, &found, (CUdeviceptr) (uintptr_t) pointer);
    }
    return found;
}

struct gpuring_pointer gpuring_cuda_locate(struct gpuring_device *device, const void *pointer)
{
    bool ordered;

    return query_pointer(device, gpuring_cuda_driver(true, NULL), pointer, &ordered);
}
