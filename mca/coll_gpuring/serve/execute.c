/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdio.h>
#include <stdlib.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Of an item under coll_gpuring_check=data: to run it again, by the fallback. One piece of memory.
 */
struct gpuring_check {
    struct gpuring_call call; /* with the copied input */
    uint8_t *input;           /* as it was before the operation; then the result */
    uint8_t *expected;
    double *scale; /* NULL: results must be equal */
};

#define LOOKS_PER_CORE 16 /* looks between questions whether a peer shares our core */
#define LOOKS_PER_MPI  8  /* looks between calls of opal_progress, which poll MPI's sockets */

/* The one line that says that the component is at work, at the first call of a communicator. */
static void log_first(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = module->engine;
    char text[256], transport[32];

    gpuring_module_text(module, text, sizeof text);
    gpuring_transport_name(engine->transport, transport, sizeof transport);
    gpuring_info(
        "[serves] coll/gpuring serves %s: first %s (%llu bytes) by algorithm %s, protocol %s; "
        "transport %s, %d node(s), %u channel(s), %.1f MiB for connections",
        text, call->name, (unsigned long long) gpuring_call_moves(call),
        gpuring_algorithm_text(engine->choice.algorithm),
        gpuring_protocol_text(engine->choice.protocol), transport, engine->choice_config.nnodes,
        engine->base[GPURING_ALGORITHM_RING].plan->nlanes,
        (double) gpuring_transport_memory(engine->transport) / (1 << 20));
}

static void account(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_selection *choice = &module->engine->choice;

    gpuring_pvar_add(GPURING_PVAR_calls, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_ring + (int) choice->algorithm, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_simple + (int) choice->protocol, 1);
    gpuring_pvar_add(GPURING_PVAR_bytes, gpuring_call_moves(call));
    gpuring_pvar_add(GPURING_PVAR_resumed, module->engine->work->resumed);
    if (OPAL_UNLIKELY(module->engine->operation == 1)) {
        log_first(module, call);
    }
    gpuring_trace("operation %llu: %s of %llu bytes by %s, %s",
                  (unsigned long long) module->engine->operation, call->name,
                  (unsigned long long) gpuring_call_moves(call),
                  gpuring_algorithm_text(choice->algorithm),
                  gpuring_protocol_text(choice->protocol));
}

/* After the first poll: keep MPI moving, look after the watchdog, let others have the core. */
static int wait_operation(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_engine *engine = module->engine;
    struct gpuring_backoff pause = {.vain = 0};
    bool crowded = engine->oversubscribed, yielded;
    unsigned looks = 0;
    int status;

    do {
        yielded = looks % LOOKS_PER_MPI == 0 && opal_progress_yield_when_idle;
        if (looks % LOOKS_PER_MPI == 0) {
            opal_progress(); /* which yields itself, if MPI is to do so */
        }
        if (!engine->oversubscribed && looks % LOOKS_PER_CORE == 0) {
            crowded = gpuring_transport_shares_core(engine->transport);
        }
        looks++;
        if (!yielded) {
            gpuring_backoff(&pause, gpuring_operation_progress(engine), crowded);
        }
        status = gpuring_operation_poll(engine, call);
        if (status == GPURING_AGAIN) {
            int health = gpuring_watchdog_look(module);

            if (health != GPURING_OK) {
                return health;
            }
        }
    } while (status == GPURING_AGAIN);
    return status;
}

void gpuring_execute_fail(mca_coll_gpuring_module_t *module, int status)
{
    bool running = module->state == GPURING_STATE_READY;

    if (running && status == GPURING_ERR_ABORTED) {
        uint32_t why = *gpuring_transport_abort_word(module->engine->transport);

        status = why != 0 ? -(int) why : status; /* what the other rank stopped for */
    }
    gpuring_module_fail(module, status);
    if (running) {
        gpuring_operation_stop(module->engine);
        gpuring_operation_finish(module->engine, status);
    }
}

/* An operation has ended: account for it, or fail. */
static int end_operation(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         int status)
{
    if (OPAL_LIKELY(status == GPURING_OK)) {
        gpuring_operation_finish(module->engine, status);
        account(module, call);
        return GPURING_OK;
    }
    gpuring_watchdog_report(module, status);
    gpuring_execute_fail(module, status);
    return module->failure;
}

int gpuring_execute_blocking(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_engine *engine = module->engine;
    int status = gpuring_operation_start(engine, call);

    if (OPAL_LIKELY(status == GPURING_OK)) {
        status = gpuring_operation_poll(engine, call);
    }
    if (status == GPURING_AGAIN) {
        status = wait_operation(module, call);
    }
    return end_operation(module, call, status);
}

