/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Posts of the net `verbs`: slots, credits, control messages, and probes of idle rails. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/status.h"

#define ASK_EVERY     4    /* a completion for this many sends at least */
#define ASK_BYTES     8192 /* size of a slot from which the cost of a completion is negligible */
#define RECEIVE_BATCH 64
#define IDLE_NS       UINT64_C(1000000000)

int gpuring_verbs_receives(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                           unsigned count)
{
    struct ibv_recv_wr list[RECEIVE_BATCH], *bad;
    int error = 0;

    while (count > 0 && error == 0) {
        unsigned batch = count < RECEIVE_BATCH ? count : RECEIVE_BATCH;

        for (unsigned i = 0; i < batch; i++) {
            list[i] = (struct ibv_recv_wr){.wr_id = gpuring_verbs_id(ep, rail, VERBS_ID_RECEIVE),
                                           .next = i + 1 < batch ? &list[i + 1] : NULL};
        }
        error = ibv_post_recv(rail->qp, list, &bad);
        rail->receives += error == 0 ? batch : 0;
        count -= batch;
    }
    return error;
}

/* Return the rail for the next slot: the lanes in turn, or a spare if all lanes have failed. */
static struct gpuring_verbs_rail *next_rail(struct gpuring_verbs_endpoint *ep)
{
    for (unsigned i = 0; i < ep->nlanes; i++) {
        struct gpuring_verbs_rail *lane = &ep->rail[ep->turn];

        ep->turn = ep->turn + 1 < ep->nlanes ? ep->turn + 1 : 0;
        if (lane->state == GPURING_VERBS_UP) {
            return lane;
        }
    }
    return gpuring_verbs_first_up(ep);
}

/* When to request a completion, apart from every ASK_EVERY-th send. */
enum ask { ASK_NOT, ASK_IF_NONE_IS_PENDING, ASK };

static void record_send(const struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                        const struct gpuring_verbs_sent *sent)
{
    rail->sent[rail->sq_posted % ep->send_room] = *sent;
    rail->sq_posted++;
    if (sent->link != NULL) {
        rail->sq_data = rail->sq_posted;
        sent->link->in_flight++;
    }
}

#define REFUSED "the device refused a send: see the kernel's log (dmesg)"

/* Post one send and record it in the rail's log. */
static int post_send(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                     struct ibv_send_wr *wr, const struct gpuring_verbs_sent *sent, enum ask ask)
{
    struct ibv_send_wr *bad;
    int error;

    if (rail->sq_posted - rail->sq_done >= ep->send_room) {
        return GPURING_AGAIN;
    }
    if (ask == ASK || (ask != ASK_NOT && rail->sq_asked <= rail->sq_done) ||
        rail->sq_posted + 1 - rail->sq_asked >= ASK_EVERY) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    wr->wr_id = gpuring_verbs_id(ep, rail, rail->sq_posted & VERBS_ID_NUMBER);
    error = ibv_post_send(rail->qp, wr, &bad);
    if (error == ENOMEM) {
        return GPURING_AGAIN;
    }
    if (error != 0) {
        gpuring_verbs_rail_fail(ep, rail, strerror(error), REFUSED);
        return ep->failed ? GPURING_ERR_NET : GPURING_AGAIN;
    }
    record_send(ep, rail, sent);
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
        rail->sq_asked = rail->sq_posted;
    }
    return GPURING_OK;
}

/* Return the number of blocks that are sent before the rest of a slot. */
static uint32_t blocks_before(const struct gpuring_verbs_rail *rail, uint32_t bytes, uint32_t block)
{
    return rail->port->link_layer == IBV_LINK_LAYER_INFINIBAND ? bytes / block : 0;
}

/* Post the first bytes of a slot. `rest` becomes what remains. */
static int post_blocks(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                       uint32_t bytes, struct ibv_send_wr *rest)
{
    const struct gpuring_verbs_sent sent = {.link = NULL};
    struct ibv_sge piece = *rest->sg_list;
    struct ibv_send_wr wr = *rest;
    int status;

    if (rail->sq_posted - rail->sq_done + 2 > ep->send_room) {
        return GPURING_AGAIN;
    }
    piece.length = bytes;
    wr.sg_list = &piece;
    wr.opcode = IBV_WR_RDMA_WRITE;
    status = post_send(ep, rail, &wr, &sent, ASK_NOT);
    if (status == GPURING_OK) {
        rest->sg_list->addr += bytes;
        rest->sg_list->length -= bytes;
        rest->wr.rdma.remote_addr += bytes;
        rest->num_sge = rest->sg_list->length > 0 ? 1 : 0;
    }
    return status;
}

