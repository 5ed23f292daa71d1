/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The recovery of links whose rails have failed, which verbs_internal.h describes. A report to the
 * peer may be sent twice, because the rail that carried it may fail as well.
 */
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

/* How long a failed rail waits for the completions of earlier arrivals before its queue pair is
 * destroyed. */
#define DRAIN_NS UINT64_C(1000000000)

static void fail_refused(struct gpuring_net_link *link)
{
    for (unsigned r = 0; r < link->nlanes; r++) {
        struct gpuring_verbs_rail *rail = &link->rail[r];

        if (rail->refused != 0) {
            const char *what = strerror(rail->refused);

            rail->refused = 0;
            rail->state = GPURING_VERBS_UP;
            gpuring_verbs_rail_fail(link, rail, what, "do the ports reach each other?");
        }
    }
}

void gpuring_verbs_ready(struct gpuring_net_link *link)
{
    uint64_t now = gpuring_now_ns();

    gpuring_gate_enter(link->base.net->gate);
    link->ready = true;
    for (unsigned r = 0; r < link->nrails; r++) {
        link->rail[r].active_ns = now;
    }
    fail_refused(link);
    gpuring_gate_leave(link->base.net->gate);
}

void gpuring_verbs_peer_lost(struct gpuring_net_link *link, struct gpuring_verbs_rail *lost)
{
    fail_refused(link); /* the peer is ready, although our link_ready was not called yet */
    if (lost->state == GPURING_VERBS_UNUSED) {
        lost->state = GPURING_VERBS_DOWN; /* a spare that has connected at the peer's end only */
    }
    gpuring_verbs_rail_fail(link, lost, "the peer found it broken", "see its output");
    if (gpuring_verbs_has_failed(lost)) {
        lost->peer_reported = true;
        gpuring_verbs_start_recovery(link);
    }
}

void gpuring_verbs_peer_has(const struct gpuring_net_link *link, struct gpuring_verbs_rail *lost,
                            unsigned protocol, uint64_t count, uint32_t early)
{
    for (uint64_t n = lost->sq_done; n < lost->sq_posted; n++) {
        struct gpuring_verbs_sent *sent = &lost->sent[n % link->send_room];

        if (sent->protocol == protocol &&
            (sent->step < count || (sent->step - count < GPURING_VERBS_MAX_SLOTS &&
                                    (early >> (sent->step - count) & 1) != 0))) {
            sent->arrived = true;
        }
    }
}

/* Return the number field of ARRIVED. */
static uint64_t arrived_count(const struct gpuring_net_count *count)
{
    uint64_t number = count->done << GPURING_VERBS_MAX_SLOTS;

    for (unsigned n = 0; n < GPURING_VERBS_MAX_SLOTS; n++) {
        number |= (count->early >> ((count->done + n) % 64) & 1) << n;
    }
    return number;
}

/* Report to the peer that a rail is lost. A receiving end first reports its arrivals and
 * credits. */
static int report_loss(struct gpuring_net_link *link, unsigned lost, struct gpuring_verbs_rail *on)
{
    int status = GPURING_OK;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT && link->base.direction == GPURING_NET_RECV;
         p++) {
        if (link->base.count[p].memory.slots == NULL) {
            continue;
        }
        if (status == GPURING_OK) {
            status = gpuring_verbs_post_control(link, on, GPURING_VERBS_ARRIVED, lost, p,
                                                arrived_count(&link->base.count[p]));
        }
        if (status == GPURING_OK && link->base.count[p].credit > 0) {
            status = gpuring_verbs_post_credit(link, on, (enum gpuring_protocol) p,
                                               link->base.count[p].credit);
        }
    }
    return status != GPURING_OK
               ? status
               : gpuring_verbs_post_control(link, on, GPURING_VERBS_LOST, lost, 0, 0);
}

/* Repeat the slots of the lost rail that have not completed and have not arrived. Returns true when
 * all were posted. */
