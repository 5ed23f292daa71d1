/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Memory and copies for applications. */
#include "test/standin/application/application.h"

#define MEMORY (UINT64_C(16) << 30) /* bytes that each GPU reports */

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    STANDIN_NEED_CONTEXT();
    *unused = MEMORY / 2;
    *total = MEMORY;
    return CUDA_SUCCESS;
}

static CUresult alloc(const char *sort, size_t bytes, void **memory)
{
    STANDIN_NEED_CONTEXT();
    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *memory = gpuring_standin_alloc(sort, standin_current()->gpu, bytes);
    return *memory != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    void *memory = NULL;
    CUresult result;

    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = alloc("managed", bytes, &memory);
    *pointer = (CUdeviceptr) (uintptr_t) memory;
    return result;
}

/* Free memory of this process, from any context. No context needs to be current. */
static CUresult release(void *memory, bool host)
{
    enum standin_kind kind;
    int gpu;

    if (!standin_memory_kind(memory, &kind, &gpu) || kind == STANDIN_IMPORTED ||
        (kind == STANDIN_REGISTERED) != host) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    gpuring_standin_free(memory);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    return release((void *) (uintptr_t) pointer, false);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    (void) flags; /* the memory is always portable and mapped */
    return alloc("registered", bytes, pointer);
}

CUresult cuMemFreeHost(void *pointer)
{
    return release(pointer, true);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned int flags)
{
    enum standin_kind kind;
    int gpu;

    STANDIN_NEED_CONTEXT();
    if (flags != 0 || !standin_memory_kind(pointer, &kind, &gpu) || kind != STANDIN_REGISTERED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = (CUdeviceptr) (uintptr_t) pointer;
    return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool waits)
{
    CUresult result = application_stream(&stream);

    if (result == CUDA_SUCCESS) {
        result = application_driver()->copy_async(to, from, bytes, stream);
    }
    if (result == CUDA_SUCCESS && waits) {
        result = application_driver()->stream_sync(stream);
    }
    return result;
}

/* Return true if the driver does not know this memory. Copies of such memory end before the call
 * returns. */
static bool pageable(const void *host)
{
    enum standin_kind kind;
    int gpu;

    return !standin_memory_kind(host, &kind, &gpu);
}

/*
 * Start a "synchronous" copy that ends after the call has returned. According to the driver's
 * documentation ("API synchronization behavior"), this happens for copies from pageable memory and
 * between GPU memory, unless the memory or the context has the SYNC_MEMOPS attribute.
 */
static CUresult copy_late(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUstream stream = NULL;
    CUresult result;

    STANDIN_NEED_CONTEXT();
    if (standin_memory_synchronous((void *) (uintptr_t) to) ||
        standin_memory_synchronous((void *) (uintptr_t) from)) {
        return copy(to, from, bytes, NULL, true);
    }
    result = application_stream(&stream);
    return result == CUDA_SUCCESS ? standin_copy_late(to, from, bytes, stream) : result;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return pageable(from) ? copy_late(to, (CUdeviceptr) (uintptr_t) from, bytes)
                          : copy(to, (CUdeviceptr) (uintptr_t) from, bytes, NULL, true);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy((CUdeviceptr) (uintptr_t) to, from, bytes, NULL, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_late(to, from, bytes);
}

CUresult cuMemsetD8_v2(CUdeviceptr pointer, unsigned char value, size_t bytes)
{
    const void *memory = (const void *) (uintptr_t) pointer;
    CUstream stream = NULL;
    enum standin_kind kind;
    CUresult result = application_stream(&stream);
    int gpu;

    if (result == CUDA_SUCCESS) {
        result = standin_set_late(pointer, value, bytes, stream);
    }
    if (result == CUDA_SUCCESS &&
        (standin_memory_synchronous(memory) ||
         (standin_memory_kind(memory, &kind, &gpu) && kind == STANDIN_MANAGED))) {
        result = application_driver()->stream_sync(stream);
    }
    return result;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(to, (CUdeviceptr) (uintptr_t) from, bytes, stream, pageable(from));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy((CUdeviceptr) (uintptr_t) to, from, bytes, stream, pageable(to));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, from, bytes, stream, false);
}
