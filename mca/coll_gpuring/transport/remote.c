/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connections between nodes. Each end has a separate block in the net region. A link of the net,
 * driven by the proxy, transfers slots from block to block.
 *
 * The slots are in GPU memory if the network device of the connection can access it (GPUDirect
 * RDMA), and otherwise in pinned host memory, to and from which kernels copy. Each end decides for
 * itself. Counters are always in host memory, because the proxy uses them. Flagged lines are only
 * read after the tail, as everywhere between nodes. GPUDirect RDMA has never run on hardware.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define REMOVE_SECONDS 2.0 /* total time limit in destroy for data in flight and good-byes */

/* Allocations of this size begin at a page of the GPU, which drivers pin as a whole. */
#define DIRECT_UNIT ((size_t) 2 << 20)

/* Return true if this kind of device and this net can work together. */
static bool able(const struct gpuring_transport_config *config)
{
    return config->device_ops->nic_access != NULL && config->net_ops->device_memory != NULL;
}

static void choose_device(const struct gpuring_transport *transport, struct gpuring_conn *conn)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_plan *plan = transport->ends[conn->plan].plan;

    conn->net_peer.process = (uint64_t) conn->peer + 1;
    if (conn->remote && config->net_device != NULL) {
        conn->net_device = config->net_device(config->net_device_context, plan->algorithm,
                                              conn->peer, gpuring_plan_channel(plan, conn->key),
                                              conn->direction, &conn->may_direct, &conn->net_peer);
        conn->may_direct = conn->may_direct && able(config);
    }
}

static size_t slots_bytes(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn)
{
    const struct gpuring_conn_block *block = &transport->ends[conn->plan].block;

    return block->bytes - block->slots[0];
}

/* Return true if the connection's network device can access the region. Try each device once. */
static bool conn_reached(const struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    const struct gpuring_net_memory memory = {.base = transport->direct_region,
                                              .bytes = transport->direct_bytes,
                                              .device = &transport->direct_nic};

    for (const struct gpuring_conn *other = transport->conns; other < conn; other++) {
        if (other->net_device == conn->net_device && other->may_direct) {
            return other->direct != NULL;
        }
    }
    return transport->config.net_ops->device_memory(transport->config.net, conn->net_device,
                                                    &memory) == GPURING_OK;
}

static void close_descriptor(struct gpuring_transport *transport)
{
    if (transport->direct_region != NULL && transport->direct_nic.dmabuf >= 0) {
        close(transport->direct_nic.dmabuf);
        transport->direct_nic.dmabuf = -1;
    }
}

static void free_direct(struct gpuring_transport *transport)
{
    if (transport->direct_region != NULL) {
        close_descriptor(transport);
        transport->config.device_ops->free(transport->config.device, transport->direct_region);
        transport->direct_region = NULL;
        transport->direct_bytes = 0;
    }
}

static int allocate_region(struct gpuring_transport *transport, size_t bytes)
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
        free_direct(transport);
        return GPURING_OK;
    }
    return status;
}

static int create_slots(struct gpuring_transport *transport)
{
    struct gpuring_conn *end = transport->conns + transport->nconns;
    uint8_t *next;
    size_t bytes = 0, at = 0;
    int status;

    transport->direct_nic.dmabuf = -1;
    for (struct gpuring_conn *conn = transport->conns; conn < end; conn++) {
        choose_device(transport, conn);
        bytes += conn->may_direct ? slots_bytes(transport, conn) : 0;
    }
    status = bytes > 0 ? allocate_region(transport, bytes) : GPURING_OK;
    if (status != GPURING_OK) {
        return status;
    }
    next = transport->direct_region;
    for (struct gpuring_conn *conn = transport->conns; conn < end; conn++) {
        if (transport->direct_region != NULL && conn->may_direct && conn_reached(transport, conn)) {
            conn->direct = next;
            next += slots_bytes(transport, conn);
            transport->ndirect++;
        }
        if (conn->remote) {
            const struct gpuring_conn_block *block = &transport->ends[conn->plan].block;

            conn->offset = at;
            at += conn->direct != NULL ? block->slots[0] : block->bytes;
        }
    }
    transport->net_region_bytes = at;
    if (transport->ndirect == 0) {
        free_direct(transport);
        if (bytes == 0 && transport->nremote > 0 && able(&transport->config)) {
            gpuring_info("[gdr-far] no network device is known to be near enough to the GPU for "
                         "GPUDirect RDMA (coll_gpuring_gdr_level): data between nodes is copied "
                         "through host memory");
        }
    } else {
        gpuring_info(
            "[gdr] network devices reach the GPU's memory: %u of %u ends of connections between "
            "nodes; %s, %s",
            transport->ndirect, transport->nremote,
            transport->direct_nic.dmabuf >= 0 ? "dma-buf" : "peer memory",
            transport->direct_nic.flush
                ? "flushed by reading, because no order of writes is guaranteed to a running "
                  "kernel"
                : "in order, as the driver says: not flushed");
    }
    return GPURING_OK;
}

