/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/queue.h"

void gpuring_queue_init(struct gpuring_queue *queue)
{
    *queue = (struct gpuring_queue){.length = 0};
    pthread_mutex_init(&queue->lock, NULL);
    gpuring_list_init(&queue->items);
}

void gpuring_queue_fini(struct gpuring_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
}

/* Change a number that other threads read without the lock. A locked instruction is not needed,
 * because only the holder of the lock changes it. */
static void count(uint32_t *number, int change)
{
    __atomic_store_n(number, *number + (uint32_t) change, __ATOMIC_RELEASE);
}

void gpuring_queue_add(struct gpuring_queue *queue, struct gpuring_item *item,
                       enum gpuring_phase phase)
{
    item->phase = phase;
    item->status = 0;
    item->check = NULL;
    if (item->delegate != NULL) {
        count(&queue->undecided, 1);
    }
    gpuring_list_append(&queue->items, &item->node);
    count(&queue->length, 1);
}

struct gpuring_item *gpuring_queue_next(const struct gpuring_queue *queue)
{
    return GPURING_LIST_FIRST(&queue->items, struct gpuring_item, node);
}

void gpuring_queue_decide(struct gpuring_queue *queue, struct gpuring_item *item)
{
    if (item->delegate != NULL) {
        item->delegate = NULL;
        count(&queue->undecided, -1);
    }
}

static void leave(struct gpuring_queue *queue)
{
    queue->finished++;
    /* This must be last, because another thread that sees an empty queue runs its call immediately,
     * without the lock. */
    count(&queue->length, -1);
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
    count(&queue->undecided, -1);
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
        if (complete != NULL) { /* NULL: a thread waited for DONE, and may have freed the item
                                   since */
            complete(item);
        }
    }
}
