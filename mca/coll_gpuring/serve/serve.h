/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What a module has for the calls that it serves, and how they are run. */
#ifndef GPURING_SERVE_SERVE_H
#define GPURING_SERVE_SERVE_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/serve/forecast.h"
#include "mca/coll_gpuring/serve/persistent_order.h"
#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/util/backoff.h"

/* Of a wait, see watchdog.c. */
struct gpuring_watchdog {
    uint32_t looks;    /* since the clock was read */
    uint64_t last;     /* time of the last look at the peers, nanoseconds; 0: not waiting */
    uint64_t since;    /* time of the last progress */
    uint64_t progress; /* of the module at that time */
    bool reported;     /* what this wait is for */
    bool hinted;       /* at what may be the reason, in a wire-up */
};

struct gpuring_serve {
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_queue queue;
    struct gpuring_list node;     /* of those that have work for the progress callback */
    struct gpuring_backoff pause; /* of that callback */
    uint64_t progress;            /* of the module when a thread last left it; atomic, for pauses */
    struct gpuring_watchdog watchdog;
    uint64_t on_gpu; /* the number of the last call on a GPU, see mixed_memory.c */
    bool all_ready;  /* a call has ended here that no rank can end before it is READY: from the next
                        call on, every rank may count on all */
    uint64_t agree_from; /* before the ranks are connected they agree on no call that has a lower
                            number; atomic */
    uint64_t votes;      /* calls so far in which the ranks vote, see mixed_memory.c */
    int missing;         /* a rank whose vote the next item waits for */
    uint8_t barrier;     /* what barriers reduce */
    /* Of small calls with a root, by the number of bits of their size in bytes. */
    struct gpuring_forecast forecasts[GPURING_COLLECTIVE_COUNT][65];
};

/*
 * Make what the module needs to serve: its queue, its messages and its wire-up. A wire-up begins
 * and ends without asking for memory, so that it cannot fail at one rank alone. Returns 0 or
 * GPURING_ERR_NOMEM. close also follows an open that failed.
 */
int gpuring_serve_open(struct mca_coll_gpuring_module_t *module);
void gpuring_serve_close(struct mca_coll_gpuring_module_t *module);

/* ---- execute.c: running calls on a READY module, at once or from the queue ---- */

/* Run a call at once; returns 0 or the error, with which the module has failed. */
int gpuring_execute_blocking(struct mca_coll_gpuring_module_t *module,
                             const struct gpuring_call *call);

/* Are the peers alive and the links whole? As gpuring_transport_health, of all connections. */
int gpuring_execute_health(const struct mca_coll_gpuring_module_t *module, char *text, size_t size);

