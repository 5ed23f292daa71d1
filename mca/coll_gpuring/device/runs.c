/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/device/runs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

static struct gpuring_run *array(struct gpuring_runs *runs)
{
    return runs->many != NULL ? runs->many : runs->few;
}

static int grow_runs(struct gpuring_runs *runs)
{
    size_t room = 2 * (runs->many == NULL ? GPURING_RUNS_FEW : runs->room);
    struct gpuring_run *grown = realloc(runs->many, room * sizeof *grown);

    if (grown == NULL) {
        return GPURING_ERR_NOMEM;
    }
    if (runs->many == NULL) {
        memcpy(grown, runs->few, sizeof runs->few);
    }
    runs->many = grown;
    runs->room = room;
    return GPURING_OK;
}

/* Append a run whose place in a packed copy is set. */
static int append_run(struct gpuring_runs *runs, struct gpuring_run run)
{
    bool full = runs->count == (runs->many == NULL ? GPURING_RUNS_FEW : runs->room);
    int status = full ? grow_runs(runs) : GPURING_OK;

    if (status == GPURING_OK) {
        array(runs)[runs->count++] = run;
        runs->bytes += run.rows * run.bytes;
    }
    return status;
}

/* Complete the last run: merge it into the run before it as another row if it fits. */
void gpuring_runs_end(struct gpuring_runs *runs)
{
    struct gpuring_run *last, *before;
    ptrdiff_t step;

    if (runs->count < 2) {
        return;
    }
    last = &array(runs)[runs->count - 1];
    before = last - 1;
    step = last->offset - before->offset;
    if (last->rows != 1 || last->bytes != before->bytes) {
        return;
    }
    if (before->rows == 1 && gpuring_run_regular(step, before->bytes)) {
        before->stride = step;
        before->pitch = last->packed - before->packed;
    }
    if (before->stride != 0 && step == (ptrdiff_t) before->rows * before->stride &&
        last->packed == before->packed + before->rows * before->pitch) {
        before->rows++;
        runs->count--;
    }
}

int gpuring_runs_add(struct gpuring_runs *runs, ptrdiff_t offset, size_t bytes)
{
    struct gpuring_run *last = runs->count > 0 ? &array(runs)[runs->count - 1] : NULL;

    if (last != NULL && last->rows == 1 && last->offset + (ptrdiff_t) last->bytes == offset) {
        last->bytes += bytes;
        runs->bytes += bytes;
        return GPURING_OK;
    }
    gpuring_runs_end(runs);
    return append_run(
        runs,
        (struct gpuring_run){.offset = offset, .bytes = bytes, .rows = 1, .packed = runs->bytes});
}

/* Add each piece of the element as a run with one row per element. */
static int repeat_pieces(struct gpuring_runs *runs, const struct gpuring_runs *element,
                         ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    size_t before = runs->bytes;
    int status = GPURING_OK;

    for (size_t i = 0; i < element->count; i++) {
        struct gpuring_run run = *gpuring_runs_at(element, i);

        for (size_t row = 0; row < run.rows && status == GPURING_OK; row++) {
            status = append_run(
                runs,
                (struct gpuring_run){.offset = offset + run.offset + (ptrdiff_t) row * run.stride,
                                     .bytes = run.bytes,
                                     .rows = count,
                                     .stride = extent,
                                     .packed = before + run.packed + row * run.pitch,
                                     .pitch = element->bytes});
        }
    }
    return status;
}

/* Add the element's runs once for each element. */
static int repeat_element(struct gpuring_runs *runs, const struct gpuring_runs *element,
                          ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    int status = GPURING_OK;

    for (size_t n = 0; n < count; n++) {
        for (size_t i = 0; i < element->count && status == GPURING_OK; i++) {
            struct gpuring_run run = *gpuring_runs_at(element, i);

            run.offset += offset + (ptrdiff_t) n * extent;
            run.packed = runs->bytes;
            status = run.rows == 1 ? gpuring_runs_add(runs, run.offset, run.bytes)
                                   : append_run(runs, run);
        }
    }
    return status;
}

/* Use the alternative that needs fewer copies. */
int gpuring_runs_repeat(struct gpuring_runs *runs, const struct gpuring_runs *element,
                        ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    bool rows = count > 1 && element->bytes <= INT32_MAX;
    size_t pieces = 0;

    for (size_t i = 0; i < element->count; i++) {
        pieces += gpuring_runs_at(element, i)->rows;
        rows = rows && gpuring_run_regular(extent, gpuring_runs_at(element, i)->bytes);
    }
    return rows && pieces < element->count * count
               ? repeat_pieces(runs, element, offset, count, extent)
               : repeat_element(runs, element, offset, count, extent);
}

struct gpuring_span gpuring_runs_span(struct gpuring_span span, const struct gpuring_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct gpuring_run *run = gpuring_runs_at(runs, i);
        ptrdiff_t last = run->offset + (ptrdiff_t) (run->rows - 1) * run->stride;
        ptrdiff_t high = last + (ptrdiff_t) run->bytes;

        span.low = span.bytes == 0 || run->offset < span.low ? run->offset : span.low;
        span.high = span.bytes == 0 || high > span.high ? high : span.high;
        span.bytes += run->rows * run->bytes;
    }
    return span;
}

void gpuring_runs_fill(const struct gpuring_runs *runs, char *buffer, int byte)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct gpuring_run *run = gpuring_runs_at(runs, i);

        for (size_t row = 0; row < run->rows; row++) {
            memset(buffer + run->offset + (ptrdiff_t) row * run->stride, byte, run->bytes);
        }
    }
}

int gpuring_device_copy(const struct gpuring_device_ops *ops, struct gpuring_device *device,
                        void *to, const void *from, size_t bytes)
{
    struct gpuring_stream *stream = NULL;
    int status = ops->stream_create(device, &stream);

    if (status == GPURING_OK) {
        status = ops->copy(stream, to, from, bytes);
    }
    if (status == GPURING_OK) {
        status = ops->synchronize(stream);
    }
    ops->stream_destroy(stream);
    return status;
}
