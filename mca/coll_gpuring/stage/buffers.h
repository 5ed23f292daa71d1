/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the staged calls of a process share: bounce buffers, which are pinned host memory that is
 * kept for the next call up to a limit, and streams for copies. Threads: any.
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
    struct gpuring_list node; /* in the list of those that are kept */
};

/*
 * At least `bytes` bytes, of which at most `touched` are copied by a GPU. Pageable if pinned memory
 * cannot be had (one warning), or if it is far larger than what is used of it (its other pages cost
 * nothing then), or while no GPU is attached. NULL: no host memory; the caller logs that.
 */
struct gpuring_stage_bounce *gpuring_stage_bounce_get(size_t bytes, size_t touched);
void gpuring_stage_bounce_put(struct gpuring_stage_bounce *bounce); /* NULL is allowed */

/* 0, or a status (logged by the device). */
int gpuring_stage_stream_get(struct gpuring_stream **stream);
void gpuring_stage_stream_put(struct gpuring_stream *stream); /* NULL is allowed */

/* Give back what is kept. Before the device is closed; from one thread. */
void gpuring_stage_buffers_close(void);

#endif
