/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tables of a transport that executors read: steps, and connections with their parts of the blocks
 * (transport_internal.h). They are stored in memory that executors read fast (device.h: upload).
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * An image of all tables, which is uploaded in one step, because an allocation, a copy and a
 * synchronisation for each of some hundred tables would take milliseconds.
 */
struct image {
    uint8_t *at, *bytes; /* bytes NULL: only compute the size */
    size_t used;
};

/* Append a table, and return its address for executors. */
static const void *add(const struct gpuring_transport *transport, struct image *image,
                       const void *table, size_t bytes)
{
    uintptr_t where = (uintptr_t) image->at + image->used;

    if (transport->config.device_ops->upload == NULL) {
        return table; /* executors read it in place */
    }
    if (image->bytes != NULL && bytes > 0) {
        memcpy(image->bytes + image->used, table, bytes);
    }
    image->used += (bytes + 15) / 16 * 16;
    return (const void *) where;
}

/* Add the tables of the plans first .. end - 1, and all FIFOs unless this is a plan added later. */
static void add_tables(struct gpuring_transport *transport, struct image *image, int first, int end)
{
    size_t fifos = GPURING_PROTOCOL_COUNT * transport->nconns * sizeof *transport->fifos;

    image->used = 0;
    for (int plan = first; plan < end; plan++) {
        struct gpuring_plan_ends *ends = &transport->ends[plan];
        const struct gpuring_plan *p = ends->plan;

        ends->steps = add(transport, image, p->steps, p->nsteps * sizeof *p->steps);
        ends->refs = add(transport, image, p->refs, p->nrefs * sizeof *p->refs);
    }
    if (end == transport->nplans) {
        transport->exec_fifos =
            (struct gpuring_fifo_end *) (uintptr_t) add(transport, image, transport->fifos, fifos);
    }
}

/* Make an image of tables, and upload it. */
static int upload(struct gpuring_transport *transport, int first, int end, void **where)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct image image = {.at = NULL};
    int status;

    add_tables(transport, &image, first, end); /* computes the size */
    if (image.used == 0) {
        return GPURING_OK;
    }
    image.bytes = malloc(image.used);
    if (image.bytes == NULL) {
        gpuring_error("out of memory for tables of %zu bytes", image.used);
        return GPURING_ERR_NOMEM;
    }
    add_tables(transport, &image, first, end);
    status = config->device_ops->upload(config->device, image.bytes, image.used, where);
    free(image.bytes);
    if (status == GPURING_OK) {
        image = (struct image){.at = *where};
        add_tables(transport, &image, first, end); /* computes the addresses */
    }
    return status;
}

int gpuring_tables_upload(struct gpuring_transport *transport)
{
    return upload(transport, 0, transport->nplans, &transport->tables);
}

int gpuring_tables_add(struct gpuring_transport *transport, int plan)
{
    return upload(transport, plan, plan + 1, &transport->ends[plan].tables);
}

void gpuring_tables_unload(struct gpuring_transport *transport, void *tables)
{
    if (tables != NULL) {
        transport->config.device_ops->unload(transport->config.device, tables);
    }
}

uint8_t *gpuring_slots_of(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn, unsigned protocol)
{
    const struct gpuring_conn_block *block = &transport->ends[conn->plan].block;

    return conn->direct != NULL ? conn->direct + (block->slots[protocol] - block->slots[0])
                                : transport->net_region + conn->offset + block->slots[protocol];
}

void gpuring_conn_bind(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       uint8_t *slots_block, uint8_t *heads_block)
{
    const struct gpuring_plan_ends *ends = &transport->ends[conn->plan];
    struct gpuring_fifo_end *fifo = transport->fifos + (conn - transport->conns);

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++, fifo += transport->nconns) {
        uint64_t step = conn->remote && p == GPURING_PROTOCOL_SIMPLE ? GPURING_TRY_STEPS : 0;

        *fifo = (struct gpuring_fifo_end){
            .slots = conn->remote ? gpuring_slots_of(transport, conn, p)
                                  : slots_block + ends->block.slots[p],
            .tail = gpuring_block_tail(slots_block, p),
            .head = gpuring_block_head(heads_block, p),
            .slot_bytes = ends->fifo.slot_bytes[p],
            .nslots = ends->fifo.nslots[p],
            .local = !conn->remote                   ? 0
                     : gpuring_remote_any(transport) ? GPURING_FIFO_NET_ANY
                                                     : GPURING_FIFO_NET,
            .spread = !conn->remote && ends->fifo.spread != 0,
            .step = step,
            .posted = step,
            .seen = step,
        };
    }
}
