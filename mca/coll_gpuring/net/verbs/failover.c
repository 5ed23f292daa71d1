/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failures of rails and links: their states, the log messages (both hosts, device, port, status,
 * remedy), and the recovery, which verbs_internal.h describes. The function that detects a failure
 * only changes the state; the next pass of the proxy does the rest. A report to the peer may be
 * sent twice, because the rail that carried it may fail as well.
 */
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Time for the completions of earlier arrivals. After it, the queue pair is destroyed. */
#define DRAIN_NS UINT64_C(1000000000)

/*
 * Meaning of the status of a failed completion: whether another path may help, and advice for the
 * user. Errors of the peer or of memory would occur on any path. For statuses that are not in the
 * table, because they belong to unused operations or are unknown, another path is tried.
 */
#define PEER_GONE                                                                   \
    "the peer's memory or queue pair is gone: its process has failed or freed the " \
    "communicator; see its output"
#define OUR_MEMORY \
    "memory of this process was unmapped under a transfer, or this is a bug: please report it"
#define BAD_DEVICE \
    "the device failed: see the kernel's log (dmesg); coll_gpuring_verbs_hca can exclude it"
static const struct {
    bool path;
    const char *remedy;
} statuses[] = {
    [IBV_WC_LOC_LEN_ERR] = {false, OUR_MEMORY},
    [IBV_WC_LOC_QP_OP_ERR] = {true, "the port or interface is down (see ibv_devinfo), or the "
                                    "device failed (see dmesg)"},
    [IBV_WC_LOC_PROT_ERR] = {false, OUR_MEMORY},
    /* Software devices of Linux 6.12 report this status where those of 6.1 report
     * IBV_WC_LOC_QP_OP_ERR. */
    [IBV_WC_WR_FLUSH_ERR] = {true, "the port or interface is down (see ibv_devinfo), or the peer "
                                   "or the device put the queue pair in its error state: another "
                                   "message, the peer's output or the kernel's log (dmesg) says "
                                   "why"},
    [IBV_WC_BAD_RESP_ERR] = {true, "the answers of the peer's device make no sense: see the "
                                   "kernel's log (dmesg) of both hosts and the versions of their "
                                   "firmware"},
    [IBV_WC_LOC_ACCESS_ERR] = {false, OUR_MEMORY},
    [IBV_WC_REM_INV_REQ_ERR] = {true, PEER_GONE},
    [IBV_WC_REM_ACCESS_ERR] = {false, PEER_GONE},
    [IBV_WC_REM_OP_ERR] = {true, PEER_GONE},
    [IBV_WC_RETRY_EXC_ERR] = {true, "the peer does not answer: its process or host is gone, a port "
                                    "or cable is down, or the network loses packets; if it is only "
                                    "slow, raise coll_gpuring_verbs_timeout or "
                                    "coll_gpuring_verbs_retry_count"},
    [IBV_WC_RNR_RETRY_EXC_ERR] = {true, "the peer takes no more messages: its process hangs or is "
                                        "stopped"},
    [IBV_WC_REM_ABORT_ERR] = {true, PEER_GONE},
    [IBV_WC_FATAL_ERR] = {true, BAD_DEVICE},
    [IBV_WC_RESP_TIMEOUT_ERR] = {true, "the peer's device does not answer in time: see the "
                                       "kernel's log (dmesg) of both hosts"},
    [IBV_WC_GENERAL_ERR] = {true, BAD_DEVICE},
};

static bool is_listed(enum ibv_wc_status status)
{
    return (size_t) status < sizeof statuses / sizeof *statuses && statuses[status].remedy != NULL;
}

const char *gpuring_verbs_remedy(enum ibv_wc_status status)
{
    return is_listed(status) ? statuses[status].remedy
                             : "this may be a bug of the driver: see the kernel's log (dmesg)";
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

/* Stop answering the peer's probes and sends, so that it detects the failure as well. */
static void stop_answering(const struct gpuring_net_link *link,
                           const struct gpuring_verbs_rail *rail)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (gpuring_verbs.modify_qp(rail->qp, &attr, IBV_QP_STATE) != 0) {
        gpuring_debug("%s: a failed queue pair of device %s does not leave its state",
                      link->base.net->host, rail->port->adapter->name);
    }
}

