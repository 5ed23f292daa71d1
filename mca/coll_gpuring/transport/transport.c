/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* List ends of a plan, starting at `at`. */
static void add_ends(struct gpuring_transport *transport, int plan,
                     enum gpuring_net_direction direction, const struct gpuring_plan_conn *named,
                     uint32_t count, uint32_t at)
{
    const int *node = transport->config.node;

    for (uint32_t i = 0; i < count; i++) {
        transport->conns[at + i] = (struct gpuring_conn){
            .direction = direction,
            .plan = plan,
            .peer = named[i].peer,
            .key = named[i].key,
            .remote = node[named[i].peer] != node[transport->config.rank],
        };
    }
}

/* List the plans and all ends of their connections, and allocate the tables for them. */
static int list_plans(struct gpuring_transport *transport, const struct gpuring_plan *const *plans)
{
    uint32_t nrecvs = 0, nsends = 0, total;

    transport->ends =
        calloc((size_t) transport->nplans + GPURING_TRANSPORT_MORE, sizeof *transport->ends);
    for (int i = 0; transport->ends != NULL && i < transport->nplans; i++) {
        transport->ends[i] = (struct gpuring_plan_ends){
            .plan = plans[i], .first_recv = nrecvs, .first_send = nsends};
        nrecvs += plans[i]->nrecvs;
        nsends += plans[i]->nsends;
    }
    total = nrecvs + nsends;
    transport->conns = calloc(total + 1, sizeof *transport->conns);
    transport->peers = calloc(total + 1, sizeof *transport->peers);
    transport->fifos = calloc(GPURING_PROTOCOL_COUNT * total + 1, sizeof *transport->fifos);
    if (transport->fifos == NULL || transport->ends == NULL || transport->conns == NULL ||
        transport->peers == NULL) {
        gpuring_error("out of memory for %u connections", total);
        return GPURING_ERR_NOMEM;
    }
    transport->nconns = total;
    for (int i = 0; i < transport->nplans; i++) {
        struct gpuring_plan_ends *ends = &transport->ends[i];

        ends->first_send += nrecvs; /* after all receiving ends */
        add_ends(transport, i, GPURING_NET_RECV, plans[i]->recvs, plans[i]->nrecvs,
                 ends->first_recv);
        add_ends(transport, i, GPURING_NET_SEND, plans[i]->sends, plans[i]->nsends,
                 ends->first_send);
    }
    return GPURING_OK;
}

/* List the distinct ranks at the other ends, sorted. */
static void list_peers(struct gpuring_transport *transport)
{
    uint32_t total = transport->nconns;
    int kept = 0;

    for (uint32_t i = 0; i < total; i++) {
        transport->peers[i] = (struct gpuring_peer){.rank = transport->conns[i].peer,
                                                    .remote = transport->conns[i].remote};
    }
    qsort(transport->peers, total, sizeof *transport->peers, gpuring_peer_compare);
    for (uint32_t i = 0; i < total; i++) {
        if (kept == 0 || transport->peers[kept - 1].rank != transport->peers[i].rank) {
            transport->peers[kept++] = transport->peers[i];
        }
    }
    transport->npeers = kept;
}

/* Find the positions of this rank and its peers among the ranks of their nodes. */
static int find_locals(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    int *count = calloc((size_t) config->nranks + 1, sizeof *count);

    if (count == NULL) {
        gpuring_error("out of memory for the nodes of %d ranks", config->nranks);
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < config->nranks; rank++) {
        struct gpuring_peer *peer = gpuring_peer_find(transport, rank);
        int local = count[config->node[rank]]++;

        if (peer != NULL) {
            peer->local_rank = local;
        }
        if (rank == config->rank) {
            transport->local_rank = local;
        }
        transport->most_local =
            local + 1 > transport->most_local ? local + 1 : transport->most_local;
    }
    transport->nlocal = count[config->node[config->rank]];
    free(count);
    transport->probes =
        config->device_ops->kind != GPURING_DEVICE_HOST && transport->most_local > 1;
    if (transport->probes) {
        transport->marks = calloc(1, gpuring_transport_probe_bytes(transport));
        if (transport->marks == NULL) {
            gpuring_error("out of memory for the probe of %d ranks", transport->nlocal);
            return GPURING_ERR_NOMEM;
        }
    }
    return GPURING_OK;
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static struct gpuring_conn_block make_block(const struct gpuring_fifo_config *fifo)
{
    struct gpuring_conn_block block = {
        .bytes = GPURING_HEADS_BYTES + GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_tail)};

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        if (p == GPURING_PROTOCOL_LL) {
            block.bytes += gpuring_fifo_short_bytes(fifo->nslots[p]);
        }
        block.slots[p] = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
        block.bytes = block.slots[p] + fifo->nslots[p] * fifo->slot_bytes[p];
    }
    block.bytes = round_up(block.bytes, GPURING_TRANSPORT_PAGE);
    return block;
}

