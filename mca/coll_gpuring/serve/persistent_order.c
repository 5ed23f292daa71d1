/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/persistent_order.h"

#include <stdlib.h>

/* The words of a rank's report. All ranks have the same number of words. */
enum {
    MADE,  /* number of persistent calls that it has created */
    LIVE,  /* number of these that it has not freed */
    COUNT, /* number of calls that it has to report, which may be more than the room */
    CALLS, /* numbers of the calls that it has started, ascending; 0 is the next item of the
              common order */
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

uint32_t gpuring_persistent_words(const struct gpuring_queue *queue)
{
    return CALLS + queue->room;
}

static void name_call(const struct gpuring_queue *queue, uint32_t *words, uint32_t number)
{
    uint32_t used = words[COUNT]++;

    if (used < queue->room) {
        words[CALLS + used] = number;
    }
}

void gpuring_persistent_report(const struct gpuring_queue *queue, uint32_t *words)
{
    const struct gpuring_item *item, *next = gpuring_queue_next(queue);

    words[MADE] = queue->made;
    words[LIVE] = queue->live;
    words[COUNT] = 0;
    if (next != NULL && next->pending.asks != GPURING_ASKS_PAGES) {
        name_call(queue, words, 0);
    }
    GPURING_LIST_EACH(item, &queue->unordered, struct gpuring_item, node)
    {
        name_call(queue, words, item->persistent);
    }
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

static bool all_have(const uint32_t *const *reports, int nranks, uint32_t number)
{
    for (int r = 0; r < nranks; r++) {
        const uint32_t *words = reports[r];

        if (bsearch(&number, words + CALLS, words[COUNT], sizeof *words, compare_numbers) == NULL) {
            return false;
        }
    }
    return true;
}

/* Return true if all ranks have created `made` persistent calls and freed all of them. The common
 * order then applies to all later calls. */
static bool all_gone(const uint32_t *const *reports, int nranks, uint32_t made)
{
    for (int r = 0; r < nranks; r++) {
        if (reports[r][MADE] != made || reports[r][LIVE] != 0) {
            return false;
        }
    }
    return true;
}

/* Return the maximum number of calls that a rank has to report. */
static uint32_t most_calls(const uint32_t *const *reports, int nranks)
{
    uint32_t most = 0;

    for (int r = 0; r < nranks; r++) {
        most = reports[r][COUNT] > most ? reports[r][COUNT] : most;
    }
    return most;
}

static struct gpuring_item *find_item(const struct gpuring_queue *queue, uint32_t number)
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

void gpuring_persistent_order(struct gpuring_queue *queue, const uint32_t *const *reports,
                              int nranks, int rank)
{
    const uint32_t *words = reports[rank];
    struct gpuring_item *common = gpuring_queue_next(queue);
    uint32_t most = most_calls(reports, nranks);

    if (most > queue->room) {
        queue->room = most; /* all ranks set the same value */
        return;
    }
    /* Begin with the last call, because each call is moved in front of those moved before. */
    for (uint32_t i = words[COUNT]; i-- > 0;) {
        uint32_t number = words[CALLS + i];

        if (!all_have(reports, nranks, number)) {
            continue;
        }
        if (number != 0) {
            put_first(queue, find_item(queue, number));
        } else {
            gpuring_item_enter(common, GPURING_PHASE_NEXT);
        }
    }
    if (all_gone(reports, nranks, words[MADE])) {
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
