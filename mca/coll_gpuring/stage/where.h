/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Where a user's buffer is. */
#ifndef GPURING_STAGE_WHERE_H
#define GPURING_STAGE_WHERE_H

#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/stage/part.h"

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
