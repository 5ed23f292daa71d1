/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Shared by the files of the CUDA device. */
#ifndef GPURING_DEVICE_CUDA_INTERNAL_H
#define GPURING_DEVICE_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/driver.h"
#include "mca/coll_gpuring/device/device.h"

/*
 * The GPU of this process, attached to a context of the application. We never create, retain or
 * destroy this context, and only push it before our calls and pop it afterwards. The application
 * must keep it. After the context is lost, only copies between host memory and buffers of other
 * contexts work, on streams that are created afterwards.
 */
struct gpuring_device {
    const struct gpuring_cuda_driver *driver; /* NULL until attached */
    CUcontext context;
    unsigned long long context_id; /* number of the context, if identified */
    bool identified;
    bool primary; /* the context is the GPU's primary one; only set if not identified */
    CUdevice gpu;
    int ordinal;                  /* the driver's number of the GPU */
    bool mps;                     /* MPS lets several processes use it simultaneously */
    bool needs_driver_completion; /* only the driver knows when a kernel has ended: see launch.c */
    bool destroyed;           /* atomic: the driver has reported that the context is destroyed */
    bool reported;            /* atomic: this was reported to the user */
    bool saw_foreign_context; /* atomic: there are buffers of other contexts or GPUs */
    uintptr_t first;          /* atomic: the first context or GPU of a pointer */
    int slow_copies;          /* atomic: weight of slow copies, see cuda_copy.c */
    CUmodule module;          /* the kernels, loaded at wire-up */
    CUfunction functions[GPURING_KERNELS]; /* loaded at wire-up, then constant; NULL: not loaded */
    CUfunction move;                       /* the same of the kernel that copies, see move.c */
    CUstream uploads;                      /* for memset and upload */
    pthread_mutex_t lock;                  /* guards module and functions while they are loaded */
};

struct gpuring_linger;

struct gpuring_stream {
    struct gpuring_device *device;
    CUstream stream;               /* NULL: created after the device's context was lost */
    CUevent event;                 /* used to follow the default stream; NULL: it does not follow */
    uint32_t launch_seq;           /* of the last launch */
    uint64_t asked;                /* time of the last query of the driver or launch, ns */
    bool copies;                   /* `stream` has copies whose end has not been detected */
    uint64_t copy_begun;           /* start of the timed copy, ns; 0: none is timed */
    struct gpuring_linger *linger; /* NULL: its kernels do not linger */
    CUgraph graph;                 /* of one kernel, see graph.c; NULL: none */
    CUgraphNode node;
    CUgraphExec executable;
    bool plain; /* the driver refuses such graphs, so kernels are launched without */
};

/* device/cuda/context.c */

/*
 * Make a context current. Call leave after every successful enter, on the same thread and not
 * nested. Between the two calls, the driver allows our calls even while another thread captures a
 * stream into a graph. It would otherwise refuse them, although they use no captured stream.
 */
int gpuring_cuda_enter(struct gpuring_device *device); /* the device's context */
int gpuring_cuda_enter_other(struct gpuring_device *device, CUcontext context);
/* Enter the device's context to release resources. Because a release is not repeated later, try a
 * second time immediately, and print no message. */
bool gpuring_cuda_enter_to_release(struct gpuring_device *device);
/* Enter and leave without a device. */
CUresult gpuring_cuda_push(const struct gpuring_cuda_driver *driver, CUcontext context);
extern _Thread_local CUstreamCaptureMode gpuring_cuda_capture_mode; /* the application's */
static inline void gpuring_cuda_pop(const struct gpuring_cuda_driver *driver)
{
    CUcontext popped;

    (void) driver->capture_mode(&gpuring_cuda_capture_mode);
    (void) driver->ctx_pop(&popped);
}
static inline void gpuring_cuda_leave(const struct gpuring_device *device)
{
    gpuring_cuda_pop(device->driver);
}

