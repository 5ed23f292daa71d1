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
#define MOST_BLOCKS   ((UINT32_C(1) << VERBS_IMM_BLOCKS_BITS) - 1)
#define RECEIVE_BATCH 64
#define IDLE_NS       UINT64_C(1000000000)

int gpuring_verbs_receives(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                           unsigned count)
{
    struct ibv_recv_wr list[RECEIVE_BATCH], *bad;
    int error = 0;

    while (count > 0 && error == 0) {
        unsigned batch = count < RECEIVE_BATCH ? count : RECEIVE_BATCH;

        for (unsigned i = 0; i < batch; i++) {
            list[i] = (struct ibv_recv_wr){.wr_id = gpuring_verbs_id(link, rail, VERBS_ID_RECEIVE),
                                           .next = i + 1 < batch ? &list[i + 1] : NULL};
        }
        error = ibv_post_recv(rail->qp, list, &bad);
        rail->receives += error == 0 ? batch : 0;
        count -= batch;
    }
    return error;
}

/* Return the rail for the next slot: the lanes in turn, or a spare if all lanes have failed. */
static struct gpuring_verbs_rail *next_rail(struct gpuring_net_link *link)
{
    for (unsigned i = 0; i < link->nlanes; i++) {
        struct gpuring_verbs_rail *lane = &link->rail[link->turn];

        link->turn = link->turn + 1 < link->nlanes ? link->turn + 1 : 0;
        if (lane->state == GPURING_VERBS_UP) {
            return lane;
        }
    }
    return gpuring_verbs_first_up(link);
}

/* When to request a completion, apart from every ASK_EVERY-th send. */
enum ask { ASK_NOT, ASK_IF_NONE_IS_PENDING, ASK };

static void record_send(const struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                        const struct gpuring_verbs_sent *sent)
{
    rail->sent[rail->sq_posted % link->send_room] = *sent;
    rail->sq_posted++;
    if (sent->data) {
        rail->sq_data = rail->sq_posted;
    }
}

#define REFUSED "the device refused a send: see the kernel's log (dmesg)"

/* Post one send and record it in the rail's log. */
static int post_send(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                     struct ibv_send_wr *wr, const struct gpuring_verbs_sent *sent, enum ask ask)
{
    struct ibv_send_wr *bad;
    int error;

    if (rail->sq_posted - rail->sq_done >= link->send_room) {
        return GPURING_AGAIN;
    }
    if (ask == ASK || (ask != ASK_NOT && rail->sq_asked <= rail->sq_done) ||
        rail->sq_posted + 1 - rail->sq_asked >= ASK_EVERY) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    wr->wr_id = gpuring_verbs_id(link, rail, rail->sq_posted & VERBS_ID_NUMBER);
    error = ibv_post_send(rail->qp, wr, &bad);
    if (error == ENOMEM) {
        return GPURING_AGAIN;
    }
    if (error != 0) {
        gpuring_verbs_rail_fail(link, rail, strerror(error), REFUSED);
        return link->base.status != GPURING_OK ? link->base.status : GPURING_AGAIN;
    }
    record_send(link, rail, sent);
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
        rail->sq_asked = rail->sq_posted;
    }
    return GPURING_OK;
}

static uint32_t remote_key(const struct gpuring_net_link *link,
                           const struct gpuring_verbs_rail *rail)
{
    return link->peer.rail[rail - link->rail].rkey;
}

/* Return the number of blocks that are sent before the rest of a slot. */
static uint32_t blocks_before(const struct gpuring_verbs_rail *rail, uint32_t bytes)
{
    uint32_t blocks = bytes / GPURING_VERBS_BLOCK;

    return rail->port->link_layer == IBV_LINK_LAYER_INFINIBAND && blocks <= MOST_BLOCKS ? blocks
                                                                                        : 0;
}

