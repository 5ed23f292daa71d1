/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Where the slots of connections between nodes lie: in the device's memory, if that is a GPU's and
 * the network device of the connection reaches it (GPUDirect RDMA), else in pinned memory of the
 * host, to and from which kernels copy ("staged"). Each end decides for itself; counters are always
 * in the host's memory, for the proxy works with them, and flagged lines are looked at only after
 * the tail, as everywhere between nodes. It has never run on hardware.
 */
#include <unistd.h>

#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Allocations of so much begin with a page of the GPU, which drivers pin as a whole. */
#define DIRECT_UNIT ((size_t) 2 << 20)

static void choose_device(const struct gpuring_transport *transport, struct gpuring_conn *conn)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_plan *plan = transport->ends[conn->plan].plan;

    if (conn->remote && config->net_device != NULL) {
        conn->net_device = config->net_device(config->net_device_context, plan->algorithm,
                                              gpuring_plan_channel(plan, conn->key),
                                              conn->direction, &conn->may_direct);
    }
}

static size_t slots_bytes(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn)
{
    const struct gpuring_block *block = &transport->ends[conn->plan].block;

    return block->bytes - block->slots[0];
}

/* Are this kind of device and this net able to work together at all? */
static bool able(const struct gpuring_transport_config *config)
{
    return config->device_ops->nic_access != NULL && config->net_ops->device_memory != NULL;
}

static bool wanted(const struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    return conn->may_direct && able(&transport->config);
}

/* Does the connection's network device take the region? Each is asked once. */
static bool reached(const struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    const struct gpuring_net_memory memory = {.base = transport->direct_region,
                                              .bytes = transport->direct_bytes,
                                              .device = &transport->direct_nic};

    for (const struct gpuring_conn *other = transport->conns; other < conn; other++) {
        if (other->net_device == conn->net_device && wanted(transport, other)) {
            return other->direct != NULL;
        }
    }
    return transport->config.net_ops->device_memory(transport->config.net, conn->net_device,
                                                    &memory) == GPURING_OK;
}

static int allocate(struct gpuring_transport *transport, size_t bytes)
{
    const struct gpuring_transport_config *config = &transport->config;
    void *region = NULL;
    int status;

    bytes = (bytes + DIRECT_UNIT - 1) / DIRECT_UNIT * DIRECT_UNIT;
    status = config->device_ops->alloc(config->device, bytes, &region);
    if (status != GPURING_OK) {
        return status;
    }
    transport->direct_region = region;
    transport->direct_bytes = bytes;
    status = config->device_ops->nic_access(config->device, region, bytes, &transport->direct_nic);
    if (status == GPURING_ERR_UNSUPPORTED) {
        gpuring_slots_destroy(transport);
        return GPURING_OK;
    }
    return status;
}

int gpuring_slots_create(struct gpuring_transport *transport)
{
    struct gpuring_conn *end = transport->conns + transport->nconns;
    uint8_t *next;
    size_t bytes = 0, at = 0;
    int status;

    transport->direct_nic.dmabuf = -1;
    for (struct gpuring_conn *conn = transport->conns; conn < end; conn++) {
        choose_device(transport, conn);
        bytes += wanted(transport, conn) ? slots_bytes(transport, conn) : 0;
    }
    status = bytes > 0 ? allocate(transport, bytes) : GPURING_OK;
    if (status != GPURING_OK) {
        return status;
    }
    next = transport->direct_region;
    for (struct gpuring_conn *conn = transport->conns; conn < end; conn++) {
        if (transport->direct_region != NULL && wanted(transport, conn) &&
            reached(transport, conn)) {
            conn->direct = next;
            next += slots_bytes(transport, conn);
            transport->ndirect++;
        }
        if (conn->remote) {
            const struct gpuring_block *block = &transport->ends[conn->plan].block;

            conn->offset = at;
            at += conn->direct != NULL ? block->slots[0] : block->bytes;
        }
    }
    transport->net_region_bytes = at;
    if (transport->ndirect == 0) {
        gpuring_slots_destroy(transport);
        if (bytes == 0 && transport->nremote > 0 && able(&transport->config)) {
            gpuring_info(
                "[gdr-far] no network device is known to be near enough to the GPU for GPUDirect "
                "RDMA (coll_gpuring_gdr_level): data between nodes go through host memory");
        }
    } else {
        gpuring_info(
            "[gdr] network devices reach the GPU's memory: %u of %u ends of connections between "
            "nodes; %s, %s",
            transport->ndirect, transport->nremote,
            transport->direct_nic.dmabuf >= 0 ? "dma-buf" : "peer memory",
            transport->direct_nic.flush
                ? "flushed by reading, for the driver promises no order of writes"
                : "in order, as the driver says: not flushed");
    }
    return GPURING_OK;
}

void gpuring_slots_created(struct gpuring_transport *transport)
{
    if (transport->direct_region != NULL && transport->direct_nic.dmabuf >= 0) {
        close(transport->direct_nic.dmabuf);
        transport->direct_nic.dmabuf = -1;
    }
}

uint8_t *gpuring_slots_of(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn, unsigned protocol)
{
    const struct gpuring_block *block = &transport->ends[conn->plan].block;

    return conn->direct != NULL ? conn->direct + (block->slots[protocol] - block->slots[0])
                                : transport->net_region + conn->offset + block->slots[protocol];
}

struct gpuring_net_memory gpuring_slots_describe(const struct gpuring_transport *transport,
                                                 const struct gpuring_conn *conn)
{
    const struct gpuring_fifo_config *fifo = &transport->ends[conn->plan].fifo;
    struct gpuring_net_memory memory =
        conn->direct != NULL ? (struct gpuring_net_memory){.base = transport->direct_region,
                                                           .bytes = transport->direct_bytes,
                                                           .device = &transport->direct_nic}
                             : (struct gpuring_net_memory){.base = transport->net_region,
                                                           .bytes = transport->net_region_bytes};

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        if (fifo->slot_bytes[p] > 0) {
            memory.ring[p] =
                (struct gpuring_net_ring){.slots = gpuring_slots_of(transport, conn, p),
                                          .slot_bytes = fifo->slot_bytes[p],
                                          .nslots = fifo->nslots[p]};
        }
    }
    return memory;
}

int gpuring_slots_copy(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       void *to, const void *from, size_t bytes)
{
    return conn->direct != NULL
               ? gpuring_device_copy(transport->config.device_ops, transport->config.device, to,
                                     from, bytes)
               : gpuring_device_copy(&gpuring_device_host, transport->host, to, from, bytes);
}

void gpuring_slots_destroy(struct gpuring_transport *transport)
{
    if (transport->direct_region != NULL) {
        gpuring_slots_created(transport);
        transport->config.device_ops->free(transport->config.device, transport->direct_region);
        transport->direct_region = NULL;
        transport->direct_bytes = 0;
    }
}
