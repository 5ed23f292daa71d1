/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Completions of the net `verbs`: sends that are done, and messages from the peer. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/status.h"

#define POLL_BATCH 32

/* Return the count nearest to `known` that has these low bits. */
static uint64_t nearest(uint64_t known, uint32_t low, int bits)
{
    uint32_t ahead = VERBS_LOW(low - (uint32_t) known, bits);

    return known + ahead - (ahead >> (bits - 1) != 0 ? UINT64_C(1) << bits : 0);
}

/* Complete all sends of the rail before number `until`. */
static void sends_done(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                       uint64_t until)
{
    while (rail->sq_done < until) {
        const struct gpuring_verbs_sent *sent = &rail->sent[rail->sq_done++ % ep->send_room];

        if (sent->link != NULL) {
            sent->link->in_flight--;
            gpuring_net_base_done(&sent->link->base, sent->protocol, sent->step);
        }
    }
    if (rail->sq_done < rail->sq_data && rail->sq_asked <= rail->sq_done &&
        rail->state == GPURING_VERBS_UP) {
        /* No completion is pending for the remaining slots. If there is no room for a probe now,
         * probe_idle sends it later. */
        gpuring_verbs_probe(ep, rail);
    }
}

static void data_arrived(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint32_t imm, uint32_t wire)
{
    struct gpuring_net_count *count = &link->base.count[protocol];
    uint64_t step = nearest(count->done, imm >> VERBS_IMM_STEP_AT, VERBS_IMM_STEP_BITS);

    wire += VERBS_LOW(imm >> VERBS_IMM_BLOCKS_AT, VERBS_IMM_BLOCKS_BITS) * link->block[protocol];
    if (count->memory.slots == NULL || wire > count->memory.slot_bytes || step < count->done ||
        step - count->done >= count->memory.nslots || (count->early >> (step % 64) & 1) != 0) {
        /* The message may have overwritten a slot that a lane is reading. */
        gpuring_verbs_link_fail(link, rail, GPURING_ERR_DATA, "an impossible message arrived",
                                "does the peer run the same version of coll/gpuring?");
    } else {
        count->memory.tail->size[step % count->memory.nslots] = wire;
        if (link->flushes) {
            gpuring_verbs_flush(link, rail, protocol, step);
        } else {
            gpuring_net_base_done(&link->base, protocol, step);
        }
    }
}

/* Handle the head of a data message, which is not older than the known one. */
static void pair_head_arrived(struct gpuring_net_base_link *pair, unsigned protocol, uint32_t imm)
{
    uint64_t known = pair->count[protocol].credit;

    gpuring_net_base_credit(
        pair, protocol,
        known + VERBS_LOW((imm >> VERBS_IMM_PAIR_AT) - (uint32_t) known, VERBS_IMM_PAIR_BITS));
}

static void arrived_reported(struct gpuring_net_link *link, unsigned protocol, uint32_t number)
{
    uint64_t posted = link->base.count[protocol].posted;
    uint32_t low = number >> GPURING_VERBS_MAX_SLOTS;

    /* At most MAX_SLOTS of the posted slots have not arrived. */
    gpuring_verbs_peer_has(link, protocol,
                           posted - VERBS_LOW((uint32_t) posted - low, VERBS_IMM_STEP_BITS),
                           VERBS_LOW(number, GPURING_VERBS_MAX_SLOTS));
}

/* Handle a control message. link: the one that it names, or NULL. */
static void control_arrived(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *on,
                            struct gpuring_net_link *link, uint32_t imm)
{
    char why[160];
    unsigned protocol = imm >> VERBS_IMM_PROTOCOL_AT & 3, on_number;
    uint32_t number = VERBS_LOW(imm >> VERBS_IMM_NUMBER_AT, VERBS_IMM_NUMBER_BITS);
    enum gpuring_verbs_control kind = imm >> VERBS_IMM_KIND_AT & 3;
    bool late;

    on_number = gpuring_verbs_rail_number(ep, on);
    if (kind == GPURING_VERBS_BYE && link != NULL) {
        link->peer_bye |= number;
        link->peer_bye_seen |= 1u << on_number;
        gpuring_verbs_link_heard_bye(link);
        return;
    }
    late = on_number < ep->heard_on;
    ep->heard_on = late ? ep->heard_on : on_number;
    if (kind == GPURING_VERBS_ABORT && link != NULL) {
        snprintf(why, sizeof why, "the peer has given up: %s", gpuring_status_text(-(int) number));
        gpuring_verbs_link_fail(link, on, GPURING_ERR_ABORTED, why, "see its output");
        link->aborts = 0; /* the peer knows */
    } else if (kind == GPURING_VERBS_ARRIVED && link != NULL && !late &&
               protocol < GPURING_PROTOCOL_COUNT) {
        arrived_reported(link, protocol, number);
    } else if (kind == GPURING_VERBS_LOST && !late && number < ep->nrails) {
        gpuring_verbs_peer_lost(ep, &ep->rail[number]);
    }
}

