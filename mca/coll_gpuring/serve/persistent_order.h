/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which call of a queue is next, where a communicator has persistent calls. MPI has them made in
 * one order by all ranks, but each rank may start them in an order of its own, and at other places
 * among its other calls:
 *
 *     rank 0    start 1    start 2    MPI_Allreduce
 *     rank 1    start 2    MPI_Allreduce    start 1
 *
 * So the ranks gather what each has started (oob/oob.h). What all of
 * them have started runs next, in the order in which the calls were made; behind it the next call
 * of the common order, if all ranks have come to that one. If they have nothing in common yet, they
 * gather again. The order of any one rank would not do: another may wait for its second call before
 * it starts its first.
 *
 * A call whose vote has no result yet is in no report: some ranks may delegate it.
 *
 * The price is a gathering before a call, or before several that were started together. All calls
 * pay it between the making of the first persistent one and the first gathering that finds all of
 * them freed.
 *
 * Pure functions on the queue, to be called with its lock; make and free take it. No MPI.
 */
#ifndef GPURING_SERVE_PERSISTENT_ORDER_H
#define GPURING_SERVE_PERSISTENT_ORDER_H

#include <stddef.h>

#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/oob/oob.h"

/* A persistent call is made, which gets a number from 1, or freed. */
uint32_t gpuring_persistent_make(struct gpuring_queue *queue);
void gpuring_persistent_free(struct gpuring_queue *queue);

/* May calls come in different order at different ranks? Needs no lock. */
static inline bool gpuring_persistent_exist(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->made, __ATOMIC_RELAXED) !=
           __atomic_load_n(&queue->gone, __ATOMIC_RELAXED);
}

/* Is it known that the next item is the next on all ranks? */
bool gpuring_persistent_ordered(const struct gpuring_queue *queue);

/* What this rank has started, for the others: so many bytes, the same on all ranks. */
size_t gpuring_persistent_bytes(const struct gpuring_queue *queue);
void gpuring_persistent_report(const struct gpuring_queue *queue, uint32_t *words);

/* Put what all ranks have reported first in line. What has been started here since waits. If a rank
 * has more to report than there is room for, there is room the next time. */
void gpuring_persistent_order(struct gpuring_queue *queue, const struct gpuring_gathered *reports,
                              int rank);

/* Put all in line: they end with the module's failure. */
void gpuring_persistent_order_all(struct gpuring_queue *queue);

#endif
