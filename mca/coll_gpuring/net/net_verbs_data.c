/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data path of the net `verbs`. The formats of the immediate value stand in net_verbs.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_verbs.h"
#include "mca/coll_gpuring/net/proxy_thread.h"
#include "mca/coll_gpuring/util/status.h"

#define IMM_CONTROL      3u
#define IMM_STEP_BITS    23
#define IMM_HEAD_BITS    30
#define IMM_NUMBER_BITS  22
#define IMM_KIND_AT      27
#define IMM_RAIL_AT      24
#define IMM_PROTOCOL_AT  22
#define ASK_EVERY        4    /* sends: how many may pass unreported while a report is awaited */
#define ASK_BYTES        8192 /* what a slot holds for which a report costs nothing */
#define RECEIVE_BATCH    64
#define POLL_BATCH       32
#define IDLE_NS          UINT64_C(1000000000)
#define LOW(value, bits) ((uint32_t) (value) & ((UINT32_C(1) << (bits)) - 1))

_Static_assert(GPURING_PROTOCOL_COUNT <= IMM_CONTROL, "two bits of the immediate value");
_Static_assert(GPURING_VERBS_MAX_RAILS <= 8, "three bits of it");

/*
 * Work request ids:  | place of the link in the table | rail | receive | flush | bits of a number |
 *                     63                            32 31  29 28        27      26              0
 */
#define ID_RAIL_AT 29
#define ID_RECEIVE (UINT64_C(1) << 28)
#define ID_FLUSH   (UINT64_C(1) << 27)
#define ID_NUMBER  (ID_FLUSH - 1)

static uint64_t make_id(const struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                        uint64_t low)
{
    return (link->base.id & UINT32_MAX) << 32 | (uint64_t) (rail - link->rail) << ID_RAIL_AT | low;
}

uint64_t gpuring_verbs_flush_id(const struct gpuring_net_link *link,
                                const struct gpuring_verbs_rail *rail)
{
    return make_id(link, rail, ID_FLUSH);
}

/* The count next to `known` that has these low bits: a little more, or a little less. */
static uint64_t nearest(uint64_t known, uint32_t low, int bits)
{
    uint32_t ahead = LOW(low - (uint32_t) known, bits);

    return known + ahead - (ahead >> (bits - 1) != 0 ? UINT64_C(1) << bits : 0);
}

int gpuring_verbs_receives(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                           unsigned count)
{
    struct ibv_recv_wr list[RECEIVE_BATCH], *bad;
    int error = 0;

    while (count > 0 && error == 0) {
        unsigned batch = count < RECEIVE_BATCH ? count : RECEIVE_BATCH;

        for (unsigned i = 0; i < batch; i++) {
            list[i] = (struct ibv_recv_wr){.wr_id = make_id(link, rail, ID_RECEIVE),
                                           .next = i + 1 < batch ? &list[i + 1] : NULL};
        }
        error = ibv_post_recv(rail->qp, list, &bad);
        rail->receives += error == 0 ? batch : 0;
        count -= batch;
    }
    return error;
}

struct gpuring_verbs_rail *gpuring_verbs_first_up(struct gpuring_net_link *link)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        if (link->rail[r].state == GPURING_VERBS_UP) {
            return &link->rail[r];
        }
    }
    return NULL;
}

/* For the next slot: the lanes in turn; when none is left, a spare. */
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

