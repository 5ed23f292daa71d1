/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/persistent_order.h"

#include <stdlib.h>

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/exchange.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/gathered.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* What a rank tells: words, of which there are as many as it has calls to name. */
enum {
    MADE,  /* how many persistent calls it has made */
    LIVE,  /* how many of them it has not freed */
    CALLS, /* the numbers of those that it has started; 0: the next call in the common order */
};

uint32_t gpuring_persistent_make(struct gpuring_queue *queue)
{
    uint32_t number;

    pthread_mutex_lock(&queue->lock);
    number = queue->made + 1;
    __atomic_store_n(&queue->made, number, __ATOMIC_RELAXED);
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

/* Take a started call out of those that wait for their turn; NULL: there is no such. */
static struct gpuring_item *take(struct gpuring_queue *queue, uint32_t number)
{
    struct gpuring_item **link = &queue->started, *item;

    while (*link != NULL && (*link)->persistent != number) {
        link = &(*link)->next;
    }
    item = *link;
    if (item != NULL) {
        __atomic_store_n(link, item->next, __ATOMIC_RELAXED); /* partner: gpuring_queue_empty */
    }
    return item;
}

static void put_first(struct gpuring_queue *queue, struct gpuring_item *item)
{
    item->placed = true;
    item->next = queue->head;
    if (queue->tail == &queue->head) {
        queue->tail = &item->next;
    }
    __atomic_store_n(&queue->head, item, __ATOMIC_RELEASE);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

/* Tell the others. Without memory this rank takes part as one that failed. */
static void begin(mca_coll_gpuring_module_t *module)
{
    struct gpuring_queue *queue = &module->serve->queue;
    size_t words = CALLS;
    uint32_t *block;

    for (const struct gpuring_item *item = queue->started; item != NULL; item = item->next) {
        words++;
    }
    words += queue->head != NULL;
    block = malloc(words * sizeof *block);
    if (block == NULL) {
        gpuring_error("out of memory to tell the other ranks which calls were started");
        gpuring_exchange_fail(module->exchange, GPURING_ERR_NOMEM);
        gpuring_exchange_gather(module->exchange, NULL, 0);
        return;
    }
    block[MADE] = queue->made;
    block[LIVE] = queue->live;
    words = CALLS;
    for (const struct gpuring_item *item = queue->started; item != NULL; item = item->next) {
        block[words++] = item->persistent;
    }
    if (queue->head != NULL) {
        block[words++] = 0;
    }
    qsort(block + CALLS, words - CALLS, sizeof *block, ascending);
    gpuring_exchange_gather(module->exchange, block, words * sizeof *block);
    free(block);
}

static bool all_have(const struct gpuring_gathered *gathered, uint32_t number)
{
    for (int r = 0; r < gathered->nranks; r++) {
        const uint32_t *block = gpuring_gathered_block(gathered, r);
        size_t words = gathered->sizes[r] / sizeof *block;

        if (words < CALLS ||
            bsearch(&number, block + CALLS, words - CALLS, sizeof *block, ascending) == NULL) {
            return false;
        }
    }
    return true;
}

/* No call that was made before is there any more: order is what it was without them. */
static bool all_gone(const struct gpuring_gathered *gathered, uint32_t made)
{
    for (int r = 0; r < gathered->nranks; r++) {
        const uint32_t *block = gpuring_gathered_block(gathered, r);

        if (gathered->sizes[r] < CALLS * sizeof *block || block[MADE] != made || block[LIVE] != 0) {
            return false;
        }
    }
    return true;
}

/* What all ranks have started goes to the head, in the order of the numbers, and the next call of
 * the common order behind it. What has been started here since the gathering began waits. */
static void place(mca_coll_gpuring_module_t *module, const struct gpuring_gathered *gathered)
{
    struct gpuring_queue *queue = &module->serve->queue;
    const uint32_t *block = gpuring_gathered_block(gathered, module->rank);
    struct gpuring_item *item;

    for (size_t i = gathered->sizes[module->rank] / sizeof *block; i-- > CALLS;) {
        if (!all_have(gathered, block[i])) {
            continue;
        }
        if (block[i] != 0) {
            item = take(queue, block[i]);
            put_first(queue, item);
        } else {
            item = queue->head;
            while (item->placed) {
                item = item->next;
            }
            item->placed = true;
        }
    }
    if (all_gone(gathered, block[MADE])) {
        __atomic_store_n(&queue->gone, block[MADE],
                         __ATOMIC_RELAXED); /* partner: gpuring_persistent_open */
    }
}

/* All end with the module's failure. */
static void place_all(struct gpuring_queue *queue)
{
    while (queue->started != NULL) {
        put_first(queue, take(queue, queue->started->persistent));
    }
    if (queue->head != NULL) {
        queue->head->placed = true;
    }
}

int gpuring_persistent_progress(mca_coll_gpuring_module_t *module)
{
    struct gpuring_queue *queue = &module->serve->queue;
    struct gpuring_gathered gathered;
    int status;

    if (queue->head != NULL && (queue->head->placed || queue->head->made <= queue->gone)) {
        return GPURING_OK;
    }
    if (module->state == GPURING_STATE_FAILED) {
        place_all(queue);
        return GPURING_OK;
    }
    if (!queue->telling) {
        queue->telling = true;
        begin(module);
    }
    status = gpuring_exchange_progress(module->exchange);
    if (status != GPURING_OK) {
        return status;
    }
    queue->telling = false;
    status = gpuring_exchange_failure(module->exchange, NULL);
    if (status != GPURING_OK) {
        gpuring_exchange_forget(module->exchange);
        return status;
    }
    gathered = gpuring_exchange_take(module->exchange);
    if (gathered.nranks == 0) { /* a failure on the way, which others may know later */
        return GPURING_ERR_NOMEM;
    }
    place(module, &gathered);
    gpuring_gathered_clear(&gathered);
    return queue->head != NULL && queue->head->placed ? GPURING_OK : GPURING_AGAIN;
}
