/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data path of the net `verbs`. The formats of the immediate value stand in net_verbs.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_verbs.h"
#include "mca/coll_gpuring/net/proxy_thread.h"
#include "mca/coll_gpuring/util/status.h"

#define IMM_CONTROL   3u
#define IMM_STEP_MASK UINT32_C(0x7fffff)
#define IMM_HEAD_MASK UINT32_C(0x3fffffff)
#define ASK_EVERY     4 /* sends: how many may pass unreported while a report is awaited */
#define RECEIVE_BATCH 64
#define POLL_BATCH    32
#define IDLE_NS       UINT64_C(1000000000)

_Static_assert(GPURING_PROTOCOL_COUNT <= IMM_CONTROL, "two bits of the immediate value");

/*
 * Work request ids:  | place of the link in the table | receive | low bits of the send's number |
 *                     63                            32    31      30                           0
 */
#define ID_RECEIVE (UINT64_C(1) << 31)

static uint64_t make_id(const struct gpuring_net_link *link, uint64_t low)
{
    return (link->base.id & UINT32_MAX) << 32 | low;
}

int gpuring_verbs_receives(struct gpuring_net_link *link, unsigned count)
{
    struct ibv_recv_wr list[RECEIVE_BATCH], *bad;
    int error = 0;

    while (count > 0 && error == 0) {
        unsigned batch = count < RECEIVE_BATCH ? count : RECEIVE_BATCH;

        for (unsigned i = 0; i < batch; i++) {
            list[i] = (struct ibv_recv_wr){.wr_id = make_id(link, ID_RECEIVE),
                                           .next = i + 1 < batch ? &list[i + 1] : NULL};
        }
        error = ibv_post_recv(link->qp, list, &bad);
        count -= batch;
    }
    return error;
}

/* Post one send; what it is goes into the link's log. */
static int post_send(struct gpuring_net_link *link, struct ibv_send_wr *wr,
                     const struct gpuring_verbs_sent *sent)
{
    struct ibv_send_wr *bad;
    int error;

    if (link->sq_posted - link->sq_done >= link->send_room) {
        return GPURING_AGAIN;
    }
    if (link->sq_asked <= link->sq_done || link->sq_posted + 1 - link->sq_asked >= ASK_EVERY ||
        sent->kind == GPURING_VERBS_PROBE) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    wr->wr_id = make_id(link, link->sq_posted & (ID_RECEIVE - 1));
    error = ibv_post_send(link->qp, wr, &bad);
    if (error == ENOMEM) {
        return GPURING_AGAIN;
    }
    if (error != 0) {
        gpuring_verbs_link_fail(link, GPURING_ERR_NET, strerror(error),
                                "the device refused a send: see the kernel's log (dmesg)");
        return link->base.status;
    }
    link->sent[link->sq_posted % link->send_room] = *sent;
    link->sq_posted++;
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
        link->sq_asked = link->sq_posted;
    }
    return GPURING_OK;
}

static int post_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                     uint32_t bytes)
{
    const struct gpuring_net_ring *ring = &link->base.count[protocol].memory;
    const struct gpuring_verbs_sent sent = {
        .kind = GPURING_VERBS_DATA, .protocol = (uint8_t) protocol, .step = step};
    uint64_t offset = step % ring->nslots * ring->slot_bytes;
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) ring->slots + offset,
                            .length = bytes,
                            .lkey = link->mr->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &piece,
        .num_sge = bytes > 0 ? 1 : 0,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = bytes <= link->max_inline ? IBV_SEND_INLINE : 0,
        .imm_data = htonl((uint32_t) protocol << 30 | ((uint32_t) step & IMM_STEP_MASK)),
        .wr.rdma = {.remote_addr = link->peer.slots[protocol] + offset, .rkey = link->peer.rkey}};

    if (bytes > ring->slot_bytes) {
        gpuring_verbs_link_fail(link, GPURING_ERR_DATA, "a chunk is larger than its slot",
                                "the FIFO's memory is corrupt");
        return link->base.status;
    }
    return post_send(link, &wr, &sent);
}

int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes)
{
    int status;

    gpuring_gate_reenter(&link->base.net->gate);
    if (link->peer_closed) {
        gpuring_verbs_link_fail(link, GPURING_ERR_PEER, "the peer has closed the connection",
                                "it freed the communicator or ended: see its output");
    }
    status = link->base.status != GPURING_OK ? link->base.status
                                             : post_slot(link, protocol, step, bytes);
    gpuring_gate_leave(&link->base.net->gate);
    return status;
}

/* A message without bytes. */
static int post_empty(struct gpuring_net_link *link, enum ibv_wr_opcode opcode, uint32_t imm,
                      const struct gpuring_verbs_sent *sent)
{
    struct ibv_send_wr wr = {
        .opcode = opcode,
        .imm_data = htonl(imm),
        .wr.rdma = {.remote_addr = link->peer.slots[sent->protocol], .rkey = link->peer.rkey}};

    return post_send(link, &wr, sent);
}

int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head)
{
    const struct gpuring_verbs_sent sent = {
        .kind = GPURING_VERBS_CREDIT, .protocol = (uint8_t) protocol, .step = head};
    int status;

    gpuring_gate_reenter(&link->base.net->gate);
    status = link->base.status;
    if (status == GPURING_OK && !link->peer_closed) { /* who has closed needs none */
        status = post_empty(link, IBV_WR_RDMA_WRITE_WITH_IMM,
                            (uint32_t) protocol << 30 | ((uint32_t) head & IMM_HEAD_MASK), &sent);
    }
    gpuring_gate_leave(&link->base.net->gate);
    return status;
}

