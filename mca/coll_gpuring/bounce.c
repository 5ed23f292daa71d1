/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/bounce.h"

#include "mca/coll_gpuring/eligible.h"
#include "mca/coll_gpuring/service.h"
#include "mca/coll_gpuring/util/status.h"

#define SMALLEST ((size_t) 64 << 10) /* that is allocated to be kept; larger ones double */

static bool reached(const struct gpuring_service *service, const struct gpuring_pointer *at)
{
    return service->device_ops->reaches(service->device, at);
}

/* Memory to be kept, of at least so many bytes; what it held is of no interest. */
static int grow(const struct gpuring_service *service, struct gpuring_bounce *bounce, size_t bytes)
{
    size_t room = SMALLEST;
    int status;

    while (room < bytes) {
        room *= 2;
    }
    service->device_ops->free(service->device, bounce->kept);
    *bounce = (struct gpuring_bounce){.kept = NULL};
    status = service->device_ops->alloc(service->device, room, &bounce->kept);
    bounce->room = status == GPURING_OK ? room : 0;
    return status;
}

/* Room for a copy. */
static int take(const struct gpuring_service *service, struct gpuring_bounce *bounce, size_t bytes,
                void **memory)
{
    int status = GPURING_OK;

    if (bytes > GPURING_BOUNCE_KEEP) {
        status = service->device_ops->alloc(service->device, bytes, &bounce->large);
        *memory = bounce->large;
        return status;
    }
    if (bytes > bounce->room) {
        status = grow(service, bounce, bytes);
    }
    *memory = bounce->kept;
    return status;
}

int gpuring_bounce_start(struct gpuring_service *service, const struct gpuring_call *call,
                         const void **input, void **output)
{
    size_t bytes = call->count * call->element_size;
    bool in_place = call->input == call->output;
    int status = GPURING_OK;

    *input = call->input;
    *output = call->output;
    if (bytes == 0) {
        return GPURING_OK;
    }
    if (!reached(service, &call->output_at)) {
        status = take(service, &service->bounce_output, bytes, output);
    }
    if (status == GPURING_OK && in_place) {
        *input = *output;
    } else if (status == GPURING_OK && !reached(service, &call->input_at)) {
        void *copy;

        status = take(service, &service->bounce_input, bytes, &copy);
        *input = copy;
    }
    if (status == GPURING_OK && *input != call->input) {
        status = service->device_ops->copy(service->stream, (void *) (uintptr_t) *input,
                                           call->input, bytes);
    }
    return status;
}

int gpuring_bounce_deliver(struct gpuring_service *service, const struct gpuring_call *call)
{
    const struct gpuring_bounce *bounce = &service->bounce_output;
    int status;

    if (reached(service, &call->output_at) || call->count == 0) {
        return GPURING_OK;
    }
    status = service->device_ops->copy(service->stream, call->output,
                                       bounce->large != NULL ? bounce->large : bounce->kept,
                                       call->count * call->element_size);
    return status == GPURING_OK ? service->device_ops->synchronize(service->stream) : status;
}

static void free_large(const struct gpuring_service *service, struct gpuring_bounce *bounce)
{
    if (bounce->large != NULL) {
        service->device_ops->free(service->device, bounce->large);
        bounce->large = NULL;
    }
}

void gpuring_bounce_end(struct gpuring_service *service)
{
    free_large(service, &service->bounce_input);
    free_large(service, &service->bounce_output);
}
