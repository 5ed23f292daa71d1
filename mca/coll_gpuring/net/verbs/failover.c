/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What is done after a rail of a link has failed (net/verbs/state.c); verbs.h has the plan of it.
 * Everything said to the peer may be said twice, for the rail that carried it may fail as well.
 */
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* How long what had arrived may take to come out; then the queue pair is destroyed. */
#define DRAIN_NS UINT64_C(1000000000)

static void stop_recovery(struct gpuring_net_link *link)
{
    gpuring_verbs_net(link)->recovering -= link->recovering;
    link->recovering = false;
}

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
    gpuring_gate_enter(&link->base.net->gate);
    fail_refused(link);
    gpuring_gate_leave(&link->base.net->gate);
}

void gpuring_verbs_peer_lost(struct gpuring_net_link *link, unsigned rail)
{
    struct gpuring_verbs_rail *lost = &link->rail[rail];

    fail_refused(link); /* the peer is ready, we are not told yet */
    gpuring_verbs_rail_fail(link, lost, "the peer found it broken", "see its output");
    if (gpuring_verbs_has_failed(lost)) {
        lost->peer_told = true;
        gpuring_verbs_start_recovery(link);
    }
}

void gpuring_verbs_peer_arrived(struct gpuring_verbs_rail *on, struct gpuring_verbs_rail *lost,
                                unsigned protocol, uint64_t count)
{
    uint64_t known = lost->peer_arrived[protocol];

    on->heard[protocol] = count;
    if (count > known) {
        lost->peer_early[protocol] =
            count - known < 64 ? lost->peer_early[protocol] >> (count - known) : 0;
        lost->peer_arrived[protocol] = count;
    }
}

void gpuring_verbs_peer_early(const struct gpuring_verbs_rail *on, struct gpuring_verbs_rail *lost,
                              unsigned protocol, uint32_t number)
{
    uint64_t step = on->heard[protocol] +
                    (number >> GPURING_VERBS_EARLY_BITS) * (uint64_t) GPURING_VERBS_EARLY_BITS;

    for (unsigned bit = 0; bit < GPURING_VERBS_EARLY_BITS; bit++, step++) {
        uint64_t ahead = step - lost->peer_arrived[protocol];

        if ((number >> bit & 1) != 0 && ahead < 64) { /* what is behind is a large number */
            lost->peer_early[protocol] |= UINT64_C(1) << ahead;
        }
    }
}

static bool peer_has(const struct gpuring_verbs_rail *lost, const struct gpuring_verbs_sent *sent)
{
    uint64_t arrived = lost->peer_arrived[sent->protocol], ahead = sent->step - arrived;

    return sent->step < arrived ||
           (ahead < 64 && (lost->peer_early[sent->protocol] >> ahead & 1) != 0);
}

/* What has arrived of a protocol: the count, and the steps beyond it. */
static int tell_arrived(struct gpuring_net_link *link, unsigned lost, struct gpuring_verbs_rail *on,
                        unsigned protocol)
{
    uint64_t arrived = link->base.count[protocol].arrived;
    uint64_t early = link->base.count[protocol].early;
    unsigned turn = arrived % 64;
    int status =
        gpuring_verbs_post_control(link, on, GPURING_VERBS_ARRIVED, lost, protocol, arrived);

    early = early >> turn | (turn > 0 ? early << (64 - turn) : 0);
    for (uint32_t part = 0; part < GPURING_VERBS_EARLY_PARTS && status == GPURING_OK; part++) {
        uint32_t bits = (uint32_t) (early >> (part * GPURING_VERBS_EARLY_BITS)) &
                        ((UINT32_C(1) << GPURING_VERBS_EARLY_BITS) - 1);

        if (bits != 0) {
            status = gpuring_verbs_post_control(link, on, GPURING_VERBS_EARLY, lost, protocol,
                                                part << GPURING_VERBS_EARLY_BITS | bits);
        }
    }
    return status;
}

/* Say that a rail is lost, and, on the receiving end, what had arrived and was given back. */
static int tell(struct gpuring_net_link *link, unsigned lost, struct gpuring_verbs_rail *on)
{
    int status = GPURING_OK;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT && link->base.direction == GPURING_NET_RECV;
         p++) {
        if (link->base.count[p].memory.slots == NULL) {
            continue;
        }
        if (status == GPURING_OK) {
            status = tell_arrived(link, lost, on, p);
        }
        if (status == GPURING_OK && link->head[p] > 0) {
            status = gpuring_verbs_post_credit(link, on, (enum gpuring_protocol) p, link->head[p]);
        }
    }
    return status != GPURING_OK
               ? status
               : gpuring_verbs_post_control(link, on, GPURING_VERBS_LOST, lost, 0, 0);
}

