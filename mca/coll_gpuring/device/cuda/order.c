/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Operations that applications consider synchronous, although the driver may return before they
 * complete: cuMemcpy from pageable memory and within GPU memory, and cuMemset. They run in a
 * default stream, for which our streams do not wait. When a buffer is first used, we configure the
 * driver to complete such operations before they return, and wait once for earlier ones.
 *
 *     memory of cuMemAlloc, managed        with an attribute of the memory
 *     pools, virtual memory functions      without such an attribute, with a flag of the context
 *     the same, driver before CUDA 12.1    without such a flag, by waiting each time
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
    /* This call waits for earlier operations. */
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

/* Wait for earlier operations with the thread's default stream, whose work waits for the legacy
 * stream. The legacy stream itself cannot be used, because that would end a capture of a blocking
 * stream. */
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

/* Order operations in the contexts in which the application may have copied: one of the memory's
 * GPU, and the current one. Query the contexts each time, because a destroyed context's handle may
 * be reused. */
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
