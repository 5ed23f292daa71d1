/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdlib.h>

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/offers.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

/* Begin an exchange of the ranks before a call, or before a persistent call is created. */
static void exchange_begin(struct gpuring_oob *oob, struct gpuring_item *item)
{
    gpuring_item_enter(item, GPURING_PHASE_AGREEING);
    switch (item->pending.asks) {
    case GPURING_ASKS_OFFERS:
        gpuring_offers_send(oob, item->pending.offers);
        break;
    case GPURING_ASKS_WORD:
        gpuring_oob_agree(oob, item->pending.vote);
        break;
    default:
        gpuring_oob_agree(oob, gpuring_agree_word(&item->call));
    }
}

/* Take the result of an exchange. */
static void exchange_take(mca_coll_gpuring_module_t *module, struct gpuring_item *item,
                          enum gpuring_asks asked)
{
    switch (asked) {
    case GPURING_ASKS_OFFERS:
        item->pending.offers->all = gpuring_oob_take(module->oob);
        break;
    case GPURING_ASKS_WORD:
        item->pending.vote = module->oob->word;
        break;
    default:
        item->reason = gpuring_agree_take(module, &item->pending, module->oob->word);
    }
}

static int exchange_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    enum gpuring_asks asked = item->pending.asks;
    int status;

    if (item->phase < GPURING_PHASE_AGREEING) {
        exchange_begin(module->oob, item);
    }
    status = gpuring_oob_progress(module->oob);
    if (status != GPURING_OK) {
        return status;
    }
    item->pending.asks = GPURING_ASKS_NOBODY;
    status = gpuring_oob_failure(module->oob).status;
    if (status == GPURING_OK) {
        exchange_take(module, item, asked);
    }
    return status;
}

/* Advance whatever the next item waits for: a vote, an agreement, or the wire-up. */
static int prepare_item(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    if (item->pending.asks == GPURING_ASKS_PAGES) {
        return GPURING_AGAIN;
    }
    if (item->pending.asks != GPURING_ASKS_NOBODY) {
        return exchange_progress(module, item);
    }
    if (module->state != GPURING_STATE_WIRING) {
        /* It is UNWIRED, or the call needs late connections. */
        gpuring_wireup_start(module, &item->call, gpuring_differ_report);
    }
    return gpuring_wireup_progress(module);
}

/* Count the votes on the next item. Returns false if there is no result yet. */
static bool vote_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    bool known = gpuring_vote_poll(module, &item->call, &item->pending, &module->serve->missing,
                                   &item->reason);

    if (known && item->reason == GPURING_REASON_NONE) {
        gpuring_queue_decide(&module->serve->queue, item);
    }
    return known;
}

/* Decide whether the ranks agree on the next item, and count their votes on it. Returns false while
 * it waits for votes. */
static bool item_turn(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    if (item->pending.asks == GPURING_ASKS_TURN) {
        item->reason = gpuring_agree_ask(module, &item->call, &item->pending);
    }
    return item->pending.asks != GPURING_ASKS_PAGES || module->state != GPURING_STATE_READY ||
           vote_progress(module, item);
}

#define DELEGATED (GPURING_AGAIN + 1)

/* Advance the next item. Returns its status, GPURING_AGAIN, or DELEGATED if the caller must call
 * item->delegate. */
static int next_progress(mca_coll_gpuring_module_t *module)
{
    struct gpuring_item *item = gpuring_queue_next(&module->serve->queue);
    enum gpuring_decision decision;
    int status;

    if (!item_turn(module, item)) {
        return GPURING_AGAIN;
    }
    while ((decision = gpuring_serve_decide(module, &item->call, &item->pending, item->form, false,
                                            &item->reason)) == GPURING_WAIT) {
        status = prepare_item(module, item);
        if (status != GPURING_OK) {
            return status;
        }
    }
    switch (decision) {
    case GPURING_RUN:
        gpuring_queue_decide(&module->serve->queue, item);
        return item->form == GPURING_PERSISTENT ? GPURING_OK : gpuring_execute_item(module, item);
    case GPURING_REFUSE:
        return module->failure;
    default:
        return item->delegate != NULL ? DELEGATED : GPURING_OK; /* the waiting thread delegates */
    }
}

static void finish_next(struct gpuring_serve *serve, int status, struct gpuring_list *finished)
{
    free(gpuring_queue_next(&serve->queue)->check);
    gpuring_queue_finish(&serve->queue, status, finished);
}

/* Advance a queue until its next item has to wait. Appends the items that must be completed to
 * `finished`. Returns the number of items that have left the queue. The caller holds the lock. */
static int advance_items(mca_coll_gpuring_module_t *module, struct gpuring_list *finished)
{
    struct gpuring_serve *serve = module->serve;
    int count = 0;

    while (!gpuring_queue_empty(&serve->queue)) {
        enum gpuring_state before = module->state;
        int status = next_progress(module);

        if (status == DELEGATED) {
            gpuring_queue_delegate(&serve->queue, finished);
            count++;
        } else if (status != GPURING_AGAIN) {
            finish_next(serve, status, finished);
            count++;
        } else if (module->state == before) {
            status = gpuring_watchdog_look(module);
            if (status == GPURING_OK) {
                break;
            }
            gpuring_module_fail(module, status);
        }
    }
    /* If the queue is empty, another thread may be running a call without the lock, so the module's
     * progress must not be read. */
    if (!gpuring_queue_empty(&serve->queue)) {
        __atomic_store_n(&serve->progress, gpuring_watchdog_progress(module), __ATOMIC_RELAXED);
    }
    return count;
}

