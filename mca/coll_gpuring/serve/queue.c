/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/queue.h"

#include <stdlib.h>

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/serve/delegate.h"
#include "mca/coll_gpuring/serve/execute.h"
#include "mca/coll_gpuring/serve/fallback_allreduce.h"
#include "mca/coll_gpuring/serve/left.h"
#include "mca/coll_gpuring/serve/memory_agreement.h"
#include "mca/coll_gpuring/serve/persistent_order.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

/* Modules whose queues have items with requests; under its lock. */
static struct {
    pthread_mutex_t lock;
    mca_coll_gpuring_module_t *first;
    bool registered;
} listed = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gpuring_queue_init(struct gpuring_queue *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    queue->head = NULL;
    queue->tail = &queue->head;
    queue->started = NULL;
    queue->made = queue->live = queue->gone = 0;
    queue->telling = false;
    queue->finished = 0;
    queue->progress = 0;
    queue->listed = false;
    queue->pause = (struct gpuring_backoff){.vain = 0};
}

void gpuring_queue_destroy(mca_coll_gpuring_module_t *module)
{
    mca_coll_gpuring_module_t **link = &listed.first;

    pthread_mutex_lock(&listed.lock);
    while (module->serve->queue.listed && *link != NULL) {
        if (*link == module) {
            *link = module->serve->queue.next_listed;
            module->serve->queue.listed = false;
        } else {
            link = &(*link)->serve->queue.next_listed;
        }
    }
    pthread_mutex_unlock(&listed.lock);
    pthread_mutex_destroy(&module->serve->queue.lock);
}

/* With the lock held: take the finished head off and hand it to `finished`. */
static void item_finish(mca_coll_gpuring_module_t *module, struct gpuring_item *item, int status,
                        struct gpuring_item ***finished)
{
    struct gpuring_queue *queue = &module->serve->queue;
    struct gpuring_item *next = item->next;

    gpuring_fallback_allreduce_stop(item->simple);
    item->simple = NULL;
    gpuring_execute_discard(item);
    item->status = status;
    queue->finished++;
    if (queue->tail == &item->next) {
        queue->tail = &queue->head;
    }
    item->next = NULL;
    **finished = item;
    *finished = &item->next;
    /* Last: another thread that sees an empty queue runs its call at once, without the lock. */
    __atomic_store_n(&queue->head, next, __ATOMIC_RELEASE);
}

/*
 * The simple path: for items that no engine runs. The communicator could not be wired up, or the
 * ranks have different kinds of memory, and a non-blocking call cannot be handed to the previous
 * module any more (see exchange.h).
 */
static int item_simple(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    if (item->may_hand_on) {
        return GPURING_ITEM_FALL_BACK;
    }
    if (!item->started) {
        item->started = true;
        gpuring_delegate_count(module,
                               item->handed_on ? gpuring_agree_reason(item) : GPURING_REASON_DEAD);
        item->simple = module->serve->fallback;
        gpuring_fallback_allreduce_start(item->simple, &item->call, NULL);
    }
    return gpuring_fallback_allreduce_progress(item->simple, item->call.output);
}

/* With the lock held: move the head on; its status, or GPURING_AGAIN. */
static int item_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    if (item->call.agree && !item->agreed && module->state != GPURING_STATE_DEAD &&
        module->state != GPURING_STATE_FAILED) {
        int status = gpuring_agree_progress(module, item);

        if (status != GPURING_OK) {
            return status;
        }
    }
    if (item->handed_on && module->state != GPURING_STATE_FAILED) {
        return item_simple(module, item);
    }
    if (item->may_hand_on && !item->handed_on && (item->agreed || !item->call.agree) &&
        gpuring_left(module, &item->call)) {
        item->left = true;
        return GPURING_ITEM_FALL_BACK;
    }
    switch (module->state) {
    case GPURING_STATE_UNWIRED:
        gpuring_wireup_start(module, &item->call);
        return GPURING_AGAIN;
    case GPURING_STATE_WIRING:
        gpuring_wireup_progress(module);
        return GPURING_AGAIN;
    case GPURING_STATE_READY:
        return item->wires ? GPURING_OK : gpuring_execute_item(module, item);
    case GPURING_STATE_DEAD:
        return item->wires ? GPURING_OK : item_simple(module, item);
    default:
        return module->failure;
    }
}

/* Tell the waiters. Outside of all locks: it may end in a user's callback or free a communicator.
 */
static void tell_finished(struct gpuring_item *item)
{
    while (item != NULL) {
        struct gpuring_item *next = item->next;
        ompi_request_t *request = item->request;
        struct ompi_communicator_t *comm = request != NULL ? item->module->comm : NULL;

        __atomic_store_n(&item->done, 1, __ATOMIC_RELEASE); /* partner: gpuring_queue_wait */
        if (request != NULL) {
            request->req_status.MPI_ERROR = gpuring_compat_error(item->status);
            ompi_request_complete(request, true);
            OBJ_RELEASE(comm);
        }
        item = next;
    }
}

