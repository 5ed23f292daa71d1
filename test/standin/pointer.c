/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Queries about an address. */
#include "test/standin/memory.h"

static char pool; /* its address is the handle of all pools */

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct block block;

    STANDIN_ENTER(address_range);
    STANDIN_NEED_CONTEXT();
    if (!standin_block_find((void *) (uintptr_t) pointer, &block)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *base = (CUdeviceptr) (uintptr_t) block.address;
    *bytes = block.bytes;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *names, void **values,
                                CUdeviceptr pointer)
{
    struct block block = {.kind = STANDIN_REGISTERED};
    bool known = standin_block_find((void *) (uintptr_t) pointer, &block);
    enum standin_kind kind = block.kind;
    bool managed = known && kind == STANDIN_MANAGED;
    bool device = known && (managed || standin_is_device(kind));

    STANDIN_ENTER(pointer_attributes);
    for (unsigned int i = 0; i < count; i++) {
        switch (names[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(CUmemorytype *) values[i] = device  ? CU_MEMORYTYPE_DEVICE
                                          : known ? CU_MEMORYTYPE_HOST
                                                  : (CUmemorytype) 0;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned int *) values[i] = managed;
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *(unsigned int *) values[i] =
                known && (kind == STANDIN_DEVICE || kind == STANDIN_IMPORTED);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *) values[i] = device ? block.gpu : known ? 0 : -2;
            break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *(CUcontext *) values[i] = managed ? standin_primary(block.gpu) : block.owner.context;
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            *(CUmemoryPool *) values[i] =
                known && kind == STANDIN_POOL ? (CUmemoryPool) (void *) &pool : NULL;
            break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            *(unsigned int *) values[i] = known && block.synchronous;
            break;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

/* Like real drivers, refuse memory of pools and of the virtual memory calls. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute name, CUdeviceptr pointer)
{
    struct block block;

    STANDIN_ENTER(pointer_set);
    STANDIN_NEED_CONTEXT();
    if (name != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        !standin_block_find((void *) (uintptr_t) pointer, &block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (block.kind != STANDIN_DEVICE && block.kind != STANDIN_MANAGED) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    standin_wait_for_late();
    standin_block_synchronous((void *) (uintptr_t) pointer, *(const unsigned int *) value != 0);
    return CUDA_SUCCESS;
}

int gpuring_standin_on_gpu(const void *address)
{
    enum standin_kind kind;
    int gpu;

    return standin_memory_kind(address, &kind, &gpu) && kind == STANDIN_DEVICE;
}
