/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/bounce.h"

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/status.h"

#define SMALLEST ((size_t) 64 << 10) /* that is allocated to be kept; larger ones double */

static bool reached(const struct gpuring_engine *engine, const struct gpuring_pointer *at)
{
    return engine->device_ops->reaches == NULL || engine->device_ops->reaches(engine->device, at);
}

/* Memory to be kept, of at least so many bytes; what it held is of no interest. */
static int grow(const struct gpuring_engine *engine, struct gpuring_bounce *bounce, size_t bytes)
{
    size_t room = SMALLEST;
    int status;

    while (room < bytes) {
        room *= 2;
    }
    engine->device_ops->free(engine->device, bounce->kept);
    *bounce = (struct gpuring_bounce){.kept = NULL};
    status = engine->device_ops->alloc(engine->device, room, &bounce->kept);
    bounce->room = status == GPURING_OK ? room : 0;
    return status;
}

/* Room for a copy. */
static int take(const struct gpuring_engine *engine, struct gpuring_bounce *bounce, size_t bytes,
                void **memory)
{
    int status = GPURING_OK;

    if (bytes > GPURING_BOUNCE_KEEP) {
        status = engine->device_ops->alloc(engine->device, bytes, &bounce->large);
        *memory = bounce->large;
        return status;
    }
    if (bytes > bounce->room) {
        status = grow(engine, bounce, bytes);
    }
    *memory = bounce->kept;
    return status;
}

int gpuring_bounce_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                         const void **input, void **output)
{
    size_t bytes = gpuring_call_bytes(call);
    bool in_place = call->input == call->output;
    int status = GPURING_OK;

    *input = call->input;
    *output = call->output;
    if (bytes == 0) {
        return GPURING_OK;
    }
    if (!reached(engine, &call->output_at)) {
        status = take(engine, &engine->bounce_output, bytes, output);
    }
    if (status == GPURING_OK && in_place) {
        *input = *output;
    } else if (status == GPURING_OK && !reached(engine, &call->input_at)) {
        void *copy;

        status = take(engine, &engine->bounce_input, bytes, &copy);
        *input = copy;
    }
    if (status == GPURING_OK && *input != call->input) {
        status = engine->device_ops->copy(engine->stream, (void *) (uintptr_t) *input, call->input,
                                          bytes);
    }
    return status;
}

int gpuring_bounce_deliver(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    const struct gpuring_bounce *bounce = &engine->bounce_output;
    int status;

    if (reached(engine, &call->output_at) || call->count == 0) {
        return GPURING_OK;
    }
    status = engine->device_ops->copy(engine->stream, call->output,
                                      bounce->large != NULL ? bounce->large : bounce->kept,
                                      gpuring_call_bytes(call));
    return status == GPURING_OK ? engine->device_ops->synchronize(engine->stream) : status;
}

static void free_large(const struct gpuring_engine *engine, struct gpuring_bounce *bounce)
{
    if (bounce->large != NULL) {
        engine->device_ops->free(engine->device, bounce->large);
        bounce->large = NULL;
    }
}

void gpuring_bounce_end(struct gpuring_engine *engine)
{
    free_large(engine, &engine->bounce_input);
    free_large(engine, &engine->bounce_output);
}
