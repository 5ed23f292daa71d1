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
static void sends_done(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint64_t until)
{
    while (rail->sq_done < until) {
        const struct gpuring_verbs_sent *sent = &rail->sent[rail->sq_done++ % link->send_room];

        if (sent->data) {
            gpuring_net_base_done(&link->base, sent->protocol, sent->step);
        }
    }
    if (rail->sq_done < rail->sq_data && rail->sq_asked <= rail->sq_done &&
        rail->state == GPURING_VERBS_UP) {
        /* No completion is pending for the remaining slots. If there is no room for a probe now,
         * probe_idle sends it later. */
        gpuring_verbs_probe(link, rail);
    }
}

static void data_arrived(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint32_t imm, uint32_t wire)
{
    struct gpuring_net_count *count = &link->base.count[protocol];
    uint64_t step = nearest(count->done, imm, VERBS_IMM_STEP_BITS);

    if (count->memory.slots == NULL || wire > count->memory.slot_bytes || step < count->done ||
        step - count->done >= count->memory.nslots || (count->early >> (step % 64) & 1) != 0) {
        /* The message may have overwritten a slot that a lane is reading. */
        gpuring_verbs_link_fail(link, rail, GPURING_ERR_DATA, "an impossible message arrived",
                                "does the peer run the same version of coll/gpuring?");
    } else {
        count->memory.tail->size[step % count->memory.nslots] = wire;
        if (rail->flush_qp != NULL) {
            gpuring_verbs_flush(link, rail, protocol, step, wire);
        } else {
            gpuring_net_base_done(&link->base, protocol, step);
        }
    }
}

/* Handle a head. Heads from several rails and links may arrive out of order, so a head may be a
 * little less than the known one. Below zero it is a very large number. */
static void head_arrived(struct gpuring_net_base_link *link, unsigned protocol, uint32_t imm,
                         int bits)
{
    uint64_t known = link->count[protocol].credit, head = nearest(known, imm, bits);

    if ((int64_t) (head - known) > 0) {
        gpuring_net_base_credit(link, protocol, head);
    }
}

static void control_arrived(struct gpuring_net_link *link, struct gpuring_verbs_rail *on,
                            uint32_t imm)
{
    char why[160];
    unsigned number = imm >> VERBS_IMM_RAIL_AT & 7, protocol = imm >> VERBS_IMM_PROTOCOL_AT & 3;
    struct gpuring_verbs_rail *rail = &link->rail[number];

    if (number >= link->nrails || protocol >= GPURING_PROTOCOL_COUNT) {
        return;
    }
    switch (imm >> VERBS_IMM_KIND_AT & 7) {
    case GPURING_VERBS_BYE:
        link->peer_closed = true;
        gpuring_verbs_give_up(link);
        break;
    case GPURING_VERBS_ARRIVED:
        gpuring_verbs_peer_has(link, rail, protocol,
                               nearest(link->base.count[protocol].done,
                                       imm >> GPURING_VERBS_MAX_SLOTS,
                                       VERBS_IMM_NUMBER_BITS - GPURING_VERBS_MAX_SLOTS),
                               VERBS_LOW(imm, GPURING_VERBS_MAX_SLOTS));
        break;
    case GPURING_VERBS_ABORT:
        snprintf(why, sizeof why, "the peer has given up: %s",
                 gpuring_status_text(-(int) VERBS_LOW(imm, VERBS_IMM_NUMBER_BITS)));
        gpuring_verbs_link_fail(link, on, GPURING_ERR_ABORTED, why, "see its output");
        break;
    default:
        gpuring_verbs_peer_lost(link, rail);
    }
}

static void slot_received(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                          const struct ibv_wc *wc)
{
    uint32_t imm = ntohl(wc->imm_data);
    unsigned protocol = imm >> 30;

    if (protocol == VERBS_IMM_CONTROL) {
        control_arrived(link, rail, imm);
    } else if (link->base.direction == GPURING_NET_RECV) {
        if (link->base.pair != NULL) {
            head_arrived(link->base.pair, protocol, imm >> VERBS_IMM_PAIR_AT, VERBS_IMM_PAIR_BITS);
        }
        data_arrived(link, rail, protocol, imm,
                     VERBS_LOW(imm >> VERBS_IMM_STEP_BITS, VERBS_IMM_BLOCKS_BITS) *
                             GPURING_VERBS_BLOCK +
                         wc->byte_len);
    } else {
        head_arrived(&link->base, protocol, imm, VERBS_IMM_HEAD_BITS);
    }
    if (rail->state == GPURING_VERBS_UP && rail->receives <= link->messages) {
        int error = gpuring_verbs_receives(link, rail, link->receive_room - rail->receives);

        if (error != 0) {
            gpuring_verbs_rail_fail(link, rail, strerror(error),
                                    "the device refused a receive: see the kernel's log (dmesg)");
        }
    }
}

/* Return the rail of a completion, or NULL if its link was closed in the meantime, and its place in
 * the table may have a new one. Numbers of queue pairs are unique within one device only. */
static struct gpuring_verbs_rail *rail_of(struct gpuring_net_link *link,
                                          const struct gpuring_verbs_adapter *adapter,
                                          const struct ibv_wc *wc)
{
    unsigned number = (unsigned) (wc->wr_id >> VERBS_ID_RAIL_AT & 7);
    struct gpuring_verbs_rail *rail = &link->rail[number];
    const struct ibv_qp *qp = (wc->wr_id & VERBS_ID_FLUSH) != 0 ? rail->flush_qp : rail->qp;

    return number < link->nrails && qp != NULL && qp->qp_num == wc->qp_num &&
                   rail->port->adapter == adapter
               ? rail
               : NULL;
}

static void completed(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter,
                      const struct ibv_wc *wc)
{
    struct gpuring_net_link *link =
        (struct gpuring_net_link *) gpuring_net_base_at(&net->base, (uint32_t) (wc->wr_id >> 32));
    struct gpuring_verbs_rail *rail =
        link != NULL && link->connected ? rail_of(link, adapter, wc) : NULL;
    uint64_t low = wc->wr_id & VERBS_ID_NUMBER;

    if (rail == NULL) {
        return;
    }
    rail->receives -= (wc->wr_id & VERBS_ID_RECEIVE) != 0;
    rail->flush_busy = rail->flush_busy && (wc->wr_id & VERBS_ID_FLUSH) == 0;
    if (wc->status != IBV_WC_SUCCESS && (wc->wr_id & VERBS_ID_FLUSH) != 0 && rail->flush_last &&
        !link->peer_closed) {
        gpuring_verbs_flush_failed(link, rail);
    } else if (wc->status != IBV_WC_SUCCESS) {
        gpuring_verbs_rail_fail_wc(link, rail, wc);
    } else {
        rail->active = true;
        if ((wc->wr_id & VERBS_ID_FLUSH) != 0) {
            gpuring_verbs_flushed(link, rail);
        } else if ((wc->wr_id & VERBS_ID_RECEIVE) != 0) {
            slot_received(link, rail, wc);
        } else if (!rail->repeating) {
            /* Complete the low bits of the number: fewer than send_room sends are in flight. */
            sends_done(link, rail, rail->sq_done + ((low - rail->sq_done) & VERBS_ID_NUMBER) + 1);
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