void gpuring_verbs_link_fail(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                             int status, const char *what, const char *remedy)
{
    if (link->base.status != GPURING_OK) {
        return;
    }
    for (unsigned r = 0; r < link->nrails; r++) {
        if (link->rail[r].state == GPURING_VERBS_UP) {
            stop_answering(link, &link->rail[r]);
        }
    }
    gpuring_net_base_fail(
        &link->base, status,
        "[verbs-failed] verbs connection from %s to %s, device %s port %d, failed: %s; %s",
        link->base.net->host, link->base.peer_name, rail->port->adapter->name, rail->port->number,
        what, remedy);
}

static void start_recovery(struct gpuring_net_link *link)
{
    gpuring_verbs_net(link)->recovering += !link->recovering;
    link->recovering = true;
}

/* Report everything again that was reported on this rail, because it may not have arrived. */
static void forget_reports(struct gpuring_net_link *link, const struct gpuring_verbs_rail *on)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        if (link->rail[r].reported_on == on) {
            link->rail[r].reported_on = NULL;
        }
    }
}

void gpuring_verbs_rail_fail(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                             const char *what, const char *remedy)
{
    const struct gpuring_verbs_rail *other;

    if (rail->state != GPURING_VERBS_UP || link->base.status != GPURING_OK) {
        return;
    }
    rail->state = GPURING_VERBS_DRAINING;
    rail->failed_ns = gpuring_now_ns();
    stop_answering(link, rail);
    other = gpuring_verbs_first_up(link);
    if (other == NULL) {
        if (!link->peer_closed) {
            gpuring_verbs_link_fail(link, rail, GPURING_ERR_NET, what, remedy);
        }
        return;
    }
    gpuring_warn("[verbs-failover] verbs connection from %s to %s: device %s port %d failed: %s; "
                 "%s; it goes on by device %s port %d",
                 link->base.net->host, link->base.peer_name, rail->port->adapter->name,
                 rail->port->number, what, remedy, other->port->adapter->name, other->port->number);
    forget_reports(link, rail);
    start_recovery(link);
}

void gpuring_verbs_rail_fail_wc(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                                const struct ibv_wc *wc)
{
    char what[128];

    if (link->peer_closed || rail->state != GPURING_VERBS_UP) {
        return; /* the peer did not need these sends, or they belong to a failed rail */
    }
    snprintf(what, sizeof what, "%s (status %d, vendor 0x%x)",
             gpuring_verbs.wc_status_str(wc->status), (int) wc->status, wc->vendor_err);
    if (!is_listed(wc->status) || statuses[wc->status].path) {
        gpuring_verbs_rail_fail(link, rail, what, gpuring_verbs_remedy(wc->status));
    } else {
        gpuring_verbs_link_fail(link, rail, GPURING_ERR_NET, what,
                                gpuring_verbs_remedy(wc->status));
    }
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
    gpuring_verbs_rail_fail(link, lost, "the peer found it broken", "see its output");
    if (gpuring_verbs_has_failed(lost)) {
        lost->peer_reported = true;
        start_recovery(link);
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
static uint64_t arrived(const struct gpuring_net_count *count)
{
    uint64_t number = count->done << GPURING_VERBS_MAX_SLOTS;

    for (unsigned n = 0; n < GPURING_VERBS_MAX_SLOTS; n++) {
        number |= (count->early >> ((count->done + n) % 64) & 1) << n;
    }
    return number;
}

/* Report that a rail is lost. The receiving end first reports its arrivals and credits. */
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
                                                arrived(&link->base.count[p]));
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

/* Advance the recovery of one lost rail. Returns true when it is complete. */
static bool go_on(struct gpuring_net_link *link, unsigned r, uint64_t now)
{
    struct gpuring_verbs_rail *lost = &link->rail[r], *on = gpuring_verbs_first_up(link);

    if (lost->state == GPURING_VERBS_DRAINING && lost->receives == 0 &&
        (lost->flush_qp == NULL || gpuring_verbs_flush_last(link, lost))) {
        lost->state = GPURING_VERBS_DOWN;
    }
    if (lost->state == GPURING_VERBS_DRAINING && now - lost->failed_ns > DRAIN_NS) {
        /* A device that is gone reports no completions. Once its queue pairs are destroyed, it
         * cannot access memory. */
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
    if (lost->state != GPURING_VERBS_DOWN) {
        return false;
    }
    if (lost->reported_on == NULL && on != NULL && report_loss(link, r, on) == GPURING_OK) {
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

    for (unsigned r = 0; r < link->nrails; r++) {
        done = (!gpuring_verbs_has_failed(&link->rail[r]) || go_on(link, r, now)) && done;
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