/* Post one send; what it is goes into the rail's log. */
static int post_send(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                     struct ibv_send_wr *wr, const struct gpuring_verbs_sent *sent, bool report)
{
    struct ibv_send_wr *bad;
    int error;

    if (rail->sq_posted - rail->sq_done >= link->send_room) {
        return GPURING_AGAIN;
    }
    if (report || rail->sq_asked <= rail->sq_done ||
        rail->sq_posted + 1 - rail->sq_asked >= ASK_EVERY) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    wr->wr_id = make_id(link, rail, rail->sq_posted & ID_NUMBER);
    error = ibv_post_send(rail->qp, wr, &bad);
    if (error == ENOMEM) {
        return GPURING_AGAIN;
    }
    if (error != 0) {
        gpuring_verbs_rail_fail(link, rail, strerror(error),
                                "the device refused a send: see the kernel's log (dmesg)");
        return link->base.status != GPURING_OK ? link->base.status : GPURING_AGAIN;
    }
    rail->sent[rail->sq_posted % link->send_room] = *sent;
    rail->sq_posted++;
    if (sent->kind == GPURING_VERBS_DATA) {
        rail->sq_data = rail->sq_posted;
    }
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

int gpuring_verbs_post_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                            uint64_t step, uint32_t bytes, bool more)
{
    struct gpuring_net_count *count = &link->base.count[protocol];
    const struct gpuring_net_ring *ring = &count->memory;
    const struct gpuring_verbs_sent sent = {
        .kind = GPURING_VERBS_DATA, .protocol = (uint8_t) protocol, .step = step};
    uint64_t offset = step % ring->nslots * ring->slot_bytes;
    struct gpuring_verbs_rail *rail = next_rail(link);
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) ring->slots + offset, .length = bytes};
    struct ibv_send_wr wr = {.sg_list = &piece,
                             .num_sge = bytes > 0 ? 1 : 0,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data =
                                 htonl((uint32_t) protocol << 30 | LOW(step, IMM_STEP_BITS)),
                             .wr.rdma = {.remote_addr = link->peer.slots[protocol] + offset}};

    if (bytes > ring->slot_bytes) {
        gpuring_verbs_link_fail(link, &link->rail[0], GPURING_ERR_DATA,
                                "a chunk is larger than its slot", "the FIFO's memory is corrupt");
        return link->base.status;
    }
    if (rail == NULL) {
        return GPURING_AGAIN; /* the peer has closed, and what was left of the link has failed */
    }
    piece.lkey = rail->mr->mr->lkey;
    wr.wr.rdma.rkey = remote_key(link, rail);
    wr.send_flags = bytes <= rail->max_inline ? IBV_SEND_INLINE : 0;
    count->size[step % ring->nslots] = bytes; /* should it have to be repeated */
    return post_send(link, rail, &wr, &sent, !more || bytes >= ASK_BYTES);
}

int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes, bool more)
{
    int status;

    gpuring_gate_reenter(&link->base.net->gate);
    if (link->peer_closed) {
        gpuring_verbs_link_fail(link, &link->rail[0], GPURING_ERR_PEER,
                                "the peer has closed the connection",
                                "it freed the communicator or ended: see its output");
    }
    status = link->base.status != GPURING_OK
                 ? link->base.status
                 : gpuring_verbs_post_slot(link, protocol, step, bytes, more);
    gpuring_gate_leave(&link->base.net->gate);
    return status;
}

/* A message without bytes. */
static int post_empty(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                      enum ibv_wr_opcode opcode, uint32_t imm,
                      const struct gpuring_verbs_sent *sent)
{
    struct ibv_send_wr wr = {.opcode = opcode,
                             .imm_data = htonl(imm),
                             .wr.rdma = {.remote_addr = link->peer.slots[sent->protocol],
                                         .rkey = remote_key(link, rail)}};

    return post_send(link, rail, &wr, sent, sent->kind == GPURING_VERBS_PROBE);
}

int gpuring_verbs_post_credit(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              enum gpuring_protocol protocol, uint64_t head)
{
    const struct gpuring_verbs_sent sent = {
        .kind = GPURING_VERBS_CREDIT, .protocol = (uint8_t) protocol, .step = head};

    return post_empty(link, rail, IBV_WR_RDMA_WRITE_WITH_IMM,
                      (uint32_t) protocol << 30 | LOW(head, IMM_HEAD_BITS), &sent);
}

int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head)
{
    struct gpuring_verbs_rail *rail;
    int status;

    gpuring_gate_reenter(&link->base.net->gate);
    status = link->base.status;
    rail = gpuring_verbs_first_up(link);
    if (status == GPURING_OK && !link->peer_closed && rail != NULL) { /* who closed needs none */
        status = gpuring_verbs_post_credit(link, rail, protocol, head);
        link->head[protocol] = status == GPURING_OK ? head : link->head[protocol];
    }
    gpuring_gate_leave(&link->base.net->gate);
    return status;
}

int gpuring_verbs_post_control(struct gpuring_net_link *link, struct gpuring_verbs_rail *on,
                               enum gpuring_verbs_control kind, unsigned rail, unsigned protocol,
                               uint64_t number)
{
    const struct gpuring_verbs_sent sent = {.kind = GPURING_VERBS_PROBE};

    return post_empty(link, on, IBV_WR_RDMA_WRITE_WITH_IMM,
                      IMM_CONTROL << 30 | (uint32_t) kind << IMM_KIND_AT | rail << IMM_RAIL_AT |
                          protocol << IMM_PROTOCOL_AT | LOW(number, IMM_NUMBER_BITS),
                      &sent);
}

