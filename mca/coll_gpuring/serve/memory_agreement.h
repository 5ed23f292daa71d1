/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The agreement of coll_gpuring_agree=always: one small exchange in front of a call, by which all
 * ranks learn whether all of them have a buffer on a GPU.
 */
#ifndef GPURING_SERVE_MEMORY_AGREEMENT_H
#define GPURING_SERVE_MEMORY_AGREEMENT_H

struct mca_coll_gpuring_module_t;
struct gpuring_item;

/*
 * Move the agreement of the queue's next item on, with the queue's lock held. 0: its phase is
 * AGREED, and its reason is not NONE if the ranks cannot all work on GPUs; GPURING_AGAIN, or an
 * error.
 */
int gpuring_agree_progress(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

#endif
