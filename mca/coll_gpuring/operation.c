/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Running one operation of a service; see service.h. */
#include "kernels/work.h"
#include "mca/coll_gpuring/bounce.h"
#include "mca/coll_gpuring/eligible.h"
#include "mca/coll_gpuring/service.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_operation_start(struct gpuring_service *service, const struct gpuring_call *call)
{
    struct gpuring_choice *choice = &service->choice;
    const struct gpuring_plan *plan;
    struct gpuring_lane *lanes;
    uint64_t align = gpuring_chunk_align(call->element_size);
    const void *input;
    void *output;
    int status;

    gpuring_choose(&service->choice_config, call->count, call->element_size, choice);
    plan = service->plans[choice->algorithm];
    lanes = service->lanes[choice->algorithm][choice->protocol];
    for (uint32_t i = 0; i < plan->nlanes; i++) {
        gpuring_plan_lane_range(plan, i, call->count, align, &lanes[i].first, &lanes[i].count);
        lanes[i].chunk = choice->chunk;
        lanes[i].done = 0;
        lanes[i].bytes = 0;
        lanes[i].step = 0;
        lanes[i].status = GPURING_LANE_RUNNING;
        lanes[i].wait = GPURING_WAIT_NONE;
        lanes[i].wait_ref = 0;
    }
    service->operation++;
    service->call = call->number;
    gpuring_transport_publish(service->transport, service->operation, GPURING_ACTIVITY_RUNNING);
    gpuring_transport_begin(service->transport);
    service->running = true;
    status = gpuring_bounce_start(service, call, &input, &output);
    if (status != GPURING_OK) {
        return status;
    }
    *service->work = (struct gpuring_work){
        .input = input,
        .output = output,
        .type = call->type,
        .op = call->op,
        .protocol = choice->protocol,
        .nlanes = plan->nlanes,
        .lanes = lanes,
        .abort = gpuring_transport_abort_word(service->transport),
        .patience = service->patience,
    };
    return service->device_ops->launch(service->stream, service->work);
}

int gpuring_operation_poll(struct gpuring_service *service, const struct gpuring_call *call)
{
    int status = service->device_ops->poll(service->stream, service->work);

    if (status == GPURING_AGAIN) {
        gpuring_transport_help(service->transport);
    }
    return status == GPURING_OK ? gpuring_bounce_deliver(service, call) : status;
}

void gpuring_operation_stop(struct gpuring_service *service)
{
    if (service->device_ops->kind != GPURING_DEVICE_HOST) {
        (void) service->device_ops->synchronize(service->stream);
    }
}

void gpuring_operation_finish(struct gpuring_service *service, int status)
{
    if (service->running) { /* else a call has failed that waited for its turn */
        gpuring_bounce_end(service);
        gpuring_transport_end(service->transport);
        service->running = false;
    }
    gpuring_transport_publish(service->transport, service->operation,
                              status == GPURING_OK ? GPURING_ACTIVITY_OUTSIDE
                                                   : GPURING_ACTIVITY_FAILED);
}

uint64_t gpuring_operation_progress(const struct gpuring_service *service)
{
    uint64_t sum = service->operation << 32;

    for (uint32_t i = 0; i < service->work->nlanes; i++) {
        const struct gpuring_lane *lane = &service->work->lanes[i];

        sum += lane->done + lane->bytes + lane->step + lane->status;
    }
    return sum;
}

int gpuring_operation_waiting(const struct gpuring_service *service, enum gpuring_lane_wait *wait,
                              uint32_t *ref, int *peer)
{
    for (uint32_t i = 0; i < service->work->nlanes; i++) {
        const struct gpuring_lane *lane = &service->work->lanes[i];

        if (lane->status != GPURING_LANE_DONE) { /* stopped ones tell where they were */
            *wait = (enum gpuring_lane_wait) lane->wait;
            *ref = lane->wait_ref;
            *peer = gpuring_transport_peer_rank(
                service->transport, service->index[service->choice.algorithm], i, *wait, *ref);
            return (int) i;
        }
    }
    return -1;
}

const char *gpuring_algorithm_text(enum gpuring_algorithm algorithm)
{
    static const char *const texts[GPURING_ALGORITHM_COUNT] = {
        [GPURING_ALGORITHM_RING] = "ring",
        [GPURING_ALGORITHM_TREE] = "tree",
        [GPURING_ALGORITHM_DIRECT] = "direct",
        [GPURING_ALGORITHM_PACKED] = "packed",
    };

    return texts[algorithm];
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
