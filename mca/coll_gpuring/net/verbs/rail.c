/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* A rail of an endpoint of the net `verbs`: its queue pair from creation to destruction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static int rail_error(const struct gpuring_verbs_endpoint *ep,
                      const struct gpuring_verbs_rail *rail, const char *what, int error)
{
    gpuring_error("%s cannot %s on device %s port %d: %s", ep->net->base.host, what,
                  rail->port->adapter->name, rail->port->number, strerror(error));
    return error == ENOMEM ? GPURING_ERR_NOMEM : GPURING_ERR_NET;
}

/* Create a queue pair. The amount of inline data that a device supports, possibly none, is only
 * known from refused attempts. */
static int create_qp(const struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    struct ibv_qp_init_attr attr = {.send_cq = rail->cq->cq,
                                    .recv_cq = rail->cq->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = ep->send_room,
                                            .max_recv_wr = ep->receive_room,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    unsigned inlined = GPURING_VERBS_INLINE;

    do {
        attr.cap.max_inline_data = inlined;
        rail->qp = gpuring_verbs.create_qp(rail->port->adapter->pd, &attr);
        inlined = inlined > 16 ? inlined / 2 : 0;
    } while (rail->qp == NULL && errno == EINVAL && attr.cap.max_inline_data > 0);
    if (rail->qp == NULL) {
        return errno == ENOMEM ? GPURING_AGAIN : rail_error(ep, rail, "create a queue pair", errno);
    }
    rail->max_inline = attr.cap.max_inline_data;
    return GPURING_OK;
}

/* Move a queue pair to the state INIT. Returns 0 or an errno. */
static int initialise_qp(const struct gpuring_verbs_port *port, struct ibv_qp *qp, int access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = port->number,
                               .pkey_index = port->pkey_index,
                               .qp_access_flags = (unsigned) access};

    return gpuring_verbs.modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void fill_address(const struct gpuring_net_config *config,
                         const struct gpuring_verbs_port *port,
                         const struct gpuring_verbs_address *peer, struct ibv_ah_attr *address)
{
    address->dlid = peer->lid;
    address->sl = (uint8_t) config->verbs_service_level;
    address->port_num = port->number;
    /* Ethernet always routes by GID, InfiniBand only if the port requires it or the subnets
     * differ. */
    if (port->global || memcmp(peer->nic.gid, port->gid.raw, 8) != 0) {
        address->is_global = 1;
        memcpy(address->grh.dgid.raw, peer->nic.gid, sizeof peer->nic.gid);
        address->grh.sgid_index = port->gid_index;
        address->grh.hop_limit = 255;
        address->grh.traffic_class = (uint8_t) config->verbs_traffic_class;
    }
}

/* Move a queue pair from INIT to RTS, with this number of RDMA reads in flight. psn: the first
 * packet sequence number that this queue pair sends. Returns 0 or an errno. */
static int connect_qp(const struct gpuring_net_config *config,
                      const struct gpuring_verbs_port *port, struct ibv_qp *qp, uint32_t psn,
                      const struct gpuring_verbs_address *peer, uint8_t reads)
{
    int timeout = config->verbs_timeout >= 0 ? config->verbs_timeout : GPURING_VERBS_TIMEOUT;
    int retry = config->verbs_retry_count >= 0 ? config->verbs_retry_count
                : port->adapter->software      ? GPURING_VERBS_RETRY_SOFT
                                               : GPURING_VERBS_RETRY;
    int error;
    struct ibv_qp_attr receive = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port->mtu < (enum ibv_mtu) peer->mtu ? port->mtu : (enum ibv_mtu) peer->mtu,
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = reads,
        .min_rnr_timer = GPURING_VERBS_RNR_TIMER};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = (uint8_t) timeout,
                               .retry_cnt = (uint8_t) retry,
                               .rnr_retry = GPURING_VERBS_RNR_RETRY,
                               .sq_psn = psn,
                               .max_rd_atomic = reads};

    fill_address(config, port, peer, &receive.ah_attr);
    error = gpuring_verbs.modify_qp(qp, &receive,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER);
    return error != 0 ? error
                      : gpuring_verbs.modify_qp(qp, &send,
                                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                                    IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct gpuring_verbs_address address_of(const struct gpuring_verbs_port *port,
                                               const struct ibv_qp *qp, uint32_t psn)
{
    struct gpuring_verbs_address address = {
        .qpn = qp->qp_num,
        .psn = psn,
        .lid = port->lid,
        .mtu = (uint8_t) port->mtu,
        .nic = {.port = port->number,
                .link = port->link_layer == IBV_LINK_LAYER_ETHERNET ? GPURING_NIC_ETHERNET
                                                                    : GPURING_NIC_INFINIBAND,
                .bits = port->network_bits}};

    memcpy(address.nic.gid, port->gid.raw, sizeof address.nic.gid);
    return address;
}

struct gpuring_verbs_address gpuring_verbs_rail_address(const struct gpuring_verbs_rail *rail)
{
    struct gpuring_verbs_address address = address_of(rail->port, rail->qp, rail->psn);

    address.page = (uint64_t) (uintptr_t) rail->port->adapter->page->addr;
    address.page_rkey = rail->port->adapter->page->rkey;
    return address;
}

int gpuring_verbs_port_prove(const struct gpuring_net *net, const struct gpuring_verbs_port *port)
{
    struct ibv_cq *cq = gpuring_verbs.create_cq(port->adapter->context, 2, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = cq != NULL ? gpuring_verbs.create_qp(port->adapter->pd, &attr) : NULL;
    struct gpuring_verbs_address self;
    int error = qp != NULL ? 0 : errno;

    if (error == 0) {
        error = initialise_qp(port, qp, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    if (error == 0) {
        self = address_of(port, qp, 0);
        error = connect_qp(&net->config, port, qp, 0, &self, 0);
    }
    if (qp != NULL) {
        gpuring_verbs.destroy_qp(qp);
    }
    if (cq != NULL) {
        gpuring_verbs.destroy_cq(cq);
    }
    return error;
}

static int create_flush_qp(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    struct gpuring_verbs_address self;
    struct ibv_qp_init_attr attr = {
        .send_cq = rail->cq->cq,
        .recv_cq = rail->cq->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = gpuring_verbs.create_qp(rail->port->adapter->pd, &attr);
    int error = qp == NULL ? errno : initialise_qp(rail->port, qp, IBV_ACCESS_REMOTE_READ);

    if (error == 0) {
        self = address_of(rail->port, qp, rail->psn);
        error = connect_qp(&ep->net->config, rail->port, qp, rail->psn, &self, 1);
    }
    if (error != 0) {
        if (qp != NULL) {
            gpuring_verbs.destroy_qp(qp);
        }
        return rail_error(ep, rail, "prepare for flushing GPU memory", error);
    }
    gpuring_gate_enter(ep->net->base.gate);
    rail->flush_qp = qp;
    gpuring_gate_leave(ep->net->base.gate);
    return GPURING_OK;
}

/* Make room for the arrivals of all links that the endpoint's table has room for. */
static int make_landed_room(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    unsigned room = ep->nlinks * GPURING_PROTOCOL_COUNT * GPURING_VERBS_MAX_SLOTS;
    struct gpuring_verbs_landed *landed, *old = rail->landed;

    if (room <= rail->landed_room) {
        return GPURING_OK;
    }
    landed = calloc(room, sizeof(*landed));
    if (landed == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    gpuring_gate_enter(ep->net->base.gate);
    for (uint64_t n = rail->flushed; n < rail->landed_count; n++) {
        landed[n % room] = old[n % rail->landed_room];
    }
    rail->landed = landed;
    rail->landed_room = room;
    gpuring_gate_leave(ep->net->base.gate);
    free(old);
    return GPURING_OK;
}

int gpuring_verbs_rail_flushes(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    int status = make_landed_room(ep, rail);

    return status == GPURING_OK && rail->flush_qp == NULL ? create_flush_qp(ep, rail) : status;
}

int gpuring_verbs_rail_create(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                              struct gpuring_verbs_port *port)
{
    struct gpuring_net *net = ep->net;
    unsigned number = gpuring_verbs_rail_number(ep, rail);
    int status, error;

    rail->port = port;
    /* The packet sequence number at which the peer starts: any 24 bits that differ between rails.
     */
    rail->psn = (uint32_t) ((gpuring_now_ns() + number) * UINT64_C(2654435761) >> 16 ^ ep->index) &
                0xffffff;
    rail->sent = calloc(ep->send_room, sizeof(*rail->sent));
    if (rail->sent == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    status = gpuring_verbs_page_get(net, port->adapter);
    status = status ? status : gpuring_verbs_cq_get(net, port->adapter, ep->cq_room, &rail->cq);
    status = status ? status : create_qp(ep, rail);
    if (status != GPURING_OK) {
        return status;
    }
    error = initialise_qp(rail->port, rail->qp, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return error != 0 ? rail_error(ep, rail, "initialise a queue pair", error) : GPURING_OK;
}

int gpuring_verbs_rail_connect(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    const struct gpuring_verbs_address *peer = &ep->peer[gpuring_verbs_rail_number(ep, rail)];
    int error = gpuring_verbs_receives(ep, rail, ep->receive_room);

    if (error == 0) {
        error = connect_qp(&ep->net->config, rail->port, rail->qp, rail->psn, peer, 0);
    }
    if (error == 0) {
        rail->state = GPURING_VERBS_UP;
    }
    return error;
}

int gpuring_verbs_rail_destroy_qp(struct gpuring_verbs_rail *rail)
{
    int error = rail->qp != NULL ? gpuring_verbs.destroy_qp(rail->qp) : 0;

    rail->qp = error == 0 ? NULL : rail->qp;
    return error;
}

/* Destroy a queue pair without the gate, because this takes long. */
static bool destroy_outside(struct gpuring_gate *gate, struct ibv_qp **at)
{
    struct ibv_qp *qp;
    int error;

    gpuring_gate_enter(gate);
    qp = *at;
    *at = NULL;
    gpuring_gate_leave(gate);
    error = qp != NULL ? gpuring_verbs.destroy_qp(qp) : 0;
    if (error != 0) {
        gpuring_gate_enter(gate);
        *at = qp;
        gpuring_gate_leave(gate);
    }
    return error == 0;
}

bool gpuring_verbs_rail_stop(const struct gpuring_verbs_endpoint *ep,
                             struct gpuring_verbs_rail *rail)
{
    bool stopped = destroy_outside(ep->net->base.gate, &rail->qp);

    return destroy_outside(ep->net->base.gate, &rail->flush_qp) && stopped;
}

void gpuring_verbs_rail_release(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    gpuring_verbs_rail_destroy_qp(rail);
    if (rail->flush_qp != NULL) {
        gpuring_verbs.destroy_qp(rail->flush_qp);
    }
    if (rail->cq != NULL) {
        gpuring_verbs_cq_put(ep->net, rail->cq, ep->cq_room);
    }
    free(rail->sent);
    free(rail->landed);
    *rail = (struct gpuring_verbs_rail){.place = rail->place, .port = rail->port};
}
