/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Which blocks of elements a collective reads or writes in a buffer, as its arguments say it. */
#ifndef GPURING_STAGE_PART_H
#define GPURING_STAGE_PART_H

#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/runs.h"

/*
 * The buffer has `blocks` blocks, one for each rank or neighbour, of which first to end - 1 are
 * touched. end 0: nothing is, and the buffer's pointer and types mean nothing. How long blocks are
 * and where they begin follows from the arguments that the call has; the others are NULL:
 *
 *     count                       elements each, one block behind the other
 *     counts                      elements of each, likewise
 *     counts, displs              displacements in extents of the type; with types: in bytes
 *     counts, addresses, types    in bytes, of type MPI_Aint
 */
struct gpuring_part {
    int blocks, first, end;
    size_t count;
    gpuring_counts_t counts;
    gpuring_displs_t displs;
    gpuring_byte_displs_t addresses;
    struct ompi_datatype_t *type; /* of every block, or: */
    struct ompi_datatype_t *const *types;
};

/* Are all blocks alike, one behind the other? And then the bytes from one to the next. */
static inline bool gpuring_part_regular(const struct gpuring_part *part)
{
    return !part->counts && !part->displs && !part->addresses && part->types == NULL;
}

static inline ptrdiff_t gpuring_part_distance(const struct gpuring_part *part)
{
    return (ptrdiff_t) part->count * (part->type->super.ub - part->type->super.lb);
}

/* The next block of all of a part, touched or not: zeroed before the first. */
struct gpuring_block {
    int next;
    size_t count;
    const struct ompi_datatype_t *type;
    ptrdiff_t offset; /* of its first element; meaningless without elements */
};
bool gpuring_part_next(const struct gpuring_part *part, struct gpuring_block *block);

/* Do the elements of every block follow one another without gaps? */
bool gpuring_part_contiguous(const struct gpuring_part *part);

/* Make runs of the bytes that the part touches: 0 or GPURING_ERR_NOMEM. */
int gpuring_part_runs(const struct gpuring_part *part, struct gpuring_runs *runs);

/* An address that is computed, not followed: buffers may begin outside of their memory. */
static inline const char *gpuring_stage_address(const void *address, ptrdiff_t offset)
{
    return (const char *) ((uintptr_t) address + (uintptr_t) offset);
}

/*
 * A byte on a GPU that the part touches, or NULL: it touches none. A buffer is judged by one of its
 * bytes. But with MPI_BOTTOM the addresses are in the datatypes, and each may be anywhere: all runs
 * are looked at, for the device learns of other contexts so.
 */
const void *gpuring_stage_find_on_gpu(const void *user, const struct gpuring_part *part);

#endif
