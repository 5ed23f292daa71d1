/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Inside of the CUDA device: shared by the files of device/cuda only. */
#ifndef GPURING_DEVICE_CUDA_INTERNAL_H
#define GPURING_DEVICE_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/driver.h"
#include "mca/coll_gpuring/device/device.h"

/*
 * One GPU in use by this process, attached to a context that is not ours: it is never created,
 * retained or destroyed here, only pushed around our calls and popped again. The application has to
 * keep it. Once the context is lost, only copies between host memory and buffers of other contexts
 * work, on streams that are made afterwards.
 */
struct gpuring_device {
    const struct gpuring_cuda_driver *driver; /* NULL until attached */
    CUcontext context;
    unsigned long long context_id; /* its number, if it is identified */
    bool identified;
    bool primary; /* if not: it is the GPU's primary one */
    CUdevice gpu;
    int ordinal;                  /* of the GPU, as the driver numbers it */
    bool mps;                     /* processes use it side by side */
    bool needs_driver_completion; /* a kernel has ended when the driver says so, not before: see
                                     launch.c */
    bool destroyed;               /* atomic: the driver has said that the context is */
    bool reported;                /* atomic: and the user was told */
    bool saw_foreign_context;     /* atomic: buffers of other contexts or GPUs were seen */
    uintptr_t first;              /* atomic: the first context or GPU that a pointer was of */
    int slow_copies;              /* atomic: their weight, see cuda_copy.c */
    CUmodule module;              /* the kernels, loaded at wire-up */
    CUfunction functions[GPURING_KERNELS]; /* likewise, constant afterwards; NULL: not loaded */
    CUstream uploads;                      /* for memset and upload */
    pthread_mutex_t lock;                  /* guards module and functions until then */
};

struct gpuring_stream {
    struct gpuring_device *device;
    CUstream stream;              /* NULL: made after the device's own context was lost */
    CUevent event;                /* by which it follows the default stream; NULL: it does not */
    uint32_t launch_seq;          /* of the last launch */
    uint64_t asked;               /* when the driver was asked last, or the launch made, ns */
    bool copies;                  /* on `stream` that were begun, and not seen to end */
    uint64_t copy_begun;          /* when the one that is timed was, ns; 0: none is */
    struct gpuring_launch launch; /* its parameters */
};

/* device/cuda/context.c */

/*
 * Make a context current; every successful enter is paired with leave, on the same thread and not
 * nested. Meanwhile calls are allowed although another thread captures a stream into a graph: the
 * driver would refuse what touches no captured stream, as ours do, too.
 */
int gpuring_cuda_enter(struct gpuring_device *device); /* the device's own */
int gpuring_cuda_enter_other(struct gpuring_device *device, CUcontext context);
/* The device's own before something is given back, which is not tried again later: a second try at
 * once, and no message. */
bool gpuring_cuda_enter_to_release(struct gpuring_device *device);
void gpuring_cuda_leave(const struct gpuring_device *device);
/* The same for a launch alone, which no capture forbids. */
int gpuring_cuda_enter_launch(struct gpuring_device *device);
void gpuring_cuda_leave_launch(const struct gpuring_device *device);

/* Both without a device. */
CUresult gpuring_cuda_push(const struct gpuring_cuda_driver *driver, CUcontext context);
void gpuring_cuda_pop(const struct gpuring_cuda_driver *driver);

/* A context in which this memory of a GPU can be used: its own, or for memory that has none one of
 * its GPU: the calling thread's, or the primary one if that is active. false: there is none. */
bool gpuring_cuda_context_of(const struct gpuring_cuda_driver *driver, CUdevice gpu,
                             const struct gpuring_pointer *pointer, CUcontext *context);

/* 0, or a status for the driver's result after one log line "cannot <what>: <error>; <remedy>". */
int gpuring_cuda_check(struct gpuring_device *device, CUresult result, const char *what);

/* The same for a use of the device's own streams, events and kernels: a driver that does not know
 * them has lost the context. After cudaDeviceReset the primary context has its old handle. */
int gpuring_cuda_check_stream(struct gpuring_device *device, CUresult result, const char *what);

/* What the device's context is, to know it again. */
void gpuring_cuda_identify(struct gpuring_device *device);

/* Does the answer to a use of a stream say so? And take that for known, without a message: nothing
 * is lost by what is only given back. */
bool gpuring_cuda_says_lost(CUresult result);
/* Has the application destroyed or reset the device's own context, as far as is known? And report
 * that, once; returns GPURING_ERR_CONTEXT. */
bool gpuring_cuda_is_lost(const struct gpuring_device *device);
int gpuring_cuda_report_lost(struct gpuring_device *device);
void gpuring_cuda_lost(struct gpuring_device *device);

/* 0 also if the driver does not know it. */
uint32_t gpuring_cuda_attribute(const struct gpuring_device *device, CUdevice_attribute name);

/* device/cuda/nic.c */
int gpuring_cuda_nic_access(struct gpuring_device *device, void *memory, size_t bytes,
                            struct gpuring_device_nic *access);

/* device/cuda/pointer.c */
struct gpuring_pointer gpuring_cuda_classify(struct gpuring_device *device, const void *pointer);
bool gpuring_cuda_reaches(const struct gpuring_device *device,
                          const struct gpuring_pointer *pointer);

/* device/cuda/order.c: synchronous operations on this memory of a GPU end before they return, from
 * now on, and those that were begun have ended. For memory whose attributes do not say so yet. */
void gpuring_cuda_force_sync_memops(const struct gpuring_cuda_driver *driver,
                                    const struct gpuring_pointer *pointer, CUdeviceptr address);

/*
 * device/cuda/default_stream.c: order after what the application has begun on its default stream,
 * by coll_gpuring_default_stream. A function returns the driver's first error.
 */
void gpuring_cuda_default_stream(enum gpuring_default_stream chosen);
/* The event of a stream that is made in the current context; NULL if none is needed. */
CUresult gpuring_cuda_follow_create(const struct gpuring_cuda_driver *driver, CUevent *event);
/* Let the stream wait for the default stream of the device's context, which is current, or warn. */
CUresult gpuring_cuda_follow(struct gpuring_stream *stream);
/* Return true if the next gpuring_cuda_follow queries the default stream: enter with
 * gpuring_cuda_enter, because captures forbid queries. */
bool gpuring_cuda_follow_queries(void);
/* Let a stream wait for the default stream of the current context, in which it was made. */
CUresult gpuring_cuda_follow_other(const struct gpuring_cuda_driver *driver, CUstream stream);
/* Let the stream wait for the default stream of another context. */
CUresult gpuring_cuda_follow_context(const struct gpuring_stream *stream, CUcontext context);

/* device/cuda/ipc.c */
int gpuring_cuda_export(struct gpuring_device *device, void *pointer,
                        struct gpuring_device_handle *handle);
int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer);
void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer);

/* device/cuda/cuda_copy.c */
int gpuring_cuda_stream_create(struct gpuring_device *device, struct gpuring_stream **stream);
bool gpuring_cuda_stream_works(const struct gpuring_stream *stream);
void gpuring_cuda_stream_destroy(struct gpuring_stream *stream);
int gpuring_cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes);
int gpuring_cuda_copy_rows(struct gpuring_stream *stream, void *to, size_t to_pitch,
                           const void *from, size_t from_pitch, size_t bytes, size_t rows);
int gpuring_cuda_copied(struct gpuring_stream *stream);
int gpuring_cuda_synchronize(struct gpuring_stream *stream);

/* device/cuda/launch.c */
int gpuring_cuda_prepare(struct gpuring_device *device);
int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work);
int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work);

#endif