/* The slots that the lost rail had not reported: they have arrived, or are sent again. */
static void collect(struct gpuring_net_link *link, struct gpuring_verbs_rail *lost)
{
    bool closed = link->peer_closed;

    for (; lost->sq_done < lost->sq_posted; lost->sq_done++) {
        const struct gpuring_verbs_sent *sent = &lost->sent[lost->sq_done % link->send_room];

        if (sent->kind != GPURING_VERBS_DATA) {
            continue;
        }
        if (closed || peer_has(lost, sent)) {
            gpuring_net_base_done(&link->base, sent->protocol, sent->step);
        } else {
            link->again[sent->protocol] |= UINT64_C(1) << (sent->step % 64);
        }
    }
    lost->repeated = true;
}

/* The step of the lowest bit of `again`, which is not 0. */
static uint64_t step_of(const struct gpuring_net_link *link, unsigned protocol)
{
    uint64_t done = link->base.count[protocol].done;

    return done + (((unsigned) __builtin_ctzll(link->again[protocol]) - done) & 63);
}

/* True when nothing is left to be sent again. */
static bool repeat(struct gpuring_net_link *link)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_net_count *count = &link->base.count[p];

        while (link->again[p] != 0) {
            uint64_t step = step_of(link, p);

            if (gpuring_verbs_post_slot(link, (enum gpuring_protocol) p, step,
                                        count->size[step % count->memory.nslots],
                                        false) != GPURING_OK) {
                return false;
            }
            link->again[p] &= link->again[p] - 1;
        }
    }
    return true;
}

/* One lost rail, as far as it goes now. True when nothing is left to do. */
static bool go_on(struct gpuring_net_link *link, unsigned r, uint64_t now)
{
    struct gpuring_verbs_rail *lost = &link->rail[r], *on = gpuring_verbs_first_up(link);

    if (lost->state == GPURING_VERBS_DRAINING && lost->receives == 0 &&
        (lost->flush_qp == NULL || gpuring_verbs_flush_last(link, lost))) {
        lost->state = GPURING_VERBS_DOWN;
    }
    if (lost->state == GPURING_VERBS_DRAINING && now - lost->failed_ns > DRAIN_NS) {
        /* A device that is gone gives nothing back. Without its queue pair it reaches nothing. */
        if (lost->flush_qp != NULL) {
            gpuring_verbs_flush_failed(link, lost);
        } else if (gpuring_verbs.destroy_qp(lost->qp) == 0) {
            lost->qp = NULL;
            lost->state = GPURING_VERBS_DOWN;
        } else {
            gpuring_verbs_link_fail(link, lost, GPURING_ERR_NET,
                                    "the queue pair cannot be taken out of use",
                                    "see the kernel's log (dmesg)");
        }
    }
    if (lost->state == GPURING_VERBS_DOWN && !lost->told && on != NULL &&
        tell(link, r, on) == GPURING_OK) {
        lost->told = true;
        lost->told_on = (unsigned) (on - link->rail);
    }
    if (lost->state == GPURING_VERBS_DOWN && lost->peer_told && !lost->repeated) {
        collect(link, lost);
    }
    return lost->told && lost->peer_told && lost->repeated;
}

void gpuring_verbs_give_up(struct gpuring_net_link *link)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        if (gpuring_verbs_has_failed(&link->rail[r]) && !link->rail[r].repeated) {
            collect(link, &link->rail[r]);
        }
    }
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        for (; link->again[p] != 0; link->again[p] &= link->again[p] - 1) {
            gpuring_net_base_done(&link->base, p, step_of(link, p));
        }
    }
}

bool gpuring_verbs_recovery_due(const struct gpuring_net *net)
{
    const struct gpuring_net_link *link;

    if (net->recovering == 0) {
        return false;
    }
    GPURING_VERBS_EACH_LINK(net, link)
    {
        for (unsigned r = 0; link->recovering && r < link->nrails; r++) {
            if (gpuring_verbs_has_failed(&link->rail[r]) && !link->rail[r].told) {
                return true;
            }
        }
    }
    return false;
}

void gpuring_verbs_recover(struct gpuring_net_link *link, uint64_t now)
{
    bool done = true;

    if (!link->recovering) {
        return;
    }
    for (unsigned r = 0; r < link->nrails; r++) {
        done = (!gpuring_verbs_has_failed(&link->rail[r]) || go_on(link, r, now)) && done;
    }
    if (link->base.status != GPURING_OK || link->peer_closed || (repeat(link) && done)) {
        stop_recovery(link);
    }
}

void gpuring_verbs_recover_all(struct gpuring_net *net, uint64_t now)
{
    struct gpuring_net_link *link;

    GPURING_VERBS_EACH_LINK(net, link)
    {
        gpuring_verbs_recover(link, now);
    }
}
