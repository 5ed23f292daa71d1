/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Inside of the CUDA device: shared by device/cuda_*.c and device_cuda.c only. */
#ifndef GPURING_CUDA_INTERNAL_H
#define GPURING_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "mca/coll_gpuring/device/cuda_driver.h"
#include "mca/coll_gpuring/device/device.h"

struct cuda_import; /* cuda_ipc.c */

/* One GPU in use by this process, attached to a context that is not ours: it is never created,
 * retained or destroyed here, only pushed around our calls and popped again. */
struct gpuring_device {
    const struct gpuring_cuda_driver *driver; /* NULL until attached */
    CUcontext context;
    CUdevice gpu;
    CUmodule module; /* the kernels, loaded at the first launch */
    CUfunction *functions;
    CUstream uploads;            /* for memset and upload */
    pthread_mutex_t lock;        /* guards module, functions and imports */
    struct cuda_import *imports; /* opened IPC handles */
};

struct gpuring_stream {
    struct gpuring_device *device;
    CUstream stream;
    CUevent event; /* recorded after the last launch */
};

/* Make the device's context current; every successful enter is paired with leave. */
int gpuring_cuda_enter(const struct gpuring_device *device);
/* The same before something is given back, which is not tried again later: a second try at once. */
bool gpuring_cuda_enter_to_release(const struct gpuring_device *device);
void gpuring_cuda_leave(const struct gpuring_device *device);

/* 0, or a status for the driver's result after one log line "cannot <what>: <error>; <remedy>". */
int gpuring_cuda_check(const struct gpuring_device *device, CUresult result, const char *what);

/* 0 also if the driver does not tell. */
uint32_t gpuring_cuda_attribute(const struct gpuring_device *device, CUdevice_attribute name);

/* cuda_nic.c */
int gpuring_cuda_nic_access(struct gpuring_device *device, void *memory, size_t bytes,
                            struct gpuring_device_nic *access);

/* cuda_pointer.c */
struct gpuring_pointer gpuring_cuda_classify(struct gpuring_device *device, const void *pointer);

/* cuda_ipc.c */
int gpuring_cuda_export(struct gpuring_device *device, void *pointer,
                        struct gpuring_device_handle *handle);
int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer);
void gpuring_cuda_unexport(struct gpuring_device *device, void *pointer);
void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer);
void gpuring_cuda_import_close_all(struct gpuring_device *device);

/* cuda_launch.c */
int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work);
int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work);
void gpuring_cuda_unload_kernels(struct gpuring_device *device);

#endif
