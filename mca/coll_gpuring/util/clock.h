/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Monotonic time. Any thread. */
#ifndef GPURING_UTIL_CLOCK_H
#define GPURING_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GPURING_SECOND UINT64_C(1000000000) /* nanoseconds */

/* Seconds after which a wait is reported once if coll_gpuring_timeout is 0. The wait goes on. */
#define GPURING_REPORT_SECONDS 300

static inline uint64_t gpuring_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * GPURING_SECOND + (uint64_t) now.tv_nsec;
}

/* The same in seconds. */
static inline double gpuring_now(void)
{
    return (double) gpuring_now_ns() * 1e-9;
}

#endif
