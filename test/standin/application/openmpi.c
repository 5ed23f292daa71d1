/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Further entry points for an Open MPI that was built with CUDA: 4.1 (coll/cuda, smcuda) and
 * 5.0. */
#include "test/standin/application/application.h"
#include "test/standin/memory.h"

#include <string.h>

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUcontext replaced;
    CUresult result = CUDA_SUCCESS;

    if (standin_current() != NULL) {
        result = application_driver()->ctx_pop(&replaced);
    }
    return result == CUDA_SUCCESS && context != NULL ? application_driver()->ctx_push(context)
                                                     : result;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer && standin_reach(standin_number(device), standin_number(peer));
    return CUDA_SUCCESS;
}

/* Get one attribute. This fails if the driver does not know the address. */
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute name, CUdeviceptr pointer)
{
    struct block block;

    if (!standin_block_find((void *) (uintptr_t) pointer, &block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (name == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
        *(unsigned long long *) value = block.id;
        return CUDA_SUCCESS;
    }
    return application_driver()->pointer_attributes(1, &name, &value, pointer);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult result = application_stream(&stream);

    return result == CUDA_SUCCESS ? application_driver()->copy_async(to, from, bytes, stream)
                                  : result;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUresult result = cuMemcpyAsync(to, from, bytes, NULL);

    return result == CUDA_SUCCESS ? cuStreamSynchronize(NULL) : result;
}

/* Accept any address within an allocation like a real driver, because Open MPI passes such
 * addresses. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    CUdeviceptr base;
    size_t bytes;
    CUresult result = application_driver()->address_range(&base, &bytes, pointer);

    return result == CUDA_SUCCESS ? application_driver()->ipc_get(handle, base) : result;
}

/* An event for other processes is already complete when it is recorded (streams.c), so the events
 * that they open are complete, too. */
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    (void) event;
    memset(handle, 0, sizeof *handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    (void) handle;
    return cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

/* Find memory that was allocated with the virtual memory calls. Its handle is its address. */
static bool virtual_memory(const void *address, struct block *block)
{
    return standin_block_find(address, block) && block->kind == STANDIN_VMM;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct block block;

    if (!virtual_memory(address, &block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = (CUmemGenericAllocationHandle) (uintptr_t) block.address;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    (void) handle;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle)
{
    struct block block;

    if (!virtual_memory((void *) (uintptr_t) handle, &block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(properties, 0, sizeof *properties);
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = block.gpu;
    return CUDA_SUCCESS;
}

static unsigned long long access_from(int gpu, const CUmemLocation *location)
{
    bool reaches = location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   standin_reach(standin_number(gpu), standin_number(location->id));

    return reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr pointer)
{
    struct block block;

    if (!virtual_memory((void *) (uintptr_t) pointer, &block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = access_from(block.gpu, location);
    return CUDA_SUCCESS;
}

/* All GPUs can access the memory of pools. */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    (void) pool;
    *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
