/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/backoff.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "mca/coll_gpuring/util/clock.h"

/*
 * A time slice of Linux is about 3 ms. If the peer has lost its core for a slice, the caller must
 * not lose its own when the peer continues. After several slices, a nap costs less than a hundredth
 * of the time that the caller has waited.
 *
 * Yields alone are not enough for other processes, because sched_yield does not yield to tasks of
 * other scheduling groups. Linux 6.18 was observed to run two yielding ranks for minutes while
 * everything else on their cores starved.
 */
#define LATE_NS         UINT64_C(10000000)
#define NAP_NS          20000 /* plus the timer slack, 50 us by default */
#define LOOKS_PER_CLOCK 16

bool gpuring_backoff_late(struct gpuring_backoff *pause, uint64_t progress, uint64_t late_ns)
{
    if (progress != pause->progress) {
        *pause = (struct gpuring_backoff){.progress = progress};
    } else if (++pause->looks % LOOKS_PER_CLOCK == 0) {
        uint64_t now = gpuring_now_ns();

        pause->since_ns = pause->since_ns != 0 ? pause->since_ns : now;
        pause->late = now - pause->since_ns >= late_ns;
    }
    return pause->late;
}

void gpuring_backoff(struct gpuring_backoff *pause, uint64_t progress, bool crowded)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    if (gpuring_backoff_late(pause, progress, LATE_NS)) {
        nanosleep(&nap, NULL); /* waking early does no harm */
    } else if (crowded) {
        sched_yield();
    }
}
