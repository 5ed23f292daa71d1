/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Running works on the GPU. The kernels are loaded at wire-up (prepare), functions looked up at
 * their first use. A kernel returns when its lanes are done or have waited for the work's
 * patience; poll then launches it again, so that ranks which share a GPU take turns and no kernel
 * waits for one that cannot be resident beside it. The end of a kernel shows in the lanes, in
 * pinned memory: the driver is asked only where that takes long, for errors. And at the end, where
 * a host must not touch any managed memory before the driver knows that all kernels have ended
 * (WSL, Tegra, some virtual GPUs).
 */
#include <string.h>

#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#include "gpuring_config.h"

#define ASK_NS UINT64_C(1000000)

/* Called with the lock held and the context current. */
static int load_kernels(struct gpuring_device *device)
{
    CUmodule module = NULL;
    CUresult result;
    char text[256];

    if (device->module != NULL) {
        return GPURING_OK;
    }
    result = device->driver->module_load(&module, gpuring_kernel_image);
    if (result == CUDA_SUCCESS) {
        device->module = module;
    }
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
        result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        return gpuring_cuda_check(device, result, "load the kernels");
    }
    gpuring_error("[kernels-refused] the driver does not load the kernels: %s; this build needs a "
                  "driver of version %s or newer (nvidia-smi shows it) and a GPU of one of these "
                  "compute capabilities or newer:%s; or build it with an older CUDA toolkit "
                  "(--with-cuda=DIR)",
                  gpuring_cuda_error(device->driver, result, text, sizeof text),
                  GPURING_CUDA_DRIVER, GPURING_CUDA_ARCH);
    return GPURING_ERR_IO;
}

/* Called with the lock held. */
static int load_function(struct gpuring_device *device, const char *name, CUfunction *function)
{
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = load_kernels(device);
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(device,
                                    device->driver->module_function(function, device->module, name),
                                    "find a kernel in the embedded image");
    }
    gpuring_cuda_leave(device);
    return status;
}

static int find_function(struct gpuring_device *device, uint32_t type, uint32_t op,
                         uint32_t protocol, CUfunction *function)
{
    const char *name = gpuring_kernel_name(type, op, protocol);
    int status = GPURING_OK;

    if (name == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    pthread_mutex_lock(&device->lock);
    if (device->functions[type][op][protocol] == NULL) {
        status = load_function(device, name, &device->functions[type][op][protocol]);
    }
    *function = device->functions[type][op][protocol];
    pthread_mutex_unlock(&device->lock);
    return status;
}

int gpuring_cuda_prepare(struct gpuring_device *device)
{
    CUfunction function;

    return find_function(device, GPURING_TYPE_FLOAT, GPURING_OP_SUM, GPURING_PROTOCOL_SIMPLE,
                         &function);
}

int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work)
{
    struct gpuring_device *device = stream->device;
    void *arguments[] = {&stream->launch}; /* which the driver copies: see kernels/image.h */
    size_t first = work->nlanes < GPURING_LAUNCH_LANES ? work->nlanes : GPURING_LAUNCH_LANES;
    CUfunction function = NULL;
    int status = find_function(device, work->type, work->op, work->protocol, &function);

    if (status == GPURING_OK) {
        status = gpuring_cuda_enter_launch(device);
    }
    if (status != GPURING_OK) {
        return status;
    }
    work->turn = ++stream->turn;
    stream->launch.work = *work;
    memcpy(stream->launch.lanes, work->lanes, first * sizeof *work->lanes);
    stream->asked = gpuring_now_ns();
    status = gpuring_cuda_check_stream(device,
                                       device->driver->launch(function, work->nlanes, 1, 1,
                                                              GPURING_KERNEL_THREADS, 1, 1, 0,
                                                              stream->stream, arguments, NULL),
                                       "launch a kernel");
    gpuring_cuda_leave_launch(device);
    return status;
}

/* Has the kernel of the last launch left all lanes? */
static bool lanes_left(const struct gpuring_work *work)
{
    for (uint32_t i = 0; i < work->nlanes; i++) {
        /* Acquire: pairs with the fence at the kernel's end. */
        if (__atomic_load_n(&work->lanes[i].turn, __ATOMIC_ACQUIRE) != work->turn) {
            return false;
        }
    }
    return true;
}

/* What the lanes say after a kernel has ended. */
static int lanes_status(const struct gpuring_work *work)
{
    int status = GPURING_OK;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        switch (work->lanes[i].status) {
        case GPURING_LANE_DONE:
            break;
        case GPURING_LANE_RUNNING:
            status = status == GPURING_OK ? GPURING_AGAIN : status;
            break;
        case GPURING_LANE_ABORTED:
            status = GPURING_ERR_ABORTED;
            break;
        default:
            gpuring_error("[counts-differ] lane %u step %u: a slot of connection %u holds another "
                          "size than this rank's call has; all ranks must give the same count and "
                          "datatype",
                          i, work->lanes[i].step, work->lanes[i].wait_ref);
            return GPURING_ERR_COUNTS;
        }
    }
    return status;
}

/* The kernel has not shown its end for long: does the driver know of an error? */
static int ask(struct gpuring_stream *stream, const struct gpuring_work *work)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status =
        gpuring_cuda_check_stream(device, device->driver->stream_query(stream->stream),
                                  "run a kernel; the GPU reports an error of an earlier launch");
    gpuring_cuda_leave(device);
    if (status == GPURING_OK && !lanes_left(work)) {
        gpuring_error("[kernel-lost] a kernel has ended, and host memory does not show it: the "
                      "memory was unmapped, or the GPU reset; restart the job");
        return GPURING_ERR_IO;
    }
    return status;
}

int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work)
{
    int status = GPURING_OK;

    if (!lanes_left(work)) {
        uint64_t now = gpuring_now_ns();

        if (now - stream->asked < ASK_NS) {
            return GPURING_AGAIN;
        }
        stream->asked = now;
        status = ask(stream, work);
    }
    if (status == GPURING_OK) {
        status = lanes_status(work);
        if (status == GPURING_AGAIN) {
            int launched;

            work->resumed++;
            launched = gpuring_cuda_launch(stream, work);
            return launched == GPURING_OK ? GPURING_AGAIN : launched;
        }
        if (status == GPURING_OK && stream->device->told) {
            status = ask(stream, work);
        }
    }
    return status; /* GPURING_AGAIN while it runs */
}
