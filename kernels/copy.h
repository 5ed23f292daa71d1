/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Copies of the host executor. Buffers do not overlap and need no alignment. Any thread.
 */
#ifndef GPURING_COPY_H
#define GPURING_COPY_H

#include <stddef.h>

/* Out of a slot, or within a rank's own memory. */
void gpuring_copy(void *to, const void *from, size_t bytes);

/*
 * Into a slot, whose lines another core has read: by `rep movsb`, which stores whole lines without
 * loading them first, or around the caches; of 4 KiB and more whichever was quicker of late. Bytes
 * a nanosecond into slots of 32 KiB, between cores that share a cache and others: Zen 5 `rep movsb`
 * 54 and 25, vectors 41 and 5.5; Zen 4 `rep movsb` 8.6 and 2.2, vectors 4.9 and 1.3, around the
 * caches 17 and 17. To copy out of a slot vectors are as good, or better.
 */
void gpuring_copy_to_slot(void *to, const void *from, size_t bytes);

/* By stores around the caches, for more than they hold. Other threads may see them late, but not
 * after gpuring_copy_stream_end. Where the processor has no such stores, as memcpy. */
void gpuring_copy_stream(void *to, const void *from, size_t bytes);
void gpuring_copy_stream_end(void);

#endif