static bool repeat(struct gpuring_net_link *link, struct gpuring_verbs_rail *lost)
{
    lost->repeating = true;
    for (; lost->sq_done < lost->sq_posted; lost->sq_done++) {
        const struct gpuring_verbs_sent *sent = &lost->sent[lost->sq_done % link->send_room];
        const struct gpuring_net_ring *ring = &link->base.count[sent->protocol].memory;

        if (sent->data && (link->peer_closed || sent->arrived)) {
            gpuring_net_base_done(&link->base, sent->protocol, sent->step);
        } else if (sent->data &&
                   gpuring_verbs_post_slot(
                       link, (enum gpuring_protocol) sent->protocol, sent->step,
                       ring->tail->size[sent->step % ring->nslots], false,
                       gpuring_net_base_returned(&link->base, sent->protocol)) != GPURING_OK) {
            return false;
        }
    }
    return true;
}

/* Take a lost rail out of use when its earlier arrivals have been processed. */
static void drain(struct gpuring_net_link *link, struct gpuring_verbs_rail *lost, uint64_t now)
{
    bool flushed = lost->flush_last;

    if (lost->receives == 0 && (lost->flush_qp == NULL || gpuring_verbs_flush_last(link, lost))) {
        lost->state = GPURING_VERBS_DOWN;
    }
    if (lost->flush_last && !flushed) {
        lost->failed_ns = now; /* the last flush has the same time limit */
    }
}

/* Advance the recovery of one lost rail. Returns true when it is complete. */
static bool go_on(struct gpuring_net_link *link, unsigned r, uint64_t now)
{
    struct gpuring_verbs_rail *lost = &link->rail[r], *on;

    if (lost->state == GPURING_VERBS_DRAINING) {
        drain(link, lost, now);
    }
    /* If this process was delayed, the queue may still contain arrivals. The peer does not repeat
     * them, because the device has acknowledged them. */
    if (lost->state == GPURING_VERBS_DRAINING && !lost->cq->more &&
        now - lost->failed_ns > DRAIN_NS) {
        /* A device that is gone reports no completions. Once its queue pairs are destroyed, it
         * cannot access memory. */
        if (lost->flush_qp != NULL) {
            gpuring_verbs_flush_failed(link, lost);
        } else if (gpuring_verbs_rail_destroy_qp(link, lost) == 0) {
            lost->state = GPURING_VERBS_DOWN;
        } else {
            gpuring_verbs_link_fail(link, lost, GPURING_ERR_NET,
                                    "the queue pair cannot be taken out of use",
                                    "see the kernel's log (dmesg)");
        }
    }
    if (lost->state != GPURING_VERBS_DOWN) {
        return false;
    }
    on = gpuring_verbs_first_up(link);
    /* Before this end is ready, the peer may not be connected yet. */
    if (lost->reported_on == NULL && on != NULL && link->ready &&
        report_loss(link, r, on) == GPURING_OK) {
        lost->reported_on = on;
    }
    return lost->peer_reported && repeat(link, lost) && lost->reported_on != NULL;
}

void gpuring_verbs_give_up(struct gpuring_net_link *link)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        if (gpuring_verbs_has_failed(&link->rail[r])) {
            repeat(link, &link->rail[r]);
        }
    }
}

static void recover_link(struct gpuring_net_link *link, uint64_t now)
{
    bool done = true;

    for (unsigned r = 0; r < link->nrails && !link->peer_closed; r++) {
        done = (!gpuring_verbs_has_failed(&link->rail[r]) || go_on(link, r, now)) && done;
    }
    if (link->peer_closed) {
        gpuring_verbs_give_up(link);
    }
    if (link->base.status != GPURING_OK || link->peer_closed || done) {
        gpuring_verbs_net(link)->recovering--;
        link->recovering = false;
    }
}

void gpuring_verbs_recover(struct gpuring_net *net)
{
    struct gpuring_net_link *link;
    uint64_t now;

    if (net->recovering == 0) {
        return;
    }
    now = gpuring_now_ns();
    GPURING_NET_EACH_LINK(net, link)
    {
        if (link->recovering) {
            recover_link(link, now);
        }
    }
}
