/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Places for calls that find no memory, so that the previous module can be called and no other rank
 * waits. They keep no data: a few pages of memory, taken in good time, lie again and again at the
 * addresses of a range:
 *
 *     memory     +------- unit that is only read -------+------- unit that is written -------+
 *     ranges     | unit | unit | unit | ...             | unit | unit | unit | ...
 *
 * A range costs addresses and nothing else, so overcommitment and its limits do not matter. Two
 * ranges are kept for the limit on addresses (ulimit -v): all calls that find no memory share them.
 *
 * Threads: any.
 */
#ifndef GPURING_STAGE_SINK_H
#define GPURING_STAGE_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_stage_block;

/* While there is memory: keep the units, and ranges of `bytes` bytes, or fewer if there are not so
 * many addresses. Idempotent; what it does not get it tries again at the next call. */
void gpuring_stage_sink_prepare(size_t bytes);

/* A block of the kind GPURING_BLOCK_SINK; NULL: there are no addresses for it. */
struct gpuring_stage_block *gpuring_stage_sink_get(size_t bytes, bool written);
void gpuring_stage_sink_put(struct gpuring_stage_block *block);

/* Set all of the block to `byte`, and with it all others that are read, or written, as it is. */
void gpuring_stage_sink_fill(const struct gpuring_stage_block *block, int byte);

/* Nothing of it is used any more. From one thread. */
void gpuring_stage_sink_close(void);

#endif