static void probe(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_sent sent = {.kind = GPURING_VERBS_PROBE};

    post_empty(link, IBV_WR_RDMA_WRITE, 0, &sent);
}

void gpuring_verbs_bye(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_sent sent = {.kind = GPURING_VERBS_PROBE};

    post_empty(link, IBV_WR_RDMA_WRITE_WITH_IMM, IMM_CONTROL << 30, &sent);
}

void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now)
{
    bool slept = now - net->watched_ns > 2 * IDLE_NS; /* nobody polled: silence means nothing */

    if (now - net->watched_ns < IDLE_NS / 4) {
        return;
    }
    net->watched_ns = now;
    for (uint32_t i = 0; i < net->base.nlinks; i++) {
        struct gpuring_net_link *link =
            (struct gpuring_net_link *) gpuring_net_base_at(&net->base, i);

        if (link == NULL || !link->connected || link->base.user == NULL || link->peer_closed ||
            link->base.status != GPURING_OK) {
            continue;
        }
        if (slept) {
            link->active_ns = now;
        } else if (now - link->active_ns > IDLE_NS && link->sq_asked <= link->sq_done) {
            probe(link);
        }
    }
}

/* Every send before number `until` is done. */
static void sends_done(struct gpuring_net_link *link, uint64_t until)
{
    while (link->sq_done < until) {
        const struct gpuring_verbs_sent *sent = &link->sent[link->sq_done++ % link->send_room];

        if (sent->kind == GPURING_VERBS_DATA) {
            link->base.count[sent->protocol].done = sent->step + 1;
            gpuring_net_base_news(&link->base);
        }
    }
    if (link->sq_done < link->sq_posted && link->sq_asked <= link->sq_done) {
        probe(
            link); /* the rest would not be reported; without room now, probe_idle does it later */
    }
}

static void data_arrived(struct gpuring_net_link *link, unsigned protocol, uint32_t imm,
                         uint32_t wire)
{
    struct gpuring_net_count *count = &link->base.count[protocol];

    if (count->memory.slots == NULL || (imm & IMM_STEP_MASK) != (count->arrived & IMM_STEP_MASK) ||
        wire > count->memory.slot_bytes) {
        gpuring_verbs_link_fail(link, GPURING_ERR_DATA, "an impossible message arrived",
                                "does the peer run the same version of coll/gpuring?");
        return;
    }
    count->size[count->arrived % count->memory.nslots] = wire;
    count->arrived++;
    gpuring_net_base_news(&link->base);
}

static void credit_arrived(struct gpuring_net_link *link, unsigned protocol, uint32_t imm)
{
    struct gpuring_net_count *count = &link->base.count[protocol];

    /* Heads only grow, and by far less than the 30 bits that travel. */
    count->credit += ((imm & IMM_HEAD_MASK) - (uint32_t) count->credit) & IMM_HEAD_MASK;
    gpuring_net_base_news(&link->base);
}

static void received(struct gpuring_net_link *link, const struct ibv_wc *wc)
{
    uint32_t imm = ntohl(wc->imm_data);
    unsigned protocol = imm >> 30;
    int error = gpuring_verbs_receives(link, 1);

    if (error != 0) {
        gpuring_verbs_link_fail(link, GPURING_ERR_NET, strerror(error),
                                "the device refused a receive: see the kernel's log (dmesg)");
    } else if (protocol == IMM_CONTROL) {
        link->peer_closed = true;
    } else if (link->base.direction == GPURING_NET_RECV) {
        data_arrived(link, protocol, imm, wc->byte_len);
    } else {
        credit_arrived(link, protocol, imm);
    }
}

static void completed(struct gpuring_net *net, const struct ibv_wc *wc, uint64_t now)
{
    struct gpuring_net_link *link =
        (struct gpuring_net_link *) gpuring_net_base_at(&net->base, (uint32_t) (wc->wr_id >> 32));
    uint64_t low = wc->wr_id & (ID_RECEIVE - 1);

    if (link == NULL || link->qp == NULL || link->qp->qp_num != wc->qp_num) {
        return; /* of a link that was closed meanwhile */
    }
    if (wc->status != IBV_WC_SUCCESS) {
        if (!link->peer_closed) { /* what we still sent to it was of no interest to it */
            gpuring_verbs_link_fail_wc(link, wc);
        }
        return;
    }
    link->active_ns = now;
    if ((wc->wr_id & ID_RECEIVE) != 0) {
        received(link, wc);
    } else {
        /* The number whose low bits these are; less than send_room are under way. */
        sends_done(link, link->sq_done + ((low - link->sq_done) & (ID_RECEIVE - 1)) + 1);
    }
}

int gpuring_verbs_completions(struct gpuring_net *net)
{
    uint64_t now = 0;
    int total = 0;

    for (struct gpuring_verbs_adapter *adapter = net->adapters; adapter != NULL;
         adapter = adapter->next) {
        for (struct gpuring_verbs_cq *cq = adapter->cqs; cq != NULL; cq = cq->next) {
            struct ibv_wc wc[POLL_BATCH];
            int count = ibv_poll_cq(cq->cq, POLL_BATCH, wc);

            if (count > 0 && now == 0) {
                now = gpuring_proxy_now();
            }
            for (int i = 0; i < count; i++) {
                completed(net, &wc[i], now);
            }
            total += count > 0 ? count : 0;
        }
    }
    return total;
}
