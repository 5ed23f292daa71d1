/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Moving queues on: by whoever waits for one of the items, and by a progress callback in
 * opal_progress for those with requests. The queues of different communicators are independent.
 */
#ifndef GPURING_SERVE_PROGRESS_H
#define GPURING_SERVE_PROGRESS_H

#include "mca/coll_gpuring/serve/queue.h"

struct gpuring_serve;
struct mca_coll_gpuring_module_t;

/* Queue an item (see gpuring_queue_add) that the callback moves on. */
void gpuring_progress_start(struct gpuring_item *item);

/* Queue a call and wait for its end: its status. *reason: NONE, or why it is to be delegated. */
int gpuring_progress_call(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          enum gpuring_form form, enum gpuring_reason *reason);

/* The module goes: the callback looks at its queue no more. */
void gpuring_progress_forget(struct gpuring_serve *serve);

/* At close: no callback any more. */
void gpuring_progress_close(void);

#endif
