/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The recovery of endpoints whose rails have failed, which verbs_internal.h describes. A report to
 * the peer may be sent twice, because the rail that carried it may fail as well. A report has
 * messages for each link, so it waits for room in the send queue.
 */
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

/* How long a failed rail waits for the completions of earlier arrivals before its queue pair is
 * destroyed. */
#define DRAIN_NS UINT64_C(1000000000)

static void fail_refused(struct gpuring_verbs_endpoint *ep)
{
    for (unsigned r = 0; r < ep->nlanes && !ep->failed; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];

        if (rail->refused != 0) {
            const char *what = strerror(rail->refused);

            rail->refused = 0;
            rail->state = GPURING_VERBS_UP;
            gpuring_verbs_rail_fail(ep, rail, what, "do the ports reach each other?");
        }
    }
}

void gpuring_verbs_peer_is_ready(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    uint64_t now = gpuring_now_ns();

    link->ready = true;
    for (unsigned r = 0; r < ep->nrails && !ep->ready; r++) {
        ep->rail[r].active_ns = now;
    }
    ep->ready = true;
    fail_refused(ep);
}

void gpuring_verbs_ready(struct gpuring_net_link *link)
{
    gpuring_gate_enter(link->base.net->gate);
    gpuring_verbs_peer_is_ready(link);
    gpuring_gate_leave(link->base.net->gate);
}

void gpuring_verbs_peer_lost(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *lost)
{
    fail_refused(ep); /* the peer is ready, although our link_ready was not called yet */
    if (lost->state == GPURING_VERBS_UNUSED) {
        lost->state = GPURING_VERBS_DOWN; /* a spare that has connected at the peer's end only */
    }
    gpuring_verbs_rail_fail(ep, lost, "the peer found it broken", "see its output");
    if (gpuring_verbs_has_failed(lost)) {
        lost->peer_reported = true;
        gpuring_verbs_start_recovery(ep);
    }
}

