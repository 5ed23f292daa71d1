/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Device memory between processes of a node: CUDA IPC. A process may open the handle of an
 * allocation only once per context, so opened handles are counted in a list; and it may not open
 * those of its own allocations, so peers within one process are given the memory itself, if they
 * are of one context: nobody enables access between those.
 *
 *   handle bytes: 0             64       72
 *                 | CUDA handle | offset |
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct cuda_import {
    struct gpuring_list node; /* in device->imports */
    CUipcMemHandle handle;
    CUdeviceptr base;
    unsigned int users;
    bool own; /* of this process: nothing to close */
};

/* What this process has exported and not taken back. */
struct cuda_export {
    struct gpuring_list node;
    CUipcMemHandle handle;
    CUdeviceptr base;
    CUcontext context; /* in which it was allocated */
};
static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct gpuring_list exports = GPURING_LIST_INIT(exports);

struct cuda_handle {
    CUipcMemHandle handle;
    uint64_t offset;
};
_Static_assert(sizeof(struct cuda_handle) <= sizeof((struct gpuring_device_handle *) 0)->bytes,
               "a handle travels in the device handle");

static int remember_export(const CUipcMemHandle *handle, CUdeviceptr base, CUcontext context)
{
    struct cuda_export *entry = malloc(sizeof *entry);

    if (entry == NULL) {
        gpuring_error("out of memory for an exported buffer");
        return GPURING_ERR_NOMEM;
    }
    *entry = (struct cuda_export){.handle = *handle, .base = base, .context = context};
    pthread_mutex_lock(&exports_lock);
    gpuring_list_prepend(&exports, &entry->node);
    pthread_mutex_unlock(&exports_lock);
    return GPURING_OK;
}

/* Does the handle stand for an allocation of this process? */
static bool find_export(const CUipcMemHandle *handle, CUdeviceptr *base, CUcontext *context)
{
    struct cuda_export *entry;
    bool found = false;

    pthread_mutex_lock(&exports_lock);
    GPURING_LIST_EACH(entry, &exports, struct cuda_export, node)
    {
        if (memcmp(&entry->handle, handle, sizeof *handle) == 0) {
            *base = entry->base;
            *context = entry->context;
            found = true;
        }
    }
    pthread_mutex_unlock(&exports_lock);
    return found;
}

void gpuring_cuda_unexport(struct gpuring_device *device, void *pointer)
{
    struct cuda_export *entry, *found = NULL;

    (void) device;
    pthread_mutex_lock(&exports_lock);
    GPURING_LIST_EACH(entry, &exports, struct cuda_export, node)
    {
        found = entry->base == (CUdeviceptr) (uintptr_t) pointer ? entry : found;
    }
    if (found != NULL) {
        gpuring_list_remove(&found->node);
    }
    pthread_mutex_unlock(&exports_lock);
    free(found);
}

/* Systems without CUDA IPC are ordinary, too: WSL, Tegra. */
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
    CUdeviceptr address = (CUdeviceptr) (uintptr_t) pointer, base = 0;
    struct cuda_handle exported;
    size_t size = 0;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    memset(handle, 0, sizeof *handle);
    status = gpuring_cuda_check(device, device->driver->address_range(&base, &size, address),
                                "find the allocation of a buffer");
    if (status == GPURING_OK) {
        status = get_handle(device, base, &exported.handle);
    }
    gpuring_cuda_leave(device);
    if (status == GPURING_OK) {
        status = remember_export(&exported.handle, base, device->context);
    }
    if (status == GPURING_OK) {
        exported.offset = address - base;
        handle->size = size - exported.offset;
        memcpy(handle->bytes, &exported, sizeof exported);
    }
    return status;
}

/* Refused for many reasons, by as many codes: no path between the GPUs, a GPU that this process
 * does not see (Slurm, cgroups), a namespace of its own. The transport finds another way, and says
 * so. */
static int map_memory(struct gpuring_device *device, const CUipcMemHandle *handle,
                      CUdeviceptr *base)
{
    CUresult result = device->driver->ipc_open(base, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    char text[256];

    if (result == CUDA_SUCCESS) {
        return GPURING_OK;
    }
    gpuring_info("cannot map another process's device memory: %s",
                 gpuring_cuda_error(device->driver, result, text, sizeof text));
    return GPURING_ERR_UNSUPPORTED;
}

/* Open a handle that is not in the list yet; called with the lock held and the context current. */
static int open_handle(struct gpuring_device *device, const CUipcMemHandle *handle,
                       struct cuda_import **import)
{
    struct cuda_import *opened = calloc(1, sizeof *opened);
    CUcontext context;
    int status = GPURING_OK;

    if (opened == NULL) {
        gpuring_error("out of memory for an imported buffer");
        return GPURING_ERR_NOMEM;
    }
    opened->handle = *handle;
    opened->own = find_export(handle, &opened->base, &context);
    if (!opened->own) {
        status = map_memory(device, handle, &opened->base);
    } else if (context != device->context) {
        gpuring_info("this process has the memory of the peer in another context, or on another "
                     "GPU, which do not reach each other");
        status = GPURING_ERR_UNSUPPORTED;
    }
    if (status != GPURING_OK) {
        free(opened);
        return status;
    }
    gpuring_list_prepend(&device->imports, &opened->node);
    *import = opened;
    return GPURING_OK;
}

static struct cuda_import *find_import(struct gpuring_device *device, const CUipcMemHandle *handle)
{
    struct cuda_import *import;

    GPURING_LIST_EACH(import, &device->imports, struct cuda_import, node)
    {
        if (memcmp(&import->handle, handle, sizeof *handle) == 0) {
            return import;
        }
    }
    return NULL;
}

int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer)
{
    struct cuda_import *import;
    struct cuda_handle exported;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    memcpy(&exported, handle->bytes, sizeof exported);
    pthread_mutex_lock(&device->lock);
    import = find_import(device, &exported.handle);
    if (import == NULL) {
        status = open_handle(device, &exported.handle, &import);
    }
    if (status == GPURING_OK) {
        import->users++;
        *pointer = (void *) (uintptr_t) (import->base + exported.offset);
    }
    pthread_mutex_unlock(&device->lock);
    gpuring_cuda_leave(device);
    return status;
}

static void close_import(struct gpuring_device *device, struct cuda_import *import, bool current)
{
    gpuring_list_remove(&import->node);
    if (!import->own && current) {
        (void) gpuring_cuda_check(device, device->driver->ipc_close(import->base),
                                  "unmap another process's device memory");
    }
    free(import);
}

void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer)
{
    CUdeviceptr address = (CUdeviceptr) (uintptr_t) pointer;
    struct cuda_import *import, *found = NULL;

    if (pointer == NULL || !gpuring_cuda_enter_to_release(device)) {
        return;
    }
    pthread_mutex_lock(&device->lock);
    /* The allocation that starts nearest below the address is the one that holds it. */
    GPURING_LIST_EACH(import, &device->imports, struct cuda_import, node)
    {
        if (import->base <= address && (found == NULL || import->base > found->base)) {
            found = import;
        }
    }
    if (found != NULL && --found->users == 0) {
        close_import(device, found, true);
    }
    pthread_mutex_unlock(&device->lock);
    gpuring_cuda_leave(device);
}

void gpuring_cuda_import_close_all(struct gpuring_device *device, bool current)
{
    struct cuda_import *import;

    while ((import = GPURING_LIST_FIRST(&device->imports, struct cuda_import, node)) != NULL) {
        close_import(device, import, current);
    }
}
