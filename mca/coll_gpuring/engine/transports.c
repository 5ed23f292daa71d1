/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* All transports of an engine; see engine.h. */
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/status.h"

#define SETTLE_NS (2 * GPURING_SECOND)

int gpuring_engine_health(const struct gpuring_engine *engine, char *text, size_t size)
{
    struct gpuring_transport *transport;
    int status = GPURING_OK;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        status = status == GPURING_OK ? gpuring_transport_health(transport, text, size) : status;
    }
    return status;
}

void gpuring_engine_abort(const struct gpuring_engine *engine, int status)
{
    struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        gpuring_transport_abort(transport, status);
    }
}

static bool all_settled(const struct gpuring_engine *engine, bool late)
{
    struct gpuring_transport *transport;
    bool all = true;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        all = gpuring_transport_settle(transport, late) && all;
    }
    if (engine->current->work.mapped != NULL) {
        all = !gpuring_transport_peers_run(engine->current->program->transport) && all;
    }
    return all;
}

void gpuring_engine_settle(const struct gpuring_engine *engine)
{
    uint64_t deadline = gpuring_now_ns() + SETTLE_NS;
    struct gpuring_backoff pause = {.looks = 0};
    bool late = false;

    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* partner: gpuring_operation_start */
    while (!all_settled(engine, late) && !late) {
        gpuring_backoff(&pause, 0, false);
        late = gpuring_now_ns() >= deadline;
    }
}

int gpuring_engine_aborted(const struct gpuring_engine *engine)
{
    struct gpuring_transport *transport;
    uint32_t why = 0;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        why = why == 0 ? *gpuring_transport_abort_word(transport) : why;
    }
    return -(int) why;
}

void gpuring_engine_unpost(const struct gpuring_engine *engine)
{
    /* Partner: gpuring_engine_own. */
    int count = __atomic_load_n(&engine->ntransports, __ATOMIC_ACQUIRE);

    for (int i = 0; i < count; i++) {
        gpuring_transport_unpost(engine->transports[i]);
    }
}

bool gpuring_engine_usable(const struct gpuring_engine *engine)
{
    struct gpuring_transport *transport;
    bool usable = !engine->running && !engine->enqueues;

    if (engine->device_ops->lost != NULL) {
        usable = usable && !engine->device_ops->lost(engine->device);
    }
    GPURING_ENGINE_EACH(i, transport, engine)
    {
        usable = usable && gpuring_transport_reusable(transport);
    }
    return usable;
}

void gpuring_engine_publish(const struct gpuring_engine *engine, enum gpuring_activity activity)
{
    struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        gpuring_transport_publish(transport, engine->operation, activity);
    }
}

void gpuring_engine_rest(struct gpuring_engine *engine, uint64_t calls, uint64_t votes)
{
    gpuring_bounce_clear(engine);
    /* Other shapes of the next communicator will have the same numbers. */
    gpuring_engine_forget(engine);
    gpuring_transport_continue(engine->transports[0], calls, votes);
    gpuring_engine_publish(engine, GPURING_ACTIVITY_CLOSED);
}

void gpuring_engine_resume(const struct gpuring_engine *engine, struct ompi_communicator_t *comm,
                           int track)
{
    struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        gpuring_transport_attach(transport, comm, track);
    }
    gpuring_engine_publish(engine, GPURING_ACTIVITY_OUTSIDE);
}

uint32_t gpuring_engine_identity(const struct gpuring_engine *engine)
{
    struct gpuring_transport *transport;
    uint64_t hash = gpuring_hash_number(GPURING_HASH_START, engine->operation);

    hash = gpuring_hash_number(hash, (uint64_t) engine->connected << 32 | engine->unconnectable);
    GPURING_ENGINE_EACH(i, transport, engine)
    {
        hash = gpuring_transport_identity(transport, hash);
    }
    return (uint32_t) (hash ^ hash >> 32);
}
