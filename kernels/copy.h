/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Copies of the host executor. Buffers must not overlap, and need no alignment. Any thread may call
 * these functions.
 */
#ifndef GPURING_COPY_H
#define GPURING_COPY_H

#include <stddef.h>

/* Copy from a slot, or within a rank's own memory. */
void gpuring_copy(void *to, const void *from, size_t bytes);

/*
 * Copy into a slot whose lines another core has read. Uses `rep movsb`, which stores whole lines
 * without loading them first, or stores around the caches. From 4 KiB on, it uses the way that was
 * faster in the last trial. Bytes per nanosecond into slots of 32 KiB, between cores that share a
 * cache and between other cores: Zen 5 `rep movsb` 54 and 25, vectors 41 and 5.5; Zen 4 `rep movsb`
 * 8.6 and 2.2, vectors 4.9 and 1.3, around the caches 17 and 17. For copies from a slot, vectors
 * are at least as fast.
 */
void gpuring_copy_to_slot(void *to, const void *from, size_t bytes);

/* Copy data that is larger than the caches with stores around them. Other threads may see the
 * stores late, but not later than gpuring_copy_stream_end. If the processor has no such stores,
 * this is memcpy. */
void gpuring_copy_stream(void *to, const void *from, size_t bytes);
void gpuring_copy_stream_end(void);

#endif
