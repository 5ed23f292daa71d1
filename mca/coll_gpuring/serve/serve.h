/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The part of a module that serves calls, and the functions that run them. */
#ifndef GPURING_SERVE_SERVE_H
#define GPURING_SERVE_SERVE_H

#include "mca/coll_gpuring/agree/agree.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/progress/task.h"
#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/serve/tracks.h"
#include "mca/coll_gpuring/util/backoff.h"

/* The state of a wait (watchdog.c). Times are in nanoseconds. */
struct gpuring_watchdog {
    uint32_t looks;    /* number of checks, of which only some read the clock */
    uint64_t last;     /* time of the last check of the peers; 0 before the first wait */
    uint64_t since;    /* time of the last progress */
    uint64_t progress; /* gpuring_watchdog_progress at that time */
    uint64_t far;      /* time of the last comparison with ranks of other nodes */
    bool reported;     /* this wait was logged */
    bool hinted;       /* a possible reason for a slow wire-up was logged */
};

struct gpuring_serve {
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_queue queue;
    struct gpuring_task task;     /* advances the queue in opal_progress */
    struct gpuring_backoff pause; /* of the task */
    /* gpuring_watchdog_progress at the time when a thread last left the queue. Atomic. It
     * determines the length of pauses. */
    uint64_t progress;
    struct gpuring_watchdog watchdog;
    uint64_t on_gpu;             /* number of the last call on a GPU (mixed_memory.c) */
    uint64_t running;            /* number of the call that is running or ran last */
    int missing;                 /* rank whose vote the next item waits for */
    uint8_t barrier_byte;        /* the data that barriers reduce */
    struct gpuring_call barrier; /* the description of all barriers; its name is NULL before the
                                    first one */
    struct gpuring_tracks tracks;
};

/*
 * Create the module's queue, its out-of-band messages and its wire-up. The memory of the wire-up is
 * allocated here, so that a lack of memory on one rank cannot make a wire-up fail. Returns 0 or
 * GPURING_ERR_NOMEM. Call gpuring_serve_close even if gpuring_serve_open has failed.
 */
int gpuring_serve_open(struct mca_coll_gpuring_module_t *module);
void gpuring_serve_close(struct mca_coll_gpuring_module_t *module);

/* Return true if no request of the application needs the module. */
bool gpuring_serve_idle(const struct mca_coll_gpuring_module_t *module);

/* ---- execute.c: run calls on a READY module, immediately or from the queue ---- */

/*
 * Run a call immediately. The queue must be empty. number: the number of the call, see pending.h.
 * Returns 0, or the error with which the module has failed. A call of another form than
 * GPURING_BLOCKING is only started. The result may then also be GPURING_AGAIN, and the caller must
 * queue the call in phase RUNNING.
 */
int gpuring_execute_call(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         enum gpuring_form form, uint64_t number);

/* Progress MPI in one of many calls. Called at the end of calls that may not have waited for
 * MPI. */
void gpuring_execute_progress_mpi(void);

/* Advance the next item of the queue. The caller holds the queue's lock. Returns the outcome of the
 * item, or GPURING_AGAIN. */
