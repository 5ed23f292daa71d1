/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Operations of one communicator that wait for their turn: non-blocking and persistent ones,
 * blocking ones that find others before them, all that the ranks must agree on first, and all that
 * come before the communicator is wired up. They run one after the other, in the order of the
 * calls, which MPI requires to be the same on all ranks; but persistent calls, which each rank
 * starts in an order of its own, in that which the ranks make out (persistent_order.h). Different
 * communicators' queues are independent.
 *
 * The queue is moved on by whoever waits for one of its items, and by a progress callback in
 * opal_progress for the others.
 */
#ifndef GPURING_SERVE_QUEUE_H
#define GPURING_SERVE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/serve/eligible.h"
#include "mca/coll_gpuring/util/backoff.h"

struct mca_coll_gpuring_module_t;
struct gpuring_fallback_allreduce;

/* Special outcome of an item whose caller may hand the call to the previous module itself. */
#define GPURING_ITEM_FALL_BACK 2

struct gpuring_item {
    struct gpuring_item *next;
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_call call;
    ompi_request_t *request; /* NULL: the caller waits */
    bool may_hand_on;        /* .. and can call the previous module, as all ranks do */
    bool wires;              /* nothing to run: it waits for the wire-up */
    uint32_t persistent;     /* the number of a persistent call; 0: none, its place is among all */
    uint32_t made;           /* how many persistent calls were made before it */
    bool placed;             /* the ranks know that it comes next, see persistent_order.h */
    int status;              /* outcome; valid once done */
    int done;                /* set (release) by the finisher, read (acquire) by the waiter */
    bool started;            /* the engine or the simple path runs it */
    bool agreeing;           /* call.agree: an agreement is under way */
    bool agreed;             /* .. the ranks have agreed */
    bool handed_on;          /* they agreed that no engine can run it */
    bool mixed;              /* .. for some ranks have a buffer on a GPU, others none */
    bool left;               /* it is handed on for the size is left to the previous module */
    struct gpuring_fallback_allreduce *simple;
    struct gpuring_run_check *check; /* coll_gpuring_check=data: the second path, see execute.c */
};

struct gpuring_queue {
    pthread_mutex_t lock; /* guards the list, the items' state and the module's state */
    struct gpuring_item *head, **tail;
    struct gpuring_item
        *started;        /* persistent calls that wait for their turn, see persistent_order.h */
    uint32_t made, live; /* persistent calls: made so far; not yet freed */
    uint32_t gone;       /* so many of the first ones are freed on all ranks */
    bool telling;        /* the ranks tell each other what they have started */
    uint64_t finished;   /* items so far */
    uint64_t progress;   /* of the module when a thread last left it; atomic, for pauses */
    bool listed;         /* the progress callback looks at this queue */
    struct gpuring_backoff pause; /* of the callback */
    struct mca_coll_gpuring_module_t *next_listed;
};

void gpuring_queue_init(struct gpuring_queue *queue);
/* The module goes: no callback looks at its queue any more. */
void gpuring_queue_destroy(struct mca_coll_gpuring_module_t *module);

/* Partner: item_finish. Who sees an empty queue sees all that its last item did. */
static inline bool gpuring_queue_empty(const struct gpuring_queue *queue)
{
    return __atomic_load_n(&queue->head, __ATOMIC_ACQUIRE) == NULL &&
           __atomic_load_n(&queue->started, __ATOMIC_RELAXED) == NULL;
}

/* Append; item->call, module and request are set. Items with a request keep the communicator. */
void gpuring_queue_push(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* Move on until the item is done; returns its status. */
int gpuring_queue_wait(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* At close: no callback any more. */
void gpuring_queue_close(void);

#endif
