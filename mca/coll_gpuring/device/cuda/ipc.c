/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Sharing device memory between processes of a node with CUDA IPC. Only a whole allocation can be
 * exported. CUDA defines the bytes of a handle. Some drivers refuse to open a handle that this
 * process has already opened, and the others return the same address, so opened handles are listed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/list.h"
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

/* Find the allocation that contains an address. The device's context is current. */
static int find_range(struct gpuring_device *device, const void *address, CUdeviceptr *base,
                      size_t *size)
{
    return gpuring_cuda_check(
        device, device->driver->address_range(base, size, (CUdeviceptr) (uintptr_t) address),
        "find the allocation of a buffer");
}

int gpuring_cuda_allocation(struct gpuring_device *device, const void *buffer, void **base)
{
    int status = gpuring_cuda_enter(device);
    CUdeviceptr begin = 0;
    size_t size;

    if (status == GPURING_OK) {
        status = find_range(device, buffer, &begin, &size);
        gpuring_cuda_leave(device);
    }
    *base = (void *) (uintptr_t) begin;
    return status;
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
    status = find_range(device, pointer, &base, &size);
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

/* An opened handle. */
struct import {
    struct gpuring_list node;
    struct gpuring_device_handle handle;
    CUdeviceptr address;
    unsigned int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct gpuring_list imports = GPURING_LIST_INIT(imports);

/* Open a handle that is not in the list, and add it. The driver refuses this for many reasons with
 * different codes: no path between the GPUs, a GPU that is hidden from this process (Slurm,
 * cgroups), a separate namespace. The transport then uses another path and reports this. */
static int open_handle(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                       void **pointer)
{
    struct import *import = malloc(sizeof *import);
    int status = import != NULL ? gpuring_cuda_enter(device) : GPURING_ERR_NOMEM;
    CUipcMemHandle exported;
    CUresult result;
    char text[256];

    if (status != GPURING_OK) {
        free(import);
        return status;
    }
    *import = (struct import){.handle = *handle, .users = 1};
    memcpy(&exported, handle->bytes, sizeof exported);
    result =
        device->driver->ipc_open(&import->address, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    gpuring_cuda_leave(device);
    if (result != CUDA_SUCCESS) {
        free(import);
        gpuring_info("cannot map another process's device memory: %s",
                     gpuring_cuda_error(device->driver, result, text, sizeof text));
        return GPURING_ERR_UNSUPPORTED;
    }
    gpuring_list_append(&imports, &import->node);
    *pointer = (void *) (uintptr_t) import->address;
    return GPURING_OK;
}

int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer)
{
    struct import *import;
    int status = GPURING_AGAIN;

    pthread_mutex_lock(&lock);
    GPURING_LIST_EACH(import, &imports, struct import, node)
    {
        if (memcmp(&import->handle, handle, sizeof *handle) == 0 && !gpuring_cuda_is_lost(device)) {
            import->users++;
            *pointer = (void *) (uintptr_t) import->address;
            status = GPURING_OK;
            break;
        }
    }
    if (status == GPURING_AGAIN) {
        status = open_handle(device, handle, pointer);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void close_handle(struct gpuring_device *device, struct import *import)
{
    gpuring_list_remove(&import->node);
    if (gpuring_cuda_enter_to_release(device)) {
        (void) gpuring_cuda_check(device, device->driver->ipc_close(import->address),
                                  "unmap another process's device memory");
        gpuring_cuda_leave(device);
    }
    free(import);
}

void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer)
{
    struct import *import;

    pthread_mutex_lock(&lock);
    GPURING_LIST_EACH(import, &imports, struct import, node)
    {
        if (import->address == (CUdeviceptr) (uintptr_t) pointer) {
            if (--import->users == 0) {
                close_handle(device, import);
            }
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
