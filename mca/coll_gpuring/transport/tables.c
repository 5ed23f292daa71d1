/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What executors read of a transport: steps, and connections with their parts of the blocks
 * (internal.h), both put where that is fast (device.h: upload).
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * The tables are put one after the other into an image, which is uploaded at once: an allocation,
 * a copy and a synchronisation for each of some hundred tables would take milliseconds.
 */
struct image {
    uint8_t *at, *bytes; /* NULL: only the size is wanted */
    size_t used;
};

/* Append a table; where executors will find it. */
static const void *add(const struct gpuring_transport *transport, struct image *image,
                       const void *table, size_t bytes)
{
    uintptr_t where = (uintptr_t) image->at + image->used;

    if (transport->config.device_ops->upload == NULL) {
        return table; /* executors read it where it is */
    }
    if (image->bytes != NULL && bytes > 0) {
        memcpy(image->bytes + image->used, table, bytes);
    }
    image->used += (bytes + 15) / 16 * 16;
    return (const void *) where;
}

static void add_plan(struct gpuring_transport *transport, struct image *image, int plan)
{
    const struct gpuring_plan *p = transport->ends[plan].plan;
    struct gpuring_plan_ends *ends = &transport->ends[plan];

    for (uint32_t i = 0; i < p->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &p->lanes[i];

        ends->steps[i] = add(transport, image, lane->steps,
                             gpuring_steps_stored(lane->steps, lane->nsteps) * sizeof *lane->steps);
        ends->refs[i] = add(transport, image, lane->refs, lane->nrefs * sizeof *lane->refs);
    }
}

static void add_all(struct gpuring_transport *transport, struct image *image)
{
    for (int plan = 0; plan < transport->nplans; plan++) {
        add_plan(transport, image, plan);
    }
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        transport->exec_fifos[p] = (struct gpuring_fifo_end *) (uintptr_t) add(
            transport, image, transport->fifos[p], transport->nconns * sizeof *transport->fifos[p]);
    }
}

static int create_ends(struct gpuring_plan_ends *ends)
{
    uint32_t nlanes = ends->plan->nlanes;

    ends->steps = calloc(nlanes + 1, sizeof *ends->steps);
    ends->refs = calloc(nlanes + 1, sizeof *ends->refs);
    if (ends->steps == NULL || ends->refs == NULL) {
        gpuring_error("out of memory for the tables of %u lanes", nlanes);
        return GPURING_ERR_NOMEM;
    }
    return GPURING_OK;
}

#define ALL_PLANS (-1)

/* All tables, or those of one plan that was added. */
static void add_tables(struct gpuring_transport *transport, struct image *image, int plan)
{
    image->used = 0;
    if (plan == ALL_PLANS) {
        add_all(transport, image);
    } else {
        add_plan(transport, image, plan);
    }
}

/* Make an image of tables, and upload it. */
static int upload(struct gpuring_transport *transport, int plan, void **where)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct image image = {.at = NULL};
    int status;

    add_tables(transport, &image, plan); /* how much is it? */
    if (image.used == 0) {
        return GPURING_OK;
    }
    image.bytes = malloc(image.used);
    if (image.bytes == NULL) {
        gpuring_error("out of memory for tables of %zu bytes", image.used);
        return GPURING_ERR_NOMEM;
    }
    add_tables(transport, &image, plan);
    status = config->device_ops->upload(config->device, image.bytes, image.used, where);
    free(image.bytes);
    if (status == GPURING_OK) {
        image = (struct image){.at = *where};
        add_tables(transport, &image, plan); /* where is it? */
    }
    return status;
}

int gpuring_tables_upload(struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int plan = 0; status == GPURING_OK && plan < transport->nplans; plan++) {
        status = create_ends(&transport->ends[plan]);
    }
    return status == GPURING_OK ? upload(transport, ALL_PLANS, &transport->tables) : status;
}

int gpuring_tables_add(struct gpuring_transport *transport, int plan)
{
    int status = create_ends(&transport->ends[plan]);

    return status == GPURING_OK ? upload(transport, plan, &transport->ends[plan].tables) : status;
}

void gpuring_tables_remove(struct gpuring_transport *transport, int plan)
{
    if (transport->ends[plan].tables != NULL) {
        transport->config.device_ops->unload(transport->config.device,
                                             transport->ends[plan].tables);
    }
    free(transport->ends[plan].steps);
    free(transport->ends[plan].refs);
}

void gpuring_tables_unload(struct gpuring_transport *transport)
{
    if (transport->tables != NULL) {
        transport->config.device_ops->unload(transport->config.device, transport->tables);
    }
    for (int plan = 0; transport->ends != NULL && plan < transport->nplans; plan++) {
        gpuring_tables_remove(transport, plan);
    }
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint32_t slots_of(const struct gpuring_fifo_config *fifo, unsigned protocol)
{
    return protocol == GPURING_PROTOCOL_SIMPLE || fifo->nflagged == 0 ? fifo->nslots
                                                                      : fifo->nflagged;
}

/* Offsets in a block whose tails begin there. */
static struct gpuring_block block_make(const struct gpuring_fifo_config *fifo, size_t tail)
{
    struct gpuring_block block = {
        .tail = tail, .bytes = tail + GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_tail)};

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        block.slots[p] = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
        block.bytes = block.slots[p] + slots_of(fifo, p) * fifo->slot_bytes[p];
    }
    block.bytes = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
    return block;
}

void gpuring_blocks_make(struct gpuring_plan_ends *ends)
{
    struct gpuring_fifo_config net = ends->fifo;

    net.nflagged = 0;
    ends->block = block_make(&ends->fifo, 0);
    ends->net_block = block_make(&net, GPURING_HEADS_BYTES);
}

void gpuring_conn_bind(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       uint8_t *slots_block, uint8_t *heads_block)
{
    const struct gpuring_fifo_config *fifo = &transport->ends[conn->plan].fifo;
    const struct gpuring_block *block = gpuring_block_of(transport, conn);

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t step = conn->remote && p == GPURING_PROTOCOL_SIMPLE ? GPURING_TRY_STEPS : 0;

        transport->fifos[p][conn - transport->conns] = (struct gpuring_fifo_end){
            .slots =
                conn->remote ? gpuring_slots_of(transport, conn, p) : slots_block + block->slots[p],
            .tail = (struct gpuring_fifo_tail *) (void *) (slots_block + block->tail) + p,
            .head = (struct gpuring_fifo_head *) (void *) heads_block + p,
            .slot_bytes = fifo->slot_bytes[p],
            .nslots = conn->remote ? fifo->nslots : slots_of(fifo, p),
            .local = conn->remote,
            .step = step,
            .posted = step,
            .seen = step,
        };
    }
}
