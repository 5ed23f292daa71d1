/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failures of rails, links and endpoints: their states and the log messages (both hosts, device,
 * port, status, remedy). The function that detects a failure only changes the state; the next pass
 * of the proxy does the rest (net/verbs/failover.c).
 */
#include <stdio.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define QUIET_NS UINT64_C(60000000000) /* without a failover, before a port is warned of again */

/*
 * Meaning of the status of a failed completion: whether another path may help, and advice for the
 * user. Errors of the peer or of memory would occur on any path. For statuses that are not in the
 * table, because they belong to unused operations or are unknown, another path is tried.
 */
#define PEER_GONE "the peer's memory or queue pair is gone: its process has failed; see its output"
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
    [IBV_WC_WR_FLUSH_ERR] = {true, "the port or interface is down (see ibv_devinfo), or the "
                                   "peer or the device put the queue pair in its error state: "
                                   "another message, the peer's output or the kernel's log "
                                   "(dmesg) has the reason"},
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
    [IBV_WC_RNR_RETRY_EXC_ERR] = {true, "the peer no longer receives messages: its process "
                                        "hangs or is stopped"},
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

struct gpuring_verbs_rail *gpuring_verbs_first_up(struct gpuring_verbs_endpoint *ep)
{
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (ep->rail[r].state == GPURING_VERBS_UP) {
            return &ep->rail[r];
        }
    }
    return NULL;
}

bool gpuring_verbs_in_use(const struct gpuring_verbs_endpoint *ep)
{
    const struct gpuring_net_link *link;

    VERBS_EACH_LINK(ep, link)
    {
        if (link->connected && !link->peer_closed) {
            return true;
        }
    }
    return false;
}

void gpuring_verbs_link_heard_bye(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;
    bool all = link->peer_bye != 0;

    for (unsigned r = 0; r < ep->nrails; r++) {
        if ((link->peer_bye >> r & 1) != 0 && (link->peer_bye_seen >> r & 1) == 0) {
            all = all && (ep->rail[r].state == GPURING_VERBS_DOWN ||
                          ep->rail[r].state == GPURING_VERBS_UNUSED);
        }
    }
    link->peer_closed = link->peer_closed || all;
}

/* Stop answering the peer's probes and sends, so that it detects the failure as well. */
static void stop_answering(const struct gpuring_verbs_endpoint *ep,
                           const struct gpuring_verbs_rail *rail)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (gpuring_verbs.modify_qp(rail->qp, &attr, IBV_QP_STATE) != 0) {
        gpuring_debug("%s: a failed queue pair of device %s does not leave its state",
                      ep->net->base.host, rail->port->adapter->name);
    }
}

static void set_failed(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                       int status, const char *what, const char *remedy)
{
    gpuring_net_base_fail(
        &link->base, status,
        "[verbs-failed] verbs connection from %s to %s, device %s port %d, failed: %s; %s",
        link->base.net->host, link->base.peer_name, rail->port->adapter->name, rail->port->number,
        what, remedy);
}

void gpuring_verbs_link_fail(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                             int status, const char *what, const char *remedy)
{
    if (link->base.status == GPURING_OK) {
        set_failed(link, rail, status, what, remedy);
        link->aborts = status;
        gpuring_verbs_start_recovery(link->endpoint);
    }
}

void gpuring_verbs_endpoint_fail(struct gpuring_verbs_endpoint *ep,
                                 const struct gpuring_verbs_rail *rail, int status,
                                 const char *what, const char *remedy)
{
    struct gpuring_net_link *link;

    if (ep->failed) {
        return;
    }
    ep->failed = true;
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (ep->rail[r].state == GPURING_VERBS_UP) {
            ep->rail[r].state = GPURING_VERBS_DRAINING;
            stop_answering(ep, &ep->rail[r]);
        }
    }
    VERBS_EACH_LINK(ep, link)
    {
        /* A link that the peer has closed in good order has received everything. */
        if (link->connected && !link->peer_closed) {
            set_failed(link, rail, status, what, remedy);
        }
    }
    gpuring_verbs_start_recovery(ep);
}

void gpuring_verbs_start_recovery(struct gpuring_verbs_endpoint *ep)
{
    ep->net->recovering += !ep->recovering;
    ep->recovering = true;
}

