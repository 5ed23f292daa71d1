/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls of one communicator that wait for their turn: non-blocking and persistent ones, blocking
 * ones that find others before them, all that the ranks must agree on first, and all that come
 * before the communicator is wired up. They run one after the other, in the order of the calls,
 * which MPI requires to be the same on all ranks; only persistent calls, which each rank starts in
 * an order of its own, wait apart until the ranks know which of them is next (persistent_order.h).
 *
 * A call with a request may wait for a vote, which may have it delegated (mixed_memory.c). As long
 * as there are such, all calls that are to be delegated wait behind them, for the previous module
 * must get its calls in the same order on all ranks.
 *
 *     items      next <-> ... <-> last        in the common order
 *     unordered  persistent calls whose turn is not known
 *
 * This file keeps the calls; progress.c moves them on. No MPI.
 */
#ifndef GPURING_SERVE_QUEUE_H
#define GPURING_SERVE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/serve/decide.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_check;

/* In this order; of the middle ones a call takes those that it needs. */
enum gpuring_phase {
    GPURING_PHASE_QUEUED,
    GPURING_PHASE_NEXT,     /* all ranks know that its turn is next */
    GPURING_PHASE_AGREEING, /* the ranks agree on where its buffers are */
    GPURING_PHASE_RUNNING,  /* on the engine */
    GPURING_PHASE_CHECKING, /* the results are compared, see check.c */
    GPURING_PHASE_DONE,
};

struct gpuring_item {
    struct gpuring_list node;
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_call call;
    enum gpuring_form form;
    void (*complete)(struct gpuring_item *item); /* NULL: a thread waits for phase DONE */
    /* Of a call with a request that may be delegated yet: do that. Not 0: the item is to complete
     * with that status. Else it is the previous module's. With the queue's lock. */
    int (*delegate)(struct gpuring_item *item);
    uint32_t persistent;         /* the number of a persistent call; 0: it is none */
    uint32_t made;               /* how many persistent calls were made before it was queued */
    enum gpuring_phase phase;    /* DONE is written with release, and waited for with acquire */
    int status;                  /* the outcome: of the call, if it was served; */
    enum gpuring_reason reason;  /* .. or why it was not */
    struct gpuring_check *check; /* coll_gpuring_check=data, see check.c */
};

struct gpuring_queue {
    pthread_mutex_t lock; /* guards all but `length`, the items' phases and the module's state */
    struct gpuring_list items, unordered;
    uint32_t length;     /* of both; atomic, see gpuring_queue_empty */
    uint32_t made, live; /* persistent calls: made so far; not yet freed */
    uint32_t gone;       /* so many of the first ones are freed on all ranks */
    uint32_t room;       /* of their numbers in a report; the same on all ranks */
    bool gathering;      /* of the persistent calls that each rank has started */
    uint32_t undecided;  /* items with a `delegate`; atomic, as `length` */
    uint64_t finished;   /* items so far */
};

/* A waiting thread may read the phase meanwhile. */
static inline void gpuring_item_enter(struct gpuring_item *item, enum gpuring_phase phase)
{
    __atomic_store_n(&item->phase, phase, __ATOMIC_RELAXED);
}

void gpuring_queue_init(struct gpuring_queue *queue);
void gpuring_queue_fini(struct gpuring_queue *queue);

/* Partner: gpuring_queue_finish. Who sees an empty queue sees all that its last item did. */
static inline bool gpuring_queue_empty(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->length, __ATOMIC_ACQUIRE) == 0;
}

/* Is there a call with a request that may be delegated yet? */
static inline bool gpuring_queue_undecided(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->undecided, __ATOMIC_ACQUIRE) != 0;
}

/* The item is served, or refused: it is not delegated any more. With the lock. */
void gpuring_queue_decide(struct gpuring_queue *queue, struct gpuring_item *item);

/* Add an item whose call, form, module, complete, delegate, persistent and reason are set.
 * Takes the lock. */
void gpuring_queue_add(struct gpuring_queue *queue, struct gpuring_item *item);

/* The next item in the common order; NULL: only unordered ones, or none. With the lock. */
struct gpuring_item *gpuring_queue_next(const struct gpuring_queue *queue);

/* Let the next item delegate itself; it is moved to `finished` if that fails. With the lock. */
void gpuring_queue_delegate(struct gpuring_queue *queue, struct gpuring_list *finished);

/* Move the next item to the list `finished`, with its status. With the lock. */
void gpuring_queue_finish(struct gpuring_queue *queue, int status, struct gpuring_list *finished);

/* Notify those that wait for finished items. Without any lock: a callback may run a user's code, or
 * free the communicator. */
void gpuring_queue_complete(struct gpuring_list *finished);

#endif
