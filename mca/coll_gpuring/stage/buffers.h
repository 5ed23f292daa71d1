/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Resources that all staged calls of a process share: bounce buffers, and streams for copies. A
 * bounce buffer is pinned host memory. After a call it is kept for later calls. At most 256 MiB are
 * kept, and the least recently used buffers are freed first. Threads: any.
 */
#ifndef GPURING_STAGE_BUFFERS_H
#define GPURING_STAGE_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/util/list.h"

struct gpuring_stream;

struct gpuring_stage_bounce {
    char *address; /* aligned to 64 */
    size_t bytes;
    bool pinned;
    struct gpuring_list node; /* in the list of kept buffers */
};

/*
 * Return a buffer of at least `bytes` bytes for a user's buffer on a GPU, which is attached,
 * because memory cannot be pinned before; if that fails, getting a stream reports it. A GPU copies
 * at most `touched` of them, or probably none if `touched` is 0. The memory is pageable instead of
 * pinned
 *
 *   - if pinned memory is not available (one warning per process),
 *   - if the call touches only a small part of it, because untouched pageable memory costs nothing,
 *   - if `touched` is 0 and the pinned buffers in use would exceed 256 MiB, because pinning takes
 *     longer than the message (doc/results/gpu.md),
 *   - or if no GPU could be attached.
 *
 * Returns NULL if there is no host memory. The caller logs that.
 */
struct gpuring_stage_bounce *gpuring_stage_bounce_get(const void *gpu, size_t bytes,
                                                      size_t touched);
void gpuring_stage_bounce_put(struct gpuring_stage_bounce *bounce); /* NULL is allowed */

/* Get a stream for copies of a user's buffer on a GPU, which is attached. Returns 0, or a
 * gpuring_status that the device has logged. */
int gpuring_stage_stream_get(const void *gpu, struct gpuring_stream **stream);
void gpuring_stage_stream_put(struct gpuring_stream *stream); /* NULL is allowed */

/* Free all kept buffers and streams. Call from one thread, before the device is closed. */
void gpuring_stage_buffers_close(void);

#endif
