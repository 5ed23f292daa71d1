/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connections between nodes: each end has a whole block of its own in the net region; a link of
 * the net carries slots from block to block, driven by the proxy. Slots may lie apart (slots.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define REMOVE_SECONDS 2.0 /* what destroy grants posts and credits in flight, in all */

static int create_end(struct gpuring_transport *transport, struct gpuring_conn *conn)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_net_memory memory = gpuring_slots_describe(transport, conn);

    return config->net_ops->link_create(config->net, conn->net_device, conn->direction, &memory,
                                        &conn->link);
}

int gpuring_remote_create(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *region = NULL;
    int status;

    if (transport->nremote == 0) {
        return GPURING_OK;
    }
    if (config->net_ops == NULL || config->proxy == NULL) {
        gpuring_error("the ranks are on several nodes, but there is no network to connect them: "
                      "coll_gpuring_net is none, or no network was found");
        return GPURING_ERR_UNSUPPORTED;
    }
    status = gpuring_slots_create(transport);
    if (status != GPURING_OK) {
        return status;
    }
    status = config->device_ops->alloc_pinned(config->device, transport->net_region_bytes, &region);
    if (status != GPURING_OK) {
        return status;
    }
    transport->net_region = region;
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].remote) {
            status = create_end(transport, &transport->conns[i]);
            if (status != GPURING_OK) {
                return status;
            }
        }
    }
    gpuring_slots_created(transport);
    return GPURING_OK;
}

static int give_to_proxy(struct gpuring_transport *transport, struct gpuring_conn *conn)
{
    const struct gpuring_fifo_config *fifo = &transport->ends[conn->plan].fifo;
    uint8_t *block = transport->net_region + conn->offset;
    struct gpuring_proxy_rings rings;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        rings.tail[p] = gpuring_block_tail(block, p);
        rings.head[p] = gpuring_block_head(block, p);
        rings.nslots[p] = fifo->slot_bytes[p] > 0 ? fifo->nslots[p] : 0;
    }
    return gpuring_proxy_add(transport->config.proxy, transport->config.net_ops, conn->link,
                             conn->direction, &rings, &conn->failed, &conn->proxied);
}

static int connect_end(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                       struct gpuring_conn *conn, const struct gpuring_blob *blob)
{
    uint8_t *block = transport->net_region + conn->offset;
    char name[GPURING_HOSTNAME_BYTES + 32];
    struct gpuring_blob_entry entry;
    int status = gpuring_blob_find(transport, conn, blob, &entry);

    if (status != GPURING_OK) {
        return status;
    }
    snprintf(name, sizeof name, "rank %d on %s", peer->rank, peer->hostname);
    status = transport->config.net_ops->link_connect(
        conn->link, blob->data + blob->header.process_offset, blob->header.process_bytes,
        blob->data + entry.offset, entry.handle_bytes, name);
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_conn_bind(transport, conn, block, block);
    return give_to_proxy(transport, conn);
}

/* How many connections of this end go before `conn` among those of its plan with its peer. */
static uint32_t turn_of(const struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    uint32_t turn = 0;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *other = &transport->conns[i];

        turn += other->peer == conn->peer && other->plan == conn->plan &&
                other->direction == conn->direction && other->key < conn->key;
    }
    return turn;
}

/*
 * A connection to the peer and one from it, of the same plan, by the order of their keys, which are
 * the same at the other end: it pairs the same two.
 */
static void pair_ends(const struct gpuring_transport *transport, const struct gpuring_peer *peer)
{
    const struct gpuring_conn *conns = transport->conns;

    for (uint32_t s = 0; s < transport->nconns; s++) {
        for (uint32_t r = 0; r < transport->nconns; r++) {
            if (conns[s].peer == peer->rank && conns[s].direction == GPURING_NET_SEND &&
                conns[r].peer == peer->rank && conns[r].direction == GPURING_NET_RECV &&
                conns[s].plan == conns[r].plan &&
                turn_of(transport, &conns[s]) == turn_of(transport, &conns[r])) {
                gpuring_proxy_pair(conns[s].proxied, conns[r].proxied);
            }
        }
    }
}

int gpuring_remote_connect(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                           const struct gpuring_blob *blob)
{
    int status = GPURING_OK;

    for (uint32_t i = 0; status == GPURING_OK && i < transport->nconns; i++) {
        if (transport->conns[i].peer == peer->rank) {
            status = connect_end(transport, peer, &transport->conns[i], blob);
        }
    }
    if (status == GPURING_OK) {
        pair_ends(transport, peer);
    }
    return status;
}

void gpuring_remote_ready(struct gpuring_transport *transport)
{
    const struct gpuring_net_ops *ops = transport->config.net_ops;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        struct gpuring_net_link *link = transport->conns[i].link;

        if (link != NULL && ops->link_ready != NULL) {
            ops->link_ready(link);
        }
    }
}

int gpuring_remote_health(struct gpuring_transport *transport, char *text, size_t size)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];
        /* Partner: the proxy's release store after it wrote the text. */
        int failed = __atomic_load_n(&conn->failed, __ATOMIC_ACQUIRE);

        if (failed != GPURING_OK && conn->proxied != NULL) {
            snprintf(text, size, "%s", gpuring_proxy_conn_error(conn->proxied));
            return failed;
        }
    }
    return GPURING_OK;
}

void gpuring_remote_abort(struct gpuring_transport *transport, int status)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].proxied != NULL) {
            gpuring_proxy_abort(transport->conns[i].proxied, status);
        }
    }
}

void gpuring_remote_destroy(struct gpuring_transport *transport)
{
    double until = gpuring_now() + REMOVE_SECONDS;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        struct gpuring_conn *conn = &transport->conns[i];

        if (conn->proxied != NULL) {
            double left = until - gpuring_now();

            gpuring_proxy_remove(conn->proxied, left > 0 ? left : 0);
        }
        if (conn->link != NULL) {
            transport->config.net_ops->link_close(conn->link);
        }
    }
    gpuring_slots_destroy(transport);
    if (transport->net_region != NULL) {
        transport->config.device_ops->free_pinned(transport->config.device, transport->net_region);
    }
}