/*
 * Post a slot in two operations. Once the first one is posted, it may write to the peer's slot
 * until both ends have taken the rail out of use. If the second one is refused, the slot therefore
 * counts as posted, and the failover repeats it on another rail.
 */
static int post_in_two(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint32_t blocks, struct ibv_send_wr *wr,
                       const struct gpuring_verbs_sent *sent)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    int status = post_blocks(ep, rail, blocks * link->block[sent->protocol], wr);

    if (status != GPURING_OK) {
        return status;
    }
    wr->imm_data |= htonl(blocks << VERBS_IMM_BLOCKS_AT);
    status = post_send(ep, rail, wr, sent, ASK);
    if (status != GPURING_OK) {
        gpuring_verbs_rail_fail(ep, rail, strerror(ENOMEM), REFUSED);
        record_send(ep, rail, sent);
    }
    return link->base.status;
}

/* Post a slot on a rail. head: the field of the immediate value, or 0. */
static int post_slot(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                     enum gpuring_protocol protocol, uint64_t step, uint32_t bytes, bool more,
                     uint32_t head)
{
    const struct gpuring_net_ring *ring = &link->base.count[protocol].memory;
    const struct gpuring_verbs_sent sent = {
        .link = link, .protocol = (uint8_t) protocol, .step = step};
    unsigned number = gpuring_verbs_rail_number(link->endpoint, rail);
    uint64_t offset = step % ring->nslots * ring->slot_bytes;
    uint32_t blocks = blocks_before(rail, bytes, link->block[protocol]);
    uint32_t imm = (uint32_t) protocol << 30 | head |
                   VERBS_LOW(step, VERBS_IMM_STEP_BITS) << VERBS_IMM_STEP_AT | link->peer_number;
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) ring->slots + offset,
                            .length = bytes,
                            .lkey = link->mr[number]->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &piece,
                             .num_sge = bytes > 0 ? 1 : 0,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = htonl(imm),
                             .wr.rdma = {.remote_addr = link->peer_slots[protocol] + offset,
                                         .rkey = link->rkey[number]}};

    link->used |= 1u << number;
    if (blocks > 0) {
        return post_in_two(link, rail, blocks, &wr, &sent);
    }
    wr.send_flags = bytes <= rail->max_inline && !link->on_gpu ? IBV_SEND_INLINE : 0;
    return post_send(link->endpoint, rail, &wr, &sent,
                     !more || bytes >= ASK_BYTES ? ASK : ASK_IF_NONE_IS_PENDING);
}

int gpuring_verbs_repeat_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                              uint64_t step, uint32_t bytes)
{
    struct gpuring_verbs_rail *rail = next_rail(link->endpoint);

    /* The next failure, or the peer's BYE, decides if no rail is up. */
    return rail != NULL ? post_slot(link, rail, protocol, step, bytes, false, 0) : GPURING_AGAIN;
}

/* Post the credit of the link's pair in a message of its own if it has changed, because the slot
 * uses another rail than the heads. */
static int post_pair_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                            uint64_t head)
{
    struct gpuring_net_link *pair = (struct gpuring_net_link *) link->base.pair;

    return pair != NULL && pair->base.count[protocol].credit != head
               ? gpuring_verbs_credit(pair, protocol, head)
               : GPURING_OK;
}

int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes, bool more, uint64_t head)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    struct gpuring_verbs_rail *rail = next_rail(ep);
    uint32_t field = 0;

    if (link->peer_closed) {
        gpuring_verbs_link_fail(link, &ep->rail[0], GPURING_ERR_PEER,
                                "the peer has closed the connection",
                                "it freed the communicator or ended: see its output");
    } else if (bytes > link->base.count[protocol].memory.slot_bytes) {
        gpuring_verbs_link_fail(link, &ep->rail[0], GPURING_ERR_DATA,
                                "a chunk is larger than its slot", "the FIFO's memory is corrupt");
    }
    if (link->base.status != GPURING_OK) {
        return link->base.status;
    }
    if (rail == NULL || link->left) {
        return GPURING_AGAIN;
    }
    if (rail == gpuring_verbs_first_up(ep)) {
        field = VERBS_IMM_HAS_HEAD | VERBS_LOW(head, VERBS_IMM_PAIR_BITS) << VERBS_IMM_PAIR_AT;
    } else if (post_pair_credit(link, protocol, head) != GPURING_OK) {
        return GPURING_AGAIN;
    }
    return post_slot(link, rail, protocol, step, bytes, more, field);
}

