/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/queue.h"

void gpuring_queue_init(struct gpuring_queue *queue)
{
    *queue = (struct gpuring_queue){.room = 13};
    pthread_mutex_init(&queue->lock, NULL);
    gpuring_list_init(&queue->items);
    gpuring_list_init(&queue->unordered);
}

void gpuring_queue_fini(struct gpuring_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
}

void gpuring_queue_add(struct gpuring_queue *queue, struct gpuring_item *item)
{
    item->phase = GPURING_PHASE_QUEUED;
    item->status = 0;
    item->check = NULL;
    pthread_mutex_lock(&queue->lock);
    item->made = queue->made;
    if (item->delegate != NULL) {
        __atomic_fetch_add(&queue->undecided, 1, __ATOMIC_RELAXED);
    }
    gpuring_list_append(item->persistent != 0 ? &queue->unordered : &queue->items, &item->node);
    __atomic_fetch_add(&queue->length, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&queue->lock);
}

struct gpuring_item *gpuring_queue_next(const struct gpuring_queue *queue)
{
    return GPURING_LIST_FIRST(&queue->items, struct gpuring_item, node);
}

void gpuring_queue_decide(struct gpuring_queue *queue, struct gpuring_item *item)
{
    if (item->delegate != NULL) {
        item->delegate = NULL;
        __atomic_fetch_sub(&queue->undecided, 1, __ATOMIC_RELEASE);
    }
}

static void leave(struct gpuring_queue *queue)
{
    queue->finished++;
    /* This must be last, because another thread that sees an empty queue runs its call immediately,
     * without the lock. */
    __atomic_fetch_sub(&queue->length, 1, __ATOMIC_RELEASE);
}

void gpuring_queue_delegate(struct gpuring_queue *queue, struct gpuring_list *finished)
{
    struct gpuring_item *item = gpuring_queue_next(queue);
    int status;

    gpuring_list_remove(&item->node); /* first, because delegate may complete and free the item */
    status = item->delegate(item);
    if (status != 0) {
        item->status = status;
        gpuring_list_append(finished, &item->node);
    }
    __atomic_fetch_sub(&queue->undecided, 1, __ATOMIC_RELEASE);
    leave(queue);
}

void gpuring_queue_finish(struct gpuring_queue *queue, int status, struct gpuring_list *finished)
{
    struct gpuring_item *item = gpuring_queue_next(queue);

    item->status = status;
    gpuring_list_remove(&item->node);
    gpuring_list_append(finished, &item->node);
    gpuring_queue_decide(queue, item);
    leave(queue);
}

void gpuring_queue_complete(struct gpuring_list *finished)
{
    struct gpuring_item *item;

    while ((item = GPURING_LIST_FIRST(finished, struct gpuring_item, node)) != NULL) {
        void (*complete)(struct gpuring_item *) = item->complete;

        gpuring_list_remove(&item->node);
        __atomic_store_n(&item->phase, GPURING_PHASE_DONE, __ATOMIC_RELEASE);
        if (complete != NULL) { /* otherwise the waiting thread may have left, with the item */
            complete(item);
        }
    }
}