/* Move the next item of the queue on, with the queue's lock held: its outcome, or GPURING_AGAIN. */
int gpuring_execute_item(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* The module fails; what the engine ran has stopped when this returns. */
void gpuring_execute_fail(struct mca_coll_gpuring_module_t *module, int status);

/*
 * ---- progress.c: moving queues on, by whoever waits for one of the items, and by a callback in
 * opal_progress for those with requests; the queues of communicators are independent ----
 */

/* Queue an item (see gpuring_queue_add) that the callback moves on. */
void gpuring_progress_start(struct gpuring_item *item);

/* Queue a call and wait for its end: its status. *reason: NONE, or why it is to be delegated. */
int gpuring_progress_call(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          enum gpuring_form form, enum gpuring_reason *reason);

/* Before a call is delegated, or may be: wait until those that were made before it are decided. */
void gpuring_progress_decide(struct mca_coll_gpuring_module_t *module);

/* The module goes (NULL: it serves nothing): the callback looks at its queue no more. At close: no
 * callback any more. */
void gpuring_progress_forget(struct gpuring_serve *serve);
void gpuring_progress_close(void);

/* ---- mixed_memory.c ---- */

/* Do all ranks see the status pages of all others, as those of one node do, and know it? */
bool gpuring_sees_pages(const struct mca_coll_gpuring_module_t *module);

/* May the ranks vote in the call of this number, or agree on it, as far as this rank knows? */
bool gpuring_vote_possible(const struct mca_coll_gpuring_module_t *module, uint64_t number);

/*
 * This rank makes a call whose buffers each rank may have on a GPU or in host memory, as it likes:
 * the same calls on all ranks, in the same order. NONE: it is served, or
 * call->asks says what it waits for, in the queue; else why it is to be delegated, to which all
 * ranks will come. lasting: the result is for a persistent call.
 */
enum gpuring_reason gpuring_vote_cast(struct mca_coll_gpuring_module_t *module,
                                      struct gpuring_call *call, bool lasting);

/* May a call be served although this rank has host buffers in it, by what the ranks expect of it?
 */
bool gpuring_forecast_may_serve(const struct mca_coll_gpuring_module_t *module,
                                const struct gpuring_call *call);

/* It is the turn of an item that asks the forecast: its call is served, the ranks are to agree on
 * it, or it is delegated, for item->reason. With the queue's lock. */
void gpuring_forecast_look(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* What this rank brings into an agreement on where the buffers are; and the bits that any rank
 * brought: item->reason says why it is to be delegated, if it is. */
uint64_t gpuring_agreement_word(const struct gpuring_call *call);
void gpuring_agreement_take(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item,
                            uint64_t word);

/* The next item waits for a vote: false, if that has no result yet for want of rank *missing. With
 * a result, item->reason says why it is to be delegated, if it is. With the queue's lock. */
bool gpuring_vote_look(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item,
                       int *missing);

/* Note the module's last call, if its buffers decide who serves it; call->number is set. reason:
 * NONE if a GPU is to serve it. */
void gpuring_mixed_memory_note(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                               struct gpuring_call *call);

/* The call that runs, or that is to run next, waits: 0, or GPURING_ERR_MIXED with a help text. */
int gpuring_mixed_memory_look(const struct mca_coll_gpuring_module_t *module);

/* ---- eligible.c ---- */

/* Do the buffers of a call decide who serves it? */
static inline bool gpuring_buffers_decide(void)
{
    return gpuring_process.device_ops->kind != GPURING_DEVICE_HOST &&
           gpuring_params.agree != GPURING_PARAM_AGREE_ALWAYS;
}

/* Build the table of Open MPI's handles; before any other call, from one thread. */
void gpuring_eligible_init(void);

/*
 * Could any call be served now? false: the reason of all of them is NO_DRIVER. The first question
 * of an entry: the only one that an idle component costs a call.
 */
static inline bool gpuring_eligible_any(void)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           gpuring_params.agree == GPURING_PARAM_AGREE_ALWAYS || gpuring_memory_possible();
}

/* Type and operation of a reduction, in *call: NONE, TYPE or OP. */
enum gpuring_reason gpuring_eligible_types(const struct ompi_datatype_t *dtype,
                                           struct ompi_op_t *op, struct gpuring_call *call);

/* By where the samples of the call's buffers are, which is found out and kept in the call; agree is
 * set. NONE, MEMORY or HOST_TYPE. */
enum gpuring_reason gpuring_eligible_memory(struct gpuring_call *call);

/* ---- check.c: coll_gpuring_check=data ---- */

/* Keep the input of an allreduce that is about to run; afterwards compare its result. 0,
 * GPURING_AGAIN, or an error. item->check is one piece of memory, for the caller to free. */
int gpuring_check_prepare(struct gpuring_item *item);
int gpuring_check_progress(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* ---- watchdog.c ---- */

/*
 * Called after each poll without progress; cheap. 0, or the error with which the module must fail;
 * the reason was reported then.
 */
int gpuring_watchdog_look(struct mca_coll_gpuring_module_t *module);

/* A number that changes with every step forward, of operations and of the wire-up. */
uint64_t gpuring_watchdog_progress(const struct mca_coll_gpuring_module_t *module);

/* Report why an operation failed, unless a look has just done so. Returns the status to fail with,
 * which may be more exact than the given one. */
int gpuring_watchdog_report(struct mca_coll_gpuring_module_t *module, int status);

/* ---- serve.c ---- */

/* An eligible blocking call: its outcome. *reason: NONE, or why it is to be delegated. */
int gpuring_serve_blocking(struct mca_coll_gpuring_module_t *module,
                           const struct gpuring_call *call, enum gpuring_reason *reason);

/* A call's memory beside the user's, see engine/call.h; goes with the last use of the call. */
void gpuring_call_release(struct gpuring_call *call);

/* Log a reason of delegated calls that was not logged before. */
void gpuring_serve_log_reason(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason);

/* A reduction is delegated, by its name: warn if coll_gpuring_deterministic promises its order. */
void gpuring_serve_order_lost(const struct mca_coll_gpuring_module_t *module,
                              enum gpuring_reason reason, const char *name);

/* Count a call that is delegated; the first of each reason on a communicator is logged. */
static inline void gpuring_serve_delegated(struct mca_coll_gpuring_module_t *module,
                                           enum gpuring_reason reason)
{
    gpuring_pvar_add(GPURING_PVAR_fallbacks, 1);
    if (OPAL_UNLIKELY((module->logged_reasons & UINT32_C(1) << reason) == 0)) {
        gpuring_serve_log_reason(module, reason);
    }
}

/* Does a call go by the second engine (engine.h)? Of a connected module. */
static inline bool gpuring_serve_second(const struct gpuring_engine *engine,
                                        const struct gpuring_call *call)
{
    return OPAL_UNLIKELY(engine->later != 0) &&
           (engine->choice_config.plans[call->collective] & engine->later) != 0 &&
           (engine->later & 1u << gpuring_select_algorithm(&engine->choice_config, call->collective,
                                                           gpuring_call_bytes(call))) != 0;
}

/* Is a call known to be delegated by its size? Once the ranks are wired up they know: they have
 * compared their rules, and know the number of nodes. Calls wait for that in the queue. */
static inline bool gpuring_serve_size_delegated(const struct mca_coll_gpuring_module_t *module,
                                                const struct gpuring_call *call)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);

    return !call->size_served && engine != NULL &&
           gpuring_select_delegates(&engine->choice_config, call->collective,
                                    gpuring_call_bytes(call));
}

/* What is known of an eligible call. */
static inline struct gpuring_circumstances gpuring_serve_look(
    const struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_serve *serve = module->serve;
    /* Partner: complete in wireup.c. */
    bool unconnected = module->state == GPURING_STATE_READY &&
                       __atomic_load_n(&module->second, __ATOMIC_ACQUIRE) == NULL &&
                       gpuring_serve_second(module->engine, call);

    return (struct gpuring_circumstances){
        .form = GPURING_FORM_CALL,
        .state = module->state,
        .reason = GPURING_REASON_NONE,
        .must_agree = call->asks != GPURING_ASKS_NOBODY,
        .tuned = gpuring_serve_size_delegated(module, call),
        .unconnected = unconnected,
        .unconnectable = unconnected && module->unconnectable,
        .busy = !gpuring_queue_empty(&serve->queue) || gpuring_persistent_exist(&serve->queue) ||
                gpuring_params.check == GPURING_PARAM_CHECK_DATA,
    };
}

#endif
