/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tables of a transport that executors read: lanes, steps, and connections with their parts of the
 * blocks (transport_internal.h). They are stored in memory that executors read fast (device.h:
 * upload).
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * An image of all tables, which is uploaded in one step, because an allocation, a copy and a
 * synchronisation for each of some hundred tables would take milliseconds. The image of a host
 * contains only lanes, because its executors read the other tables in place.
 */
struct image {
    uint8_t *at;    /* address of the image for executors */
    uint8_t *bytes; /* NULL: only compute the size */
    size_t used;
};

/* Append a table, and return its address for executors. */
static void *append_table(struct image *image, const void *table, size_t bytes)
{
    uintptr_t where = (uintptr_t) image->at + image->used;

    if (image->bytes != NULL && bytes > 0) {
        memcpy(image->bytes + image->used, table, bytes);
    }
    image->used += (bytes + sizeof(struct gpuring_lane) - 1) / sizeof(struct gpuring_lane) *
                   sizeof(struct gpuring_lane); /* a lane is a cache line */
    return (void *) where;
}

static const void *add_table(const struct gpuring_transport *transport, struct image *image,
                             const void *table, size_t bytes)
{
    return transport->config.device_ops->upload == NULL ? table : append_table(image, table, bytes);
}

struct gpuring_lane gpuring_table_lane(const struct gpuring_transport *transport, int plan,
                                       uint32_t number, enum gpuring_protocol protocol)
{
    const struct gpuring_plan_ends *ends = &transport->ends[plan];
    const struct gpuring_plan_lane *lane = &ends->plan->lanes[number];
    struct gpuring_fifo_end *fifos = transport->exec_fifos + protocol * transport->nconns;

    return (struct gpuring_lane){
        .steps = ends->steps + (lane->steps - ends->plan->steps),
        .refs = ends->refs + (lane->refs - ends->plan->refs),
        .recvs = fifos + ends->first_recv + lane->first_recv,
        .sends = fifos + ends->first_send + lane->first_send,
        .part_begin = lane->part_begin,
        .part_end = lane->part_end,
        .nsteps = lane->nsteps,
        .nchunks = lane->nchunks,
        .nstored = gpuring_steps_stored(lane->steps, lane->nsteps),
        .nrefs = lane->nrefs,
        .nrecvs = lane->nrecvs,
        .nsends = lane->nsends,
    };
}

/* Add the lanes of a plan for each protocol that has slots. */
static void add_lanes(struct gpuring_transport *transport, struct image *image, int plan)
{
    struct gpuring_plan_ends *ends = &transport->ends[plan];

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        bool offered = ends->fifo.slot_bytes[p] > 0;

        ends->lanes[p] = offered ? append_table(image, NULL, 0) : NULL;
        for (uint32_t i = 0; offered && i < ends->plan->nlanes; i++) {
            struct gpuring_lane lane = gpuring_table_lane(transport, plan, i, p);

            (void) append_table(image, &lane, sizeof lane);
        }
    }
}

/* Add the tables of the plans first .. end - 1, and all FIFOs unless this is a plan added later. */
static void add_tables(struct gpuring_transport *transport, struct image *image, int first, int end)
{
    size_t fifos = GPURING_PROTOCOL_COUNT * transport->nconns * sizeof *transport->fifos;

    image->used = 0;
    if (end == transport->nplans) {
        transport->exec_fifos = (struct gpuring_fifo_end *) (uintptr_t) add_table(
            transport, image, transport->fifos, fifos);
    }
    for (int plan = first; plan < end; plan++) {
        struct gpuring_plan_ends *ends = &transport->ends[plan];
        const struct gpuring_plan *p = ends->plan;

        ends->steps = add_table(transport, image, p->steps, p->nsteps * sizeof *p->steps);
        ends->refs = add_table(transport, image, p->refs, p->nrefs * sizeof *p->refs);
        add_lanes(transport, image, plan);
    }
}

/* Make an image of tables, and upload it to *where. */
static int upload(struct gpuring_transport *transport, int first, int end, void **where)
{
    const struct gpuring_device_ops *ops = transport->config.device_ops;
    struct image image = {.at = NULL};
    int status = GPURING_OK;

    add_tables(transport, &image, first, end); /* computes the size */
    image.bytes = aligned_alloc(sizeof(struct gpuring_lane), image.used);
    if (image.bytes == NULL) {
        gpuring_error("out of memory for tables of %zu bytes", image.used);
        return GPURING_ERR_NOMEM;
    }
    if (ops->upload == NULL) {
        *where = image.bytes;
    } else {
        status = ops->alloc_table(transport->config.device, image.used, where);
    }
    if (status == GPURING_OK) {
        image.at = *where;
        add_tables(transport, &image, first, end);
    }
    if (ops->upload != NULL) {
        status = status == GPURING_OK
                     ? ops->upload(transport->config.device, *where, image.bytes, image.used)
                     : status;
        free(image.bytes);
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
    if (transport->config.device_ops->unload == NULL) {
        free(tables);
    } else if (tables != NULL) {
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
