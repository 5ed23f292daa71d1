/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connections inside a node. Both ends map the receiver's block (slots and tails) and the sender's
 * block (heads). The blocks are in the memory of their devices (shared memory for the host device,
 * CUDA IPC for GPUs), or in host memory if the devices cannot access each other.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_peer_compare(const void *a, const void *b)
{
    int left = ((const struct gpuring_peer *) a)->rank;
    int right = ((const struct gpuring_peer *) b)->rank;

    return (left > right) - (left < right);
}

struct gpuring_peer *gpuring_peer_find(const struct gpuring_transport *transport, int rank)
{
    const struct gpuring_peer wanted = {.rank = rank};

    return bsearch(&wanted, transport->peers, (size_t) transport->npeers, sizeof wanted,
                   gpuring_peer_compare);
}

/* Find the other end's block, and check that it is inside the peer's memory. */
static int find_end(struct gpuring_transport *transport, struct gpuring_conn *conn,
                    const struct gpuring_connect_info *connect_info)
{
    size_t needed = conn->direction == GPURING_NET_RECV ? GPURING_HEADS_BYTES
                                                        : transport->ends[conn->plan].block.bytes;
    uint64_t room = connect_info->header.region.size > 0 ? connect_info->header.region.size
                                                         : connect_info->header.staged.size;
    struct gpuring_connect_info_entry entry;
    int status = gpuring_connect_info_find(transport, conn, connect_info, &entry);

    if (status != GPURING_OK) {
        return status;
    }
    if (entry.offset > room || needed > room - entry.offset) {
        gpuring_error("rank %d announced a buffer outside of its memory: all ranks must load the "
                      "same version of coll/gpuring",
                      conn->peer);
        return GPURING_ERR_PEER;
    }
    conn->peer_offset = (size_t) entry.offset;
    return GPURING_OK;
}

static int map_page(struct gpuring_transport *transport, struct gpuring_peer *peer,
                    const struct gpuring_connect_info_header *header)
{
    void *mapped = NULL;
    int status;

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
    if (memcmp(peer->page->id, transport->config.unique_id, sizeof peer->page->id) != 0) {
        gpuring_error("the status page of rank %d belongs to another communicator", peer->rank);
        return GPURING_ERR_PEER;
    }
    return GPURING_OK;
}

/* Map the peer's memory. If there is a probe, a peer that cannot be mapped counts as failing it. */
static int map_region(struct gpuring_transport *transport, struct gpuring_peer *peer,
                      const struct gpuring_connect_info_header *header)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *mapped = NULL;
    int status;

    if (transport->probes && header->region.size == 0) { /* the peer could not export its memory */
        return GPURING_OK;
    }
    peer->unmappable = transport->probes && config->may_map != NULL &&
                       !config->may_map(config->may_map_context, peer->local_rank);
    if (peer->unmappable) {
        return GPURING_OK;
    }
    gpuring_region_mapped(peer->page, 1);
    status = config->device_ops->import(config->device, &header->region, &mapped);
    if (status == GPURING_OK) {
        peer->region = mapped;
        return GPURING_OK;
    }
    gpuring_region_mapped(peer->page, -1);
    return transport->probes ? GPURING_OK : status;
}

int gpuring_peer_connect(struct gpuring_transport *transport, struct gpuring_peer *peer,
                         const struct gpuring_connect_info *connect_info)
{
    int status = map_page(transport, peer, &connect_info->header);

    peer->staged_handle = connect_info->header.staged;
    for (uint32_t i = 0; status == GPURING_OK && i < transport->nconns; i++) {
        if (transport->conns[i].peer == peer->rank) {
            status = find_end(transport, &transport->conns[i], connect_info);
        }
    }
    return status == GPURING_OK ? map_region(transport, peer, &connect_info->header) : status;
}

static void bind_end(struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    const struct gpuring_peer *peer = gpuring_peer_find(transport, conn->peer);
    uint8_t *own = (peer->host_fallback ? transport->staged : transport->region) + conn->offset;
    uint8_t *other = (peer->host_fallback ? peer->staged : peer->region) + conn->peer_offset;

    if (conn->direction == GPURING_NET_RECV) {
        gpuring_conn_bind(transport, conn, own, other);
    } else {
        gpuring_conn_bind(transport, conn, other, own);
    }
}

void gpuring_peer_bind(struct gpuring_transport *transport)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (!transport->conns[i].remote) {
            bind_end(transport, &transport->conns[i]);
        }
    }
}

int gpuring_peer_stage(struct gpuring_transport *transport, struct gpuring_peer *peer)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *mapped = NULL;
    int status = GPURING_OK;

    if (!transport->host_fallback_reached) {
        status =
            config->device_ops->reach(config->device, transport->staged, transport->region_bytes);
        transport->host_fallback_reached = status == GPURING_OK;
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.import(transport->host, &peer->staged_handle, &mapped);
    }
    if (status != GPURING_OK) {
        return status;
    }
    status = config->device_ops->reach(config->device, mapped, peer->staged_handle.size);
    if (status != GPURING_OK) {
        gpuring_device_host.unimport(transport->host, mapped);
        return status;
    }
    peer->staged = mapped;
    return GPURING_OK;
}

void gpuring_peer_disconnect(struct gpuring_transport *transport, struct gpuring_peer *peer)
{
    if (peer->region != NULL) {
        transport->config.device_ops->unimport(transport->config.device, peer->region);
        gpuring_region_mapped(peer->page, -1);
    }
    if (peer->staged != NULL) {
        transport->config.device_ops->unreach(transport->config.device, peer->staged);
        gpuring_device_host.unimport(transport->host, peer->staged);
    }
    if (peer->page != NULL) {
        gpuring_device_host.unimport(transport->host, peer->page);
    }
}
