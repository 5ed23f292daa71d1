/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Sharing device memory between processes of a node with CUDA IPC. Only a whole allocation can be
 * exported, and another process opens it once. CUDA defines the bytes of a handle.
 */
#include <string.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

_Static_assert(sizeof(CUipcMemHandle) <= sizeof((struct gpuring_device_handle *) 0)->bytes,
               "a handle travels in the device handle");

/* Get a handle. Some ordinary systems have no CUDA IPC: WSL, Tegra. */
static int get_handle(struct gpuring_device *device, CUdeviceptr base, CUipcMemHandle *handle)
{
    CUresult result = device->driver->ipc_get(handle, base);

    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        gpuring_info("this system has no CUDA IPC");
        return GPURING_ERR_UNSUPPORTED;
    }
    return gpuring_cuda_check(device, result, "export device memory to other processes (CUDA IPC)");
}

int gpuring_cuda_export(struct gpuring_device *device, void *pointer,
                        struct gpuring_device_handle *handle)
{
    CUdeviceptr address = (CUdeviceptr) (uintptr_t) pointer, base;
    CUipcMemHandle exported;
    size_t size = 0;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check(device, device->driver->address_range(&base, &size, address),
                                "find the allocation of a buffer");
    if (status == GPURING_OK) {
        status = get_handle(device, address, &exported);
    }
    gpuring_cuda_leave(device);
    if (status == GPURING_OK) {
        memset(handle, 0, sizeof *handle);
        handle->size = size;
        memcpy(handle->bytes, &exported, sizeof exported);
    }
    return status;
}

/* Import memory. The driver refuses this for many reasons with different codes: no path between the
 * GPUs, a GPU that is hidden from this process (Slurm, cgroups), a separate namespace. The
 * transport then uses another path and reports this. */
int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer)
{
    int status = gpuring_cuda_enter(device);
    CUipcMemHandle exported;
    CUdeviceptr address = 0;
    CUresult result;
    char text[256];

    if (status != GPURING_OK) {
        return status;
    }
    memcpy(&exported, handle->bytes, sizeof exported);
    result = device->driver->ipc_open(&address, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    gpuring_cuda_leave(device);
    if (result != CUDA_SUCCESS) {
        gpuring_info("cannot map another process's device memory: %s",
                     gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_UNSUPPORTED;
    }
    *pointer = (void *) (uintptr_t) address;
    return GPURING_OK;
}

void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer)
{
    if (pointer != NULL && gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device,
                                  device->driver->ipc_close((CUdeviceptr) (uintptr_t) pointer),
                                  "unmap another process's device memory");
        gpuring_cuda_leave(device);
    }
}
