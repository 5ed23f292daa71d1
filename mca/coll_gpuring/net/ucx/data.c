/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The data path of the net `ucx`: slots and credits as active messages. Sends may complete, and
 * messages may arrive, out of order. net/base.c counts the steps that are complete in order.
 */
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/net/ucx/ucx_internal.h"
#include "mca/coll_gpuring/util/status.h"

static void op_end(struct gpuring_ucx_op *op, ucs_status_t status)
{
    struct gpuring_net_link *link = op->link;

    op->busy = false;
    if (status != UCS_OK) {
        gpuring_ucx_link_fail(link, GPURING_ERR_NET, gpuring_ucx.ucs_status_string(status));
        return;
    }
    if (op->header.kind == GPURING_UCX_DATA) {
        gpuring_net_base_done(&link->base, op->header.protocol, op->header.step);
    }
}

static void on_sent(void *request, ucs_status_t status, void *op)
{
    struct gpuring_net_link *link = ((struct gpuring_ucx_op *) op)->link;

    link->busy--;
    op_end(op, status);
    gpuring_ucx.ucp_request_free(request);
    if (link->closed && link->busy == 0) {
        gpuring_ucx_link_free(link);
    }
}

/* UCX may still have to send the acknowledgement, for which the sender waits. */
static void on_received(void *request, ucs_status_t status, size_t bytes, void *op)
{
    (void) bytes;
    gpuring_ucx_net(((struct gpuring_ucx_op *) op)->link)->dirty = true;
    on_sent(request, status, op);
}

static int send_op(struct gpuring_net_link *link, struct gpuring_ucx_op *op, const void *data,
                   size_t bytes)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_sent,
                                       .user_data = op};
    void *request;

    if (link->peer->status != GPURING_OK) {
        return link->base.status;
    }
    op->link = link;
    op->busy = true;
    gpuring_ucx_net(link)->dirty = true;
    request = gpuring_ucx.ucp_am_send_nbx(link->peer->ep, 0, &op->header, sizeof op->header, data,
                                          bytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        link->busy++;
    } else {
        op_end(op, UCS_PTR_RAW_STATUS(request));
    }
    return link->base.status;
}

int gpuring_ucx_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                     uint32_t bytes, bool more, uint64_t head)
{
    const struct gpuring_net_ring *memory = &link->base.count[protocol].memory;
    struct gpuring_ucx_op *op = &link->ops[protocol][step % memory->nslots];

    (void) more; /* every send reports its completion */
    if (link->base.status == GPURING_OK && (bytes > memory->slot_bytes || op->busy)) {
        gpuring_ucx_link_fail(link, GPURING_ERR_DATA,
                              "a chunk is larger than its slot, or has "
                              "none: the FIFO's memory is corrupt");
    }
    if (link->base.status != GPURING_OK) {
        return link->base.status;
    }
    op->header = (struct gpuring_ucx_header){.link = link->peer_id,
                                             .step = step,
                                             .head = head,
                                             .bytes = bytes,
                                             .protocol = (uint16_t) protocol,
                                             .kind = GPURING_UCX_DATA};
    return send_op(link, op, memory->slots + step % memory->nslots * memory->slot_bytes, bytes);
}

int gpuring_ucx_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t head)
{
    const struct gpuring_net_ring *memory = &link->base.count[protocol].memory;
    struct gpuring_ucx_op *op = &link->ops[protocol][head % memory->nslots];

    if (link->base.status != GPURING_OK || op->busy) {
        return link->base.status != GPURING_OK ? link->base.status : GPURING_AGAIN;
    }
    op->header = (struct gpuring_ucx_header){.link = link->peer_id,
                                             .head = head,
                                             .protocol = (uint16_t) protocol,
                                             .kind = GPURING_UCX_CREDIT};
    return send_op(link, op, NULL, 0);
}

void gpuring_ucx_abort(struct gpuring_net_link *link, int status)
{
    if (link->base.status == GPURING_OK && link->peer != NULL && !link->abort.busy) {
        link->abort.header = (struct gpuring_ucx_header){
            .link = link->peer_id, .step = (uint64_t) -status, .kind = GPURING_UCX_ABORT};
        send_op(link, &link->abort, NULL, 0);
    }
}

