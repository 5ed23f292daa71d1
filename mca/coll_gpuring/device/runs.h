/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Byte runs: which bytes of a buffer are to be copied. Pieces that touch, or repeat at a regular
 * distance, become one run, which is one copy of a driver.
 */
#ifndef GPURING_DEVICE_RUNS_H
#define GPURING_DEVICE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"

/* rows pieces of `bytes` bytes, `stride` apart; the first is at `offset` from the buffer. In a
 * packed copy, which has the bytes in MPI's order, they are `pitch` apart from `packed` on. */
struct gpuring_run {
    ptrdiff_t offset;
    size_t bytes;
    size_t rows;
    ptrdiff_t stride;
    size_t packed, pitch;
};

/* Rows that one copy can take: they do not overlap, and drivers take strides of 31 bits. */
static inline bool gpuring_run_regular(ptrdiff_t stride, size_t bytes)
{
    return stride > 0 && (size_t) stride >= bytes && stride <= INT32_MAX;
}

/* A list of runs; zeroed: empty. Few of them need no memory, so it may be copied while it is few,
 * and moved (with its memory) at any time. */
#define GPURING_RUNS_FEW 4
struct gpuring_runs {
    struct gpuring_run few[GPURING_RUNS_FEW];
    struct gpuring_run *many; /* instead of these, if not NULL */
    size_t count, room;
    size_t bytes; /* of all */
};

static inline const struct gpuring_run *gpuring_runs_at(const struct gpuring_runs *runs, size_t i)
{
    return &(runs->many != NULL ? runs->many : runs->few)[i];
}

/* Add the bytes offset to offset + bytes - 1. gpuring_runs_end comes behind the last piece. 0 or
 * GPURING_ERR_NOMEM, as in gpuring_runs_repeat. */
int gpuring_runs_add(struct gpuring_runs *runs, ptrdiff_t offset, size_t bytes);
/* Add the runs of one element for each of `count` elements, `extent` apart. */
int gpuring_runs_repeat(struct gpuring_runs *runs, const struct gpuring_runs *element,
                        ptrdiff_t offset, size_t count, ptrdiff_t extent);
void gpuring_runs_end(struct gpuring_runs *runs);
void gpuring_runs_free(struct gpuring_runs *runs);

/* Every byte is at an offset from low to high - 1; bytes: so many are touched, 0: none is. */
struct gpuring_span {
    ptrdiff_t low, high;
    size_t bytes;
};

/* `span`, and what the runs touch beside it. */
struct gpuring_span gpuring_runs_span(struct gpuring_span span, const struct gpuring_runs *runs);

/*
 * Start to copy runs of a user's buffer in or out (`in`: from the user's), by a stream. In the
 * other buffer they lie at the same offsets, or packed.
 */
int gpuring_runs_copy(const struct gpuring_device_ops *ops, struct gpuring_stream *stream,
                      const void *user, const void *other, const struct gpuring_runs *runs, bool in,
                      bool packed);

/* Set every byte of the runs to `byte`. */
void gpuring_runs_fill(const struct gpuring_runs *runs, char *buffer, int byte);

#endif
