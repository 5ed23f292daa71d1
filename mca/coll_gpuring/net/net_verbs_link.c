/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The life of a link of the net `verbs`: its queue pair from creation to destruction. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_verbs.h"
#include "mca/coll_gpuring/net/proxy_thread.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CLOSE_NS UINT64_C(1000000000)

static int verbs_error(const struct gpuring_net_link *link, const char *what, int error)
{
    gpuring_error("%s cannot %s on device %s port %d: %s", link->base.net->host, what,
                  link->port->adapter->name, link->port->number, strerror(error));
    return error == ENOMEM ? GPURING_ERR_NOMEM : GPURING_ERR_NET;
}

/* Room of the queues: everything that the contract allows to be under way. */
static void choose_room(struct gpuring_net_link *link, const struct gpuring_net_memory *memory)
{
    unsigned steps = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        steps += memory->ring[p].slots != NULL ? memory->ring[p].nslots : 0;
    }
    link->receive_room = steps + GPURING_VERBS_CONTROL;
    link->send_room = steps + GPURING_VERBS_CONTROL;
}

/* A device tells how much it can send inline only by refusing more. */
static int create_qp(struct gpuring_net_link *link)
{
    struct ibv_qp_init_attr attr = {.send_cq = link->cq->cq,
                                    .recv_cq = link->cq->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = link->send_room,
                                            .max_recv_wr = link->receive_room,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    unsigned inlined = GPURING_VERBS_INLINE;

    do {
        attr.cap.max_inline_data = inlined;
        link->qp = gpuring_verbs.create_qp(link->port->adapter->pd, &attr);
        inlined /= 2;
    } while (link->qp == NULL && errno == EINVAL && inlined >= 16);
    if (link->qp == NULL) {
        return verbs_error(link, "create a queue pair", errno);
    }
    link->max_inline = attr.cap.max_inline_data;
    return GPURING_OK;
}

static int initialise_qp(struct gpuring_net_link *link)
{
    const struct gpuring_net_config *config = &gpuring_verbs_net(link)->config;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = link->port->number,
                               .pkey_index = (uint16_t) config->verbs_pkey_index,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
    int error = gpuring_verbs.modify_qp(
        link->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

    if (error != 0) {
        return verbs_error(link, "initialise a queue pair", error);
    }
    error = gpuring_verbs_receives(link, link->receive_room);
    return error != 0 ? verbs_error(link, "post receives", error) : GPURING_OK;
}

static void release(struct gpuring_net_link *link)
{
    struct gpuring_verbs_adapter *adapter = link->port->adapter;

    if (link->qp != NULL) {
        gpuring_verbs.destroy_qp(link->qp);
    }
    if (link->cq != NULL) {
        gpuring_verbs_cq_put(adapter, link->cq, link->send_room + link->receive_room);
    }
    if (link->mr != NULL) {
        gpuring_verbs_mr_put(adapter, link->mr);
    }
    gpuring_net_base_remove(&link->base);
    free(link->sent);
    free(link);
}

static int build(struct gpuring_net *net, struct gpuring_net_link *link,
                 const struct gpuring_net_memory *memory)
{
    struct gpuring_verbs_adapter *adapter = link->port->adapter;
    int status;

    choose_room(link, memory);
    link->sent = calloc(link->send_room, sizeof(*link->sent));
    if (link->sent == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    status = gpuring_verbs_mr_get(net, adapter, memory, &link->mr);
    if (status == GPURING_OK) {
        status =
            gpuring_verbs_cq_get(net, adapter, link->send_room + link->receive_room, &link->cq);
    }
    if (status == GPURING_OK) {
        status = create_qp(link);
    }
    return status == GPURING_OK ? initialise_qp(link) : status;
}

int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              enum gpuring_net_direction direction,
                              const struct gpuring_net_memory *memory,
                              struct gpuring_net_link **result)
{
    struct gpuring_net_link *link;
    int status;

    if (device < 0 || device >= net->devices.count) {
        gpuring_error("the network verbs has no device number %d", device);
        return GPURING_ERR_ARG;
    }
    link = calloc(1, sizeof *link);
    if (link == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    link->port = &net->ports[device];
    gpuring_gate_enter(&net->base.gate);
    status = gpuring_net_base_add(&net->base, &link->base, direction, memory);
    if (status != GPURING_OK) {
        free(link);
    } else {
        /* Where the peer starts counting packets; any 24 bits that differ from link to link. */
        link->psn = (uint32_t) (gpuring_proxy_now() * UINT64_C(2654435761) >> 16 ^ link->base.id) &
                    0xffffff;
        status = build(net, link, memory);
        if (status != GPURING_OK) {
            release(link);
        }
    }
    gpuring_gate_leave(&net->base.gate);
    if (status == GPURING_OK) {
        *result = link;
    }
    return status;
}

static void fill_handle(const struct gpuring_net_link *link, struct gpuring_verbs_handle *handle)
{
    *handle = (struct gpuring_verbs_handle){.magic = GPURING_VERBS_MAGIC,
                                            .qpn = link->qp->qp_num,
                                            .psn = link->psn,
                                            .rkey = link->mr->mr->rkey,
                                            .lid = link->port->lid,
                                            .mtu = (uint8_t) link->port->mtu,
                                            .link_layer = link->port->link_layer,
                                            .direction = (uint8_t) link->base.direction};
    memcpy(handle->gid, link->port->gid.raw, sizeof handle->gid);
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_net_ring *ring = &link->base.count[p].memory;

        handle->slots[p] = (uint64_t) (uintptr_t) ring->slots;
        handle->slot_bytes[p] = ring->slot_bytes;
        handle->nslots[p] = ring->nslots;
    }
}

int gpuring_verbs_link_handle(struct gpuring_net_link *link, void *handle, size_t *bytes)
{
    struct gpuring_verbs_handle mine;

    if (*bytes < sizeof mine) {
        gpuring_error("no room for the handle of a verbs connection");
        return GPURING_ERR_ARG;
    }
    fill_handle(link, &mine);
    memcpy(handle, &mine, sizeof mine);
    *bytes = sizeof mine;
    return GPURING_OK;
}

/* NULL, or why the two ends cannot be connected. */
static const char *mismatch(const struct gpuring_net_link *link,
                            const struct gpuring_verbs_handle *peer)
{
    struct gpuring_verbs_handle mine;

    fill_handle(link, &mine);
    if (peer->direction == mine.direction ||
        memcmp(peer->slot_bytes, mine.slot_bytes, sizeof mine.slot_bytes) != 0 ||
        memcmp(peer->nslots, mine.nslots, sizeof mine.nslots) != 0) {
        return "the sizes of its FIFOs differ: coll_gpuring_buffer_size and "
               "coll_gpuring_chunk_size "
               "must agree on all ranks";
    }
    if (peer->link_layer != mine.link_layer) {
        return "one port is InfiniBand, the other Ethernet: coll_gpuring_verbs_hca must select "
               "ports that reach each other";
    }
    return NULL;
}

static void fill_address(const struct gpuring_net_link *link, struct ibv_ah_attr *address)
{
    const struct gpuring_net_config *config = &gpuring_verbs_net(link)->config;
    const struct gpuring_verbs_handle *peer = &link->peer;

    address->dlid = peer->lid;
    address->sl = (uint8_t) config->verbs_service_level;
    address->port_num = link->port->number;
    /* Ethernet always routes by GID; InfiniBand only when the subnets differ. */
    if (peer->link_layer == IBV_LINK_LAYER_ETHERNET ||
        memcmp(peer->gid, link->port->gid.raw, 8) != 0) {
        address->is_global = 1;
        memcpy(address->grh.dgid.raw, peer->gid, sizeof peer->gid);
        address->grh.sgid_index = link->port->gid_index;
        address->grh.hop_limit = 255;
        address->grh.traffic_class = (uint8_t) config->verbs_traffic_class;
    }
}

static int ready_to_receive(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_handle *peer = &link->peer;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = link->port->mtu < (enum ibv_mtu) peer->mtu
                                               ? link->port->mtu
                                               : (enum ibv_mtu) peer->mtu,
                               .dest_qp_num = peer->qpn,
                               .rq_psn = peer->psn,
                               .max_dest_rd_atomic = 0,
                               .min_rnr_timer = GPURING_VERBS_RNR_TIMER};

    fill_address(link, &attr.ah_attr);
    return gpuring_verbs.modify_qp(link->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER);
}

static int ready_to_send(struct gpuring_net_link *link)
{
    const struct gpuring_net_config *config = &gpuring_verbs_net(link)->config;
    int timeout = config->verbs_timeout, retry = config->verbs_retry_count;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout =
                                   (uint8_t) (timeout >= 0 ? timeout : GPURING_VERBS_TIMEOUT),
                               .retry_cnt = (uint8_t) (retry >= 0 ? retry : GPURING_VERBS_RETRY),
                               .rnr_retry = GPURING_VERBS_RNR_RETRY,
                               .sq_psn = link->psn,
                               .max_rd_atomic = 0};

    return gpuring_verbs.modify_qp(link->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    const char *why;
    int error;

    (void) process_handle;
    (void) process_bytes;
    if (bytes != sizeof link->peer ||
        (memcpy(&link->peer, handle, bytes), link->peer.magic != GPURING_VERBS_MAGIC)) {
        gpuring_error("%s sent no handle of a verbs connection: does it run the same version of "
                      "coll/gpuring, with the same coll_gpuring_net?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    why = mismatch(link, &link->peer);
    if (why != NULL) {
        gpuring_error("%s and %s cannot be connected by verbs: %s", net->base.host, peer_name, why);
        return GPURING_ERR_PEER;
    }
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    gpuring_gate_enter(&net->base.gate);
    error = ready_to_receive(link);
    error = error != 0 ? error : ready_to_send(link);
    link->connected = error == 0;
    link->active_ns = gpuring_proxy_now();
    gpuring_gate_leave(&net->base.gate);
    if (error != 0) {
        gpuring_error("%s cannot connect device %s port %d by verbs to %s: %s; do the ports reach "
                      "each other? coll_gpuring_verbs_hca selects ports",
                      net->base.host, link->port->adapter->name, link->port->number, peer_name,
                      strerror(error));
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Say good-bye, so that the peer does not take our silence for a failure. */
static void part(struct gpuring_net_link *link)
{
    uint64_t deadline = gpuring_proxy_now() + CLOSE_NS;

    if (!link->connected || link->base.status != GPURING_OK || link->peer_closed) {
        return;
    }
    gpuring_verbs_bye(link);
    while (link->sq_done < link->sq_posted && link->base.status == GPURING_OK &&
           !link->peer_closed && gpuring_proxy_now() < deadline) {
        gpuring_verbs_completions(gpuring_verbs_net(link));
    }
}

void gpuring_verbs_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net *net;

    if (link == NULL) {
        return;
    }
    net = gpuring_verbs_net(link);
    gpuring_gate_enter(&net->base.gate);
    part(link);
    release(link);
    gpuring_gate_leave(&net->base.gate);
}