/* Return true if the peer may send a message with this header on this link now. */
static bool header_is_possible(const struct gpuring_net_link *link,
                               const struct gpuring_ucx_header *header, size_t bytes)
{
    const struct gpuring_net_count *count = &link->base.count[header->protocol];
    uint64_t ahead = header->step - count->done;

    if (count->memory.slots == NULL) {
        return false;
    }
    if (header->kind == GPURING_UCX_CREDIT) {
        return link->base.direction == GPURING_NET_SEND && bytes == 0;
    }
    return link->base.direction == GPURING_NET_RECV && ahead < count->memory.nslots &&
           (count->early >> (header->step % 64) & 1) == 0 && bytes == header->bytes &&
           bytes <= count->memory.slot_bytes;
}

/* Receive a slot: copy the data, or fetch it directly into the slot if it is a rendezvous. */
static ucs_status_t receive_slot(struct gpuring_net_link *link,
                                 const struct gpuring_ucx_header *header, void *data, size_t bytes,
                                 const ucp_am_recv_param_t *param)
{
    struct gpuring_net_count *count = &link->base.count[header->protocol];
    uint64_t index = header->step % count->memory.nslots;
    uint8_t *slot = count->memory.slots + index * count->memory.slot_bytes;
    struct gpuring_ucx_op *op = &link->ops[header->protocol][count->memory.nslots + index];
    const ucp_request_param_t fetch = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv_am = on_received,
                                       .user_data = op};
    void *request;

    op->link = link;
    op->header = *header;
    count->memory.tail->size[index] = header->bytes;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(slot, data, bytes);
        op_end(op, UCS_OK);
        return UCS_OK;
    }
    op->busy = true;
    link->busy++; /* before the call, which may call back before it returns */
    request =
        gpuring_ucx.ucp_am_recv_data_nbx(gpuring_ucx_net(link)->worker, data, slot, bytes, &fetch);
    if (!UCS_PTR_IS_PTR(request)) {
        link->busy--;
        op_end(op, UCS_PTR_RAW_STATUS(request));
        return UCS_OK;
    }
    return UCS_INPROGRESS;
}

ucs_status_t gpuring_ucx_receive(void *argument, const void *header_bytes, size_t header_size,
                                 void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
    struct gpuring_net *net = argument;
    struct gpuring_ucx_header header;
    struct gpuring_net_link *link;

    if (header_size != sizeof header) {
        return UCS_OK; /* not a message of this component, so there is no link that could fail */
    }
    memcpy(&header, header_bytes, sizeof header);
    link = (struct gpuring_net_link *) gpuring_net_base_find(&net->base, header.link);
    if (link == NULL || link->base.status != GPURING_OK) {
        return UCS_OK; /* the link is closed or failed: a late credit, or late data */
    }
    if (header.kind == GPURING_UCX_ABORT) {
        char why[160];

        snprintf(why, sizeof why,
                 "[peer-gave-up] the peer reported that the communicator failed: %s; see its "
                 "output",
                 gpuring_status_text(-(int) header.step));
        gpuring_ucx_link_fail(link, GPURING_ERR_ABORTED, why);
        return UCS_OK;
    }
    if (header.protocol >= GPURING_PROTOCOL_COUNT || !header_is_possible(link, &header, bytes)) {
        gpuring_ucx_link_fail(link, GPURING_ERR_PEER,
                              "the peer sent an impossible message: does it run the same version "
                              "of coll/gpuring?");
        return UCS_OK;
    }
    if (header.kind == GPURING_UCX_CREDIT) {
        gpuring_net_base_credit(&link->base, header.protocol, header.head);
        return UCS_OK;
    }
    if (link->base.pair != NULL) {
        gpuring_net_base_credit(link->base.pair, header.protocol, header.head);
    }
    return receive_slot(link, &header, data, bytes, param);
}