void gpuring_verbs_abort(struct gpuring_net_link *link, int status)
{
    struct gpuring_verbs_rail *on;

    gpuring_gate_enter(&link->base.net->gate);
    on = gpuring_verbs_first_up(link);
    if (link->base.status == GPURING_OK && !link->peer_closed && on != NULL) {
        /* Where there is no room for it, the peer runs into its timeout. */
        gpuring_verbs_post_control(link, on, GPURING_VERBS_ABORT, 0, 0, (uint64_t) -status);
    }
    gpuring_gate_leave(&link->base.net->gate);
}

static void probe(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    const struct gpuring_verbs_sent sent = {.kind = GPURING_VERBS_PROBE};

    post_empty(link, rail, IBV_WR_RDMA_WRITE, 0, &sent);
}

static void probe_rails(struct gpuring_net_link *link, uint64_t now, bool slept)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        struct gpuring_verbs_rail *rail = &link->rail[r];

        if (rail->state != GPURING_VERBS_UP ||
            (r >= link->nlanes && rail != gpuring_verbs_first_up(link))) {
            continue; /* a spare is tried when it is needed */
        }
        if (slept) {
            rail->active_ns = now;
        } else if (now - rail->active_ns > IDLE_NS && rail->sq_asked <= rail->sq_done) {
            probe(link, rail);
        }
    }
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

        if (link != NULL && link->connected && link->base.user != NULL && !link->peer_closed &&
            link->base.status == GPURING_OK) {
            probe_rails(link, now, slept);
        }
    }
}

/* Count a step that may come out of turn. */
static void count_step(uint64_t *early, uint64_t *count, uint64_t step)
{
    if (step < *count) {
        return;
    }
    *early |= UINT64_C(1) << (step % 64);
    while ((*early >> (*count % 64) & 1) != 0) {
        *early &= ~(UINT64_C(1) << (*count % 64));
        (*count)++;
    }
}

void gpuring_verbs_slot_arrived(struct gpuring_net_link *link, unsigned protocol, uint64_t step)
{
    count_step(&link->early[protocol], &link->base.count[protocol].arrived, step);
    gpuring_net_base_news(&link->base);
}

void gpuring_verbs_slot_done(struct gpuring_net_link *link, unsigned protocol, uint64_t step)
{
    count_step(&link->early[protocol], &link->base.count[protocol].done, step);
    gpuring_net_base_news(&link->base);
}

/* Every send of the rail before number `until` is done. */
static void sends_done(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint64_t until)
{
    while (rail->sq_done < until) {
        const struct gpuring_verbs_sent *sent = &rail->sent[rail->sq_done++ % link->send_room];

        if (sent->kind == GPURING_VERBS_DATA) {
            gpuring_verbs_slot_done(link, sent->protocol, sent->step);
        }
    }
    if (rail->sq_done < rail->sq_data && rail->sq_asked <= rail->sq_done &&
        rail->state == GPURING_VERBS_UP) {
        /* The rest would not be reported; without room now, probe_idle does it later. */
        probe(link, rail);
    }
}

static void impossible(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail)
{
    gpuring_verbs_link_fail(link, rail, GPURING_ERR_DATA, "an impossible message arrived",
                            "does the peer run the same version of coll/gpuring?");
}

static void data_arrived(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint32_t imm, uint32_t wire)
{
    struct gpuring_net_count *count = &link->base.count[protocol];
    uint64_t step = nearest(count->arrived, imm, IMM_STEP_BITS);

    /* A negative step is a very large one. */
    if (count->memory.slots == NULL || wire > count->memory.slot_bytes ||
        (step >= count->arrived && step - count->arrived >= count->memory.nslots)) {
        impossible(link, rail);
    } else if (step < count->arrived || (link->early[protocol] >> (step % 64) & 1) != 0) {
        impossible(link, rail); /* it may have overwritten what is being read */
    } else {
        count->size[step % count->memory.nslots] = wire;
        if (rail->flush_qp != NULL) {
            gpuring_verbs_flush(link, rail, protocol, step, wire);
        } else {
            gpuring_verbs_slot_arrived(link, protocol, step);
        }
    }
}

/* Heads only grow, but what several rails bring may overtake; the proxy is told of growth only. */
static void credit_arrived(struct gpuring_net_link *link, unsigned protocol, uint32_t imm)
{
    struct gpuring_net_count *count = &link->base.count[protocol];
    uint64_t head = nearest(count->credit, imm, IMM_HEAD_BITS);

    if ((int64_t) (head - count->credit) > 0) {
        count->credit = head;
        gpuring_net_base_news(&link->base);
    }
}

