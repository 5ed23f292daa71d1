/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Running one operation of an engine; see engine.h. */
#include "kernels/work.h"
#include "mca/coll_gpuring/engine/bounce.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_operation_start(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    struct gpuring_selection *choice = &engine->choice;
    const struct gpuring_plan *plan;
    struct gpuring_lane *lanes;
    uint64_t align = gpuring_chunk_align(call->element_size), parts;
    uint32_t nlanes;
    const void *input;
    void *output;
    int status;

    gpuring_select(&engine->choice_config, call->count, call->element_size, choice);
    plan = engine->plans[choice->algorithm];
    lanes = engine->lanes[choice->algorithm][choice->protocol];
    nlanes = gpuring_plan_first_lanes(plan, choice->channels, &parts);
    for (uint32_t i = 0; i < nlanes; i++) {
        gpuring_plan_lane_range_within(plan, i, parts, call->count, align, &lanes[i].first,
                                       &lanes[i].count);
        lanes[i].chunk = choice->chunk;
        lanes[i].done = 0;
        lanes[i].bytes = 0;
        lanes[i].step = 0;
        lanes[i].status = GPURING_LANE_RUNNING;
        lanes[i].wait = GPURING_WAIT_NONE;
        lanes[i].wait_ref = 0;
    }
    engine->operation++;
    engine->collective = call->collective;
    engine->call = call->number;
    gpuring_transport_publish(engine->transport, engine->operation, GPURING_ACTIVITY_RUNNING);
    gpuring_transport_begin(engine->transport);
    engine->running = true;
    status = gpuring_bounce_start(engine, call, &input, &output);
    if (status != GPURING_OK) {
        return status;
    }
    *engine->work = (struct gpuring_work){
        .input = input,
        .output = output,
        .type = call->type,
        .op = call->op,
        .protocol = choice->protocol,
        .nlanes = nlanes,
        .lanes = lanes,
        .abort = gpuring_transport_abort_word(engine->transport),
        .patience = engine->patience,
    };
    return engine->device_ops->launch(engine->stream, engine->work);
}

int gpuring_operation_poll(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    int status = engine->device_ops->poll(engine->stream, engine->work);

    if (status == GPURING_AGAIN) {
        gpuring_transport_help(engine->transport);
    }
    return status == GPURING_OK ? gpuring_bounce_deliver(engine, call) : status;
}

void gpuring_operation_stop(struct gpuring_engine *engine)
{
    if (engine->device_ops->kind != GPURING_DEVICE_HOST) {
        (void) engine->device_ops->synchronize(engine->stream);
    }
}

void gpuring_operation_finish(struct gpuring_engine *engine, int status)
{
    if (engine->running) { /* else a call has failed that waited for its turn */
        gpuring_bounce_end(engine);
        gpuring_transport_end(engine->transport);
        engine->running = false;
    }
    gpuring_transport_publish(engine->transport, engine->operation,
                              status == GPURING_OK ? GPURING_ACTIVITY_OUTSIDE
                                                   : GPURING_ACTIVITY_FAILED);
}

uint64_t gpuring_operation_progress(const struct gpuring_engine *engine)
{
    uint64_t sum = engine->operation << 32;

    for (uint32_t i = 0; i < engine->work->nlanes; i++) {
        const struct gpuring_lane *lane = &engine->work->lanes[i];

        sum += lane->done + lane->bytes + lane->step + lane->status;
    }
    return sum;
}

int gpuring_operation_waiting(const struct gpuring_engine *engine, enum gpuring_lane_wait *wait,
                              uint32_t *ref, int *peer)
{
    for (uint32_t i = 0; i < engine->work->nlanes; i++) {
        const struct gpuring_lane *lane = &engine->work->lanes[i];

        if (lane->status != GPURING_LANE_DONE) { /* a stopped one still has its position */
            *wait = (enum gpuring_lane_wait) lane->wait;
            *ref = lane->wait_ref;
            *peer = gpuring_transport_peer_rank(
                engine->transport, engine->index[engine->choice.algorithm], i, *wait, *ref);
            return (int) i;
        }
    }
    return -1;
}

const char *gpuring_protocol_text(enum gpuring_protocol protocol)
{
    static const char *const texts[GPURING_PROTOCOL_COUNT] = {
        [GPURING_PROTOCOL_SIMPLE] = "simple",
        [GPURING_PROTOCOL_LL] = "ll",
        [GPURING_PROTOCOL_LL128] = "ll128",
    };

    return texts[protocol];
}
