/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connections inside a node: both ends map the receiver's block (slots and tails) and the
 * sender's block (heads).
 */
#include <string.h>

#include "mca/coll_gpuring/transport/blob.h"
#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static int connect_end(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                       const struct gpuring_conn *conn, const uint8_t *blob, size_t bytes,
                       uint64_t region_bytes)
{
    struct gpuring_block_layout recv_layout, send_layout;
    const struct gpuring_block_layout *peer_layout;
    struct gpuring_blob_entry entry;
    uint8_t *own_block = transport->region + conn->offset;
    int status = gpuring_blob_find(transport, conn, blob, bytes, &entry);

    if (status != GPURING_OK) {
        return status;
    }
    gpuring_layout_peer_recv(&transport->config.fifo, &recv_layout);
    gpuring_layout_peer_send(&transport->config.fifo, &send_layout);
    peer_layout = conn->end == GPURING_END_RECV ? &send_layout : &recv_layout;
    if (entry.offset > region_bytes || peer_layout->bytes > region_bytes - entry.offset) {
        gpuring_error("rank %d announced a buffer outside of its memory: all ranks must load the "
                      "same version of coll/gpuring",
                      conn->peer);
        return GPURING_ERR_PEER;
    }
    if (conn->end == GPURING_END_RECV) {
        gpuring_conn_bind_recv(transport, conn, own_block, &recv_layout,
                               peer->region + entry.offset, &send_layout);
    } else {
        gpuring_conn_bind_send(transport, conn, peer->region + entry.offset, &recv_layout,
                               own_block, &send_layout);
    }
    return GPURING_OK;
}

static int map_peer(struct gpuring_transport *transport, struct gpuring_peer *peer,
                    const struct gpuring_blob_header *header)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *mapped = NULL;
    int status = config->device_ops->import(config->device, &header->region, &mapped);

    if (status != GPURING_OK) {
        return status;
    }
    peer->region = mapped;
    if (header->page.size < sizeof *peer->page) {
        gpuring_error("rank %d announced a status page of %llu bytes: too short", peer->rank,
                      (unsigned long long) header->page.size);
        return GPURING_ERR_PEER;
    }
    status = gpuring_device_host.import(transport->host, &header->page, &mapped);
    if (status != GPURING_OK) {
        return status;
    }
    peer->page = mapped;
    if (memcmp(peer->page->id, config->unique_id, sizeof peer->page->id) != 0) {
        gpuring_error("the status page of rank %d belongs to another communicator", peer->rank);
        return GPURING_ERR_PEER;
    }
    return GPURING_OK;
}

int gpuring_peer_connect(struct gpuring_transport *transport, struct gpuring_peer *peer,
                         const uint8_t *blob, size_t bytes)
{
    struct gpuring_blob_header header;
    int status = gpuring_blob_header(transport, peer->rank, blob, bytes, &header);

    if (status == GPURING_OK) {
        peer->pid = header.pid;
        memcpy(peer->hostname, header.hostname, sizeof peer->hostname);
        status = map_peer(transport, peer, &header);
    }
    for (uint32_t i = 0; status == GPURING_OK && i < transport->nrecvs + transport->nsends; i++) {
        if (transport->conns[i].peer == peer->rank) {
            status =
                connect_end(transport, peer, &transport->conns[i], blob, bytes, header.region.size);
        }
    }
    return status;
}

void gpuring_peer_disconnect(struct gpuring_transport *transport, struct gpuring_peer *peer)
{
    if (peer->region != NULL) {
        transport->config.device_ops->unimport(transport->config.device, peer->region);
        peer->region = NULL;
    }
    if (peer->page != NULL) {
        gpuring_device_host.unimport(transport->host, peer->page);
        peer->page = NULL;
    }
}
