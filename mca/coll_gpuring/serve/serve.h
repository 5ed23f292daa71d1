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
#include "mca/coll_gpuring/serve/persistent_order.h"
#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/util/backoff.h"

/* The state of a wait (watchdog.c). Times are in nanoseconds. */
struct gpuring_watchdog {
    uint32_t looks;    /* number of looks, of which only some read the clock */
    uint64_t last;     /* time of the last look at the peers; 0 before the first wait */
    uint64_t since;    /* time of the last progress */
    uint64_t progress; /* gpuring_watchdog_progress at that time */
    bool reported;     /* this wait was logged */
    bool hinted;       /* a possible reason for a slow wire-up was logged */
};

struct gpuring_serve {
    struct mca_coll_gpuring_module_t *module;
    struct gpuring_queue queue;
    struct gpuring_task task;     /* advances the queue in opal_progress */
    struct gpuring_backoff pause; /* of the task */
    uint64_t progress; /* gpuring_watchdog_progress when a thread last left the queue; atomic, used
                          to choose the length of pauses */
    struct gpuring_watchdog watchdog;
    uint64_t on_gpu;             /* the number of the last call on a GPU (mixed_memory.c) */
    uint64_t running;            /* the number of the call that runs, or that ran last */
    int missing;                 /* a rank whose vote or report the next item waits for */
    uint8_t barrier_byte;        /* that barriers reduce */
    struct gpuring_call barrier; /* the description of all barriers; its name is NULL before the
                                    first one */
    const uint32_t *reports[];   /* of all ranks on started calls, while they are applied */
};

/*
 * Create the module's queue, its out-of-band messages and its wire-up. The memory of the wire-up is
 * allocated here, so that a wire-up cannot fail on a single rank for want of memory. Returns 0 or
 * GPURING_ERR_NOMEM. Call close even after an open that failed.
 */
int gpuring_serve_open(struct mca_coll_gpuring_module_t *module);
void gpuring_serve_close(struct mca_coll_gpuring_module_t *module);

/* Return true if no request of the application needs the module. */
bool gpuring_serve_idle(const struct mca_coll_gpuring_module_t *module);

/* ---- execute.c: run calls on a READY module, immediately or from the queue ---- */

/* Run a call, which has this number (pending.h), immediately. Returns 0, or the error with which
 * the module has failed. start: begin a non-blocking call. The result may also be GPURING_AGAIN;
 * the call must then be queued in phase RUNNING. The queue is empty. */
int gpuring_execute_blocking(struct mca_coll_gpuring_module_t *module,
                             const struct gpuring_call *call, uint64_t number);
int gpuring_execute_start(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          uint64_t number);

/* Progress MPI now and then, after a call that has not waited for it. */
void gpuring_execute_progress_mpi(void);

/* Advance the next item of the queue. Returns its outcome, or GPURING_AGAIN. With the queue's lock.
 */
int gpuring_execute_item(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/*
 * ---- progress.c: advance queues. Threads that wait for an item do so, and a task
 * (progress/task.h) does so for items with requests. Queues of different communicators are
 * independent.
 * ----
 */

/* Queue an item (see gpuring_queue_add) that the task advances. */
void gpuring_progress_start(struct gpuring_item *item, enum gpuring_phase phase);

/* Return true if the ranks report on their status pages which calls they have started. */
static inline bool gpuring_serve_reports_on_pages(const struct mca_coll_gpuring_module_t *module)
{
    return gpuring_persistent_words(&module->serve->queue) <= GPURING_REPORT_WORDS &&
           gpuring_can_vote_locally(module);
}

/* Queue a call and wait for its end. Returns its status. Sets *reason to NONE, or to the reason for
 * which the caller must delegate the call. */
int gpuring_progress_call(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          const struct gpuring_pending *pending, enum gpuring_form form,
                          enum gpuring_reason *reason);

/* Wait until the queue has no call that may still be delegated. Called before a persistent call is
 * delegated, because the previous module must get earlier calls first. */
void gpuring_progress_decide(struct mca_coll_gpuring_module_t *module);

/* Called by gpuring_serve_open. */
void gpuring_progress_init(struct gpuring_serve *serve);

/* ---- mixed_memory.c ---- */

/* Publish on the status page where the buffers of the module's last call are, if they decide
 * whether it is served. Sets pending->number. reason is NONE if a GPU will serve the call. */
void gpuring_mixed_memory_note(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                               struct gpuring_pending *pending);

/* Check whether another rank uses host buffers in the call that runs, or that is the next to run.
 * Returns 0, or GPURING_ERR_MIXED after printing a help text. */
int gpuring_mixed_memory_look(const struct mca_coll_gpuring_module_t *module);

/* ---- eligible.c ---- */

/* Return true if the location of its buffers decides whether a call is served. */
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
 * Return true if this process could serve any call now. Otherwise all calls are delegated for
 * NO_DRIVER. Entry functions check this first; it is all that an idle component costs a call.
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

/* prepare: save the input of an allreduce that is about to run. progress: compare its result after
 * it has run. They return 0, GPURING_AGAIN, or an error. The caller frees item->check. */
int gpuring_check_prepare(struct gpuring_item *item);
int gpuring_check_progress(struct mca_coll_gpuring_module_t *module, struct gpuring_item *item);

/* ---- watchdog.c ---- */

/*
 * Check a wait. Called after each poll without progress; cheap. Returns 0, or the error with which
 * the module must fail, after the reason was reported.
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

/* Warn if coll_gpuring_deterministic promises the order of this reduction, which is delegated. */
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

/* Select how a call runs, as soon as this rank can know it: when it is wired up, the ranks have
 * compared their rules and know the number of nodes. Calls wait for that in the queue. Returns true
 * if the choice is known. If its connections do not exist yet, the choice is not kept.
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
    gpuring_select(&engine->choice_config, call->collective, call->count, call->element_size,
                   &call->choice);
    call->selected = OPAL_LIKELY(!gpuring_engine_lacks(engine, call->choice.set));
    return true;
}

/* Decide on a call, and select how it runs. busy: calls before it have not ended, or its result
 * must be checked. On entry *reason is NONE, or the reason for delegating the call; the result may
 * be another reason. */
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
        known.tuned = gpuring_serve_select(module, call) && call->choice.delegated;
        known.unconnected = known.state == GPURING_STATE_READY && !call->selected;
        known.unconnectable =
            known.unconnected && (module->engine->unconnectable & 1u << call->choice.set) != 0;
    }
    return gpuring_decide(&known, reason);
}

/* Return true if a call must wait in the queue even if nothing else is unknown about it. */
static inline bool gpuring_serve_busy(const struct gpuring_serve *serve)
{
    return !gpuring_queue_empty(&serve->queue) || gpuring_persistent_exist(&serve->queue) ||
           gpuring_params.check == GPURING_PARAM_CHECK_DATA;
}

#endif
