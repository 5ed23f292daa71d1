/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/transport/blob.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define PROCESS_HANDLE_ROOM 4096 /* UCX worker addresses are the longest: hundreds of bytes */

static int fill_header(struct gpuring_transport *transport, struct gpuring_blob_header *header)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct gpuring_device_identity identity;
    int status = config->device_ops->identity(config->device, &identity);

    if (status != GPURING_OK) {
        return status;
    }
    memset(header, 0, sizeof *header);
    memcpy(header->gpu, identity.pci_bus_id, sizeof header->gpu);
    header->magic = GPURING_BLOB_MAGIC;
    header->nentries = transport->nrecvs + transport->nsends;
    header->pid = (uint32_t) getpid();
    memcpy(header->id, config->unique_id, sizeof header->id);
    memcpy(header->hostname, transport->hostname, sizeof header->hostname);
    if (transport->region != NULL) {
        status = config->device_ops->export(config->device, transport->region, &header->region);
    }
    if (status == GPURING_OK && transport->staged != NULL) {
        status = gpuring_device_host.export(transport->host, transport->staged, &header->staged);
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.export(transport->host, transport->page, &header->page);
    }
    return status;
}

/* Append the process handle and the handle of every remote connection. */
static int add_handles(struct gpuring_transport *transport, struct gpuring_blob_header *header,
                       struct gpuring_blob_entry *entries, size_t room)
{
    uint8_t *blob = transport->blob;
    size_t at = sizeof *header + header->nentries * sizeof *entries;
    size_t bytes;
    int status;

    if (transport->nremote > 0) {
        bytes = room - at;
        header->process_offset = (uint32_t) at;
        status =
            transport->config.net_ops->process_handle(transport->config.net, blob + at, &bytes);
        if (status != GPURING_OK) {
            return status;
        }
        header->process_bytes = (uint32_t) bytes;
        at += bytes;
    }
    for (uint32_t i = 0; i < header->nentries; i++) {
        if (transport->conns[i].remote) {
            bytes = room - at;
            status = gpuring_remote_handle(&transport->conns[i], blob + at, &bytes);
            if (status != GPURING_OK) {
                return status;
            }
            entries[i].offset = at;
            entries[i].handle_bytes = (uint32_t) bytes;
            at += bytes;
        }
    }
    transport->blob_bytes = at;
    return GPURING_OK;
}

int gpuring_blob_build(struct gpuring_transport *transport)
{
    uint32_t count = transport->nrecvs + transport->nsends;
    size_t fixed = sizeof(struct gpuring_blob_header) + count * sizeof(struct gpuring_blob_entry);
    size_t room = fixed + (transport->nremote > 0 ? PROCESS_HANDLE_ROOM : 0) +
                  (size_t) transport->nremote * GPURING_NET_HANDLE_BYTES;
    struct gpuring_blob_header header;
    struct gpuring_blob_entry *entries = calloc(count + 1, sizeof *entries);
    int status = fill_header(transport, &header);

    transport->blob = calloc(1, room);
    if (transport->blob == NULL || entries == NULL) {
        gpuring_error("out of memory for a wire-up message of %zu bytes", room);
        status = GPURING_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == GPURING_OK && i < count; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];

        entries[i] = (struct gpuring_blob_entry){.end = (uint16_t) conn->end,
                                                 .plan = (uint16_t) conn->plan,
                                                 .peer = (uint32_t) conn->peer,
                                                 .key = conn->key,
                                                 .offset = conn->offset};
    }
    if (status == GPURING_OK) {
        status = add_handles(transport, &header, entries, room);
    }
    if (status == GPURING_OK) {
        memcpy(transport->blob, &header, sizeof header);
        memcpy(transport->blob + sizeof header, entries, count * sizeof *entries);
    }
    free(entries);
    return status;
}

int gpuring_blob_header(const struct gpuring_transport *transport, int rank, const uint8_t *blob,
                        size_t bytes, struct gpuring_blob_header *header)
{
    if (bytes < sizeof *header) {
        gpuring_error("rank %d sent a wire-up message of %zu bytes: too short", rank, bytes);
        return GPURING_ERR_PEER;
    }
    memcpy(header, blob, sizeof *header);
    header->hostname[sizeof header->hostname - 1] = '\0';
    header->gpu[sizeof header->gpu - 1] = '\0';
    if (header->magic != GPURING_BLOB_MAGIC ||
        memcmp(header->id, transport->config.unique_id, sizeof header->id) != 0 ||
        header->nentries > (bytes - sizeof *header) / sizeof(struct gpuring_blob_entry) ||
        header->process_offset > bytes || header->process_bytes > bytes - header->process_offset) {
        gpuring_error("rank %d sent a wire-up message that is not ours: all ranks must load the "
                      "same version of coll/gpuring",
                      rank);
        return GPURING_ERR_PEER;
    }
    return GPURING_OK;
}

int gpuring_blob_find(const struct gpuring_transport *transport, const struct gpuring_conn *conn,
                      const uint8_t *blob, size_t bytes, struct gpuring_blob_entry *entry)
{
    struct gpuring_blob_header header;
    int status = gpuring_blob_header(transport, conn->peer, blob, bytes, &header);

    if (status != GPURING_OK) {
        return status;
    }
    for (uint32_t i = 0; i < header.nentries; i++) {
        memcpy(entry, blob + sizeof header + i * sizeof *entry, sizeof *entry);
        if (entry->end != (uint16_t) conn->end && entry->plan == (uint16_t) conn->plan &&
            entry->key == conn->key && entry->peer == (uint32_t) transport->config.rank) {
            if (conn->remote &&
                (entry->offset > bytes || entry->handle_bytes > bytes - entry->offset)) {
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