/* Move a queue on as far as it goes; the number of items finished. */
static int queue_progress(mca_coll_gpuring_module_t *module)
{
    struct gpuring_item *finished = NULL, **end = &finished;
    enum gpuring_state before;
    int count = 0;

    if (pthread_mutex_trylock(&module->serve->queue.lock) != 0) {
        return 0; /* another thread is at it */
    }
    while (!gpuring_queue_empty(&module->serve->queue)) {
        int turn = gpuring_persistent_progress(module), status = turn;

        before = module->state;
        if (turn == GPURING_OK) {
            status = item_progress(module, module->serve->queue.head);
        } else if (turn != GPURING_AGAIN) {
            gpuring_execute_fail(module, turn);
            continue;
        }
        if (status == GPURING_AGAIN) {
            status = gpuring_watchdog_look(module);
            if (status == GPURING_OK && module->state == before) {
                break;
            }
            if (status != GPURING_OK) {
                gpuring_execute_fail(module, status);
            }
            continue;
        }
        item_finish(module, module->serve->queue.head, status, &end);
        count++;
    }
    /* With an empty queue a thread may run a call at once, see above. */
    if (!gpuring_queue_empty(&module->serve->queue)) {
        __atomic_store_n(&module->serve->queue.progress, gpuring_watchdog_progress(module),
                         __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&module->serve->queue.lock);
    tell_finished(finished);
    return count;
}

/* For pauses outside of the lock. */
static uint64_t progress_seen(const mca_coll_gpuring_module_t *module)
{
    return __atomic_load_n(&module->serve->queue.progress, __ATOMIC_RELAXED);
}

/* Called by opal_progress, by several threads at once. */
static int progress_callback(void)
{
    mca_coll_gpuring_module_t *module, **link = &listed.first;
    int count = 0;

    if (__atomic_load_n(&listed.first, __ATOMIC_RELAXED) == NULL ||
        pthread_mutex_trylock(&listed.lock) != 0) {
        return 0;
    }
    while ((module = *link) != NULL) {
        if (gpuring_queue_empty(&module->serve->queue)) {
            *link = module->serve->queue.next_listed;
            module->serve->queue.listed = false;
            continue;
        }
        link = &module->serve->queue.next_listed;
    }
    module = listed.first;
    if (module != NULL) {
        /* One queue a call, in turn: it may finish a communicator's last item and free it. */
        listed.first = module->serve->queue.next_listed;
        module->serve->queue.next_listed = NULL;
        *(listed.first == NULL ? &listed.first : link) = module;
        OBJ_RETAIN(module->comm);
    }
    pthread_mutex_unlock(&listed.lock);
    if (module != NULL) {
        struct ompi_communicator_t *comm = module->comm;

        count = queue_progress(module);
        if (count == 0 && GPURING_YIELD_WHEN_IDLE) {
            gpuring_backoff_nap(&module->serve->queue.pause, progress_seen(module));
        }
        OBJ_RELEASE(comm);
    }
    return count;
}

/* Let the callback look at a module with non-blocking items. */
static void list_module(mca_coll_gpuring_module_t *module)
{
    mca_coll_gpuring_module_t **link = &listed.first;

    pthread_mutex_lock(&listed.lock);
    if (!module->serve->queue.listed) {
        while (*link != NULL) {
            link = &(*link)->serve->queue.next_listed;
        }
        module->serve->queue.next_listed = NULL;
        module->serve->queue.listed = true;
        *link = module;
    }
    if (!listed.registered) {
        listed.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&listed.lock);
}

void gpuring_queue_close(void)
{
    pthread_mutex_lock(&listed.lock);
    if (listed.registered) {
        opal_progress_unregister(progress_callback);
        listed.registered = false;
    }
    pthread_mutex_unlock(&listed.lock);
}

void gpuring_queue_push(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_queue *queue = &module->serve->queue;

    item->next = NULL;
    item->done = 0;
    item->started = false;
    item->agreed = false;
    item->handed_on = false;
    item->agreeing = false;
    item->left = false;
    item->simple = NULL;
    item->check = NULL;
    item->placed = false;
    item->module = module;
    if (item->request != NULL) {
        OBJ_RETAIN(module->comm); /* until it is complete; given back in tell_finished */
    }
    pthread_mutex_lock(&queue->lock);
    item->made = queue->made;
    if (item->persistent != 0) {
        item->next = queue->started;
        __atomic_store_n(&queue->started, item, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(queue->tail, item, __ATOMIC_RELAXED);
        queue->tail = &item->next;
    }
    pthread_mutex_unlock(&queue->lock);
    if (item->request != NULL) {
        list_module(module);
        queue_progress(module);
    }
}

int gpuring_queue_wait(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_backoff pause = {.vain = 0};

    while (!__atomic_load_n(&item->done, __ATOMIC_ACQUIRE)) {
        queue_progress(module);
        opal_progress();
        gpuring_backoff(&pause, progress_seen(module), false);
    }
    return item->status;
}
