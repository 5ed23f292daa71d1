/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/backoff.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

/*
 * Cores may be oversubscribed even if there are no more ranks than cores, because progress threads,
 * other jobs, and other nodes simulated on this host are not counted. sched_yield alone is not
 * enough: it does not yield to tasks of other scheduling groups. Linux 6.18 was observed to run two
 * yielding ranks for minutes while everything else on their cores starved.
 */
#define LOOKS_BEFORE_YIELD 64
#define LOOKS_BEFORE_NAP   2000  /* a few milliseconds with yields */
#define NAP_NS             20000 /* plus the timer slack, 50 us by default */

static void nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_NS};

    nanosleep(&time, NULL); /* waking early does no harm */
}

/* Count a look, and return the number of looks since the last progress. */
static uint32_t count(struct gpuring_backoff *pause, uint64_t progress)
{
    if (progress != pause->progress) {
        pause->progress = progress;
        pause->vain = 0;
    }
    return pause->vain < UINT32_MAX ? ++pause->vain : pause->vain;
}

void gpuring_backoff(struct gpuring_backoff *pause, uint64_t progress, bool crowded)
{
    uint32_t vain = count(pause, progress);

    if (vain > LOOKS_BEFORE_NAP) {
        nap();
    } else if (crowded || vain > LOOKS_BEFORE_YIELD) {
        sched_yield();
    }
}

void gpuring_backoff_nap(struct gpuring_backoff *pause, uint64_t progress)
{
    if (count(pause, progress) > LOOKS_BEFORE_NAP) {
        nap();
    }
}
