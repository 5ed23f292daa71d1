/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Operations that applications take for synchronous, and that the driver lets return before their
 * effect is there: cuMemcpy from pageable memory and within GPU memory, and cuMemset. They are in
 * a default stream, for which our streams do not wait. The driver is told at the first sight of a
 * buffer that from now on they do end before they return; what was begun before is waited for once.
 *
 *     memory of cuMemAlloc, managed     an attribute of the memory, which it tells with the others
 *     pools, virtual memory calls       they have none: a flag of the context
 *     drivers before CUDA 12.1, these   lack the flag: the wait, each time
 */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"

static bool set_attribute(const struct gpuring_cuda_driver *driver, CUcontext context,
                          CUdeviceptr address)
{
    unsigned int on = 1;
    CUresult result;

    if (driver->pointer_set == NULL || gpuring_cuda_push(driver, context) != CUDA_SUCCESS) {
        return false;
    }
    /* It waits itself for what was begun before. */
    result = driver->pointer_set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
    gpuring_cuda_pop(driver);
    return result == CUDA_SUCCESS;
}

static bool has_flag(const struct gpuring_cuda_driver *driver, unsigned int *flags)
{
    *flags = 0;
    return driver->ctx_flags != NULL && driver->ctx_flags(flags) == CUDA_SUCCESS &&
           (*flags & GPURING_CUDA_SYNC_MEMOPS) != 0;
}

static void CUDA_CB nothing(void *argument)
{
    (void) argument;
}

/* The thread's own default stream comes after the legacy one, for which its work waits. It is not
 * the legacy one itself, whose use would end a capture of a blocking stream. */
static void wait_for_earlier(const struct gpuring_cuda_driver *driver)
{
    if (driver->host_function != NULL) {
        (void) driver->host_function(CU_STREAM_PER_THREAD, nothing, NULL);
    }
    (void) driver->stream_sync(CU_STREAM_PER_THREAD);
}

static void set_flag(const struct gpuring_cuda_driver *driver, CUcontext context)
{
    unsigned int flags;

    if (gpuring_cuda_push(driver, context) != CUDA_SUCCESS) {
        return;
    }
    if (!has_flag(driver, &flags)) {
        if (driver->ctx_flags != NULL && driver->ctx_set_flags != NULL) {
            (void) driver->ctx_set_flags(flags | GPURING_CUDA_SYNC_MEMOPS);
        }
        wait_for_earlier(driver);
    }
    gpuring_cuda_pop(driver);
}

/* The contexts in which the application may have copied: of the memory's GPU, and the current one.
 * They are asked each time, for they end, and their handles come back. */
static void order_contexts(const struct gpuring_cuda_driver *driver,
                           const struct gpuring_pointer *pointer)
{
    CUcontext current = NULL, context = NULL;
    CUdevice gpu, of_current;
    unsigned int flags;

    if (driver->device_get(&gpu, pointer->ordinal) != CUDA_SUCCESS ||
        (driver->ctx_device(&of_current) == CUDA_SUCCESS && of_current == gpu &&
         has_flag(driver, &flags))) {
        return;
    }
    if (driver->ctx_current(&current) == CUDA_SUCCESS && current != NULL) {
        set_flag(driver, current);
    }
    if (gpuring_cuda_context_of(driver, gpu, pointer, &context) && context != current) {
        set_flag(driver, context);
    }
}

void gpuring_cuda_force_sync_memops(const struct gpuring_cuda_driver *driver,
                                    const struct gpuring_pointer *pointer, CUdeviceptr address)
{
    if (pointer->context == NULL || !set_attribute(driver, pointer->context, address)) {
        order_contexts(driver, pointer);
    }
}
