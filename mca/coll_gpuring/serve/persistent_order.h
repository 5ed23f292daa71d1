/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Find the next call of the queue of a communicator with persistent calls. MPI requires all ranks
 * to create persistent calls in the same order, but each rank may start them in a different order
 * and at different points among its other calls:
 *
 *     rank 0    start 1    start 2    MPI_Allreduce
 *     rank 1    start 2    MPI_Allreduce    start 1
 *
 * Therefore the ranks report to each other which calls they have started. Ranks of one node do this
 * on their status pages (transport/reports.c). Ranks of different nodes, and ranks with more calls
 * than fit there, send messages (oob/oob.h). The calls that all ranks have started run next, in the
 * order in which they were created. After them, the next call of the common order runs, if all
 * ranks have reached it. If there is no call that all ranks have reported, the ranks report again.
 * The order of one rank cannot be used for all, because another rank may wait for its second call
 * to complete before it starts its first one.
 *
 * A call whose vote has no result yet is not reported, because some ranks may delegate it.
 *
 * The cost is a gathering of reports before each call, or before several calls that were started
 * together. All calls of the communicator pay for it, from the creation of the first persistent
 * call until a gathering finds that all persistent calls are freed. A barrier that all ranks have
 * reported needs no other synchronization (execute.c).
 *
 * Pure functions on the queue. The caller holds its lock, except for gpuring_persistent_make and
 * gpuring_persistent_free, which take it. No MPI.
 */
#ifndef GPURING_SERVE_PERSISTENT_ORDER_H
#define GPURING_SERVE_PERSISTENT_ORDER_H

#include <stddef.h>

#include "mca/coll_gpuring/serve/queue.h"

/* Record that a persistent call was created or freed. gpuring_persistent_make returns the number of
 * the call, counted from 1. */
uint32_t gpuring_persistent_make(struct gpuring_queue *queue);
void gpuring_persistent_free(struct gpuring_queue *queue);

/* Return true if ranks may start their calls in different orders. Needs no lock. */
static inline bool gpuring_persistent_exist(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->made, __ATOMIC_RELAXED) !=
           __atomic_load_n(&queue->gone, __ATOMIC_RELAXED);
}

/* Return true if this rank knows that the next item is also the next one on all other ranks. */
bool gpuring_persistent_ordered(const struct gpuring_queue *queue);

/* Write the report on the calls that this rank has started. Its size in words is the same on all
 * ranks. */
uint32_t gpuring_persistent_words(const struct gpuring_queue *queue);
void gpuring_persistent_report(const struct gpuring_queue *queue, uint32_t *words);

/*
 * Move the calls that all ranks have reported to the front of the queue. Calls that were started
 * after the report wait. If a rank has more calls than fit into a report, only increase the room of
 * the next report. reports: the reports of all ranks, in the order of the ranks.
 */
void gpuring_persistent_order(struct gpuring_queue *queue, const uint32_t *const *reports,
                              int nranks, int rank);

/* Move all calls to the queue in any order, because they will fail with the module. */
void gpuring_persistent_order_all(struct gpuring_queue *queue);

#endif
