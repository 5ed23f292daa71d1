/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What kind of memory a user's pointer is: one driver call that asks for all properties at once.
 * While the application has not loaded the driver no pointer can be a device pointer and nothing
 * is asked. The driver answers for ordinary host memory with zeros and success.
 */
#include <string.h>

#include "mca/coll_gpuring/device/cuda_internal.h"

struct attributes {
    CUmemorytype memory_type;
    unsigned int managed;
    int ordinal;
    CUcontext context;
    unsigned int ipc_capable;
    CUmemoryPool pool;
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

struct gpuring_pointer gpuring_cuda_classify(struct gpuring_device *device, const void *pointer)
{
    const struct gpuring_cuda_driver *driver = gpuring_cuda_driver(true, NULL);
    struct gpuring_pointer found = {.kind = GPURING_POINTER_HOST, .ordinal = -1};
    struct attributes a;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    };
    void *values[] = {&a.memory_type, &a.managed, &a.ordinal, &a.context, &a.ipc_capable, &a.pool};

    (void) device;
    if (driver == NULL) {
        return found;
    }
    memset(&a, 0, sizeof a);
    if (driver->pointer_attributes(sizeof names / sizeof *names, names, values,
                                   (CUdeviceptr) (uintptr_t) pointer) != CUDA_SUCCESS) {
        return found;
    }
    found.kind = kind_of(&a);
    if (found.kind != GPURING_POINTER_HOST) {
        found.ordinal = a.ordinal;
        found.context = a.context;
    }
    return found;
}
