/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage_layout.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_part gpuring_part_blocks(int first, int n, size_t count,
                                        struct ompi_datatype_t *type)
{
    return (struct gpuring_part){.first = first,
                                 .end = first + n,
                                 .count = count,
                                 .placing = GPURING_IN_SEQUENCE,
                                 .type = type};
}

static ptrdiff_t extent_of(const struct ompi_datatype_t *type)
{
    return type->super.ub - type->super.lb;
}

static size_t block_count(const struct gpuring_part *part, int i)
{
    return part->many ? GPURING_COUNT_AT(part->counts, i) : part->count;
}

static struct ompi_datatype_t *block_type(const struct gpuring_part *part, int i)
{
    return part->types != NULL ? part->types[i] : part->type;
}

static ptrdiff_t block_offset(const struct gpuring_part *part, int i)
{
    switch (part->placing) {
    case GPURING_BY_EXTENTS:
        return GPURING_DISPL_AT(part->displs, i) * extent_of(block_type(part, i));
    case GPURING_BY_BYTES:
        return GPURING_DISPL_AT(part->displs, i);
    case GPURING_BY_BYTE_DISPLS:
        return GPURING_BYTE_DISPL_AT(part->byte_displs, i);
    default:
        return i == 0 ? 0 : i * (ptrdiff_t) part->count * extent_of(part->type);
    }
}

bool gpuring_part_touches(const struct gpuring_part *part, ptrdiff_t *offset)
{
    for (int i = part->first; i < part->end; i++) {
        if (block_count(part, i) > 0 && block_type(part, i)->super.size > 0) {
            *offset = block_offset(part, i) + block_type(part, i)->super.true_lb;
            return true;
        }
    }
    return false;
}

/* Put a run at the end of the list. */
static int append(struct gpuring_runs *runs, struct gpuring_run run)
{
    if (runs->count == runs->room) {
        size_t room = runs->room == 0 ? 4 : 2 * runs->room;
        struct gpuring_run *grown = realloc(runs->run, room * sizeof *grown);

        if (grown == NULL) {
            gpuring_error("out of memory for the layout of a datatype (%zu pieces)", room);
            return GPURING_ERR_NOMEM;
        }
        runs->run = grown;
        runs->room = room;
    }
    runs->run[runs->count++] = run;
    return GPURING_OK;
}

/* Rows that one copy can take: they do not overlap, and drivers take strides of 31 bits. */
static bool regular(ptrdiff_t stride, size_t bytes)
{
    return stride > 0 && (size_t) stride >= bytes && stride <= INT32_MAX;
}

/* The last run is complete: make it one more row of the one before it if it fits there. */
static void fold_last(struct gpuring_runs *runs)
{
    struct gpuring_run *last, *before;
    ptrdiff_t step;

    if (runs->count < 2) {
        return;
    }
    last = &runs->run[runs->count - 1];
    before = last - 1;
    step = last->offset - before->offset;
    if (last->rows != 1 || last->bytes != before->bytes) {
        return;
    }
    if (before->rows == 1 && regular(step, before->bytes)) {
        before->stride = step;
    }
    if (before->stride != 0 && step == (ptrdiff_t) before->rows * before->stride) {
        before->rows++;
        runs->count--;
    }
}

/* Add one piece; pieces that touch or repeat regularly become one run. */
static int add_piece(struct gpuring_runs *runs, ptrdiff_t offset, size_t bytes)
{
    struct gpuring_run *last = runs->count > 0 ? &runs->run[runs->count - 1] : NULL;

    if (last != NULL && last->rows == 1 && last->offset + (ptrdiff_t) last->bytes == offset) {
        last->bytes += bytes;
        return GPURING_OK;
    }
    fold_last(runs);
    return append(runs, (struct gpuring_run){.offset = offset, .bytes = bytes, .rows = 1});
}

