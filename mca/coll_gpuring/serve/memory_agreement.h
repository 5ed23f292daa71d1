/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The agreement of coll_gpuring_agree=always: one small exchange in front of a call, by which all
 * ranks learn whether all of them have a buffer on a GPU.
 */
#ifndef GPURING_SERVE_MEMORY_AGREEMENT_H
#define GPURING_SERVE_MEMORY_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/serve/eligible.h"

struct mca_coll_gpuring_module_t;
struct gpuring_item;

/*
 * Move the agreement of the queue's head on, with the queue's lock held. 0: item->agreed is set,
 * and item->handed_on if the ranks cannot all work on GPUs; GPURING_AGAIN, or an error.
 */
int gpuring_agree_progress(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* Why an item that they agreed about is handed on. */
enum gpuring_reason gpuring_agree_reason(const struct gpuring_item *item);

#endif