/* Mark the losses that were reported on this rail as not reported, because the reports may not have
 * arrived. */
static void forget_reports(struct gpuring_verbs_endpoint *ep, const struct gpuring_verbs_rail *on)
{
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (ep->rail[r].reports_on == on) {
            ep->rail[r].reports_on = NULL;
            ep->rail[r].reported_all = false;
        }
    }
}

/* Return the number of links that use a port, except for one. */
static unsigned others_on(const struct gpuring_net *net, const struct gpuring_verbs_port *port,
                          const struct gpuring_verbs_endpoint *failed)
{
    struct gpuring_verbs_endpoint *ep;
    unsigned count = 0;

    VERBS_EACH_ENDPOINT(net, ep)
    {
        const struct gpuring_net_link *link;
        bool uses = ep == failed;

        for (unsigned r = 0; r < ep->nrails && ep->connected; r++) {
            uses = uses || (ep->rail[r].port == port && ep->rail[r].state == GPURING_VERBS_UP);
        }
        VERBS_EACH_LINK(ep, link)
        {
            count += uses && link->connected;
        }
    }
    return count > 0 ? count - 1 : 0;
}

/* Return the name of the peer in a communicator that uses the endpoint now, if there is one. */
static const char *peer_of(const struct gpuring_verbs_endpoint *ep)
{
    const struct gpuring_net_link *link;

    VERBS_EACH_LINK(ep, link)
    {
        if (link->connected && !link->peer_closed) {
            return link->base.peer_name;
        }
    }
    return ep->peer_name;
}

/* Log that an endpoint continues on another port. When a port fails, all of its endpoints fail over
 * within a short time, and only the first one is a warning. */
static void log_failover(const struct gpuring_verbs_endpoint *ep,
                         const struct gpuring_verbs_rail *rail,
                         const struct gpuring_verbs_rail *other, const char *what,
                         const char *remedy)
{
    struct gpuring_verbs_port *port = rail->port;
    uint64_t *last = &port->failed_ns[other->port != port];
    bool first = *last == 0 || rail->failed_ns - *last > QUIET_NS;
    char further[160] = "";
    unsigned count = first ? others_on(ep->net, port, ep) : 0;

    if (count > 0) {
        snprintf(further, sizeof further,
                 "; %u other connections use the failed port, and only coll_gpuring_verbose=2 logs "
                 "their failures",
                 count);
    }
    gpuring_log(first ? GPURING_LOG_WARN : GPURING_LOG_DEBUG,
                "[verbs-failover] verbs connection from %s to %s: device %s port %d failed: %s; "
                "%s; it continues on device %s port %d%s",
                ep->net->base.host, peer_of(ep), port->adapter->name, port->number, what, remedy,
                other->port->adapter->name, other->port->number, further);
    *last = rail->failed_ns;
}

void gpuring_verbs_rail_fail(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                             const char *what, const char *remedy)
{
    const struct gpuring_verbs_rail *other;

    if (rail->state != GPURING_VERBS_UP || ep->failed) {
        return;
    }
    rail->state = GPURING_VERBS_DRAINING;
    rail->failed_ns = gpuring_now_ns();
    stop_answering(ep, rail);
    other = gpuring_verbs_first_up(ep);
    if (other == NULL) {
        gpuring_verbs_endpoint_fail(ep, rail, GPURING_ERR_NET, what, remedy);
        return;
    }
    if (gpuring_verbs_in_use(ep)) {
        log_failover(ep, rail, other, what, remedy);
    }
    forget_reports(ep, rail);
    gpuring_verbs_start_recovery(ep);
}

void gpuring_verbs_rail_fail_wc(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                                const struct ibv_wc *wc)
{
    char what[128];

    if (rail->state != GPURING_VERBS_UP) {
        return; /* a send of a failed rail */
    }
    snprintf(what, sizeof what, "%s (status %d, vendor 0x%x)",
             gpuring_verbs.wc_status_str(wc->status), (int) wc->status, wc->vendor_err);
    if (!is_listed(wc->status) || statuses[wc->status].path) {
        gpuring_verbs_rail_fail(ep, rail, what, gpuring_verbs_remedy(wc->status));
    } else {
        gpuring_verbs_endpoint_fail(ep, rail, GPURING_ERR_NET, what,
                                    gpuring_verbs_remedy(wc->status));
    }
}
