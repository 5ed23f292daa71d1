/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Running works on the GPU. All kernels are loaded at the first wire-up of the process (prepare). A
 * driver that loads a kernel at its first launch may wait until the context is idle, which may take
 * as long as other ranks keep a kernel waiting.
 *
 * A kernel returns when its lanes have finished or have waited for the work's patience. poll then
 * launches it again, so that ranks that share a GPU take turns and no kernel waits for another one
 * that cannot be co-resident. The kernel stores its end in the lanes' states, in pinned memory. The
 * driver is only queried for errors if a kernel takes long, and at the end if a host must not
 * access managed memory before the driver knows that all kernels have ended (WSL, Tegra, some
 * virtual GPUs).
 */
#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#include "gpuring_config.h"

#define ASK_NS UINT64_C(1000000)

/* Load all kernels. Called with the lock held and the context current. */
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

/* Load one kernel. Called with the lock held and the context current. */
static int load_function(struct gpuring_device *device, const char *name, CUfunction *function)
{
    CUfunction found = NULL;
    CUresult result = device->driver->module_function(&found, device->module, name);

    if (result == CUDA_SUCCESS && device->driver->function_load != NULL) {
        result = device->driver->function_load(found); /* load it instead of only finding it */
    }
    if (result == CUDA_SUCCESS) {
        *function = found;
    }
    return gpuring_cuda_check(device, result, "load a kernel of the embedded image");
}

int gpuring_cuda_prepare(struct gpuring_device *device)
{
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    status = load_kernels(device);
    for (int i = 0; i < GPURING_KERNELS && status == GPURING_OK; i++) {
        if (device->functions[i] == NULL) {
            status = load_function(device, gpuring_kernel_numbered(i), &device->functions[i]);
        }
    }
    if (status == GPURING_OK && device->move == NULL) {
        status = load_function(device, GPURING_MOVE_KERNEL, &device->move);
    }
    pthread_mutex_unlock(&device->lock);
    gpuring_cuda_leave(device);
    return status;
}

/* Launch a kernel. Called in the device's context. follow: this is the first launch of a work. */
static CUresult launch_kernel(struct gpuring_stream *stream, struct gpuring_work *work,
                              CUfunction function, bool follow)
{
    CUresult result = follow ? gpuring_cuda_follow(stream) : CUDA_SUCCESS;

    work->launch_seq = ++stream->launch_seq;
    stream->asked = gpuring_now_ns();
    gpuring_cuda_linger_launch(stream, work);
    return result != CUDA_SUCCESS ? result
                                  : gpuring_cuda_graph_launch(stream, function, work->nlanes,
                                                              gpuring_kernel_threads(work), work);
}

static int enter_and_launch(struct gpuring_stream *stream, struct gpuring_work *work, bool follow)
{
    struct gpuring_device *device = stream->device;
    int number = gpuring_kernel_number(work->type, work->op, work->protocol);
    int status;

    if (number < 0 || device->functions[number] == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    status = gpuring_cuda_enter(device);
    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check_stream(
        device, launch_kernel(stream, work, device->functions[number], follow), "launch a kernel");
    gpuring_cuda_leave(device);
    return status;
}

int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work)
{
    return gpuring_cuda_linger_command(stream, work) ? GPURING_OK
                                                     : enter_and_launch(stream, work, true);
}

/* Return true if all lanes of the last launch have ended. */
static bool lanes_left(const struct gpuring_work *work)
{
    for (uint32_t i = 0; i < work->nlanes; i++) {
        /* This acquire pairs with the fence at the kernel's end. */
        if (__atomic_load_n(&work->states[i].launch_seq, __ATOMIC_ACQUIRE) != work->launch_seq) {
            return false;
        }
    }
    return true;
}

/* Return the status of the lanes after a kernel has ended. */
static int lanes_status(const struct gpuring_work *work)
{
    int status = GPURING_OK;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        switch (work->states[i].status) {
        case GPURING_LANE_DONE:
            break;
        case GPURING_LANE_RUNNING:
            status = status == GPURING_OK ? GPURING_AGAIN : status;
            break;
        case GPURING_LANE_ABORTED:
            status = GPURING_ERR_ABORTED;
            break;
        default:
            gpuring_error("[counts-differ] lane %u step %u: a slot of connection %u has a "
                          "different size from that of this rank's call; all ranks must pass "
                          "the same count and datatype",
                          i, work->states[i].step, work->states[i].wait_ref);
            return GPURING_ERR_COUNTS;
        }
    }
    return status;
}

int gpuring_cuda_query(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status == GPURING_OK) {
        status = gpuring_cuda_check_stream(
            device, device->driver->stream_query(stream->stream),
            "run a kernel; the GPU reports an error of an earlier launch");
        gpuring_cuda_leave(device);
    }
    return status;
}

int gpuring_cuda_kernel_lost(void)
{
    gpuring_error("[kernel-lost] a kernel has ended without a sign in host memory: the memory was "
                  "unmapped, or the GPU was reset; restart the job");
    return GPURING_ERR_IO;
}

/* Query the driver for an error, because the kernel has not stored its end for a long time. */
static int ask_driver(struct gpuring_stream *stream, const struct gpuring_work *work)
{
    int status = gpuring_cuda_query(stream);

    if (status == GPURING_OK && gpuring_cuda_linger_missed(stream)) {
        return GPURING_AGAIN; /* the kernel has ended before it could take the work */
    }
    return status == GPURING_OK && !lanes_left(work) ? gpuring_cuda_kernel_lost() : status;
}

int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work)
{
    int status = GPURING_OK;

    if (!lanes_left(work)) {
        uint64_t now = gpuring_now_ns();

        if (gpuring_cuda_linger_missed(stream)) { /* the default stream was idle at the command */
            status = enter_and_launch(stream, work, false);
            return status == GPURING_OK ? GPURING_AGAIN : status;
        }
        if (now - stream->asked < ASK_NS) {
            return GPURING_AGAIN;
        }
        stream->asked = now;
        status = ask_driver(stream, work);
    }
    if (status == GPURING_OK) {
        status = lanes_status(work);
        if (status == GPURING_AGAIN) {
            int launched;

            work->resumed++;
            launched = enter_and_launch(stream, work, false);
            return launched == GPURING_OK ? GPURING_AGAIN : launched;
        }
        if (status == GPURING_OK && stream->device->needs_driver_completion) {
            status = ask_driver(stream, work);
        }
        gpuring_cuda_linger_end(stream);
    }
    return status; /* GPURING_AGAIN while it runs */
}
