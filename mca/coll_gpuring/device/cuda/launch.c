/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Running works on the GPU. The kernels are loaded at the first launch, functions looked up at
 * their first use. A kernel returns when its lanes are done or have waited for the work's
 * patience; poll then launches it again, so that ranks which share a GPU take turns and no kernel
 * waits for one that cannot be resident beside it.
 */
#include <stdlib.h>

#include "kernels/image.h"
#include "mca/coll_gpuring/device/cuda/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define NFUNCTIONS ((size_t) GPURING_TYPE_COUNT * GPURING_OP_COUNT * GPURING_PROTOCOL_COUNT)

/* Called with the lock held and the context current. */
static int load_kernels(struct gpuring_device *device)
{
    int status;

    if (device->module != NULL) {
        return GPURING_OK;
    }
    device->functions = calloc(NFUNCTIONS, sizeof *device->functions);
    if (device->functions == NULL) {
        gpuring_error("out of memory for the table of kernels");
        return GPURING_ERR_NOMEM;
    }
    status = gpuring_cuda_check(device,
                                device->driver->module_load(&device->module, gpuring_kernel_image),
                                "load the kernels (was coll/gpuring built for this GPU, see "
                                "--with-cuda-arch, and by a CUDA "
                                "toolkit that is not newer than the driver?)");
    if (status != GPURING_OK) {
        free(device->functions);
        device->functions = NULL;
        device->module = NULL;
    }
    return status;
}

static int find_function(struct gpuring_device *device, const struct gpuring_work *work,
                         CUfunction *function)
{
    const char *name = gpuring_kernel_name(work->type, work->op, work->protocol);
    size_t at = ((size_t) work->type * GPURING_OP_COUNT + work->op) * GPURING_PROTOCOL_COUNT +
                work->protocol;
    int status = GPURING_OK;

    if (name == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    pthread_mutex_lock(&device->lock);
    status = load_kernels(device);
    if (status == GPURING_OK && device->functions[at] == NULL) {
        status = gpuring_cuda_check(
            device, device->driver->module_function(&device->functions[at], device->module, name),
            "find a kernel in the embedded image");
    }
    if (status == GPURING_OK) {
        *function = device->functions[at];
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

int gpuring_cuda_launch(struct gpuring_stream *stream, struct gpuring_work *work)
{
    struct gpuring_device *device = stream->device;
    void *arguments[] = {&work};
    CUfunction function = NULL;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status = find_function(device, work, &function);
    if (status == GPURING_OK) {
        status = gpuring_cuda_check_stream(device,
                                           device->driver->launch(function, work->nlanes, 1, 1,
                                                                  GPURING_KERNEL_THREADS, 1, 1, 0,
                                                                  stream->stream, arguments, NULL),
                                           "launch a kernel");
    }
    if (status == GPURING_OK) {
        status = gpuring_cuda_check(
            device, device->driver->event_record(stream->event, stream->stream), "record an event");
    }
    gpuring_cuda_leave(device);
    return status;
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
            gpuring_error("lane %u found an impossible FIFO state: memory was overwritten", i);
            return GPURING_ERR_DATA;
        }
    }
    return status;
}

int gpuring_cuda_poll(struct gpuring_stream *stream, struct gpuring_work *work)
{
    struct gpuring_device *device = stream->device;
    int status = gpuring_cuda_enter(device);

    if (status != GPURING_OK) {
        return status;
    }
    status =
        gpuring_cuda_check_stream(device, device->driver->event_query(stream->event),
                                  "run a kernel; the GPU reports an error of an earlier launch");
    gpuring_cuda_leave(device);
    if (status != GPURING_OK) {
        return status; /* GPURING_AGAIN while it runs */
    }
    status = lanes_status(work);
    if (status == GPURING_AGAIN) {
        int launched = gpuring_cuda_launch(stream, work);

        return launched == GPURING_OK ? GPURING_AGAIN : launched;
    }
    return status;
}

void gpuring_cuda_unload_kernels(struct gpuring_device *device, bool current)
{
    if (device->module != NULL && current) {
        (void) device->driver->module_unload(device->module);
    }
    free(device->functions);
    device->module = NULL;
    device->functions = NULL;
}
