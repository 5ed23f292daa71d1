/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Waiting without keeping a core from the processes that the caller waits for: look again
 * immediately, then yield, then nap. No clock is read, because one look takes about a microsecond.
 */
#ifndef GPURING_UTIL_BACKOFF_H
#define GPURING_UTIL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct gpuring_backoff {
    uint32_t vain;     /* looks since the last progress */
    uint64_t progress; /* the progress number at that time */
};

/*
 * Call between two looks that found nothing. progress is a number that changes with every step of
 * the operation that the caller waits for. crowded means that there are more ranks than cores.
 */
void gpuring_backoff(struct gpuring_backoff *pause, uint64_t progress, bool crowded);

/*
 * The variant for the progress callback, which must not slow down other traffic. It only naps, and
 * only after many looks that found nothing.
 */
void gpuring_backoff_nap(struct gpuring_backoff *pause, uint64_t progress);

#endif
