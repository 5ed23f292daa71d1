/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/host_copy.h"

#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/status.h"

#define ALIGNMENT 64 /* an address in a bounce buffer equals the user's modulo this */

bool gpuring_stage_buffer_init(struct gpuring_stage_buffer *buffer, const void *user,
                               const struct gpuring_part *in, const struct gpuring_part *out)
{
    *buffer = (struct gpuring_stage_buffer){.user = user, .in = in, .out = out, .address = user};
    buffer->on_gpu = in != NULL ? gpuring_part_find_on_gpu(in) : NULL;
    if (buffer->on_gpu == NULL && out != NULL) {
        buffer->on_gpu = gpuring_part_find_on_gpu(out);
    }
    return buffer->on_gpu != NULL;
}

/* Make the runs of a part that may be NULL. */
static int make_runs(const struct gpuring_part *part, struct gpuring_runs *runs)
{
    return part != NULL ? gpuring_part_runs(part, runs) : GPURING_OK;
}

int gpuring_stage_buffer_reserve(struct gpuring_stage_buffer *buffer, size_t *lacking)
{
    struct gpuring_span span = {.bytes = 0};
    size_t shift, bytes;
    int status;

    if (buffer->on_gpu == NULL) {
        return GPURING_OK;
    }
    status = make_runs(buffer->in, &buffer->in_runs);
    if (status == GPURING_OK) {
        status = make_runs(buffer->out, &buffer->out_runs);
    }
    if (status != GPURING_OK) {
        *lacking =
            2 * (buffer->in_runs.count + buffer->out_runs.count) * sizeof(struct gpuring_run);
        return status;
    }
    span = gpuring_runs_span(gpuring_runs_span(span, &buffer->in_runs), &buffer->out_runs);
    shift = (uintptr_t) gpuring_stage_address(buffer->user, span.low) % ALIGNMENT;
    bytes = (size_t) (span.high - span.low) + shift;
    buffer->bounce = gpuring_stage_bounce_get(bytes, span.bytes);
    if (buffer->bounce == NULL) {
        *lacking = bytes;
        return GPURING_ERR_NOMEM;
    }
    buffer->address = gpuring_stage_address(buffer->bounce->address, (ptrdiff_t) shift - span.low);
    return GPURING_OK;
}

int gpuring_stage_buffer_copy_in(const struct gpuring_stage_buffer *buffer,
                                 struct gpuring_stream *stream)
{
    return gpuring_runs_copy(gpuring_process.device_ops, stream, buffer->user, buffer->address,
                             &buffer->in_runs, true, false);
}

int gpuring_stage_buffer_copy_out(const struct gpuring_stage_buffer *buffer,
                                  struct gpuring_stream *stream)
{
    return gpuring_runs_copy(gpuring_process.device_ops, stream, buffer->user, buffer->address,
                             &buffer->out_runs, false, false);
}

void gpuring_stage_buffer_poison(const struct gpuring_stage_buffer *buffer)
{
    gpuring_runs_fill(&buffer->in_runs, (char *) (uintptr_t) buffer->address, GPURING_POISON);
}

void gpuring_stage_buffer_release(struct gpuring_stage_buffer *buffer)
{
    gpuring_runs_free(&buffer->in_runs);
    gpuring_runs_free(&buffer->out_runs);
    gpuring_stage_bounce_put(buffer->bounce);
    buffer->bounce = NULL;
}