static int create_end(struct gpuring_transport *transport, struct gpuring_conn *conn)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_fifo_config *fifo = &transport->ends[conn->plan].fifo;
    struct gpuring_net_memory memory = {.base = transport->net_region,
                                        .bytes = transport->net_region_bytes,
                                        .any = gpuring_remote_any(transport)};
    uint8_t *block = transport->net_region + conn->offset;

    if (conn->direct != NULL) {
        memory.base = transport->direct_region;
        memory.bytes = transport->direct_bytes;
        memory.device = &transport->direct_nic;
    }
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        if (fifo->slot_bytes[p] > 0) {
            memory.ring[p] =
                (struct gpuring_net_ring){.slots = gpuring_slots_of(transport, conn, p),
                                          .slot_bytes = fifo->slot_bytes[p],
                                          .nslots = fifo->nslots[p],
                                          .tail = gpuring_block_tail(block, p),
                                          .head = gpuring_block_head(block, p)};
        }
    }
    return config->net_ops->link_create(config->net, conn->net_device, &conn->net_peer,
                                        conn->direction, &memory, &conn->link);
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
    gpuring_proxy_group_init(config->proxy, &transport->group);
    status = gpuring_linger_prepare(transport);
    status = status == GPURING_OK ? create_slots(transport) : status;
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
    close_descriptor(transport);
    return GPURING_OK;
}

static void set_used(struct gpuring_conn *conn, uint32_t protocols)
{
    if (conn->used != protocols) {
        conn->used = protocols;
        gpuring_proxy_use(conn->link, protocols);
    }
}

void gpuring_remote_rest(struct gpuring_transport *transport)
{
    if (transport->nremote == 0) {
        return;
    }
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].remote) {
            set_used(&transport->conns[i], 0);
        }
    }
    gpuring_proxy_rest(&transport->group);
}

static void use_ends(struct gpuring_conn *conns, uint32_t count, uint32_t keep, uint32_t add)
{
    for (uint32_t i = 0; i < count; i++) {
        if (conns[i].remote) {
            set_used(&conns[i], (conns[i].used & keep) | add);
        }
    }
}

/* Let the connections of these lanes use the protocols of `keep` that they use already, and those
 * of `add`. */
static void use_lanes(struct gpuring_transport *transport, const struct gpuring_lanes_used *used,
                      uint32_t keep, uint32_t add)
{
    const struct gpuring_plan_ends *ends = &transport->ends[used->plan];

    for (uint32_t i = 0; i < used->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &ends->plan->lanes[i];

        use_ends(transport->conns + ends->first_recv + lane->first_recv, lane->nrecvs, keep, add);
        use_ends(transport->conns + ends->first_send + lane->first_send, lane->nsends, keep, add);
    }
}

void gpuring_transport_use(struct gpuring_transport *transport, int plan, uint32_t nlanes,
                           enum gpuring_protocol protocol)
{
    struct gpuring_lanes_used *used = &transport->used;

    if (transport->nremote == 0 ||
        (used->plan == plan && used->nlanes == nlanes && used->protocol == protocol)) {
        return;
    }
    if (!transport->keeps) {
        use_lanes(transport, used, 0, 0);
    }
    *used = (struct gpuring_lanes_used){.plan = plan, .nlanes = nlanes, .protocol = protocol};
    use_lanes(transport, used, transport->keeps ? UINT32_MAX : 0, 1u << protocol);
}

static int connect_end(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                       struct gpuring_conn *conn, const struct gpuring_connect_info *connect_info)
{
    uint8_t *block = transport->net_region + conn->offset;
    char name[GPURING_HOSTNAME_BYTES + 32];
    struct gpuring_connect_info_entry entry;
    int status = gpuring_connect_info_find(transport, conn, connect_info, &entry);

    if (status != GPURING_OK) {
        return status;
    }
    snprintf(name, sizeof name, "rank %d on %s", peer->rank, peer->hostname);
    status = transport->config.net_ops->link_connect(
        conn->link, connect_info->data + connect_info->header.process_offset,
        connect_info->header.process_bytes, connect_info->data + entry.offset, entry.handle_bytes,
        name);
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_conn_bind(transport, conn, block, block);
    gpuring_proxy_add(&transport->group, conn->link, &conn->failed);
    set_used(conn, 1u << GPURING_PROTOCOL_SIMPLE); /* the first chunk */
    return GPURING_OK;
}

