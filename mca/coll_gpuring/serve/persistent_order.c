/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/persistent_order.h"

#include <stdlib.h>

/* A rank's report: words, of which there are as many as it has calls to name. */
enum {
    MADE,  /* how many persistent calls it has made */
    LIVE,  /* how many of them it has not freed */
    CALLS, /* the numbers of those that it has started, ascending; 0: its next item */
};

uint32_t gpuring_persistent_make(struct gpuring_queue *queue)
{
    uint32_t number;

    pthread_mutex_lock(&queue->lock);
    number = queue->made + 1;
    __atomic_store_n(&queue->made, number, __ATOMIC_RELAXED); /* partner: .._persistent_exist */
    queue->live++;
    pthread_mutex_unlock(&queue->lock);
    return number;
}

void gpuring_persistent_free(struct gpuring_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->live--;
    pthread_mutex_unlock(&queue->lock);
}

bool gpuring_persistent_ordered(const struct gpuring_queue *queue)
{
    const struct gpuring_item *next = gpuring_queue_next(queue);

    return next != NULL && (next->phase >= GPURING_PHASE_NEXT || next->made <= queue->gone);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

uint32_t *gpuring_persistent_report(const struct gpuring_queue *queue, size_t *count)
{
    uint32_t *words = malloc((CALLS + (size_t) queue->length + 1) * sizeof *words);
    const struct gpuring_item *item;
    size_t used = CALLS;

    if (words == NULL) {
        return NULL;
    }
    words[MADE] = queue->made;
    words[LIVE] = queue->live;
    GPURING_LIST_EACH(item, &queue->unordered, struct gpuring_item, node)
    {
        words[used++] = item->persistent;
    }
    if (gpuring_queue_next(queue) != NULL) {
        words[used++] = 0;
    }
    qsort(words + CALLS, used - CALLS, sizeof *words, ascending);
    *count = used;
    return words;
}

static bool all_have(const struct gpuring_gathered *reports, uint32_t number)
{
    for (int r = 0; r < reports->nranks; r++) {
        const uint32_t *words = gpuring_gathered_block(reports, r);
        size_t count = reports->sizes[r] / sizeof *words;

        if (count < CALLS ||
            bsearch(&number, words + CALLS, count - CALLS, sizeof *words, ascending) == NULL) {
            return false;
        }
    }
    return true;
}

/* No call that was made before is there any more: the order is what it was without them. */
static bool all_gone(const struct gpuring_gathered *reports, uint32_t made)
{
    for (int r = 0; r < reports->nranks; r++) {
        const uint32_t *words = gpuring_gathered_block(reports, r);

        if (reports->sizes[r] < CALLS * sizeof *words || words[MADE] != made || words[LIVE] != 0) {
            return false;
        }
    }
    return true;
}

static struct gpuring_item *find(const struct gpuring_queue *queue, uint32_t number)
{
    struct gpuring_item *item;

    GPURING_LIST_EACH(item, &queue->unordered, struct gpuring_item, node)
    {
        if (item->persistent == number) {
            return item;
        }
    }
    return NULL;
}

static void put_first(struct gpuring_queue *queue, struct gpuring_item *item)
{
    gpuring_list_remove(&item->node);
    gpuring_list_prepend(&queue->items, &item->node);
    gpuring_item_enter(item, GPURING_PHASE_NEXT);
}

/* From the last one to the first, as each is put in front of the others. */
void gpuring_persistent_order(struct gpuring_queue *queue, const struct gpuring_gathered *reports,
                              int rank)
{
    const uint32_t *words = gpuring_gathered_block(reports, rank);
    struct gpuring_item *common = gpuring_queue_next(queue);

    for (size_t i = reports->sizes[rank] / sizeof *words; i-- > CALLS;) {
        if (!all_have(reports, words[i])) {
            continue;
        }
        if (words[i] != 0) {
            put_first(queue, find(queue, words[i]));
        } else {
            gpuring_item_enter(common, GPURING_PHASE_NEXT);
        }
    }
    if (all_gone(reports, words[MADE])) {
        __atomic_store_n(&queue->gone, words[MADE], __ATOMIC_RELAXED); /* .._persistent_exist */
    }
}

void gpuring_persistent_order_all(struct gpuring_queue *queue)
{
    struct gpuring_item *item;

    while ((item = GPURING_LIST_FIRST(&queue->unordered, struct gpuring_item, node)) != NULL) {
        put_first(queue, item);
    }
    item = gpuring_queue_next(queue);
    if (item != NULL && item->phase < GPURING_PHASE_NEXT) {
        gpuring_item_enter(item, GPURING_PHASE_NEXT);
    }
}
