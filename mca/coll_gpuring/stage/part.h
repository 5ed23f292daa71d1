/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The blocks of elements that a call reads or writes in a buffer, in terms of its arguments. */
#ifndef GPURING_STAGE_PART_H
#define GPURING_STAGE_PART_H

#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/runs.h"

/*
 * The buffer has `blocks` blocks, one for each rank or neighbour. The call touches blocks first to
 * end - 1. If end is 0, it touches none, and the pointer and the types are undefined. The
 * fields that are set define the lengths of the blocks and where they begin; the others are NULL:
 *
 *     count                       all blocks have the same length, and are adjacent
 *     counts                      each block has its own length, and they are adjacent
 *     counts, displs              displacements in extents of the type, or in bytes with `types`
 *     counts, addresses, types    displacements in bytes, as MPI_Aint
 */
struct gpuring_part {
    const char *user; /* the buffer */
    int blocks, first, end;
    size_t count;
    gpuring_counts_t counts;
    gpuring_displs_t displs;
    gpuring_byte_displs_t addresses;
    struct ompi_datatype_t *type; /* of every block; otherwise one for each block: */
    struct ompi_datatype_t *const *types;
};

/* Return the part that consists of a message of `count` elements. */
static inline struct gpuring_part gpuring_part_elements(const void *user, size_t count,
                                                        struct ompi_datatype_t *type)
{
    return (struct gpuring_part){.user = user, .blocks = 1, .end = 1, .count = count, .type = type};
}

/* Return true if all blocks have the same length and type, and are adjacent. In this case
 * gpuring_part_distance is the distance in bytes from one block to the next. */
static inline bool gpuring_part_regular(const struct gpuring_part *part)
{
    return !part->counts && !part->displs && !part->addresses && part->types == NULL;
}

static inline ptrdiff_t gpuring_part_distance(const struct gpuring_part *part)
{
    return (ptrdiff_t) part->count * (part->type->super.ub - part->type->super.lb);
}

/* A block of a part, touched or not. gpuring_part_next sets it to the next block, or returns false
 * at the end. The caller zeroes it before the first call. */
struct gpuring_block {
    int next;
    size_t count;
    const struct ompi_datatype_t *type;
    ptrdiff_t offset; /* of its first element; undefined if there are no elements */
};
bool gpuring_part_next(const struct gpuring_part *part, struct gpuring_block *block);

/* Return true if no touched block has gaps within or between its elements. */
bool gpuring_part_contiguous(const struct gpuring_part *part);

/* Make runs of the bytes that the part touches. Returns 0 or GPURING_ERR_NOMEM. */
int gpuring_part_runs(const struct gpuring_part *part, struct gpuring_runs *runs);

/* Add an offset to an address without pointer arithmetic, because the address of a buffer may be
 * outside of its memory. */
static inline const char *gpuring_stage_address(const void *address, ptrdiff_t offset)
{
    return (const char *) ((uintptr_t) address + (uintptr_t) offset);
}

/*
 * Return a byte on a GPU that the part touches, or NULL if there is none. Normally the first byte
 * decides for the whole buffer. With MPI_BOTTOM the datatypes contain addresses, each of which may
 * be in any memory. Therefore all runs are checked, which also makes their contexts known to the
 * device.
 */
const void *gpuring_part_find_on_gpu(const struct gpuring_part *part);

/* If *gpu is NULL, set it to a byte on a GPU that the part touches. If there is one, make the runs
 * of the part. Returns 0 or GPURING_ERR_NOMEM, without runs. */
int gpuring_part_find_runs(const struct gpuring_part *part, const void **gpu,
                           struct gpuring_runs *runs);

#endif
