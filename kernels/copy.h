/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Copies of the host executor, for memory that another core has written or reads next. The C
 * library's memcpy takes `rep movsb` for such lengths, which waits for every line of another core.
 * Buffers do not overlap and need no alignment. Any thread.
 */
#ifndef GPURING_COPY_H
#define GPURING_COPY_H

#include <stddef.h>

void gpuring_copy(void *to, const void *from, size_t bytes);

/* The same with stores around the caches; what is stored next is seen later. Where the processor
 * has no such stores, as above. */
void gpuring_copy_stream(void *to, const void *from, size_t bytes);

#endif