static void control_arrived(struct gpuring_net_link *link, struct gpuring_verbs_rail *on,
                            uint32_t imm)
{
    char why[160];
    unsigned rail = imm >> IMM_RAIL_AT & 7, protocol = imm >> IMM_PROTOCOL_AT & 3;

    switch (imm >> IMM_KIND_AT & 7) {
    case GPURING_VERBS_BYE:
        link->peer_closed = true;
        gpuring_verbs_give_up(link);
        break;
    case GPURING_VERBS_ARRIVED:
        if (rail < link->nrails && protocol < GPURING_PROTOCOL_COUNT) {
            gpuring_verbs_peer_arrived(
                on, &link->rail[rail], protocol,
                nearest(link->base.count[protocol].done, imm, IMM_NUMBER_BITS));
        }
        break;
    case GPURING_VERBS_EARLY:
        if (rail < link->nrails && protocol < GPURING_PROTOCOL_COUNT) {
            gpuring_verbs_peer_early(on, &link->rail[rail], protocol, LOW(imm, IMM_NUMBER_BITS));
        }
        break;
    case GPURING_VERBS_ABORT:
        snprintf(why, sizeof why, "the peer has given up: %s",
                 gpuring_status_text(-(int) LOW(imm, IMM_NUMBER_BITS)));
        gpuring_verbs_link_fail(link, on, GPURING_ERR_ABORTED, why, "see its output");
        break;
    default:
        if (rail < link->nrails) {
            gpuring_verbs_peer_lost(link, rail);
        }
    }
}

static void received(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                     const struct ibv_wc *wc)
{
    uint32_t imm = ntohl(wc->imm_data);
    unsigned protocol = imm >> 30;

    if (protocol == IMM_CONTROL) {
        control_arrived(link, rail, imm);
    } else if (link->base.direction == GPURING_NET_RECV) {
        data_arrived(link, rail, protocol, imm, wc->byte_len);
    } else {
        credit_arrived(link, protocol, imm);
    }
    if (rail->state == GPURING_VERBS_UP &&
        link->receive_room - rail->receives >= link->receive_batch) {
        int error = gpuring_verbs_receives(link, rail, link->receive_room - rail->receives);

        if (error != 0) {
            gpuring_verbs_rail_fail(link, rail, strerror(error),
                                    "the device refused a receive: see the kernel's log (dmesg)");
        }
    }
}

/* Whose completion is it? NULL: of a link that was closed meanwhile. Numbers of queue pairs are
 * unique within a device only. */
static struct gpuring_verbs_rail *rail_of(struct gpuring_net_link *link,
                                          const struct gpuring_verbs_adapter *adapter,
                                          const struct ibv_wc *wc)
{
    unsigned number = (unsigned) (wc->wr_id >> ID_RAIL_AT & 7);
    struct gpuring_verbs_rail *rail = &link->rail[number];
    const struct ibv_qp *qp = (wc->wr_id & ID_FLUSH) != 0 ? rail->flush_qp : rail->qp;

    return number < link->nrails && qp != NULL && qp->qp_num == wc->qp_num &&
                   rail->port->adapter == adapter
               ? rail
               : NULL;
}

static void completed(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter,
                      const struct ibv_wc *wc, uint64_t now)
{
    struct gpuring_net_link *link =
        (struct gpuring_net_link *) gpuring_net_base_at(&net->base, (uint32_t) (wc->wr_id >> 32));
    struct gpuring_verbs_rail *rail = link != NULL ? rail_of(link, adapter, wc) : NULL;
    uint64_t low = wc->wr_id & ID_NUMBER;

    if (rail == NULL) {
        return;
    }
    rail->receives -= (wc->wr_id & ID_RECEIVE) != 0;
    rail->flush_busy = rail->flush_busy && (wc->wr_id & ID_FLUSH) == 0;
    if (wc->status != IBV_WC_SUCCESS && (wc->wr_id & ID_FLUSH) != 0 && rail->flush_last &&
        !link->peer_closed) {
        gpuring_verbs_flush_failed(link, rail);
    } else if (wc->status != IBV_WC_SUCCESS) {
        gpuring_verbs_rail_fail_wc(link, rail, wc);
    } else {
        rail->active_ns = now;
        if ((wc->wr_id & ID_FLUSH) != 0) {
            gpuring_verbs_flushed(link, rail);
        } else if ((wc->wr_id & ID_RECEIVE) != 0) {
            received(link, rail, wc);
        } else if (!rail->repeated) {
            /* The number whose low bits these are; less than send_room are under way. */
            sends_done(link, rail, rail->sq_done + ((low - rail->sq_done) & ID_NUMBER) + 1);
        }
    }
    gpuring_verbs_rail_drained(link, rail);
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
                completed(net, adapter, &wc[i], now);
            }
            total += count > 0 ? count : 0;
        }
    }
    return total;
}
