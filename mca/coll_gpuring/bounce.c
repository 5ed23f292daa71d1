/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/bounce.h"

#include "mca/coll_gpuring/eligible.h"
#include "mca/coll_gpuring/service.h"
#include "mca/coll_gpuring/util/status.h"

static bool reached(const struct gpuring_service *service, int gpu)
{
    return service->device_ops->kind == GPURING_DEVICE_HOST || gpu == service->gpu;
}

int gpuring_bounce_start(struct gpuring_service *service, const struct gpuring_call *call,
                         const void **input, void **output)
{
    const struct gpuring_device_ops *ops = service->device_ops;
    size_t bytes = call->count * call->element_size;
    bool in_place = call->input == call->output;
    int status = GPURING_OK;

    *input = call->input;
    *output = call->output;
    if (bytes == 0) {
        return GPURING_OK;
    }
    if (!reached(service, call->output_gpu)) {
        status = ops->alloc(service->device, bytes, &service->bounce_output);
        *output = service->bounce_output;
    }
    if (status == GPURING_OK && in_place) {
        *input = *output;
    } else if (status == GPURING_OK && !reached(service, call->input_gpu)) {
        status = ops->alloc(service->device, bytes, &service->bounce_input);
        *input = service->bounce_input;
    }
    if (status == GPURING_OK && *input != call->input) {
        status = ops->copy(service->stream, (void *) (uintptr_t) *input, call->input, bytes);
    }
    return status;
}

int gpuring_bounce_deliver(struct gpuring_service *service, const struct gpuring_call *call)
{
    int status;

    if (service->bounce_output == NULL) {
        return GPURING_OK;
    }
    status = service->device_ops->copy(service->stream, call->output, service->bounce_output,
                                       call->count * call->element_size);
    return status == GPURING_OK ? service->device_ops->synchronize(service->stream) : status;
}

void gpuring_bounce_end(struct gpuring_service *service)
{
    service->device_ops->free(service->device, service->bounce_input);
    service->device_ops->free(service->device, service->bounce_output);
    service->bounce_input = NULL;
    service->bounce_output = NULL;
}
