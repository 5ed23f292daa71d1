/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Copies between a user's buffer and the host memory that stands for it. All return 0 or a
 * gpuring_status. A stream belongs to one thread at a time.
 */
#ifndef GPURING_STAGE_COPY_H
#define GPURING_STAGE_COPY_H

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/stage/extents.h"

/* A stream for copies, from those that are kept or new. The GPU is attached. */
int gpuring_stage_stream_get(struct gpuring_stream **stream);
/* Nothing runs on it any more. NULL is allowed. */
void gpuring_stage_stream_put(struct gpuring_stream *stream);

/* Start to copy the runs from one buffer to the other, where they lie at the same offsets. */
int gpuring_stage_copy_start(struct gpuring_stream *stream, char *to, const char *from,
                             const struct gpuring_runs *runs);

/* Those that are kept: before the device is closed or replaced. */
void gpuring_stage_streams_close(void);

#endif