/* Post the first blocks of a slot. `rest` becomes what remains. */
static int post_blocks(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint32_t blocks, struct ibv_send_wr *rest)
{
    const struct gpuring_verbs_sent sent = {.data = false};
    struct ibv_sge piece = *rest->sg_list;
    struct ibv_send_wr wr = *rest;
    int status;

    if (rail->sq_posted - rail->sq_done + 2 > link->send_room) {
        return GPURING_AGAIN;
    }
    piece.length = blocks * GPURING_VERBS_BLOCK;
    wr.sg_list = &piece;
    wr.opcode = IBV_WR_RDMA_WRITE;
    status = post_send(link, rail, &wr, &sent, ASK_NOT);
    if (status == GPURING_OK) {
        rest->sg_list->addr += piece.length;
        rest->sg_list->length -= piece.length;
        rest->wr.rdma.remote_addr += piece.length;
        rest->num_sge = rest->sg_list->length > 0 ? 1 : 0;
        rest->imm_data |= htonl(blocks << VERBS_IMM_STEP_BITS);
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
    int status = post_blocks(link, rail, blocks, wr);

    if (status != GPURING_OK) {
        return status;
    }
    status = post_send(link, rail, wr, sent, ASK);
    if (status != GPURING_OK) {
        gpuring_verbs_rail_fail(link, rail, strerror(ENOMEM), REFUSED);
        record_send(link, rail, sent);
    }
    return link->base.status;
}

int gpuring_verbs_post_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                            uint64_t step, uint32_t bytes, bool more, uint64_t head)
{
    const struct gpuring_net_ring *ring = &link->base.count[protocol].memory;
    const struct gpuring_verbs_sent sent = {
        .data = true, .protocol = (uint8_t) protocol, .step = step};
    uint32_t imm = (uint32_t) protocol << 30 |
                   VERBS_LOW(head, VERBS_IMM_PAIR_BITS) << VERBS_IMM_PAIR_AT |
                   VERBS_LOW(step, VERBS_IMM_STEP_BITS);
    uint64_t offset = step % ring->nslots * ring->slot_bytes;
    struct gpuring_verbs_rail *rail = next_rail(link);
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) ring->slots + offset, .length = bytes};
    struct ibv_send_wr wr = {.sg_list = &piece,
                             .num_sge = bytes > 0 ? 1 : 0,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = htonl(imm),
                             .wr.rdma = {.remote_addr = link->peer.slots[protocol] + offset}};
    uint32_t blocks;

    if (bytes > ring->slot_bytes) {
        gpuring_verbs_link_fail(link, &link->rail[0], GPURING_ERR_DATA,
                                "a chunk is larger than its slot", "the FIFO's memory is corrupt");
        return link->base.status;
    }
    if (rail == NULL) {
        return GPURING_AGAIN; /* the peer has closed the link, and its last rail has failed */
    }
    piece.lkey = rail->mr->mr->lkey;
    wr.wr.rdma.rkey = remote_key(link, rail);
    blocks = blocks_before(rail, bytes);
    if (blocks > 0) {
        return post_in_two(link, rail, blocks, &wr, &sent);
    }
    wr.send_flags = bytes <= rail->max_inline ? IBV_SEND_INLINE : 0;
    return post_send(link, rail, &wr, &sent,
                     !more || bytes >= ASK_BYTES ? ASK : ASK_IF_NONE_IS_PENDING);
}

int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes, bool more, uint64_t head)
{
    if (link->peer_closed) {
        gpuring_verbs_link_fail(link, &link->rail[0], GPURING_ERR_PEER,
                                "the peer has closed the connection",
                                "it freed the communicator or ended: see its output");
    }
    return link->base.status != GPURING_OK
               ? link->base.status
               : gpuring_verbs_post_slot(link, protocol, step, bytes, more, head);
}

/* Post a message without data. report: request a completion. */
static int post_empty(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                      enum ibv_wr_opcode opcode, uint32_t imm, bool report)
{
    const struct gpuring_verbs_sent sent = {.data = false};
    struct ibv_send_wr wr = {
        .opcode = opcode,
        .imm_data = htonl(imm),
        .wr.rdma = {.remote_addr = link->peer.slots[0], .rkey = remote_key(link, rail)}};

    return post_send(link, rail, &wr, &sent, report ? ASK : ASK_IF_NONE_IS_PENDING);
}

int gpuring_verbs_post_credit(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              enum gpuring_protocol protocol, uint64_t head)
{
    return post_empty(link, rail, IBV_WR_RDMA_WRITE_WITH_IMM,
                      (uint32_t) protocol << 30 | VERBS_LOW(head, VERBS_IMM_HEAD_BITS), false);
}

int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head)
{
    struct gpuring_verbs_rail *rail = gpuring_verbs_first_up(link);
    int status = link->base.status;

    if (status == GPURING_OK && !link->peer_closed && rail != NULL) {
        status = gpuring_verbs_post_credit(link, rail, protocol, head);
    }
    return status;
}

int gpuring_verbs_post_control(struct gpuring_net_link *link, struct gpuring_verbs_rail *on,
                               enum gpuring_verbs_control kind, unsigned rail, unsigned protocol,
                               uint64_t number)
{
    return post_empty(link, on, IBV_WR_RDMA_WRITE_WITH_IMM,
                      VERBS_IMM_CONTROL << 30 | (uint32_t) kind << VERBS_IMM_KIND_AT |
                          rail << VERBS_IMM_RAIL_AT | protocol << VERBS_IMM_PROTOCOL_AT |
                          VERBS_LOW(number, VERBS_IMM_NUMBER_BITS),
                      true);
}

void gpuring_verbs_abort(struct gpuring_net_link *link, int status)
{
    struct gpuring_verbs_rail *on = gpuring_verbs_first_up(link);

    if (link->base.status == GPURING_OK && !link->peer_closed && on != NULL) {
        /* If there is no room for the message, the peer detects the failure by its timeout. */
        gpuring_verbs_post_control(link, on, GPURING_VERBS_ABORT, 0, 0, (uint64_t) -status);
    }
}

void gpuring_verbs_probe(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    post_empty(link, rail, IBV_WR_RDMA_WRITE, 0, true);
}

static void probe_rails(struct gpuring_net_link *link, uint64_t now, bool slept)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        struct gpuring_verbs_rail *rail = &link->rail[r];

        if (rail->state != GPURING_VERBS_UP ||
            (r >= link->nlanes && rail != gpuring_verbs_first_up(link))) {
            continue; /* a spare is probed only when it is needed */
        }
        if (slept || rail->active) {
            rail->active_ns = now;
            rail->active = false;
        } else if (now - rail->active_ns > IDLE_NS && rail->sq_asked <= rail->sq_done) {
            gpuring_verbs_probe(link, rail);
        }
    }
}

void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now, bool slept)
{
    struct gpuring_net_link *link;

    GPURING_NET_EACH_LINK(net, link)
    {
        if (link->ready && !link->peer_closed && link->base.status == GPURING_OK) {
            probe_rails(link, now, slept);
        }
    }
}
