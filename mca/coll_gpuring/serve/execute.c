/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * How often blocking calls progress MPI, for which other operations of this process and one-sided
 * operations of other processes may wait. A call that waits first looks at its own operation alone
 * for ALONE_NS, because opal_progress costs as much as a small call; afterwards it progresses MPI
 * every LOOKS_PER_MPI looks, which take at most 10 us each. One in CALLS_PER_MPI calls progresses
 * MPI at its end, whether it has waited or not. While blocking calls follow each other, MPI
 * therefore waits for about CALLS_PER_MPI times ALONE_NS at most, which is 5 ms.
 */
#define ALONE_NS        20000
#define LOOKS_PER_CLOCK 4 /* during ALONE_NS */
#define LOOKS_PER_MPI   8
#define CALLS_PER_MPI   256
#define LOOKS_PER_CORE  16 /* looks between checks whether a peer shares our core */

/* Log the first call that is served after connections were made, to show that they are in use. */
static void log_first(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = module->engine;
    uint32_t rings = engine->choice_config.channels[GPURING_ALGORITHM_RING];
    char text[256], transport[32];

    gpuring_module_text(module, text, sizeof text);
    gpuring_transport_name(engine->program->transport, transport, sizeof transport);
    gpuring_info(
        "[serves] coll/gpuring serves %s: first %s (%llu bytes) by algorithm %s, protocol %s; "
        "transport %s, %d node(s), %u channel(s), %.1f MiB for connections",
        text, call->name, (unsigned long long) gpuring_call_moves(call),
        gpuring_algorithm_text(engine->choice.algorithm),
        gpuring_protocol_text(engine->choice.protocol), transport, engine->choice_config.nnodes,
        rings > 0 ? rings : engine->choice_config.channels[engine->choice.algorithm],
        (double) gpuring_transport_memory(engine->program->transport) / (1 << 20));
}

static void account(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = module->engine;
    const struct gpuring_selection *choice = &engine->choice;

    gpuring_pvar_add(GPURING_PVAR_calls, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_ring + (int) choice->algorithm, 1);
    gpuring_pvar_add(GPURING_PVAR_calls_simple + (int) choice->protocol, 1);
    gpuring_pvar_add(GPURING_PVAR_bytes, gpuring_call_moves(call));
    gpuring_pvar_add(GPURING_PVAR_resumed, engine->work.resumed);
    if (OPAL_UNLIKELY(engine->operation == engine->first)) {
        log_first(module, call);
    }
    gpuring_trace(
        "operation %llu: %s of %llu bytes by %s, %s", (unsigned long long) engine->operation,
        call->name, (unsigned long long) gpuring_call_moves(call),
        gpuring_algorithm_text(choice->algorithm), gpuring_protocol_text(choice->protocol));
}

/* The state of a wait. */
struct wait {
    struct gpuring_backoff pause;
    unsigned looks;
    uint64_t since_ns;
    bool alone;   /* do not progress MPI yet */
    bool crowded; /* ranks share cores */
};

static struct wait wait_begin(const struct gpuring_engine *engine)
{
    bool crowded = engine->oversubscribed || opal_progress_yield_when_idle;

    return (struct wait){.since_ns = gpuring_now_ns(), .alone = !crowded, .crowded = crowded};
}

/* Return true if MPI must be progressed before the next look. */
static bool mpi_is_due(struct wait *wait)
{
    unsigned look = wait->looks++;

    if (wait->alone) {
        wait->alone = look % LOOKS_PER_CLOCK != 0 || gpuring_now_ns() - wait->since_ns < ALONE_NS;
        return !wait->alone;
    }
    return look % LOOKS_PER_MPI == 0;
}

/* Wait for an operation inside a node after its first poll: progress MPI, check the watchdog, and
 * give the core to other threads if that is due. */
static int wait_operation(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_engine *engine = module->engine;
    struct wait wait = wait_begin(engine);
    int status;

    do {
        bool yielded = false;

        if (mpi_is_due(&wait)) {
            opal_progress();
            yielded = opal_progress_yield_when_idle;
        }
        if (!wait.crowded && wait.looks % LOOKS_PER_CORE == 0) {
            wait.crowded = gpuring_transport_shares_core(engine->program->transport);
        }
        gpuring_backoff(&wait.pause, gpuring_operation_progress(engine), wait.crowded && !yielded);
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

/* Account for an operation that has ended, or let the module fail with its error. */
static int end_operation(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         int status)
{
    if (OPAL_LIKELY(status == GPURING_OK)) {
        account(module, call);
        return GPURING_OK;
    }
    status = gpuring_watchdog_report(module, status);
    gpuring_module_fail(module, status);
    return module->failure;
}

void gpuring_execute_progress_mpi(void)
{
    static unsigned calls; /* of the process, relaxed: a lost count does no harm */
    unsigned count = __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&calls, count, __ATOMIC_RELAXED);
    if (OPAL_UNLIKELY(count % CALLS_PER_MPI == 0)) {
        opal_progress();
    }
}

int gpuring_execute_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          uint64_t number)
{
    int status;

    module->serve->running = number;
    status = gpuring_operation_start(module->engine, call, false);
    gpuring_execute_progress_mpi();
    return status == GPURING_AGAIN ? GPURING_AGAIN : end_operation(module, call, status);
}

int gpuring_execute_blocking(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                             uint64_t number)
{
    int status;

    module->serve->running = number;
    status = gpuring_operation_start(module->engine, call, true);
    if (status == GPURING_AGAIN) {
        status = gpuring_transport_remote(module->engine->program->transport)
                     ? gpuring_network_wait(module, call)
                     : wait_operation(module, call);
    }
    gpuring_execute_progress_mpi();
    return end_operation(module, call, status);
}

/* Return true if the next item is a barrier that all ranks have reported (persistent_order.h). */
static bool is_passed_barrier(const mca_coll_gpuring_module_t *module,
                              const struct gpuring_item *item)
{
    return item->phase == GPURING_PHASE_NEXT && item->call.input == &module->serve->barrier_byte;
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
    if (is_passed_barrier(module, item)) {
        gpuring_pvar_add(GPURING_PVAR_calls, 1);
        return GPURING_OK;
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
