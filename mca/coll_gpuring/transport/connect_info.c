/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connect info: the description of this rank's ends of connections that it sends to a neighbour
 * (transport_internal.h). AllGather 1 ensures that all hosts have the same byte order, so fields
 * are sent in host order.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define PROCESS_HANDLE_ROOM 4096 /* UCX worker addresses are the longest: hundreds of bytes */

size_t gpuring_transport_connect_info_room(uint32_t nconns, bool remote)
{
    size_t each =
        sizeof(struct gpuring_connect_info_entry) + (remote ? GPURING_NET_HANDLE_BYTES : 0);

    return sizeof(struct gpuring_connect_info_header) + nconns * each +
           (remote ? PROCESS_HANDLE_ROOM : 0);
}

/* Fill in the header, which is equal in all connect infos of this rank. */
static int fill_header(struct gpuring_transport *transport,
                       struct gpuring_connect_info_header *header)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct gpuring_device_identity identity;
    int status = config->device_ops->identity(config->device, &identity);

    if (status != GPURING_OK) {
        return status;
    }
    memset(header, 0, sizeof *header);
    memcpy(transport->gpu, identity.pci_bus_id, sizeof transport->gpu);
    memcpy(header->gpu, identity.pci_bus_id, sizeof header->gpu);
    header->pid = (uint32_t) getpid();
    memcpy(header->id, config->unique_id, sizeof header->id);
    memcpy(header->hostname, transport->hostname, sizeof header->hostname);
    if (transport->region != NULL) {
        status = config->device_ops->export(config->device, transport->region, &header->region);
        if (status == GPURING_ERR_UNSUPPORTED && transport->probes) {
            memset(&header->region, 0, sizeof header->region); /* it cannot be mapped */
            status = GPURING_OK;
        }
    }
    if (status == GPURING_OK && transport->staged != NULL) {
        status = gpuring_device_host.export(transport->host, transport->staged, &header->staged);
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.export(transport->host, transport->page, &header->page);
    }
    return status;
}

static uint32_t count_conns(const struct gpuring_transport *transport, int peer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        count += transport->conns[i].peer == peer;
    }
    return count;
}

static int build_connect_info(const struct gpuring_transport *transport,
                              struct gpuring_connect_info_header header, struct gpuring_peer *peer)
{
    const struct gpuring_net_ops *net_ops = transport->config.net_ops;
    struct gpuring_transport_connect_info *connect_info = &peer->connect_info;
    uint32_t count = count_conns(transport, peer->rank), entry = 0;
    size_t at = sizeof header + count * sizeof(struct gpuring_connect_info_entry), bytes;

    connect_info->peer = peer->rank;
    connect_info->room = gpuring_transport_connect_info_room(count, peer->remote);
    connect_info->data = calloc(1, connect_info->room);
    if (connect_info->data == NULL) {
        gpuring_error("out of memory for connect info of %zu bytes", connect_info->room);
        return GPURING_ERR_NOMEM;
    }
    header.nentries = count;
    if (peer->remote && net_ops->process_handle != NULL) {
        int status;

        bytes = connect_info->room - at;
        status = net_ops->process_handle(transport->config.net, connect_info->data + at, &bytes);
        if (status != GPURING_OK) {
            return status;
        }
        header.process_offset = (uint32_t) at;
        header.process_bytes = (uint32_t) bytes;
        at += bytes;
    }
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];
        struct gpuring_connect_info_entry mine = {.direction = (uint16_t) conn->direction,
                                                  .plan = (uint16_t) conn->plan,
                                                  .key = conn->key,
                                                  .offset = conn->offset};

        if (conn->peer != peer->rank) {
            continue;
        }
        if (conn->remote) {
            bytes = net_ops->link_handle(conn->link, connect_info->data + at);
            mine.offset = at;
            mine.handle_bytes = bytes;
            at += bytes;
        }
        memcpy(connect_info->data + sizeof header + entry++ * sizeof mine, &mine, sizeof mine);
    }
    memcpy(connect_info->data, &header, sizeof header);
    connect_info->bytes = at;
    return GPURING_OK;
}

int gpuring_connect_info_build(struct gpuring_transport *transport)
{
    struct gpuring_connect_info_header header;
    int status = fill_header(transport, &header);

    for (int i = 0; status == GPURING_OK && i < transport->npeers; i++) {
        status = build_connect_info(transport, header, &transport->peers[i]);
    }
    return status;
}

int gpuring_connect_info_open(const struct gpuring_transport *transport, struct gpuring_peer *peer,
                              const void *data, size_t bytes,
                              struct gpuring_connect_info *connect_info)
{
    struct gpuring_connect_info_header *header = &connect_info->header;

    if (bytes < sizeof *header) {
        gpuring_error("rank %d sent a wire-up message of %zu bytes: too short", peer->rank, bytes);
        return GPURING_ERR_PEER;
    }
    connect_info->data = data;
    connect_info->bytes = bytes;
    memcpy(header, data, sizeof *header);
    header->hostname[sizeof header->hostname - 1] = '\0';
    header->gpu[sizeof header->gpu - 1] = '\0';
    if (memcmp(header->id, transport->config.unique_id, sizeof header->id) != 0 ||
        header->nentries > (bytes - sizeof *header) / sizeof(struct gpuring_connect_info_entry) ||
        header->process_offset > bytes || header->process_bytes > bytes - header->process_offset) {
        gpuring_error("rank %d sent a wire-up message that is not ours: all ranks must load the "
                      "same version of coll/gpuring",
                      peer->rank);
        return GPURING_ERR_PEER;
    }
    peer->pid = header->pid;
    memcpy(peer->hostname, header->hostname, sizeof peer->hostname);
    memcpy(peer->gpu, header->gpu, sizeof peer->gpu);
    return GPURING_OK;
}

int gpuring_connect_info_find(const struct gpuring_transport *transport,
                              const struct gpuring_conn *conn,
                              const struct gpuring_connect_info *connect_info,
                              struct gpuring_connect_info_entry *entry)
{
    const uint8_t *entries = connect_info->data + sizeof connect_info->header;

    for (uint32_t i = 0; i < connect_info->header.nentries; i++) {
        memcpy(entry, entries + i * sizeof *entry, sizeof *entry);
        if (entry->direction != (uint16_t) conn->direction &&
            entry->plan == (uint16_t) conn->plan && entry->key == conn->key) {
            if (conn->remote && (entry->offset > connect_info->bytes ||
                                 entry->handle_bytes > connect_info->bytes - entry->offset)) {
                break;
            }
            return GPURING_OK;
        }
    }
    gpuring_error("rank %d does not offer the connection that rank %d needs (plan %d, key %u): the "
                  "ranks computed different channels; check that topology files and parameters "
                  "are the same everywhere",
                  conn->peer, transport->config.rank, conn->plan, conn->key);
    return GPURING_ERR_PEER;
}
