/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Running calls on a READY module: blocking ones at once, queued ones piece by piece. */
#ifndef GPURING_SERVE_EXECUTE_H
#define GPURING_SERVE_EXECUTE_H

struct mca_coll_gpuring_module_t;
struct gpuring_call;
struct gpuring_item;

/* Run a call at once; returns 0 or the error, with which the module has failed. */
int gpuring_execute_blocking(struct mca_coll_gpuring_module_t *module,
                             const struct gpuring_call *call);

/* Move the next item of the queue on, with the queue's lock held: its outcome, or GPURING_AGAIN. */
int gpuring_execute_item(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* The module fails; what the engine ran has stopped when this returns. */
void gpuring_execute_fail(struct mca_coll_gpuring_module_t *module, int status);

/* Forget what an item keeps for its check. */
void gpuring_execute_discard(struct gpuring_item *item);

#endif
