/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How to wait without keeping a core from those that are waited for: look again at once, then
 * yield, then nap. No clock is read: one look takes about a microsecond.
 */
#ifndef GPURING_UTIL_BACKOFF_H
#define GPURING_UTIL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct gpuring_backoff {
    uint32_t vain;     /* looks since the last progress */
    uint64_t progress; /* of what is waited for, at that time */
};

/*
 * Between two looks that found nothing. progress: a number that changes whenever what is waited for
 * moves on; crowded: there are more ranks than cores.
 */
void gpuring_backoff(struct gpuring_backoff *pause, uint64_t progress, bool crowded);

/*
 * The same for the progress callback, which must not slow down other traffic: only naps, and only
 * after many looks that found nothing.
 */
void gpuring_backoff_nap(struct gpuring_backoff *pause, uint64_t progress);

#endif
