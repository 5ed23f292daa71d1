/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/service.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Slots of the flagged protocols: 16 KiB lines, enough for what they are chosen for. */
#define FLAGGED_SLOT_BYTES (16 << 10)

void gpuring_service_fifo(const struct gpuring_service_config *config,
                          struct gpuring_fifo_config *fifo)
{
    uint64_t slot = config->buffer_bytes / GPURING_SERVICE_SLOTS / 128 * 128;

    *fifo = (struct gpuring_fifo_config){.nslots = GPURING_SERVICE_SLOTS};
    fifo->slot_bytes[GPURING_PROTOCOL_SIMPLE] = slot;
    fifo->slot_bytes[GPURING_PROTOCOL_LL] = FLAGGED_SLOT_BYTES;
    fifo->slot_bytes[GPURING_PROTOCOL_LL128] = FLAGGED_SLOT_BYTES;
}

static int build_plans(struct gpuring_service *service, const struct gpuring_service_config *config)
{
    struct gpuring_plan **plans = service->plans;
    int status;

    status = gpuring_plan_build_ring(config->rank, config->nranks, config->channels, config->nrings,
                                     &plans[GPURING_ALGORITHM_RING]);
    if (status == GPURING_OK) {
        status = gpuring_plan_build_tree(config->rank, config->nranks, config->channels,
                                         config->ntrees, &plans[GPURING_ALGORITHM_TREE]);
    }
    if (status == GPURING_OK && config->nranks <= GPURING_SERVICE_DIRECT_RANKS) {
        status = gpuring_plan_build_direct(config->rank, config->nranks,
                                           &plans[GPURING_ALGORITHM_DIRECT]);
    }
    if (status == GPURING_OK && config->packed != NULL && config->packed->count > 0) {
        status = gpuring_plan_build_packed(config->rank, config->nranks, config->packed->place,
                                           config->packed->count, &plans[GPURING_ALGORITHM_PACKED]);
    }
    return status;
}

int gpuring_service_create(const struct gpuring_service_config *config,
                           const struct gpuring_device_ops *device_ops,
                           struct gpuring_device *device, struct gpuring_service **service)
{
    struct gpuring_service *created = calloc(1, sizeof *created);
    struct gpuring_fifo_config fifo;
    int status;

    if (created == NULL) {
        gpuring_error("out of memory for a communicator");
        return GPURING_ERR_NOMEM;
    }
    created->device_ops = device_ops;
    created->device = device;
    created->oversubscribed = config->oversubscribed;
    status = build_plans(created, config);
    if (status == GPURING_OK) {
        status = device_ops->stream_create(device, &created->stream);
    }
    if (status != GPURING_OK) {
        gpuring_service_destroy(created);
        return status;
    }
    gpuring_service_fifo(config, &fifo);
    created->choice_config = (struct gpuring_choice_config){
        .algorithm = config->algorithm,
        .protocol = config->protocol,
        .nranks = config->nranks,
        .nnodes = config->nnodes,
        .host = device_ops->kind == GPURING_DEVICE_HOST,
        .chunk_bytes = config->chunk_bytes,
    };
    if (config->advice != NULL && config->advice->predicted) {
        created->choice_config.advised = true;
        memcpy(created->choice_config.advice_algorithm, config->advice->algorithm,
               sizeof config->advice->algorithm);
        memcpy(created->choice_config.advice_protocol, config->advice->protocol,
               sizeof config->advice->protocol);
    }
    memcpy(created->choice_config.slot_bytes, fifo.slot_bytes, sizeof fifo.slot_bytes);
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        created->choice_config.offered[i] = created->plans[i] != NULL;
    }
    *service = created;
    return GPURING_OK;
}

int gpuring_service_transport(struct gpuring_service *service,
                              const struct gpuring_transport_config *transport)
{
    const struct gpuring_plan *plans[GPURING_ALGORITHM_COUNT];
    struct gpuring_transport_config config = *transport;
    int nplans = 0;

    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        if (service->plans[i] != NULL) {
            service->index[i] = nplans;
            plans[nplans++] = service->plans[i];
        }
    }
    config.fifo.nslots = GPURING_SERVICE_SLOTS;
    memcpy(config.fifo.slot_bytes, service->choice_config.slot_bytes,
           sizeof config.fifo.slot_bytes);
    config.device_ops = service->device_ops;
    config.device = service->device;
    return gpuring_transport_create(&config, plans, nplans, &service->transport);
}

static int bind_plan(struct gpuring_service *service, int algorithm)
{
    const struct gpuring_plan *plan = service->plans[algorithm];

    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        struct gpuring_lane *lanes = calloc(plan->nlanes, sizeof *lanes);
        int status;

        if (lanes == NULL) {
            gpuring_error("out of memory for %u lanes", plan->nlanes);
            return GPURING_ERR_NOMEM;
        }
        service->lanes[algorithm][protocol] = lanes;
        status = gpuring_transport_bind(service->transport, service->index[algorithm],
                                        (enum gpuring_protocol) protocol, lanes);
        if (status != GPURING_OK) {
            return status;
        }
    }
    return GPURING_OK;
}

int gpuring_service_connect(struct gpuring_service *service, const void *blobs,
                            const size_t *offsets)
{
    int status = gpuring_transport_connect(service->transport, blobs, offsets);

    for (int i = 0; status == GPURING_OK && i < GPURING_ALGORITHM_COUNT; i++) {
        if (service->plans[i] != NULL) {
            status = bind_plan(service, i);
        }
    }
    return status;
}

void gpuring_service_destroy(struct gpuring_service *service)
{
    if (service == NULL) {
        return;
    }
    gpuring_transport_destroy(service->transport);
    if (service->stream != NULL) {
        service->device_ops->stream_destroy(service->stream);
    }
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
            free(service->lanes[i][protocol]);
        }
        gpuring_plan_free(service->plans[i]);
    }
    free(service);
}