/* Assign a block to every connection inside this node. remote.c does this for the others. */
static void place_blocks(struct gpuring_transport *transport)
{
    size_t at = transport->probes && transport->nlocal > 1
                    ? (size_t) transport->nlocal * (GPURING_PROBE_BLOCK + GPURING_LINE_BLOCK)
                    : 0;

    for (int plan = 0; plan < transport->nplans; plan++) {
        struct gpuring_plan_ends *ends = &transport->ends[plan];

        ends->fifo = transport->config.fifo[plan];
        ends->block = make_block(&ends->fifo);
    }
    transport->config.fifo = NULL;
    for (uint32_t i = 0; i < transport->nconns; i++) {
        struct gpuring_conn *conn = &transport->conns[i];
        size_t bytes = conn->direction == GPURING_NET_RECV ? transport->ends[conn->plan].block.bytes
                                                           : GPURING_HEADS_BYTES;

        if (conn->remote) {
            transport->nremote++;
        } else {
            conn->offset = at;
            at += bytes;
        }
    }
    transport->region_bytes = at;
}

static int create_memory(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *memory = NULL;
    int status = GPURING_OK;

    if (transport->region_bytes > 0) {
        status = config->device_ops->alloc(config->device, transport->region_bytes, &memory);
        if (status != GPURING_OK) {
            return status;
        }
        transport->region = memory;
    }
    if (config->device_ops->kind == GPURING_DEVICE_HOST) {
        transport->host = config->device;
    } else {
        status = gpuring_device_host.open(&transport->host);
        transport->own_host = status == GPURING_OK;
    }
    if (status == GPURING_OK && transport->probes && transport->region_bytes > 0) {
        /* A memory file has no pages until they are used. */
        status = gpuring_device_host.alloc(transport->host, transport->region_bytes, &memory);
        transport->staged = status == GPURING_OK ? memory : NULL;
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.alloc(transport->host, sizeof *transport->page, &memory);
    }
    if (status == GPURING_OK) {
        transport->page = memory;
        memcpy(transport->page->id, config->unique_id, sizeof transport->page->id);
    }
    if (status == GPURING_OK && config->device_ops->reach != NULL) {
        status = config->device_ops->reach(config->device, memory, sizeof *transport->page);
        transport->page_reached = status == GPURING_OK;
    }
    return status;
}

int gpuring_transport_create(const struct gpuring_transport_config *config,
                             const struct gpuring_plan *const *plans, int nplans,
                             struct gpuring_transport **transport)
{
    struct gpuring_transport *created = calloc(1, sizeof *created);
    int status;

    if (created == NULL) {
        gpuring_error("out of memory for a transport");
        return GPURING_ERR_NOMEM;
    }
    gpuring_region_look();
    (void) gpuring_linger_look();
    created->config = *config;
    created->nplans = nplans;
    snprintf(created->hostname, sizeof created->hostname, "%s", config->hostname);
    status = list_plans(created, plans);
    if (status != GPURING_OK) {
        goto fail;
    }
    list_peers(created);
    status = find_locals(created);
    if (status != GPURING_OK) {
        goto fail;
    }
    place_blocks(created);
    created->config.node = NULL;
    status = create_memory(created);
    if (status == GPURING_OK) {
        status = gpuring_remote_create(created);
    }
    if (status == GPURING_OK) {
        status = gpuring_connect_info_build(created);
    }
    if (status == GPURING_OK) {
        *transport = created;
        return GPURING_OK;
    }
fail:
    gpuring_transport_destroy(created);
    return status;
}

int gpuring_transport_neighbours(const struct gpuring_transport *transport)
{
    return transport->npeers;
}

const struct gpuring_transport_connect_info *gpuring_transport_connect_info(
    const struct gpuring_transport *transport, int neighbour)
{
    return &transport->peers[neighbour].connect_info;
}

int gpuring_transport_connect(struct gpuring_transport *transport, int neighbour, const void *data,
                              size_t bytes)
{
    struct gpuring_peer *peer = &transport->peers[neighbour];
    struct gpuring_connect_info connect_info;
    int status = gpuring_connect_info_open(transport, peer, data, bytes, &connect_info);

    free(peer->connect_info.data);
    peer->connect_info.data = NULL;
    if (status != GPURING_OK) {
        return status;
    }
    return peer->remote ? gpuring_remote_connect(transport, peer, &connect_info)
                        : gpuring_peer_connect(transport, peer, &connect_info);
}

