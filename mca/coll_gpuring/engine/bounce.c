/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/bounce.h"

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/status.h"

/* The smallest allocation that is kept. Larger ones are powers of two. */
#define SMALLEST ((size_t) 64 << 10)

/* Make the kept memory at least `bytes` large, without preserving its contents. */
static int bounce_grow(const struct gpuring_engine *engine, struct gpuring_bounce *bounce,
                       size_t bytes)
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

/* Get memory for a bounce buffer, from the kept memory if it is not too large for that. */
static int bounce_take(const struct gpuring_engine *engine, struct gpuring_bounce *bounce,
                       size_t bytes, void **memory)
{
    int status = GPURING_OK;

    if (bytes > GPURING_BOUNCE_KEEP) {
        status = engine->device_ops->alloc(engine->device, bytes, &bounce->large);
        *memory = bounce->large;
        return status;
    }
    if (bytes > bounce->room) {
        status = bounce_grow(engine, bounce, bytes);
    }
    *memory = bounce->kept;
    return status;
}

/* Start to copy between a user's buffer and its bounce buffer. in: copy into the bounce buffer,
 * otherwise out of it. */
static int bounce_copy(const struct gpuring_engine *engine,
                       const struct gpuring_call_buffer *buffer, const void *user, void *copied,
                       bool in)
{
    const struct gpuring_device_ops *ops = engine->device_ops;

    if (buffer->runs != NULL) {
        return ops->copy_runs(engine->stream, user, copied, buffer->runs,
                              (in ? GPURING_COPY_IN : 0u) | GPURING_COPY_PACKED);
    }
    return in ? ops->copy(engine->stream, copied, user, buffer->bytes)
              : ops->copy(engine->stream, (void *) (uintptr_t) user, copied, buffer->bytes);
}

int gpuring_bounce_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                         bool copy_in, bool copy_out, const void **input, void **output)
{
    bool in_place = call->input == call->output && call->in.runs == NULL && call->out.runs == NULL;
    void *copied = NULL; /* initialized because gcc 14 warns otherwise */
    int status = GPURING_OK;

    engine->bounce_output.used = NULL;
    if (copy_out) {
        status = bounce_take(engine, &engine->bounce_output, gpuring_call_moves(call), output);
        engine->bounce_output.used = *output;
    }
    if (status == GPURING_OK && in_place) {
        *input = copied = *output;
    } else if (status == GPURING_OK && copy_in) {
        status = bounce_take(engine, &engine->bounce_input, call->in.bytes, &copied);
        *input = copied;
    }
    if (status == GPURING_OK && *input != call->input) {
        status = bounce_copy(engine, &call->in, call->input, copied, true);
    }
    return status;
}

int gpuring_bounce_deliver(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    int status;

    if (engine->bounce_output.used == NULL) {
        return GPURING_OK;
    }
    status = bounce_copy(engine, &call->out, call->output, engine->bounce_output.used, false);
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

void gpuring_bounce_clear(struct gpuring_engine *engine)
{
    engine->device_ops->free(engine->device, engine->bounce_input.kept);
    engine->device_ops->free(engine->device, engine->bounce_output.kept);
    engine->bounce_input = engine->bounce_output = (struct gpuring_bounce){.kept = NULL};
}