void gpuring_verbs_peer_has(struct gpuring_net_link *link, unsigned protocol, uint64_t count,
                            uint32_t early)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails; r++) {
        struct gpuring_verbs_rail *lost = &ep->rail[r];

        for (uint64_t n = lost->sq_done; lost->sent != NULL && n < lost->sq_posted; n++) {
            struct gpuring_verbs_sent *sent = &lost->sent[n % ep->send_room];

            if (sent->link == link && sent->protocol == protocol &&
                (sent->step < count || (sent->step - count < GPURING_VERBS_MAX_SLOTS &&
                                        (early >> (sent->step - count) & 1) != 0))) {
                sent->arrived = true;
            }
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

/* Report the arrivals and credits of a link, unless there are none. */
static int report_link(struct gpuring_net_link *link, struct gpuring_verbs_rail *on)
{
    int status = GPURING_OK;

    if (link->base.direction != GPURING_NET_RECV || !link->connected || link->left) {
        return GPURING_OK;
    }
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT && status == GPURING_OK; p++) {
        const struct gpuring_net_count *count = &link->base.count[p];

        if (count->done > 0 || count->early != 0) {
            link->used |= 1u << gpuring_verbs_rail_number(link->endpoint, on);
            status = gpuring_verbs_post_control(link->endpoint, on, GPURING_VERBS_ARRIVED,
                                                link->peer_number, p, arrived_count(count));
        }
        if (status == GPURING_OK && count->credit > 0) {
            status = gpuring_verbs_post_credit(link, on, (enum gpuring_protocol) p, count->credit);
        }
    }
    return status;
}

/* Report to the peer that a rail is lost, after the arrivals and credits of all links. Returns true
 * when this is done. */
static bool report_loss(struct gpuring_verbs_endpoint *ep, unsigned r,
                        struct gpuring_verbs_rail *on)
{
    struct gpuring_verbs_rail *lost = &ep->rail[r];

    if (lost->reports_on != on) {
        lost->reports_on = on;
        lost->reported = 0;
    }
    for (; lost->reported < ep->nlinks; lost->reported++) {
        struct gpuring_net_link *link = ep->links[lost->reported];

        if (link != NULL && report_link(link, on) != GPURING_OK) {
            return false;
        }
    }
    return gpuring_verbs_post_control(ep, on, GPURING_VERBS_LOST, 0, 0, r) == GPURING_OK;
}

/* Take a send out of the log of a failed rail. */
static void forget_sent(struct gpuring_verbs_rail *lost, const struct gpuring_verbs_sent *sent)
{
    if (sent->link != NULL) {
        sent->link->in_flight--;
    }
    lost->sq_done++;
}

/* Repeat the slots of the lost rail that have not completed and have not arrived. Returns true when
 * all were posted. */
static bool repeat(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *lost)
{
    lost->repeating = true;
    while (lost->sq_done < lost->sq_posted) {
        const struct gpuring_verbs_sent *sent = &lost->sent[lost->sq_done % ep->send_room];
        struct gpuring_net_link *link = sent->link;

        if (link != NULL && (link->peer_closed || sent->arrived)) {
            gpuring_net_base_done(&link->base, sent->protocol, sent->step);
        } else if (link != NULL && link->base.status == GPURING_OK) {
            const struct gpuring_net_ring *ring = &link->base.count[sent->protocol].memory;

            if (gpuring_verbs_repeat_slot(link, (enum gpuring_protocol) sent->protocol, sent->step,
                                          ring->tail->size[sent->step % ring->nslots]) !=
                GPURING_OK) {
                return false;
            }
        }
        forget_sent(lost, sent);
    }
    return true;
}

/* Find out which links the peer has closed, because a rail cannot deliver its BYE any more. */
static void rail_down(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    struct gpuring_net_link *link;

    rail->state = GPURING_VERBS_DOWN;
    VERBS_EACH_LINK(ep, link)
    {
        gpuring_verbs_link_heard_bye(link);
    }
}

/* Take a lost rail out of use when its earlier arrivals have been processed. */
static void drain(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *lost, uint64_t now)
{
    bool flushed = lost->flush_last;

    if (lost->receives == 0 && (lost->flush_qp == NULL || gpuring_verbs_flush_last(ep, lost))) {
        rail_down(ep, lost);
    }
    if (lost->flush_last && !flushed) {
        lost->failed_ns = now; /* the last flush has the same time limit */
    }
}

/* Advance the recovery of one lost rail. Returns true when it is complete. */
static bool go_on(struct gpuring_verbs_endpoint *ep, unsigned r, uint64_t now)
{
    struct gpuring_verbs_rail *lost = &ep->rail[r], *on;

    if (lost->state == GPURING_VERBS_DRAINING) {
        drain(ep, lost, now);
    }
    /* If this process was delayed, the queue may still contain arrivals. The peer does not repeat
     * them, because the device has acknowledged them. */
    if (lost->state == GPURING_VERBS_DRAINING && !lost->cq->more &&
        now - lost->failed_ns > DRAIN_NS) {
        /* A device that is gone reports no completions. Once its queue pairs are destroyed, it
         * cannot access memory. */
        if (lost->flush_qp != NULL) {
            gpuring_verbs_flush_failed(ep, lost);
        } else if (gpuring_verbs_rail_destroy_qp(lost) == 0) {
            rail_down(ep, lost);
        } else {
            gpuring_verbs_endpoint_fail(ep, lost, GPURING_ERR_NET,
                                        "the queue pair cannot be taken out of use",
                                        "see the kernel's log (dmesg)");
        }
    }
    if (lost->state != GPURING_VERBS_DOWN) {
        return false;
    }
    on = gpuring_verbs_first_up(ep);
    /* Before this end is ready, the peer may not be connected yet. */
    if (!lost->reported_all && on != NULL && ep->ready) {
        lost->reported_all = report_loss(ep, r, on);
    }
    return lost->peer_reported && repeat(ep, lost) && lost->reported_all;
}

/* Forget the sends of the failed rails, because all of their links have failed or the peer has
 * closed them, which means that it has received everything that it needs. */
static void give_up(struct gpuring_verbs_endpoint *ep)
{
    for (unsigned r = 0; r < ep->nrails; r++) {
        struct gpuring_verbs_rail *lost = &ep->rail[r];

        lost->repeating = lost->repeating || gpuring_verbs_has_failed(lost);
        while (lost->repeating && lost->sq_done < lost->sq_posted) {
            const struct gpuring_verbs_sent *sent = &lost->sent[lost->sq_done % ep->send_room];

            if (sent->link != NULL) {
                gpuring_net_base_done(&sent->link->base, sent->protocol, sent->step);
            }
            forget_sent(lost, sent);
        }
    }
}

/* Notify the peer of links that have failed for a reason that the peer does not know. Returns true
 * when this is done. */
static bool abort_links(const struct gpuring_verbs_endpoint *ep)
{
    struct gpuring_net_link *link;
    bool done = true;

    VERBS_EACH_LINK(ep, link)
    {
        done = gpuring_verbs_say_abort(link) && done;
    }
    return done;
}

/* Return true if the peer has got the reports about all failed rails, or will not use them. */
static bool all_reported(const struct gpuring_verbs_endpoint *ep)
{
    bool all = true;

    for (unsigned r = 0; r < ep->nrails && ep->ready; r++) {
        all = all && (!gpuring_verbs_has_failed(&ep->rail[r]) || ep->rail[r].reported_all);
    }
    return all;
}

void gpuring_verbs_forget_sends(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails && link->in_flight > 0; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];

        for (uint64_t n = rail->sq_done; n < rail->sq_posted; n++) {
            struct gpuring_verbs_sent *sent = &rail->sent[n % ep->send_room];

            sent->link = sent->link == link ? NULL : sent->link;
        }
    }
}

static void recover_endpoint(struct gpuring_verbs_endpoint *ep, uint64_t now)
{
    bool done = abort_links(ep), over;

    for (unsigned r = 0; r < ep->nrails && !ep->failed; r++) {
        done = (!gpuring_verbs_has_failed(&ep->rail[r]) || go_on(ep, r, now)) && done;
    }
    over = ep->failed || (all_reported(ep) && !gpuring_verbs_in_use(ep));
    if (over) {
        give_up(ep);
    }
    if (over || done) {
        ep->net->recovering--;
        ep->recovering = false;
    }
}

void gpuring_verbs_recover(struct gpuring_net *net)
{
    struct gpuring_verbs_endpoint *ep;
    uint64_t now;

    if (net->recovering == 0) {
        return;
    }
    now = gpuring_now_ns();
    VERBS_EACH_ENDPOINT(net, ep)
    {
        if (ep->recovering) {
            recover_endpoint(ep, now);
        }
    }
}