/* Call advance_items with the lock. Do nothing if another thread holds it, because that thread
 * advances the queue. */
static int queue_progress(mca_coll_gpuring_module_t *module, struct gpuring_list *finished)
{
    int count = 0;

    if (pthread_mutex_trylock(&module->serve->queue.lock) == 0) {
        count = advance_items(module, finished);
        pthread_mutex_unlock(&module->serve->queue.lock);
    }
    return count;
}

/* Add an item, and advance the queue in the calling thread. */
static void add_item(struct gpuring_item *item, enum gpuring_phase phase)
{
    struct gpuring_queue *queue = &item->module->serve->queue;
    struct gpuring_list finished = GPURING_LIST_INIT(finished);

    gpuring_module_watch_free(item->module);
    pthread_mutex_lock(&queue->lock);
    gpuring_queue_add(queue, item, phase);
    if (phase == GPURING_PHASE_QUEUED) {
        (void) advance_items(item->module, &finished);
    }
    pthread_mutex_unlock(&queue->lock);
    gpuring_queue_complete(&finished);
}

/* ---- The task of a queue, for items with requests. From its start until its items are complete,
 * it holds a reference to the communicator, and is a user of the module ---- */

static void queue_enter(mca_coll_gpuring_module_t *module)
{
    OBJ_RETAIN(module->comm);
    gpuring_module_enter(module->owner);
}

static void queue_leave(mca_coll_gpuring_module_t *module)
{
    struct ompi_communicator_t *comm = module->comm;

    gpuring_module_leave(module->owner);
    OBJ_RELEASE(comm);
}

static bool advance_queue(struct gpuring_task *task, struct gpuring_list *items)
{
    struct gpuring_serve *serve = GPURING_LIST_ENTRY(task, struct gpuring_serve, task);
    int count = queue_progress(serve->module, items);

    if (count == 0 && opal_progress_yield_when_idle) {
        gpuring_backoff(&serve->pause, __atomic_load_n(&serve->progress, __ATOMIC_RELAXED), false);
    }
    return count > 0 || gpuring_queue_empty(&serve->queue);
}

/* Complete items, after starting the task again if the queue is not empty. */
static void complete_items(struct gpuring_task *task, struct gpuring_list *items)
{
    struct gpuring_serve *serve = GPURING_LIST_ENTRY(task, struct gpuring_serve, task);
    mca_coll_gpuring_module_t *module = serve->module;
    bool restarted = !gpuring_queue_empty(&serve->queue) && gpuring_task_start(task);

    gpuring_queue_complete(items);
    if (!restarted) {
        queue_leave(module);
    }
}

void gpuring_progress_init(struct gpuring_serve *serve)
{
    serve->task = (struct gpuring_task){
        .kind = GPURING_TASK_QUEUE, .advance = advance_queue, .complete = complete_items};
}

void gpuring_progress_start(struct gpuring_item *item, enum gpuring_phase phase)
{
    mca_coll_gpuring_module_t *module = item->module;
    struct gpuring_serve *serve = module->serve;

    add_item(item, phase);
    if (gpuring_queue_empty(&serve->queue)) {
        gpuring_execute_progress_mpi();
    } else {
        queue_enter(module);
        if (!gpuring_task_start(&serve->task)) {
            queue_leave(module);
        }
    }
}

/* Perform one step of a waiting thread: advance the queue and MPI, or give the core to others. */
static void wait_step(mca_coll_gpuring_module_t *module, struct gpuring_backoff *pause)
{
    struct gpuring_list finished = GPURING_LIST_INIT(finished);

    (void) queue_progress(module, &finished);
    gpuring_queue_complete(&finished);
    opal_progress();
    gpuring_backoff(pause, __atomic_load_n(&module->serve->progress, __ATOMIC_RELAXED), false);
}

int gpuring_progress_call(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          struct gpuring_pending *pending, enum gpuring_form form,
                          enum gpuring_reason *reason)
{
    struct gpuring_item item = {.module = module, .call = *call, .pending = *pending, .form = form};
    struct gpuring_backoff pause = {.looks = 0};

    add_item(&item, GPURING_PHASE_QUEUED);
    /* Partner: gpuring_queue_complete. */
    while (__atomic_load_n(&item.phase, __ATOMIC_ACQUIRE) != GPURING_PHASE_DONE) {
        wait_step(module, &pause);
    }
    *pending = item.pending;
    *reason = item.reason;
    return item.status;
}

void gpuring_progress_decide(mca_coll_gpuring_module_t *module)
{
    struct gpuring_backoff pause = {.looks = 0};

    while (gpuring_queue_undecided(&module->serve->queue)) {
        wait_step(module, &pause);
    }
}
