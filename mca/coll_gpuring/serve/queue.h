/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The calls of one communicator that wait for their turn:
 *
 *   - non-blocking calls, and persistent calls that have been started,
 *   - blocking calls that are made while the queue is not empty,
 *   - calls on which the ranks must agree first,
 *   - and all calls that are made before the communicator is wired up.
 *
 * They run one after another in the order of the calls, which MPI requires to be the same on all
 * ranks. Each persistent call has a separate queue (tracks.h).
 *
 * A call with a request may wait for a vote, after which it may be delegated (mixed_memory.c).
 * While the queue has such a call, all later calls that must be delegated wait, because the
 * previous module must get its calls in the same order on all ranks.
 *
 * This file stores the calls, and progress.c advances them. No MPI.
 */
#ifndef GPURING_SERVE_QUEUE_H
#define GPURING_SERVE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/agree/pending.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/serve/decide.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_check;

/* A call passes through these phases in this order, and may skip those between QUEUED and DONE. */
enum gpuring_phase {
    GPURING_PHASE_QUEUED,
    GPURING_PHASE_AGREEING, /* the ranks agree on where its buffers are */
    GPURING_PHASE_RUNNING,  /* on the engine */
    GPURING_PHASE_CHECKING, /* its result is compared (check.c) */
    GPURING_PHASE_DONE,
};

struct gpuring_item {
    struct gpuring_list node;
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_call call;
    struct gpuring_pending pending;
    enum gpuring_form form;
    void (*complete)(struct gpuring_item *item); /* NULL: a thread waits for phase DONE */
    /* Delegates a call with a request. NULL if the call can no longer be delegated. The caller
     * holds the queue's lock. Returns 0 if the previous module has the call now, or the status with
     * which the item must complete. */
    int (*delegate)(struct gpuring_item *item);
    enum gpuring_phase phase;    /* DONE is written with release and read with acquire */
    int status;                  /* the outcome of a served call */
    enum gpuring_reason reason;  /* NONE, or the reason for delegating the call */
    struct gpuring_check *check; /* for coll_gpuring_check=data (check.c) */
};

struct gpuring_queue {
    pthread_mutex_t lock; /* guards everything except `length`, the phases of items and the state
                             of the module */
    struct gpuring_list items;
    uint32_t length;    /* number of items; atomic, see gpuring_queue_empty */
    uint32_t undecided; /* number of items with a `delegate`; atomic, like `length` */
    uint64_t finished;  /* number of items that have finished so far */
};

/* Set the phase. A waiting thread may read it at the same time. */
static inline void gpuring_item_enter(struct gpuring_item *item, enum gpuring_phase phase)
{
    __atomic_store_n(&item->phase, phase, __ATOMIC_RELAXED);
}

void gpuring_queue_init(struct gpuring_queue *queue);
void gpuring_queue_fini(struct gpuring_queue *queue);

/* Return true if the queue is empty. Partner: gpuring_queue_finish. A thread that sees an empty
 * queue also sees all effects of its last item. */
static inline bool gpuring_queue_empty(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->length, __ATOMIC_ACQUIRE) == 0;
}

/* Return true if the queue has a call with a request that may still be delegated. */
static inline bool gpuring_queue_undecided(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->undecided, __ATOMIC_ACQUIRE) != 0;
}

/* Record that the item is served or refused, and can no longer be delegated. The caller holds the
 * lock. */
void gpuring_queue_decide(struct gpuring_queue *queue, struct gpuring_item *item);

/* Add an item. Its members call, pending, form, module, complete, delegate and reason must be
 * set. Its phase becomes QUEUED, or RUNNING if the call is running already and the queue is
 * empty. The caller holds the lock. */
void gpuring_queue_add(struct gpuring_queue *queue, struct gpuring_item *item,
                       enum gpuring_phase phase);

/* Return the next item, or NULL if there is none. The caller holds the lock. */
struct gpuring_item *gpuring_queue_next(const struct gpuring_queue *queue);

/* Delegate the next item. If that fails, move it to the list `finished`. The caller holds the
 * lock. */
void gpuring_queue_delegate(struct gpuring_queue *queue, struct gpuring_list *finished);

/* Move the next item to the list `finished`, with its status. The caller holds the lock. */
void gpuring_queue_finish(struct gpuring_queue *queue, int status, struct gpuring_list *finished);

/* Notify the waiting threads and complete the requests of finished items. Called without any lock,
 * because this may call a user's callback or free the communicator. */
void gpuring_queue_complete(struct gpuring_list *finished);

#endif
