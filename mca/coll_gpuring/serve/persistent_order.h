/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Whose turn it is in a queue, where a communicator has persistent calls. MPI has them made in one
 * order by all ranks, but each rank may start them in an order of its own, and at other places
 * among its other calls:
 *
 *     rank 0    start 1    start 2    MPI_Allreduce
 *     rank 1    start 2    MPI_Allreduce    start 1
 *
 * So the ranks tell each other what they have started, by a gathering (exchange.h), and what all of
 * them have is run next, in the order of the calls' making, before the call that has its place in
 * the common order, if all have come to that one. If they have nothing in common yet, they tell
 * each other again. To take any rank's order would not do: a rank may wait for its second call
 * before it starts its first.
 *
 * A gathering before a call, or before several that were started together, is the price, which all
 * calls pay between the making of the first persistent one and the first gathering that finds all
 * of them freed.
 */
#ifndef GPURING_SERVE_PERSISTENT_ORDER_H
#define GPURING_SERVE_PERSISTENT_ORDER_H

#include "mca/coll_gpuring/serve/queue.h"

struct mca_coll_gpuring_module_t;

/* May calls come in different order at different ranks? */
static inline bool gpuring_persistent_open(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->made, __ATOMIC_RELAXED) !=
           __atomic_load_n(&queue->gone, __ATOMIC_RELAXED);
}

/* A persistent call is made, or freed. */
uint32_t gpuring_persistent_make(struct gpuring_queue *queue);
void gpuring_persistent_free(struct gpuring_queue *queue);

/* With the queue's lock held, and not empty: 0 if its head is to run, GPURING_AGAIN, or an error
 * with which the module is to fail. */
int gpuring_persistent_progress(struct mca_coll_gpuring_module_t *module);

#endif
