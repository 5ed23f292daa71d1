/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* A copy of rows from one distance to another. */
#ifndef TEST_UNIT_COPY_ROWS_H
#define TEST_UNIT_COPY_ROWS_H

#include "mca/coll_gpuring/device/runs.h"

static inline int copy_rows(const struct gpuring_device_ops *ops, struct gpuring_stream *stream,
                            void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t bytes, size_t rows)
{
    struct gpuring_runs runs = {.count = 1};

    runs.few[0] = (struct gpuring_run){
        .bytes = bytes, .rows = rows, .stride = (ptrdiff_t) from_pitch, .pitch = to_pitch};
    return ops->copy_runs(stream, from, to, &runs, GPURING_COPY_IN | GPURING_COPY_PACKED);
}

#endif