/* The pieces of one element. */
static int element_runs(struct gpuring_runs *element, const struct ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    struct iovec pieces[64];
    int done = 0, status = GPURING_OK;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, 1, NULL, 0,
                                             &convertor);
    while (!done && status == GPURING_OK) {
        uint32_t n = sizeof pieces / sizeof *pieces;
        size_t length = SIZE_MAX;

        done = opal_convertor_raw(&convertor, pieces, &n, &length);
        for (uint32_t i = 0; i < n && status == GPURING_OK; i++) {
            if (pieces[i].iov_len > 0) {
                status = add_piece(element, (ptrdiff_t) (intptr_t) pieces[i].iov_base,
                                   pieces[i].iov_len);
            }
        }
        done = done || n == 0;
    }
    fold_last(element);
    OBJ_DESTRUCT(&convertor);
    return status;
}

/* Every piece of the element, repeated for all elements. */
static int repeat_pieces(struct gpuring_runs *runs, const struct gpuring_runs *element,
                         ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    int status = GPURING_OK;

    for (size_t i = 0; i < element->count; i++) {
        const struct gpuring_run *run = &element->run[i];

        for (size_t row = 0; row < run->rows && status == GPURING_OK; row++) {
            status = append(runs, (struct gpuring_run){.offset = offset + run->offset +
                                                                 (ptrdiff_t) row * run->stride,
                                                       .bytes = run->bytes,
                                                       .rows = count,
                                                       .stride = extent});
        }
    }
    return status;
}

/* The element's runs, once for each element. */
static int repeat_element(struct gpuring_runs *runs, const struct gpuring_runs *element,
                          ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    int status = GPURING_OK;

    for (size_t n = 0; n < count; n++) {
        for (size_t i = 0; i < element->count && status == GPURING_OK; i++) {
            struct gpuring_run run = element->run[i];

            run.offset += offset + (ptrdiff_t) n * extent;
            status = run.rows == 1 ? add_piece(runs, run.offset, run.bytes) : append(runs, run);
        }
    }
    return status;
}

static bool fit_rows(const struct gpuring_runs *element, ptrdiff_t extent, size_t *pieces)
{
    bool fit = true;

    *pieces = 0;
    for (size_t i = 0; i < element->count; i++) {
        *pieces += element->run[i].rows;
        fit = fit && regular(extent, element->run[i].bytes);
    }
    return fit;
}

/* `count` elements of a type with gaps: whichever way needs fewer copies. */
static int add_elements(struct gpuring_runs *runs, ptrdiff_t offset, size_t count,
                        const struct ompi_datatype_t *type)
{
    struct gpuring_runs element = {.run = NULL};
    ptrdiff_t extent = extent_of(type);
    int status = element_runs(&element, type);
    size_t pieces;

    if (status == GPURING_OK) {
        status = count > 1 && fit_rows(&element, extent, &pieces) && pieces < element.count * count
                     ? repeat_pieces(runs, &element, offset, count, extent)
                     : repeat_element(runs, &element, offset, count, extent);
    }
    gpuring_runs_free(&element);
    return status;
}

static void measure(struct gpuring_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct gpuring_run *run = &runs->run[i];
        ptrdiff_t end =
            run->offset + (ptrdiff_t) (run->rows - 1) * run->stride + (ptrdiff_t) run->bytes;

        runs->low = i == 0 || run->offset < runs->low ? run->offset : runs->low;
        runs->high = i == 0 || end > runs->high ? end : runs->high;
        runs->bytes += run->rows * run->bytes;
    }
}

int gpuring_runs_build(struct gpuring_runs *runs, const struct gpuring_part *part)
{
    int status = GPURING_OK;

    *runs = (struct gpuring_runs){.run = NULL};
    for (int i = part->first; i < part->end && status == GPURING_OK; i++) {
        size_t count = block_count(part, i);
        const struct ompi_datatype_t *type;

        if (count == 0) {
            continue; /* its type and displacement may be anything */
        }
        type = block_type(part, i);
        if (type->super.size == 0) {
            continue;
        }
        if (opal_datatype_is_contiguous_memory_layout(&type->super, count > 1 ? 2 : 1)) {
            status = add_piece(runs, block_offset(part, i) + type->super.true_lb,
                               count * type->super.size);
        } else {
            status = add_elements(runs, block_offset(part, i), count, type);
        }
    }
    fold_last(runs);
    measure(runs);
    return status;
}

void gpuring_runs_free(struct gpuring_runs *runs)
{
    free(runs->run);
    *runs = (struct gpuring_runs){.run = NULL};
}
