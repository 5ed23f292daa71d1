/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/part.h"

#include <stdint.h>
#include <sys/uio.h>

#include "mca/coll_gpuring/util/status.h"

static ptrdiff_t extent_of(const struct ompi_datatype_t *type)
{
    return type->super.ub - type->super.lb;
}

bool gpuring_part_next(const struct gpuring_part *part, struct gpuring_block *block)
{
    int i = block->next++;

    if (i >= part->end) {
        return false;
    }
    if (!part->displs && !part->addresses && block->count > 0) {
        block->offset += (ptrdiff_t) block->count * extent_of(part->type);
    }
    block->count = part->counts ? GPURING_COUNT_AT(part->counts, i) : part->count;
    block->type = part->types != NULL ? part->types[i] : part->type;
    if (block->count == 0) {
        return true; /* all else there is of it may be anything */
    }
    if (part->addresses) {
        block->offset = GPURING_BYTE_DISPL_AT(part->addresses, i);
    } else if (part->displs) {
        block->offset =
            GPURING_DISPL_AT(part->displs, i) * (part->types != NULL ? 1 : extent_of(block->type));
    }
    return true;
}

/* The same, of blocks that are touched. */
static bool next_touched(const struct gpuring_part *part, struct gpuring_block *block)
{
    while (gpuring_part_next(part, block)) {
        if (block->next > part->first && block->count > 0 && block->type->super.size > 0) {
            return true;
        }
    }
    return false;
}

bool gpuring_part_touches(const struct gpuring_part *part, ptrdiff_t *offset)
{
    struct gpuring_block block = {.next = 0};

    if (!next_touched(part, &block)) {
        return false;
    }
    *offset = block.offset + block.type->super.true_lb;
    return true;
}

static bool contiguous(const struct gpuring_block *block)
{
    return opal_datatype_is_contiguous_memory_layout(&block->type->super, block->count > 1 ? 2 : 1);
}

bool gpuring_part_contiguous(const struct gpuring_part *part)
{
    struct gpuring_block block = {.next = 0};

    while (next_touched(part, &block)) {
        if (!contiguous(&block)) {
            return false;
        }
    }
    return true;
}

/* The pieces of one element, in order. */
static int element_runs(const struct ompi_datatype_t *type, struct gpuring_runs *runs)
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
                status = gpuring_runs_add(runs, (ptrdiff_t) (intptr_t) pieces[i].iov_base,
                                          pieces[i].iov_len);
            }
        }
        done = done || n == 0;
    }
    OBJ_DESTRUCT(&convertor);
    gpuring_runs_end(runs);
    return status;
}

static int block_runs(const struct gpuring_block *block, struct gpuring_runs *runs)
{
    struct gpuring_runs element = {.count = 0};
    int status;

    if (contiguous(block)) {
        return gpuring_runs_add(runs, block->offset + block->type->super.true_lb,
                                block->count * block->type->super.size);
    }
    status = element_runs(block->type, &element);
    if (status == GPURING_OK) {
        status = gpuring_runs_repeat(runs, &element, block->offset, block->count,
                                     extent_of(block->type));
    }
    gpuring_runs_free(&element);
    return status;
}

int gpuring_part_runs(const struct gpuring_part *part, struct gpuring_runs *runs)
{
    struct gpuring_block block = {.next = 0};
    int status = GPURING_OK;

    while (status == GPURING_OK && next_touched(part, &block)) {
        status = block_runs(&block, runs);
    }
    gpuring_runs_end(runs);
    return status;
}
