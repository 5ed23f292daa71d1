/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The watchdog: looks, about every millisecond of waiting, whether those that are waited for are
 * alive. After coll_gpuring_timeout seconds without progress it reports what this rank waits for,
 * and the call fails. With timeout 0 it never gives up (a rank may legally come hours later), but
 * reports once after 300 seconds.
 */
#ifndef GPURING_SERVE_WATCHDOG_H
#define GPURING_SERVE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct mca_coll_gpuring_module_t;

struct gpuring_watchdog {
    uint32_t looks;    /* since the clock was read */
    uint64_t last;     /* time of the last look at the peers, nanoseconds; 0: not waiting */
    uint64_t since;    /* time of the last progress */
    uint64_t progress; /* of the module at that time */
    bool reported;     /* what this wait is for */
    bool hinted;       /* at what may be the reason, in a wire-up */
};

/*
 * Called after each vain poll; cheap. 0, or the error with which the module must fail; the reason
 * was reported then.
 */
int gpuring_watchdog_look(struct mca_coll_gpuring_module_t *module);

/* A number that changes with every step forward, of operations and of the wire-up. */
uint64_t gpuring_watchdog_progress(const struct mca_coll_gpuring_module_t *module);

/* Report why an operation failed, unless a look has just done so. */
void gpuring_watchdog_report(struct mca_coll_gpuring_module_t *module, int status);

#endif
