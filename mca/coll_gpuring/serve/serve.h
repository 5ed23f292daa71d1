/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What a module has for the calls that it serves. */
#ifndef GPURING_SERVE_SERVE_H
#define GPURING_SERVE_SERVE_H

#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/serve/watchdog.h"

struct gpuring_fallback_allreduce;
struct mca_coll_gpuring_module_t;

struct gpuring_serve {
    struct gpuring_queue queue;
    struct gpuring_watchdog watchdog;
    struct gpuring_fallback_allreduce *fallback;
    uint64_t on_gpu; /* the number of the last call on a GPU, see buffer_mismatch.h */
    bool settled;    /* a call has passed after which all ranks are READY; see left.h */
};

/*
 * Make what the module needs to serve: its queue, its exchange, its wire-up and its fallback. A
 * wire-up begins and ends without asking for memory, so that it cannot fail at one rank alone.
 * Returns 0 or GPURING_ERR_NOMEM. close also follows an open that failed.
 */
int gpuring_serve_open(struct mca_coll_gpuring_module_t *module);
void gpuring_serve_close(struct mca_coll_gpuring_module_t *module);

#endif