int gpuring_execute_item(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/*
 * ---- progress.c: advance queues ----
 *
 * A thread that waits for an item advances its queue. A task (progress/task.h) advances the queues
 * that have items with requests. Queues of different communicators are independent.
 */

/* Queue an item (see gpuring_queue_add), and let the task advance it. */
void gpuring_progress_start(struct gpuring_item *item, enum gpuring_phase phase);

/* Queue a call and wait for its end. Returns its status. Sets *pending to the result of what it had
 * to wait for, and *reason to NONE, or to the reason for which the caller must delegate the call.
 */
int gpuring_progress_call(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          struct gpuring_pending *pending, enum gpuring_form form,
                          enum gpuring_reason *reason);

/* Wait until no call of the queue may still be delegated. Call this before a persistent call is
 * delegated, because the previous module must get earlier calls first. */
void gpuring_progress_decide(struct mca_coll_gpuring_module_t *module);

/* Called by gpuring_serve_open. */
void gpuring_progress_init(struct gpuring_serve *serve);

/* ---- mixed_memory.c ---- */

/* Record where the buffers of the module's latest call are, if this decides whether the call is
 * served, and publish it on the status page. Sets pending->number. reason: NONE if a GPU will serve
 * the call. */
void gpuring_mixed_memory_note(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                               struct gpuring_pending *pending);

/* Check whether another rank uses host buffers in the call that is running. Returns 0, or
 * GPURING_ERR_MIXED after printing a help text. */
int gpuring_mixed_memory_look(const struct mca_coll_gpuring_module_t *module);

/* ---- eligible.c ---- */

/* Return true if the location of a call's buffers on this rank decides whether the call is
 * served. */
static inline bool gpuring_buffers_decide(void)
{
    return gpuring_process.device_ops->kind != GPURING_DEVICE_HOST &&
           gpuring_params.agree != GPURING_PARAM_AGREE_ALWAYS;
}

/* Return true if the ranks agree before every call. */
static inline bool gpuring_always_agree(void)
{
    return gpuring_process.device_ops->kind != GPURING_DEVICE_HOST &&
           gpuring_params.agree == GPURING_PARAM_AGREE_ALWAYS;
}

/* Build the table of Open MPI's handles. Called from one thread, before any other call. */
void gpuring_eligible_init(void);

/*
 * Return true if this process can serve any call now. If not, all calls are delegated with reason
 * NO_DRIVER. Entry functions check this first, so that an idle component costs a call nothing else.
 */
static inline bool gpuring_eligible_any(void)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           gpuring_params.agree == GPURING_PARAM_AGREE_ALWAYS || gpuring_memory_possible();
}

/* Set the type and operation of a reduction in *call. Returns NONE, TYPE or OP. */
enum gpuring_reason gpuring_eligible_types(const struct ompi_datatype_t *dtype,
                                           struct ompi_op_t *op, struct gpuring_call *call);

/* Find out in which memory the samples of the call's buffers are, and store it in the call. Returns
 * NONE, MEMORY or HOST_TYPE. */
enum gpuring_reason gpuring_eligible_on_gpu(struct gpuring_call *call);
static inline enum gpuring_reason gpuring_eligible_memory(struct gpuring_call *call)
{
    /* the host device serves all buffers */
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ? GPURING_REASON_NONE
                                                                   : gpuring_eligible_on_gpu(call);
}

/* ---- check.c: coll_gpuring_check=data ---- */

/* gpuring_check_prepare saves the input of an allreduce that is about to run.
 * gpuring_check_progress compares its result after it has run. Both return 0, GPURING_AGAIN, or an
 * error. The caller frees item->check. */
