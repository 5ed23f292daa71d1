/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Detects the end of operations in a stream of the application; see engine.h. The launches of an
 * engine run one after another. Each stores its number in the states of its lanes, which are in
 * pinned memory, so the last launch has ended when all of its lanes have its number.
 */
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/status.h"

/* Return the number of the last launch that has ended in this lane. */
static uint32_t ended(const struct gpuring_engine *engine, uint32_t lane)
{
    /* This acquire pairs with the fence at the kernel's end. */
    return __atomic_load_n(&engine->states[lane].launch_seq, __ATOMIC_ACQUIRE);
}

uint32_t gpuring_operation_pending(const struct gpuring_engine *engine)
{
    for (uint32_t i = 0; i < engine->queued_lanes; i++) {
        if (ended(engine, i) != engine->enqueued) {
            uint32_t pending = engine->enqueued - ended(engine, 0);

            return pending > 0 ? pending : 1;
        }
    }
    return 0;
}

void gpuring_operation_rest(const struct gpuring_engine *engine)
{
    struct gpuring_transport *transport;

    if (gpuring_operation_pending(engine) == 0) {
        GPURING_ENGINE_EACH(i, transport, engine)
        {
            gpuring_transport_unkeep(transport, false);
        }
    }
}

uint32_t gpuring_operation_replayed(const struct gpuring_engine *engine)
{
    for (uint32_t i = 0; engine->captures > 0 && i < engine->nstates; i++) {
        uint32_t begun = __atomic_load_n(&engine->captured[i].begun, __ATOMIC_RELAXED);

        if (begun != 0) {
            return begun;
        }
    }
    return 0;
}

static bool is_corrupt(const struct gpuring_lane_state *state)
{
    return __atomic_load_n(&state->status, __ATOMIC_RELAXED) == GPURING_LANE_CORRUPT;
}

bool gpuring_operation_corrupt(const struct gpuring_engine *engine)
{
    for (uint32_t i = 0; i < engine->nstates; i++) {
        if (is_corrupt(&engine->states[i]) || is_corrupt(&engine->captured[i])) {
            return true;
        }
    }
    return false;
}

/* The engine's own stream is idle, so synchronizing with it returns only errors of the context. */
bool gpuring_operation_broken(const struct gpuring_engine *engine)
{
    return engine->device_ops->lost(engine->device) ||
           engine->device_ops->synchronize(engine->stream) < 0;
}

/* Return true if data is left to send. A progress thread may send it later: closing the connections
 * waits for that for a limited time. */
static bool is_unsent(const struct gpuring_engine *engine)
{
    struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        if (gpuring_transport_by_mpi(transport) && gpuring_transport_unsent(transport, false)) {
            return gpuring_engine_aborted(engine) == GPURING_OK;
        }
    }
    return false;
}

void gpuring_operation_drain(const struct gpuring_engine *engine)
{
    struct gpuring_backoff pause = {.looks = 0};
    struct gpuring_transport *transport;

    while ((gpuring_operation_pending(engine) > 0 || is_unsent(engine)) &&
           !(pause.late && gpuring_operation_broken(engine))) {
        gpuring_backoff(&pause, ended(engine, 0), false);
    }
    GPURING_ENGINE_EACH(i, transport, engine)
    {
        gpuring_transport_unkeep(transport, true);
    }
}