/* Find a context in which this GPU memory can be used: its own, or for memory without a context one
 * of its GPU, either the calling thread's or the primary one if that is active. False: there is
 * none. */
bool gpuring_cuda_context_of(const struct gpuring_cuda_driver *driver, CUdevice gpu,
                             const struct gpuring_pointer *pointer, CUcontext *context);

/* Return 0, or a status for the driver's result, with a log line "cannot <what>: <error>;
 * <remedy>". */
int gpuring_cuda_check(struct gpuring_device *device, CUresult result, const char *what);

/* Do the same for an operation on the device's streams, events and kernels. If the driver does not
 * know them, the context was lost, even though the primary context keeps its handle after
 * cudaDeviceReset. */
int gpuring_cuda_check_error(struct gpuring_device *device, CUresult result, const char *what);
static inline int gpuring_cuda_check_stream(struct gpuring_device *device, CUresult result,
                                            const char *what)
{
    return result == CUDA_SUCCESS ? 0 : gpuring_cuda_check_error(device, result, what);
}

/* Record the identity of the device's context, to recognise it later. */
void gpuring_cuda_identify(struct gpuring_device *device);

/* Return true if the result of an operation on a stream means that the context was lost.
 * gpuring_cuda_lost records this without a message, because only resources are being released. */
bool gpuring_cuda_says_lost(CUresult result);
/* Return true if the application is known to have destroyed or reset the device's context.
 * gpuring_cuda_report_lost reports this once and returns GPURING_ERR_CONTEXT. */
bool gpuring_cuda_is_lost(const struct gpuring_device *device);
bool gpuring_cuda_stream_works(const struct gpuring_stream *stream);
int gpuring_cuda_report_lost(struct gpuring_device *device);
void gpuring_cuda_lost(struct gpuring_device *device);

/* Return an attribute, or 0 if it is 0 or the driver does not know it. */
uint32_t gpuring_cuda_attribute(const struct gpuring_device *device, CUdevice_attribute name);

/* device/cuda/nic.c */
int gpuring_cuda_nic_access(struct gpuring_device *device, void *memory, size_t bytes,
                            struct gpuring_device_nic *access);

/* device/cuda/pointer.c */
struct gpuring_pointer gpuring_cuda_classify(struct gpuring_device *device, const void *pointer);
struct gpuring_pointer gpuring_cuda_locate(struct gpuring_device *device, const void *pointer);
bool gpuring_cuda_reaches(const struct gpuring_device *device,
                          const struct gpuring_pointer *pointer);

/* device/cuda/order.c: from now on, synchronous operations on this GPU memory complete before they
 * return, and earlier ones have completed. Called for memory whose attributes do not show this yet.
 */
void gpuring_cuda_force_sync_memops(const struct gpuring_cuda_driver *driver,
                                    const struct gpuring_pointer *pointer, CUdeviceptr address);

/*
 * device/cuda/default_stream.c: order after the application's work on its default stream, according
 * to coll_gpuring_default_stream. The functions return the driver's first error.
 */
void gpuring_cuda_default_stream(enum gpuring_default_stream chosen);
/* Create the event for a stream that is created in the current context; NULL if none is needed. */
CUresult gpuring_cuda_follow_create(const struct gpuring_cuda_driver *driver, CUevent *event);
/* Let the stream wait for the default stream of the device's context, which is current, or warn. */
CUresult gpuring_cuda_follow(struct gpuring_stream *stream);
/* Return true if the next gpuring_cuda_follow queries the default stream, to warn. */
bool gpuring_cuda_follow_queries(void);
/* Return true if the default stream of the device's context, which is current, has no work for
 * which the stream would wait. */
bool gpuring_cuda_follow_idle(const struct gpuring_stream *stream);
/* Let a stream wait for the default stream of the current context, in which it was created. */
CUresult gpuring_cuda_follow_other(const struct gpuring_cuda_driver *driver, CUstream stream);
/* Let the stream wait for the default stream of another context. */
CUresult gpuring_cuda_follow_context(const struct gpuring_stream *stream, CUcontext context);