/* Return the number of this end's connections before `conn` in the same plan with the same peer. */
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
 * Pair each connection to the peer with one from it in the same plan, in the order of their keys.
 * The keys are the same at the other end, which therefore forms the same pairs.
 */
static void pair_ends(const struct gpuring_transport *transport, const struct gpuring_peer *peer)
{
    const struct gpuring_conn *conns = transport->conns;

    for (uint32_t s = 0; s < transport->nconns; s++) {
        bool sends = conns[s].peer == peer->rank && conns[s].direction == GPURING_NET_SEND;

        for (uint32_t r = 0; sends && r < transport->nconns; r++) {
            if (conns[r].peer == peer->rank && conns[r].direction == GPURING_NET_RECV &&
                conns[s].plan == conns[r].plan &&
                turn_of(transport, &conns[s]) == turn_of(transport, &conns[r])) {
                gpuring_proxy_pair(conns[s].link, conns[r].link);
            }
        }
    }
}

int gpuring_remote_connect(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                           const struct gpuring_connect_info *connect_info)
{
    int status = GPURING_OK;

    for (uint32_t i = 0; status == GPURING_OK && i < transport->nconns; i++) {
        if (transport->conns[i].peer == peer->rank) {
            status = connect_end(transport, peer, &transport->conns[i], connect_info);
        }
    }
    if (status == GPURING_OK && transport->config.net_ops->carries_credit) {
        pair_ends(transport, peer);
    }
    return status;
}

int gpuring_remote_health(struct gpuring_transport *transport, char *text, size_t size)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];
        /* Pairs with the proxy's release store after it has written the text. */
        int failed = __atomic_load_n(&conn->failed, __ATOMIC_ACQUIRE);

        if (failed != GPURING_OK) {
            snprintf(text, size, "%s", gpuring_proxy_error(conn->link));
            return failed;
        }
    }
    return GPURING_OK;
}

bool gpuring_remote_whole(const struct gpuring_transport *transport)
{
    const struct gpuring_net_ops *ops = transport->config.net_ops;
    struct gpuring_gate *gate;
    bool whole = true;

    if (transport->nremote == 0 || ops->link_whole == NULL) {
        return true;
    }
    gate = gpuring_proxy_gate(transport->config.proxy);
    gpuring_gate_enter(gate);
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];

        whole = whole && (conn->link == NULL || ops->link_whole(conn->link));
    }
    gpuring_gate_leave(gate);
    return whole;
}

void gpuring_remote_abort(struct gpuring_transport *transport, int status)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].link != NULL) {
            gpuring_proxy_abort(transport->conns[i].link, status);
        }
    }
}

/* Return true if the net may still access memory of the links. */
static bool links_hold(const struct gpuring_transport *transport)
{
    const struct gpuring_net_ops *ops = transport->config.net_ops;
    bool hold = false;

    if (transport->nremote == 0 || ops == NULL || ops->link_holds == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < transport->nconns; i++) {
        struct gpuring_net_link *link = transport->conns[i].link;

        hold = (link != NULL && ops->link_holds(link)) || hold;
    }
    return hold;
}

static void close_links(struct gpuring_transport *transport)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].link != NULL) {
            transport->config.net_ops->link_close(transport->conns[i].link);
        }
        transport->conns[i].link = NULL;
        transport->conns[i].failed = GPURING_OK;
    }
}

void gpuring_transport_leave(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    bool hold;

    gpuring_transport_unkeep(transport, true);
    gpuring_proxy_remove(&transport->group, REMOVE_SECONDS);
    hold = links_hold(transport);
    if (hold && !config->own_net) {
        gpuring_linger_add(transport);
    } else {
        close_links(transport);
        if (!hold) {
            free_direct(transport);
        }
        if (transport->net_region != NULL && !hold) {
            config->device_ops->free_pinned(config->device, transport->net_region);
        }
    }
    free(transport->lingering);
    transport->lingering = NULL;
    transport->net_region = NULL;
    transport->net_region_bytes = 0;
    transport->nremote = 0;
}

void gpuring_remote_destroy(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;

    gpuring_transport_leave(transport);
    if (config->own_net && gpuring_proxy_destroy(config->proxy, 0) == GPURING_OK) {
        config->net_ops->close(config->net);
    }
}