/* Post a message without data. report: request a completion. */
static int post_empty(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                      enum ibv_wr_opcode opcode, uint32_t imm, bool report)
{
    const struct gpuring_verbs_sent sent = {.link = NULL};
    const struct gpuring_verbs_address *peer = &ep->peer[gpuring_verbs_rail_number(ep, rail)];
    struct ibv_send_wr wr = {.opcode = opcode,
                             .imm_data = htonl(imm),
                             .wr.rdma = {.remote_addr = peer->page, .rkey = peer->page_rkey}};

    return post_send(ep, rail, &wr, &sent, report ? ASK : ASK_IF_NONE_IS_PENDING);
}

int gpuring_verbs_post_credit(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              enum gpuring_protocol protocol, uint64_t head)
{
    link->used |= 1u << gpuring_verbs_rail_number(link->endpoint, rail);
    return post_empty(link->endpoint, rail, IBV_WR_RDMA_WRITE_WITH_IMM,
                      (uint32_t) protocol << 30 |
                          VERBS_LOW(head, VERBS_IMM_HEAD_BITS) << VERBS_IMM_HEAD_AT |
                          link->peer_number,
                      false);
}

int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head)
{
    struct gpuring_verbs_rail *rail = gpuring_verbs_first_up(link->endpoint);
    int status = link->base.status;

    if (status == GPURING_OK && !link->peer_closed && !link->left && rail != NULL) {
        status = gpuring_verbs_post_credit(link, rail, protocol, head);
    }
    return status;
}

int gpuring_verbs_post_control(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *on,
                               enum gpuring_verbs_control kind, uint32_t link, unsigned protocol,
                               uint64_t number)
{
    return post_empty(ep, on, IBV_WR_RDMA_WRITE_WITH_IMM,
                      VERBS_IMM_CONTROL << 30 | (uint32_t) kind << VERBS_IMM_KIND_AT |
                          protocol << VERBS_IMM_PROTOCOL_AT |
                          VERBS_LOW(number, VERBS_IMM_NUMBER_BITS) << VERBS_IMM_NUMBER_AT | link,
                      true);
}

bool gpuring_verbs_say_abort(struct gpuring_net_link *link)
{
    struct gpuring_verbs_rail *on = gpuring_verbs_first_up(link->endpoint);

    if (link->aborts != 0 && link->ready && !link->peer_closed && !link->left && on != NULL) {
        link->used |= 1u << gpuring_verbs_rail_number(link->endpoint, on);
        if (gpuring_verbs_post_control(link->endpoint, on, GPURING_VERBS_ABORT, link->peer_number,
                                       0, (uint64_t) -link->aborts) == GPURING_AGAIN) {
            return false;
        }
    }
    link->aborts = 0;
    return true;
}

void gpuring_verbs_abort(struct gpuring_net_link *link, int status)
{
    link->aborts = status;
    if (!gpuring_verbs_say_abort(link)) {
        gpuring_verbs_start_recovery(link->endpoint);
    }
}

void gpuring_verbs_probe(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    post_empty(ep, rail, IBV_WR_RDMA_WRITE, 0, true);
}

void gpuring_verbs_probe_endpoint(struct gpuring_verbs_endpoint *ep, uint64_t now, bool slept)
{
    for (unsigned r = 0; r < ep->nrails && ep->ready && !ep->failed; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];

        if (rail->state != GPURING_VERBS_UP ||
            (r >= ep->nlanes && rail != gpuring_verbs_first_up(ep))) {
            continue; /* a spare is probed only when it is needed */
        }
        if (slept || rail->active) {
            rail->active_ns = now;
            rail->active = false;
        } else if (now - rail->active_ns > IDLE_NS && rail->sq_asked <= rail->sq_done) {
            gpuring_verbs_probe(ep, rail);
        }
    }
}

void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now, bool slept)
{
    struct gpuring_verbs_endpoint *ep;

    VERBS_EACH_ENDPOINT(net, ep)
    {
        if (gpuring_verbs_in_use(ep)) {
            gpuring_verbs_probe_endpoint(ep, now, slept);
        }
    }
}