/* device/cuda/ipc.c */
int gpuring_cuda_export(struct gpuring_device *device, void *pointer,
                        struct gpuring_device_handle *handle);
int gpuring_cuda_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                        void **pointer);
void gpuring_cuda_unimport(struct gpuring_device *device, void *pointer);
int gpuring_cuda_allocation(struct gpuring_device *device, const void *buffer, void **base);

/* device/cuda/cuda_copy.c */
int gpuring_cuda_stream_create(struct gpuring_device *device, struct gpuring_stream **stream);
void gpuring_cuda_stream_destroy(struct gpuring_stream *stream);
int gpuring_cuda_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes);
int gpuring_cuda_copy_runs(struct gpuring_stream *stream, const void *user, const void *other,
                           const struct gpuring_runs *runs, unsigned how);
int gpuring_cuda_copied(struct gpuring_stream *stream);
int gpuring_cuda_synchronize(struct gpuring_stream *stream);

/* device/cuda/graph.c: launch a kernel with one parameter in the stream's context, which is
 * current. stream->launch_seq is the number of this launch. */
CUresult gpuring_cuda_graph_launch(struct gpuring_stream *stream, CUfunction function,
                                   uint32_t blocks, uint32_t threads, const void *parameter);
/* Release the stream's graph. */
void gpuring_cuda_graph_destroy(const struct gpuring_stream *stream);

/* device/cuda/linger.c */

int gpuring_cuda_linger(struct gpuring_stream *stream, struct gpuring_command *command, int us);
/* Request a kernel that lingers to end, because other work of the stream follows. */
void gpuring_cuda_linger_end_early(struct gpuring_stream *stream);
static inline void gpuring_cuda_linger_leave(struct gpuring_stream *stream)
{
    if (stream->linger != NULL) {
        gpuring_cuda_linger_end_early(stream);
    }
}
/* Start the work on a kernel that lingers. Return false if there is none, or if the work does not
 * fit. The work must then be launched. */
bool gpuring_cuda_linger_command(struct gpuring_stream *stream, struct gpuring_work *work);
/* Return true if the kernel has ended without running the last command, and never will. */
bool gpuring_cuda_linger_missed(const struct gpuring_stream *stream);
/* Set whether the kernel of a work lingers, before it is launched with the stream's launch number.
 */
void gpuring_cuda_linger_launch(struct gpuring_stream *stream, struct gpuring_work *work);
/* Record that the lanes of the stream's work have ended. */
void gpuring_cuda_linger_end(struct gpuring_stream *stream);

/* device/cuda/launch.c */
int gpuring_cuda_prepare(struct gpuring_device *device);
int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work);
int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work);
/* Query the driver whether all work of the stream has ended, or for an error. */
int gpuring_cuda_query(struct gpuring_stream *stream);
/* Report a kernel that the driver no longer runs, but that has not stored its end. Returns
 * GPURING_ERR_IO. */
int gpuring_cuda_kernel_lost(void);

/* device/cuda/move.c */
bool gpuring_cuda_moves(const struct gpuring_device *device);
int gpuring_cuda_move(struct gpuring_stream *stream, const struct gpuring_move *move);
int gpuring_cuda_moved(struct gpuring_stream *stream, const struct gpuring_move *move);

/* device/cuda/enqueue.c */
int gpuring_cuda_stream_owner(void *stream, struct gpuring_pointer *owner);
int gpuring_cuda_enqueue(struct gpuring_device *device, void *stream, struct gpuring_work *work,
                         struct gpuring_work *in_graph, bool *captured);
int gpuring_cuda_enqueue_copy(struct gpuring_device *device, void *stream, void *to,
                              const void *from, size_t bytes);
int gpuring_cuda_captures(struct gpuring_device *device, void *stream, bool *captured);

#endif
