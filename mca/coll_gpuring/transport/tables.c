/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What executors read of a transport: steps, and connections with their parts of the blocks
 * (internal.h), both put where that is fast (device.h: upload).
 */
#include <stdlib.h>

#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Where executors find the table; NULL if it is empty, or after a failure, now or before. */
static void *upload(struct gpuring_transport *transport, const void *table, size_t bytes,
                    int *status)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *where = NULL;

    if (config->device_ops->upload == NULL) {
        return (void *) (uintptr_t) table;
    }
    if (bytes > 0 && *status == GPURING_OK) {
        *status = config->device_ops->upload(config->device, table, bytes, &where);
    }
    return where;
}

static int upload_plan(struct gpuring_transport *transport, int plan)
{
    const struct gpuring_plan *p = transport->ends[plan].plan;
    struct gpuring_plan_ends *ends = &transport->ends[plan];
    int status = GPURING_OK;

    ends->steps = calloc(p->nlanes + 1, sizeof *ends->steps);
    ends->refs = calloc(p->nlanes + 1, sizeof *ends->refs);
    if (ends->steps == NULL || ends->refs == NULL) {
        gpuring_error("out of memory for the tables of %u lanes", p->nlanes);
        return GPURING_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == GPURING_OK && i < p->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &p->lanes[i];

        ends->steps[i] =
            upload(transport, lane->steps,
                   gpuring_steps_stored(lane->steps, lane->nsteps) * sizeof *lane->steps, &status);
        ends->refs[i] = upload(transport, lane->refs, lane->nrefs * sizeof *lane->refs, &status);
    }
    return status;
}

int gpuring_tables_upload(struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int plan = 0; status == GPURING_OK && plan < transport->nplans; plan++) {
        status = upload_plan(transport, plan);
    }
    for (unsigned p = 0; status == GPURING_OK && p < GPURING_PROTOCOL_COUNT; p++) {
        transport->exec_recvs[p] = upload(transport, transport->recvs[p],
                                          transport->nrecvs * sizeof *transport->recvs[p], &status);
        transport->exec_sends[p] = upload(transport, transport->sends[p],
                                          transport->nsends * sizeof *transport->sends[p], &status);
    }
    return status;
}

static void unload(struct gpuring_transport *transport, const void *where)
{
    if (where != NULL && transport->config.device_ops->unload != NULL) {
        transport->config.device_ops->unload(transport->config.device, (void *) (uintptr_t) where);
    }
}

void gpuring_tables_unload(struct gpuring_transport *transport)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        unload(transport, transport->exec_recvs[p]);
        unload(transport, transport->exec_sends[p]);
    }
    for (int plan = 0; transport->ends != NULL && plan < transport->nplans; plan++) {
        struct gpuring_plan_ends *ends = &transport->ends[plan];

        for (uint32_t i = 0; i < transport->ends[plan].plan->nlanes; i++) {
            unload(transport, ends->steps != NULL ? ends->steps[i] : NULL);
            unload(transport, ends->refs != NULL ? ends->refs[i] : NULL);
        }
        free(ends->steps);
        free(ends->refs);
    }
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

struct gpuring_block gpuring_block_make(const struct gpuring_fifo_config *fifo, size_t tail)
{
    struct gpuring_block block = {
        .tail = tail, .bytes = tail + GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_tail)};

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        block.slots[p] = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
        block.bytes = block.slots[p] + (size_t) fifo->nslots * fifo->slot_bytes[p];
    }
    block.bytes = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
    return block;
}

void gpuring_conn_bind(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       uint8_t *slots_block, uint8_t *heads_block)
{
    const struct gpuring_fifo_config *fifo = &transport->config.fifo;
    const struct gpuring_block *block = &transport->block[conn->remote];

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t step = conn->remote && p == GPURING_PROTOCOL_SIMPLE ? GPURING_TRY_STEPS : 0;
        struct gpuring_send end = {
            .slots =
                conn->remote ? gpuring_slots_of(transport, conn, p) : slots_block + block->slots[p],
            .tail = (struct gpuring_fifo_tail *) (void *) (slots_block + block->tail) + p,
            .head = (struct gpuring_fifo_head *) (void *) heads_block + p,
            .slot_bytes = fifo->slot_bytes[p],
            .nslots = fifo->nslots,
            .local = conn->remote,
            .step = step,
            .seen = step,
        };

        if (conn->direction == GPURING_NET_SEND) {
            transport->sends[p][conn->index] = end;
        } else {
            transport->recvs[p][conn->index] = (struct gpuring_recv){.slots = end.slots,
                                                                     .tail = end.tail,
                                                                     .head = end.head,
                                                                     .slot_bytes = end.slot_bytes,
                                                                     .nslots = end.nslots,
                                                                     .local = end.local,
                                                                     .step = step,
                                                                     .seen = step};
        }
    }
}
