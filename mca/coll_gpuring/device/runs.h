/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Runs: the bytes of a buffer that are copied. Adjacent pieces, and pieces at regular distances,
 * become one run, which the driver copies in one operation.
 */
#ifndef GPURING_DEVICE_RUNS_H
#define GPURING_DEVICE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "mca/coll_gpuring/device/device.h"

/* `rows` pieces of `bytes` bytes with a distance of `stride`, beginning at `offset` in the buffer.
 * In a packed copy, which has the bytes in MPI's order, they begin at `packed` with a distance of
 * `pitch`. */
struct gpuring_run {
    ptrdiff_t offset;
    size_t bytes;
    size_t rows;
    ptrdiff_t stride;
    size_t packed, pitch;
};

/* A copy of rows. With one row, the pitches are undefined. */
struct gpuring_copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, bytes, rows;
};

/* Return the copy of a run (copy_runs in device.h). Addresses are computed as integers, because
 * buffers may begin outside their memory. */
static inline struct gpuring_copy gpuring_run_copy(const struct gpuring_run *run, const void *user,
                                                   const void *other, unsigned how)
{
    bool packed = (how & GPURING_COPY_PACKED) != 0;
    uintptr_t here = (uintptr_t) user + (uintptr_t) run->offset;
    uintptr_t there = (uintptr_t) other + (packed ? run->packed : (uintptr_t) run->offset);
    size_t pitch = (size_t) run->stride, other_pitch = packed ? run->pitch : pitch;

    return (how & GPURING_COPY_IN) != 0
               ? (struct gpuring_copy){(char *) there, (const char *) here, other_pitch,
                                       pitch,          run->bytes,          run->rows}
               : (struct gpuring_copy){(char *) here, (const char *) there, pitch,
                                       other_pitch,   run->bytes,           run->rows};
}

/* Return true if one copy can transfer these rows: no overlap, and a stride of 31 bits. */
static inline bool gpuring_run_regular(ptrdiff_t stride, size_t bytes)
{
    return stride > 0 && (size_t) stride >= bytes && stride <= INT32_MAX;
}

/* A list of runs, empty if zeroed. Up to GPURING_RUNS_FEW runs need no allocated memory, and such a
 * list may be copied. Any list may be moved together with its memory. */
#define GPURING_RUNS_FEW 4
struct gpuring_runs {
    struct gpuring_run few[GPURING_RUNS_FEW];
    struct gpuring_run *many; /* replaces `few` if not NULL */
    size_t count, room;
    size_t bytes; /* of all runs */
};

static inline const struct gpuring_run *gpuring_runs_at(const struct gpuring_runs *runs, size_t i)
{
    return &(runs->many != NULL ? runs->many : runs->few)[i];
}

/* Add the bytes offset to offset + bytes - 1. Call gpuring_runs_end after the last piece. Both
 * functions that add runs return 0 or GPURING_ERR_NOMEM. */
int gpuring_runs_add(struct gpuring_runs *runs, ptrdiff_t offset, size_t bytes);
/* Add the runs of one element for each of `count` elements, `extent` apart. */
int gpuring_runs_repeat(struct gpuring_runs *runs, const struct gpuring_runs *element,
                        ptrdiff_t offset, size_t count, ptrdiff_t extent);
void gpuring_runs_end(struct gpuring_runs *runs);
static inline void gpuring_runs_free(struct gpuring_runs *runs)
{
    free(runs->many);
    runs->many = NULL;
    runs->count = runs->room = runs->bytes = 0;
}

/* A range of offsets, from low to high - 1, and the number of used bytes in it (may be 0). */
struct gpuring_span {
    ptrdiff_t low, high;
    size_t bytes;
};

/* Return `span`, extended by the bytes of the runs. */
struct gpuring_span gpuring_runs_span(struct gpuring_span span, const struct gpuring_runs *runs);

/* Set every byte of the runs to `byte`. */
void gpuring_runs_fill(const struct gpuring_runs *runs, char *buffer, int byte);

#endif