/* Keep the input for the fallback: the operation may overwrite it. */
static int check_prepare(struct gpuring_item *item)
{
    const struct gpuring_call *call = &item->call;
    size_t bytes = gpuring_call_bytes(call);
    size_t scales = gpuring_verify_rounds(call->type, call->op) ? call->count : 0;
    struct gpuring_check *check = malloc(sizeof *check + scales * sizeof *check->scale + 2 * bytes);

    if (check == NULL) {
        gpuring_error("out of memory for coll_gpuring_check=data: it needs three times the vector");
        return GPURING_ERR_NOMEM;
    }
    item->check = check;
    check->call = *call;
    check->scale = scales > 0 ? (double *) (check + 1) : NULL;
    check->call.input = check->input = (uint8_t *) (check + 1) + scales * sizeof *check->scale;
    check->expected = check->input + bytes;
    return gpuring_process_copy(check->input, call->input, bytes);
}

static void report_wrong(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         const struct gpuring_check *check, uint64_t at)
{
    char where[512], module_text[256], is[64], should[64];

    gpuring_module_text(module, module_text, sizeof module_text);
    snprintf(where, sizeof where, "%s, %s, operation %llu (%s of %s by %s, %s)", module_text,
             call->name, (unsigned long long) module->engine->operation,
             gpuring_op_info(call->op)->name, gpuring_type_info(call->type)->name,
             gpuring_algorithm_text(module->engine->choice.algorithm),
             gpuring_protocol_text(module->engine->choice.protocol));
    gpuring_verify_text(check->expected, at, call->type, should, sizeof should);
    gpuring_verify_text(check->input, at, call->type, is, sizeof is);
    gpuring_compat_help("wrong data", gpuring_process.hostname, (int) getpid(), where,
                        (unsigned long long) at, (unsigned long long) call->count, should, is);
}

/* Compare; a wrong result is replaced by that of the fallback. */
static int check_compare(mca_coll_gpuring_module_t *module, const struct gpuring_item *item)
{
    const struct gpuring_check *check = item->check;
    size_t bytes = gpuring_call_bytes(&item->call);
    uint64_t at;
    int status = gpuring_process_copy(check->input, item->call.output, bytes);

    if (status != GPURING_OK) {
        return status;
    }
    at = gpuring_verify(check->input, check->expected, check->scale, item->call.count,
                        item->call.type, module->nranks);
    if (at == item->call.count) {
        return GPURING_OK;
    }
    report_wrong(module, &item->call, check, at);
    status = gpuring_process_copy(item->call.output, check->expected, bytes);
    return status != GPURING_OK ? status : GPURING_ERR_DATA;
}

static int check_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_fallback_allreduce *fallback = &module->serve->fallback;
    int status;

    if (item->phase != GPURING_PHASE_CHECKING) {
        gpuring_item_enter(item, GPURING_PHASE_CHECKING);
        gpuring_fallback_allreduce_start(fallback, module->oob, &item->check->call,
                                         item->check->scale);
    }
    status = gpuring_fallback_allreduce_progress(fallback, item->check->expected);
    return status == GPURING_OK ? check_compare(module, item) : status;
}

static int item_start(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    int status = GPURING_OK;

    gpuring_item_enter(item, GPURING_PHASE_RUNNING);
    if (gpuring_params.check == GPURING_PARAM_CHECK_DATA &&
        item->call.collective == GPURING_COLLECTIVE_ALLREDUCE) {
        status = check_prepare(item);
        if (status != GPURING_OK) {
            gpuring_execute_fail(module, status);
            return status;
        }
    }
    return gpuring_operation_start(module->engine, &item->call);
}

int gpuring_execute_item(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    int status = GPURING_OK;

    if (item->phase == GPURING_PHASE_CHECKING) {
        return check_progress(module, item);
    }
    if (item->phase != GPURING_PHASE_RUNNING) {
        status = item_start(module, item);
        if (module->state != GPURING_STATE_READY) {
            return status;
        }
    }
    if (status == GPURING_OK) {
        status = gpuring_operation_poll(module->engine, &item->call);
    }
    if (status == GPURING_AGAIN) {
        return GPURING_AGAIN;
    }
    status = end_operation(module, &item->call, status);
    return status == GPURING_OK && item->check != NULL ? check_progress(module, item) : status;
}
