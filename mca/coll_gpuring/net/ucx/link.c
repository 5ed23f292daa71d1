/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The life of a link of the net `ucx`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/ucx/ucx.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CLOSE_NS UINT64_C(1000000000)

static void link_free(struct gpuring_net_link *link)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        free(link->ring[p].ops);
        free(link->ring[p].receives);
    }
    free(link);
}

static struct gpuring_ucx_op *make_ops(struct gpuring_net_link *link, uint32_t count)
{
    struct gpuring_ucx_op *ops = calloc(count, sizeof(*ops));

    for (uint32_t i = 0; ops != NULL && i < count; i++) {
        ops[i].link = link;
    }
    return ops;
}

static int make_rings(struct gpuring_net_link *link, const struct gpuring_net_memory *memory)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        struct gpuring_ucx_ring *ring = &link->ring[p];

        if (memory->ring[p].slots == NULL) {
            continue;
        }
        ring->ops = make_ops(link, memory->ring[p].nslots);
        ring->receives = make_ops(link, memory->ring[p].nslots);
        if (ring->ops == NULL || ring->receives == NULL) {
            return GPURING_ERR_NOMEM;
        }
    }
    return GPURING_OK;
}

int gpuring_ucx_link_create(struct gpuring_net *net, int device,
                            enum gpuring_net_direction direction,
                            const struct gpuring_net_memory *memory,
                            struct gpuring_net_link **result)
{
    struct gpuring_net_link *link = calloc(1, sizeof *link);
    int status = link != NULL ? make_rings(link, memory) : GPURING_ERR_NOMEM;

    (void) device; /* UCX stripes over its devices as it thinks best */
    if (status != GPURING_OK) {
        gpuring_error("out of memory for a UCX connection");
    } else {
        gpuring_gate_enter(&net->base.gate);
        status = gpuring_net_base_add(&net->base, &link->base, direction, memory);
        gpuring_gate_leave(&net->base.gate);
    }
    if (status != GPURING_OK) {
        if (link != NULL) {
            link_free(link);
        }
        return status;
    }
    *result = link;
    return GPURING_OK;
}

static void fill_handle(const struct gpuring_net_link *link, struct gpuring_ucx_handle *handle)
{
    *handle = (struct gpuring_ucx_handle){.id = link->base.id,
                                          .direction = (uint32_t) link->base.direction};
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        handle->slot_bytes[p] = link->base.count[p].memory.slot_bytes;
        handle->nslots[p] = link->base.count[p].memory.nslots;
    }
}

int gpuring_ucx_link_handle(struct gpuring_net_link *link, void *handle, size_t *bytes)
{
    struct gpuring_ucx_handle mine;

    if (*bytes < sizeof mine) {
        gpuring_error("no room for the handle of a UCX connection");
        return GPURING_ERR_ARG;
    }
    fill_handle(link, &mine);
    memcpy(handle, &mine, sizeof mine);
    *bytes = sizeof mine;
    return GPURING_OK;
}

static bool handles_match(const struct gpuring_net_link *link,
                          const struct gpuring_ucx_handle *other)
{
    struct gpuring_ucx_handle mine;

    fill_handle(link, &mine);
    return other->direction != mine.direction &&
           memcmp(other->slot_bytes, mine.slot_bytes, sizeof mine.slot_bytes) == 0 &&
           memcmp(other->nslots, mine.nslots, sizeof mine.nslots) == 0;
}

int gpuring_ucx_link_connect(struct gpuring_net_link *link, const void *process_handle,
                             size_t process_bytes, const void *handle, size_t bytes,
                             const char *peer_name)
{
    struct gpuring_net *net = gpuring_ucx_net(link);
    struct gpuring_ucx_handle other;
    struct gpuring_ucx_peer *peer;
    int status;

    if (bytes == sizeof other) {
        memcpy(&other, handle, sizeof other);
    }
    if (bytes != sizeof other || !handles_match(link, &other)) {
        gpuring_error("%s has other FIFO sizes than %s, or another version of coll/gpuring: the "
                      "parameters coll_gpuring_buffer_size and coll_gpuring_chunk_size must agree",
                      peer_name, net->base.host);
        return GPURING_ERR_PEER;
    }
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    gpuring_gate_enter(&net->base.gate);
    status = gpuring_ucx_peer_get(net, process_handle, process_bytes, peer_name, &peer);
    if (status == GPURING_OK) {
        link->peer_id = other.id;
        link->peer = peer;
    }
    gpuring_gate_leave(&net->base.gate);
    return status;
}

/* UCX may still read the header and the slot of what is in flight: wait for it, or end it. */
static void settle(struct gpuring_net_link *link)
{
    uint64_t deadline = gpuring_now_ns() + CLOSE_NS;

    while (link->busy > 0 && gpuring_now_ns() < deadline) {
        gpuring_ucx.ucp_worker_progress(gpuring_ucx_net(link)->worker);
    }
    if (link->busy > 0) {
        gpuring_info("a connection to %s is dropped with transfers in flight",
                     link->base.peer_name);
        gpuring_ucx_peer_drop(link->peer);
    }
}

void gpuring_ucx_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net *net;

    if (link == NULL) {
        return;
    }
    net = gpuring_ucx_net(link);
    gpuring_gate_enter(&net->base.gate);
    if (link->peer != NULL) {
        settle(link);
    }
    gpuring_net_base_remove(&link->base);
    gpuring_gate_leave(&net->base.gate);
    if (link->busy == 0) {
        link_free(link);
    } else { /* UCX never let go of it: a leak is better than a wild write */
        gpuring_warn("UCX did not complete transfers to %s", link->base.peer_name);
    }
}

void gpuring_ucx_link_fail(struct gpuring_net_link *link, int status, const char *why)
{
    gpuring_net_base_fail(&link->base, status, "UCX connection from %s to %s failed: %s",
                          link->base.net->host, link->base.peer_name, why);
}
