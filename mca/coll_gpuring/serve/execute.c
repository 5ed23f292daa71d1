/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * Other operations of this process, and one-sided operations of other processes, may depend on this
 * process to progress MPI. A call that waits for more than 20 us progresses MPI (execute_wait.c).
 * In addition, one in CALLS_PER_MPI calls progresses it at its end. Therefore, while calls follow
 * each other, MPI waits for at most about CALLS_PER_MPI times 20 us, which is 5 ms.
 */
#define CALLS_PER_MPI 256

/* Log the first call that is served after connections were made, to show that they are in use. */
static void log_first(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = module->engine;
    const struct gpuring_transport *used = engine->current->program->transport;
    const struct gpuring_selection *choice = &engine->current->choice;
    uint32_t rings = engine->choice_config.channels[GPURING_ALGORITHM_RING];
    char text[256], transport[32];

    gpuring_module_text(module, text, sizeof text);
    gpuring_transport_name(used, transport, sizeof transport);
    gpuring_info(
        "[serves] coll/gpuring serves %s: first %s (%llu bytes) by algorithm %s, protocol %s%s; "
        "transport %s, %d node(s), %u channel(s), %.1f MiB for connections",
        text, call->name, (unsigned long long) gpuring_call_moves(call),
        gpuring_algorithm_text(choice->algorithm), gpuring_protocol_text(choice->protocol),
        call->mapping != NULL ? ", on mapped buffers" : "", transport, engine->choice_config.nnodes,
        rings > 0 && call->mapping == NULL ? rings : engine->choice_config.channels[choice->set],
        (double) gpuring_transport_memory(used) / (1 << 20));
}

static void account_served(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = module->engine;
    const struct gpuring_selection *choice = &engine->current->choice;

    gpuring_pvar_add(GPURING_PVAR_calls, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_ring + (int) choice->algorithm, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_simple + (int) choice->protocol, 1);
    gpuring_pvar_add(GPURING_PVAR_bytes, gpuring_call_moves(call));
    gpuring_pvar_add(GPURING_PVAR_mapped_calls, call->mapping != NULL);
    gpuring_pvar_add(GPURING_PVAR_resumed, engine->current->work.resumed);
    if (OPAL_UNLIKELY(engine->operation == engine->first)) {
        log_first(module, call);
    }
    gpuring_trace(
        "operation %llu: %s of %llu bytes by %s, %s", (unsigned long long) engine->operation,
        call->name, (unsigned long long) gpuring_call_moves(call),
        gpuring_algorithm_text(choice->algorithm), gpuring_protocol_text(choice->protocol));
}

/* Account for an operation that has ended, or let the module fail with its error. */
static int end_operation(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         int status)
{
    if (OPAL_LIKELY(status == GPURING_OK)) {
        account_served(module, call);
        return GPURING_OK;
    }
    status = gpuring_watchdog_report(module, status);
    gpuring_module_fail(module, status);
    return module->failure;
}

void gpuring_execute_progress_mpi(void)
{
    static unsigned calls; /* number of calls of the process; relaxed, because a lost count does
                              no harm */
    unsigned count = __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&calls, count, __ATOMIC_RELAXED);
    if (OPAL_UNLIKELY(count % CALLS_PER_MPI == 0)) {
        opal_progress();
    }
}

int gpuring_execute_call(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         enum gpuring_form form, uint64_t number)
{
    bool blocking = form == GPURING_BLOCKING;
    int status;

    module->serve->running = number;
    status = gpuring_operation_start(module->engine, call, blocking);
    if (status == GPURING_AGAIN && blocking) {
        status = gpuring_execute_wait(module, call);
    }
    gpuring_execute_progress_mpi();
    return status == GPURING_AGAIN ? GPURING_AGAIN : end_operation(module, call, status);
}

static int item_start(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    int status = GPURING_OK;

    gpuring_item_enter(item, GPURING_PHASE_RUNNING);
    if (gpuring_params.check == GPURING_PARAM_CHECK_DATA &&
        item->call.collective == GPURING_COLLECTIVE_ALLREDUCE) {
        status = gpuring_check_prepare(item);
        if (status != GPURING_OK) {
            gpuring_module_fail(module, status);
            return status;
        }
    }
    module->serve->running = item->pending.number;
    return gpuring_operation_start(module->engine, &item->call, item->form == GPURING_BLOCKING);
}

int gpuring_execute_item(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    int status;

    if (item->phase == GPURING_PHASE_CHECKING) {
        return gpuring_check_progress(module, item);
    }
    if (item->phase == GPURING_PHASE_RUNNING) {
        status = gpuring_operation_poll(module->engine, &item->call);
    } else {
        status = item_start(module, item);
        if (module->state != GPURING_STATE_READY) {
            return status;
        }
    }
    if (status == GPURING_AGAIN) {
        return GPURING_AGAIN;
    }
    status = end_operation(module, &item->call, status);
    if (status == GPURING_OK && item->check != NULL) {
        gpuring_item_enter(item, GPURING_PHASE_CHECKING);
        status = gpuring_check_progress(module, item);
    }
    return status;
}