int gpuring_check_prepare(struct gpuring_item *item);
int gpuring_check_progress(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* ---- watchdog.c ---- */

/*
 * Check a wait. Call this after each poll without progress; it is cheap. Returns 0, or the error
 * with which the module must fail, after reporting the reason.
 */
int gpuring_watchdog_look(struct mca_coll_gpuring_module_t *module);

/* ---- execute_wait.c ---- */

/* Wait for an operation, after its first poll. Returns its status, or the watchdog's error. */
int gpuring_execute_wait(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call);

/* Return a number that changes whenever an operation or the wire-up makes progress. */
uint64_t gpuring_watchdog_progress(const struct mca_coll_gpuring_module_t *module);

/* Report why an operation failed, unless gpuring_watchdog_look has just done so. Returns the status
 * to fail with, which may be more exact than the given one. */
int gpuring_watchdog_report(struct mca_coll_gpuring_module_t *module, int status);

/* ---- serve.c ---- */

/* Free the memory that the call owns (engine/call.h), after the last use of the call. */
void gpuring_call_free(struct gpuring_call *call);
static inline void gpuring_call_release(struct gpuring_call *call)
{
    if (call->memory != NULL) {
        gpuring_call_free(call);
    }
}

/* Log the first call of the module that is delegated for this reason. */
void gpuring_serve_log_reason(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason);

/* Warn if coll_gpuring_deterministic promises an order for this reduction, and another component
 * now folds it in its own order. */
void gpuring_serve_order_lost(const struct mca_coll_gpuring_module_t *module,
                              enum gpuring_reason reason, const char *name);

/* Count a delegated call, and log the first one for each reason on a communicator. */
static inline void gpuring_serve_delegated(struct mca_coll_gpuring_module_t *module,
                                           enum gpuring_reason reason)
{
    gpuring_pvar_add(GPURING_PVAR_fallbacks, 1);
    if (OPAL_UNLIKELY((module->logged_reasons & UINT32_C(1) << reason) == 0)) {
        gpuring_serve_log_reason(module, reason);
    }
}

/*
 * Select how a call runs, if this rank already knows enough. It does once an engine exists: the
 * ranks have then compared their rules, and know the number of nodes. Until then, calls wait in the
 * queue. Returns true if call->choice is set. call->selected remains false if the connections of
 * this choice do not exist yet.
 */
static inline bool gpuring_serve_select(const struct mca_coll_gpuring_module_t *module,
                                        struct gpuring_call *call)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine =
        call->selected ? NULL : __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);

    if (engine == NULL) {
        return call->selected;
    }
    if (OPAL_UNLIKELY(call->mapping != NULL)) {
        gpuring_select_mapped(&engine->choice_config, gpuring_call_bytes(call), call->element_size,
                              &call->choice);
    } else {
        gpuring_select(&engine->choice_config, call->collective, call->count, call->element_size,
                       &call->choice);
    }
    call->selected = OPAL_LIKELY(!gpuring_engine_lacks(engine, call->choice.set));
    return true;
}

/* Return why the selection leaves a call to the previous component, or NONE. coll/tuned can hang in
 * blocking calls with counts (calls_begin.c). */
static inline enum gpuring_reason gpuring_serve_leaves(const struct gpuring_call *call,
                                                       enum gpuring_form form)
{
    return form == GPURING_BLOCKING && !call->counts ? call->choice.blocking_delegated
                                                     : call->choice.delegated;
}

/*
 * Decide whether a call runs, waits or is delegated, and select how it runs. busy: earlier calls
 * have not ended, or the result of this one must be checked. On entry *reason is NONE, or the
 * reason for delegating the call. On return it may be another reason.
 */
static inline enum gpuring_decision gpuring_serve_decide(
    const struct mca_coll_gpuring_module_t *module, struct gpuring_call *call,
    const struct gpuring_pending *pending, enum gpuring_form form, bool busy,
    enum gpuring_reason *reason)
{
    struct gpuring_circumstances known = {
        .form = form,
        .state = module->state,
        .reason = *reason,
        .must_agree = pending->asks != GPURING_ASKS_NOBODY,
        .busy = busy,
    };

    if (*reason == GPURING_REASON_NONE) {
        known.left = gpuring_serve_select(module, call) ? gpuring_serve_leaves(call, form)
                                                        : GPURING_REASON_NONE;
        /* A persistent call is connected by its track. */
        known.unconnected = known.state == GPURING_STATE_READY && !call->selected &&
                            (form != GPURING_PERSISTENT || module->owner != module);
        known.unconnectable =
            known.unconnected && (module->engine->unconnectable & 1u << call->choice.set) != 0;
    }
    return gpuring_decide(&known, reason);
}

/* Return true if a call must wait in the queue even if all other facts about it are known. */
static inline bool gpuring_serve_busy(const struct gpuring_serve *serve)
{
    return !gpuring_queue_empty(&serve->queue) || gpuring_params.check == GPURING_PARAM_CHECK_DATA;
}

#endif
