/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/extents.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

/* What else there is of a block without elements may be anything. */
static bool block_touches(const struct gpuring_part *part, int i)
{
    return block_count(part, i) > 0 && block_type(part, i)->super.size > 0;
}

bool gpuring_part_touches(const struct gpuring_part *part, ptrdiff_t *offset)
{
    for (int i = part->first; i < part->end; i++) {
        if (block_touches(part, i)) {
            *offset = block_offset(part, i) + block_type(part, i)->super.true_lb;
            return true;
        }
    }
    return false;
}

struct gpuring_span gpuring_span_join(struct gpuring_span one, struct gpuring_span other)
{
    if (one.bytes == 0 || other.bytes == 0) {
        return one.bytes == 0 ? other : one;
    }
    return (struct gpuring_span){.low = one.low < other.low ? one.low : other.low,
                                 .high = one.high > other.high ? one.high : other.high,
                                 .bytes = one.bytes + other.bytes};
}

static struct gpuring_span block_span(const struct gpuring_part *part, int i)
{
    const struct ompi_datatype_t *type = block_type(part, i);
    ptrdiff_t last = (ptrdiff_t) (block_count(part, i) - 1) * extent_of(type);

    return (struct gpuring_span){
        .low = block_offset(part, i) + type->super.true_lb + (last < 0 ? last : 0),
        .high = block_offset(part, i) + type->super.true_ub + (last > 0 ? last : 0),
        .bytes = block_count(part, i) * type->super.size,
    };
}

struct gpuring_span gpuring_part_span(const struct gpuring_part *part)
{
    struct gpuring_span span = {.bytes = 0};

    for (int i = part->first; i < part->end; i++) {
        if (block_touches(part, i)) {
            span = gpuring_span_join(span, block_span(part, i));
        }
    }
    return span;
}

/* No gaps between the elements of the block. */
static bool block_is_solid(const struct gpuring_part *part, int i)
{
    return opal_datatype_is_contiguous_memory_layout(&block_type(part, i)->super,
                                                     block_count(part, i) > 1 ? 2 : 1);
}

/* The pieces of one element, in order; ends with the first error of `visit`. */
static int each_piece(const struct ompi_datatype_t *type,
                      int (*visit)(void *context, ptrdiff_t offset, size_t bytes), void *context)
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
                status =
                    visit(context, (ptrdiff_t) (intptr_t) pieces[i].iov_base, pieces[i].iov_len);
            }
        }
        done = done || n == 0;
    }
    OBJ_DESTRUCT(&convertor);
    return status;
}

struct filling {
    uintptr_t element; /* its address */
    int byte;
};

static int fill_piece(void *context, ptrdiff_t offset, size_t bytes)
{
    const struct filling *filling = context;

    memset((void *) (filling->element + (uintptr_t) offset), filling->byte, bytes);
    return GPURING_OK;
}

void gpuring_part_fill(const struct gpuring_part *part, char *buffer, int byte)
{
    for (int i = part->first; i < part->end; i++) {
        struct filling filling = {.byte = byte};

        if (!block_touches(part, i)) {
            continue;
        }
        filling.element = (uintptr_t) buffer + (uintptr_t) block_offset(part, i);
        if (block_is_solid(part, i)) {
            struct gpuring_span span = block_span(part, i);

            memset((void *) ((uintptr_t) buffer + (uintptr_t) span.low), byte, span.bytes);
            continue;
        }
        for (size_t n = 0; n < block_count(part, i); n++) {
            (void) each_piece(block_type(part, i), fill_piece, &filling);
            filling.element += (uintptr_t) extent_of(block_type(part, i));
        }
    }
}

static struct gpuring_run *array(struct gpuring_runs *runs)
{
    return runs->many != NULL ? runs->many : runs->few;
}

static int grow(struct gpuring_runs *runs)
{
    size_t room = 2 * (runs->many == NULL ? GPURING_RUNS_FEW : runs->room);
    struct gpuring_run *grown = realloc(runs->many, room * sizeof *grown);

    if (grown == NULL) {
        gpuring_error("out of memory for the layout of a datatype (%zu pieces)", room);
        return GPURING_ERR_NOMEM;
    }
    if (runs->many == NULL) {
        memcpy(grown, runs->few, sizeof runs->few);
    }
    runs->many = grown;
    runs->room = room;
    return GPURING_OK;
}

/* Put a run at the end of the list. */
static int append(struct gpuring_runs *runs, struct gpuring_run run)
{
    int status = runs->count < (runs->many == NULL ? GPURING_RUNS_FEW : runs->room) ? GPURING_OK
                                                                                    : grow(runs);

    if (status == GPURING_OK) {
        array(runs)[runs->count++] = run;
    }
    return status;
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
    last = &array(runs)[runs->count - 1];
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
static int add_piece(void *context, ptrdiff_t offset, size_t bytes)
{
    struct gpuring_runs *runs = context;
    struct gpuring_run *last = runs->count > 0 ? &array(runs)[runs->count - 1] : NULL;

    if (last != NULL && last->rows == 1 && last->offset + (ptrdiff_t) last->bytes == offset) {
        last->bytes += bytes;
        return GPURING_OK;
    }
    fold_last(runs);
    return append(runs, (struct gpuring_run){.offset = offset, .bytes = bytes, .rows = 1});
}

/* Every piece of the element, repeated for all elements. */
static int repeat_pieces(struct gpuring_runs *runs, const struct gpuring_runs *element,
                         ptrdiff_t offset, size_t count, ptrdiff_t extent)
{
    int status = GPURING_OK;

    for (size_t i = 0; i < element->count; i++) {
        const struct gpuring_run *run = gpuring_runs_at(element, i);

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
            struct gpuring_run run = *gpuring_runs_at(element, i);

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
        const struct gpuring_run *run = gpuring_runs_at(element, i);

        *pieces += run->rows;
        fit = fit && regular(extent, run->bytes);
    }
    return fit;
}

/* `count` elements of a type with gaps: whichever way needs fewer copies. */
static int add_elements(struct gpuring_runs *runs, ptrdiff_t offset, size_t count,
                        const struct ompi_datatype_t *type)
{
    struct gpuring_runs element = {.many = NULL};
    ptrdiff_t extent = extent_of(type);
    int status = each_piece(type, add_piece, &element);
    size_t pieces;

    fold_last(&element);
    if (status == GPURING_OK) {
        status = count > 1 && fit_rows(&element, extent, &pieces) && pieces < element.count * count
                     ? repeat_pieces(runs, &element, offset, count, extent)
                     : repeat_element(runs, &element, offset, count, extent);
    }
    gpuring_runs_free(&element);
    return status;
}

int gpuring_runs_build(struct gpuring_runs *runs, const struct gpuring_part *part)
{
    int status = GPURING_OK;

    runs->many = NULL;
    runs->count = runs->room = 0;
    for (int i = part->first; i < part->end && status == GPURING_OK; i++) {
        if (!block_touches(part, i)) {
            continue;
        }
        if (block_is_solid(part, i)) {
            struct gpuring_span span = block_span(part, i);

            status = add_piece(runs, span.low, span.bytes);
        } else {
            status = add_elements(runs, block_offset(part, i), block_count(part, i),
                                  block_type(part, i));
        }
    }
    fold_last(runs);
    return status;
}

void gpuring_runs_free(struct gpuring_runs *runs)
{
    free(runs->many);
    runs->many = NULL;
    runs->count = runs->room = 0;
}
