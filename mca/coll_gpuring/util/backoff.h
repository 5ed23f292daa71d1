/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Waits that leave the core to the processes that the caller waits for.
 *
 * A waiting caller that has a core of its own keeps it for 10 ms, as MPI's own waits do. It does
 * not yield: a yield gives a busy process on the same core a whole time slice, in which the peer
 * may answer thousands of times. If the ranks of the node share cores, the caller yields after each
 * check. After 10 ms, it naps between checks.
 */
#ifndef GPURING_UTIL_BACKOFF_H
#define GPURING_UTIL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* A wait. All zero: it has not begun. */
struct gpuring_backoff {
    uint32_t looks;    /* number of checks since the last progress */
    bool late;         /* naps are due */
    uint64_t progress; /* the progress number at the last check */
    uint64_t since_ns; /* first reading of the clock after the last progress; 0: none */
};

/*
 * Count a check that found nothing. Yield if `crowded`, which means that ranks share cores, and nap
 * if that is due. `progress` is a number that changes with every step of the operation that the
 * caller waits for.
 */
void gpuring_backoff(struct gpuring_backoff *pause, uint64_t progress, bool crowded);

/* Count a check that found nothing, without yielding or napping. Return true if the caller has
 * waited for `late_ns` nanoseconds without progress. It must then nap. */
bool gpuring_backoff_late(struct gpuring_backoff *pause, uint64_t progress, uint64_t late_ns);

#endif