int gpuring_transport_connected(struct gpuring_transport *transport)
{
    if (transport->probes) {
        return gpuring_probe_write(transport);
    }
    gpuring_peer_bind(transport);
    return gpuring_tables_upload(transport);
}

/* End the exchange of first chunks, if it has begun. */
static void end_first_chunks(struct gpuring_transport *transport)
{
    if (transport->try_until > 0) {
        transport->try_until = 0;
        gpuring_transport_end(transport, false);
    }
}

void gpuring_transport_wired(struct gpuring_transport *transport)
{
    end_first_chunks(transport);
    gpuring_remote_rest(transport);
    if (transport->region != NULL && transport->config.device_ops->unexport != NULL) {
        transport->config.device_ops->unexport(transport->config.device, transport->region);
    }
    if (transport->staged != NULL) {
        gpuring_device_host.unexport(transport->host, transport->staged);
    }
    gpuring_device_host.unexport(transport->host, transport->page);
}

int gpuring_transport_bind(struct gpuring_transport *transport, int plan,
                           enum gpuring_protocol protocol, struct gpuring_work *work)
{
    work->lanes = transport->ends[plan].lanes[protocol];
    if (work->lanes == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    if (transport->config.device_ops->kind != GPURING_DEVICE_HOST) { /* for kernels */
        work->first = gpuring_table_lane(transport, plan, 0, protocol);
    }
    return GPURING_OK;
}

int gpuring_transport_add(struct gpuring_transport *transport, const struct gpuring_plan *more,
                          int base, int *plan)
{
    int number = transport->nplans, end = number + GPURING_TRANSPORT_MORE, status;

    while (number < end && transport->ends[number].plan != NULL) {
        number++;
    }
    if (number == end) {
        gpuring_error("no room for the plan of a further collective");
        return GPURING_ERR_NOMEM;
    }
    transport->ends[number] =
        (struct gpuring_plan_ends){.plan = more,
                                   .first_recv = transport->ends[base].first_recv,
                                   .first_send = transport->ends[base].first_send,
                                   .fifo = transport->ends[base].fifo};
    status = gpuring_tables_add(transport, number);
    if (status != GPURING_OK) {
        gpuring_transport_remove(transport, number);
        return status;
    }
    *plan = number;
    return GPURING_OK;
}

void gpuring_transport_remove(struct gpuring_transport *transport, int plan)
{
    if (transport->used.plan == plan) {
        gpuring_transport_use(transport, plan, 0, GPURING_PROTOCOL_SIMPLE);
    }
    gpuring_tables_unload(transport, transport->ends[plan].tables);
    transport->ends[plan] = (struct gpuring_plan_ends){.plan = NULL};
}

void gpuring_transport_destroy(struct gpuring_transport *transport)
{
    if (transport == NULL) {
        return;
    }
    if (transport->page != NULL) {
        gpuring_transport_publish(transport, transport->page->operation, GPURING_ACTIVITY_CLOSED);
    }
    end_first_chunks(transport);
    gpuring_lines_end(transport);
    for (int i = 0; transport->ends != NULL && i < GPURING_TRANSPORT_MORE; i++) {
        gpuring_transport_remove(transport, transport->nplans + i);
    }
    gpuring_tables_unload(transport, transport->tables);
    gpuring_remote_destroy(transport);
    for (int i = 0; i < transport->npeers; i++) {
        gpuring_peer_disconnect(transport, &transport->peers[i]);
        free(transport->peers[i].connect_info.data);
    }
    if (transport->host_fallback_reached) {
        transport->config.device_ops->unreach(transport->config.device, transport->staged);
    }
    if (transport->staged != NULL) {
        gpuring_device_host.free(transport->host, transport->staged);
    }
    if (transport->page_reached) {
        transport->config.device_ops->unreach(transport->config.device, transport->page);
    }
    gpuring_region_give_back(transport);
    gpuring_region_look();
    (void) gpuring_linger_look();
    if (transport->page != NULL) {
        gpuring_device_host.free(transport->host, transport->page);
    }
    if (transport->own_host) {
        gpuring_device_host.close(transport->host);
    }
    free(transport->fifos);
    free(transport->marks);
    free(transport->conns);
    free(transport->peers);
    free(transport->ends);
    free(transport);
}