/* Handle a slot or a credit of a link. */
static void link_message(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         const struct ibv_wc *wc, uint32_t imm)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    unsigned protocol = imm >> 30, number = gpuring_verbs_rail_number(ep, rail);
    bool data = link->base.direction == GPURING_NET_RECV;
    bool head = !data || (imm & VERBS_IMM_HAS_HEAD) != 0;

    if (head && number > ep->heard_on) {
        ep->heard_on = number;
    }
    if (!data) {
        uint64_t known = link->base.count[protocol].credit;
        uint64_t credit = nearest(known, imm >> VERBS_IMM_HEAD_AT, VERBS_IMM_HEAD_BITS);

        /* Credits of several rails may arrive out of order. Below zero they are very large. */
        if ((int64_t) (credit - known) > 0) {
            gpuring_net_base_credit(&link->base, protocol, credit);
        }
        return;
    }
    if (head && number == ep->heard_on && link->base.pair != NULL) {
        pair_head_arrived(link->base.pair, protocol, imm);
    }
    if (!link->left) { /* otherwise the peer may repeat a slot, because this end reports no more */
        data_arrived(link, rail, protocol, imm, wc->byte_len);
    }
}

static void message_arrived(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                            const struct ibv_wc *wc)
{
    uint32_t imm = ntohl(wc->imm_data), number = VERBS_LOW(imm, VERBS_IMM_LINK_BITS);
    struct gpuring_net_link *link = number < ep->nlinks ? ep->links[number] : NULL;

    link = link != NULL && link->connected ? link : NULL;
    if (imm >> 30 == VERBS_IMM_CONTROL) {
        control_arrived(ep, rail, link, imm);
    } else if (link != NULL) {
        if (!link->ready) { /* link_ready was not called yet */
            gpuring_verbs_peer_is_ready(link);
        }
        link_message(link, rail, wc, imm);
    } else {
        gpuring_verbs_endpoint_fail(ep, rail, GPURING_ERR_DATA, "a message for no link arrived",
                                    "does the peer run the same version of coll/gpuring?");
    }
    if (rail->state == GPURING_VERBS_UP && rail->receives <= ep->repost_at) {
        int error = gpuring_verbs_receives(ep, rail, ep->receive_room - rail->receives);

        if (error != 0) {
            gpuring_verbs_rail_fail(ep, rail, strerror(error),
                                    "the device refused a receive: see the kernel's log (dmesg)");
        }
    }
}

/* Return the rail of a completion, or NULL if its endpoint was released in the meantime, and its
 * place in the table may have a new one. Numbers of queue pairs are unique within one device
 * only. */
static struct gpuring_verbs_rail *rail_of(struct gpuring_verbs_endpoint *ep,
                                          const struct gpuring_verbs_adapter *adapter,
                                          const struct ibv_wc *wc)
{
    unsigned number = (unsigned) (wc->wr_id >> VERBS_ID_RAIL_AT & 7);
    struct gpuring_verbs_rail *rail = &ep->rail[number];
    const struct ibv_qp *qp = (wc->wr_id & VERBS_ID_FLUSH) != 0 ? rail->flush_qp : rail->qp;

    return number < ep->nrails && qp != NULL && qp->qp_num == wc->qp_num &&
                   rail->port->adapter == adapter
               ? rail
               : NULL;
}

static void completed(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter,
                      const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t) (wc->wr_id >> 32);
    struct gpuring_verbs_endpoint *ep = index < net->nendpoints ? net->endpoint[index] : NULL;
    struct gpuring_verbs_rail *rail = ep != NULL && ep->connected ? rail_of(ep, adapter, wc) : NULL;
    uint64_t low = wc->wr_id & VERBS_ID_NUMBER;

    if (rail == NULL) {
        return;
    }
    rail->receives -= (wc->wr_id & VERBS_ID_RECEIVE) != 0;
    rail->flush_busy = rail->flush_busy && (wc->wr_id & VERBS_ID_FLUSH) == 0;
    if (wc->status != IBV_WC_SUCCESS && (wc->wr_id & VERBS_ID_FLUSH) != 0 && rail->flush_last &&
        gpuring_verbs_in_use(ep)) {
        gpuring_verbs_flush_failed(ep, rail);
    } else if (wc->status != IBV_WC_SUCCESS) {
        gpuring_verbs_rail_fail_wc(ep, rail, wc);
    } else {
        rail->active = true;
        if ((wc->wr_id & VERBS_ID_FLUSH) != 0) {
            gpuring_verbs_flushed(ep, rail);
        } else if ((wc->wr_id & VERBS_ID_RECEIVE) != 0) {
            message_arrived(ep, rail, wc);
        } else if (!rail->repeating) {
            /* Complete the low bits of the number: fewer than send_room sends are in flight. */
            sends_done(ep, rail, rail->sq_done + ((low - rail->sq_done) & VERBS_ID_NUMBER) + 1);
        }
    }
}

/* Process the next completions of a queue. Returns their number. */
static int poll_once(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter,
                     struct gpuring_verbs_cq *cq)
{
    struct ibv_wc wc[POLL_BATCH];
    int count = ibv_poll_cq(cq->cq, POLL_BATCH, wc);

    cq->more = count == POLL_BATCH;
    for (int i = 0; i < count; i++) {
        completed(net, adapter, &wc[i]);
    }
    return count > 0 ? count : 0;
}

int gpuring_verbs_completions(struct gpuring_net *net)
{
    int total = 0;

    for (struct gpuring_verbs_adapter *adapter = net->adapters; adapter != NULL;
         adapter = adapter->next) {
        struct gpuring_verbs_cq *cq;

        GPURING_LIST_EACH(cq, &adapter->cqs, struct gpuring_verbs_cq, node)
        {
            total += poll_once(net, adapter, cq);
        }
    }
    return total;
}
