/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Rails and links that fail: their state, and what is said of it: both hosts, device, port, status,
 * remedy. Only the state changes here, in the midst of whatever found the failure; what follows
 * from it is done in the next pass (net/verbs/failover.c).
 */
#include <stdio.h>

#include "mca/coll_gpuring/net/verbs/verbs.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * Every status of a completion that is an error: S(status, another path may be better, remedy).
 * What the peer or the memory did wrong, it does wrong on any path.
 */
#define PEER_GONE                                                                   \
    "the peer's memory or queue pair is gone: its process has failed or freed the " \
    "communicator; see its output"
#define OUR_MEMORY \
    "memory of this process was unmapped under a transfer, or this is a bug: please report it"
#define BAD_DEVICE \
    "the device failed: see the kernel's log (dmesg); coll_gpuring_verbs_hca can exclude it"
#define NOT_OURS "no such request is made here, so this is a bug of the driver: see dmesg"
#define VERBS_STATUSES(S)                                                                          \
    S(LOC_LEN_ERR, false, OUR_MEMORY)                                                              \
    S(LOC_QP_OP_ERR, true,                                                                         \
      "the port or interface is down (see ibv_devinfo), or the device failed (see dmesg)")         \
    S(LOC_EEC_OP_ERR, true, NOT_OURS)                                                              \
    S(LOC_PROT_ERR, false, OUR_MEMORY)                                                             \
    S(WR_FLUSH_ERR, true,                                                                          \
      "the queue pair was put in its error state, by what the peer sent or by the device: an "     \
      "earlier message, the peer's output or the kernel's log (dmesg) says why")                   \
    S(MW_BIND_ERR, false, NOT_OURS)                                                                \
    S(BAD_RESP_ERR, true,                                                                          \
      "the answers of the peer's device make no sense: see the kernel's log (dmesg) of both "      \
      "hosts and the versions of their firmware")                                                  \
    S(LOC_ACCESS_ERR, false, OUR_MEMORY)                                                           \
    S(REM_INV_REQ_ERR, true, PEER_GONE)                                                            \
    S(REM_ACCESS_ERR, false, PEER_GONE)                                                            \
    S(REM_OP_ERR, true, PEER_GONE)                                                                 \
    S(RETRY_EXC_ERR, true,                                                                         \
      "the peer does not answer: its process or host is gone, a port or cable is down, or the "    \
      "network loses packets; if it is only slow, raise coll_gpuring_verbs_timeout or "            \
      "coll_gpuring_verbs_retry_count")                                                            \
    S(RNR_RETRY_EXC_ERR, true, "the peer takes no more messages: its process hangs or is stopped") \
    S(LOC_RDD_VIOL_ERR, false, NOT_OURS)                                                           \
    S(REM_INV_RD_REQ_ERR, false, NOT_OURS)                                                         \
    S(REM_ABORT_ERR, true, PEER_GONE)                                                              \
    S(INV_EECN_ERR, false, NOT_OURS)                                                               \
    S(INV_EEC_STATE_ERR, false, NOT_OURS)                                                          \
    S(FATAL_ERR, true, BAD_DEVICE)                                                                 \
    S(RESP_TIMEOUT_ERR, true,                                                                      \
      "the peer's device does not answer in time: see the kernel's log (dmesg) of both hosts")     \
    S(GENERAL_ERR, true, BAD_DEVICE)                                                               \
    S(TM_ERR, false, NOT_OURS)                                                                     \
    S(TM_RNDV_INCOMPLETE, false, NOT_OURS)

#define VERBS_STATUS(status, path, remedy) [IBV_WC_##status] = {path, remedy},
static const struct {
    bool path;
    const char *remedy;
} statuses[] = {VERBS_STATUSES(VERBS_STATUS)};
#undef VERBS_STATUS
#define STATUS_COUNT (sizeof statuses / sizeof *statuses)

const char *gpuring_verbs_remedy(enum ibv_wc_status status)
{
    if ((size_t) status < STATUS_COUNT && statuses[status].remedy != NULL) {
        return statuses[status].remedy;
    }
    return "see the kernel's log (dmesg)";
}

bool gpuring_verbs_path_failed(enum ibv_wc_status status)
{
    return (size_t) status >= STATUS_COUNT || statuses[status].path;
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

/* The peer's probes and sends then get no answer any more, and it learns of the failure too. */
static void stop_answering(const struct gpuring_net_link *link,
                           const struct gpuring_verbs_rail *rail)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (gpuring_verbs.modify_qp(rail->qp, &attr, IBV_QP_STATE) != 0) {
        gpuring_debug("%s: a failed queue pair of device %s does not leave its state",
                      link->base.net->host, rail->port->adapter->name);
    }
}

/* ", after device mlx5_0 port 1" and so on, for paths that had failed before; "" if none had. */
static void failed_before(const struct gpuring_net_link *link,
                          const struct gpuring_verbs_rail *last, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned r = 0; r < link->nrails; r++) {
        const struct gpuring_verbs_rail *rail = &link->rail[r];

        if (rail != last && gpuring_verbs_has_failed(rail) && used < size) {
            used += (size_t) snprintf(text + used, size - used, "%s device %s port %d",
                                      used == 0 ? ", after" : ",", rail->port->adapter->name,
                                      rail->port->number);
        }
    }
}

void gpuring_verbs_link_fail(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                             int status, const char *what, const char *remedy)
{
    char before[160];

    if (link->base.status != GPURING_OK) {
        return;
    }
    for (unsigned r = 0; r < link->nrails && link->connected; r++) {
        if (link->rail[r].state == GPURING_VERBS_UP) {
            stop_answering(link, &link->rail[r]);
        }
    }
    failed_before(link, rail, before, sizeof before);
    gpuring_net_base_fail(
        &link->base, status,
        "[verbs-failed] verbs connection from %s to %s, device %s port %d, failed%s: %s; %s",
        link->base.net->host, link->base.peer_name, rail->port->adapter->name, rail->port->number,
        before, what, remedy);
}

void gpuring_verbs_start_recovery(struct gpuring_net_link *link)
{
    gpuring_verbs_net(link)->recovering += !link->recovering;
    link->recovering = true;
}

/* Whatever was told over this rail may not have arrived. */
static void forget_told(struct gpuring_net_link *link, unsigned on)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        link->rail[r].told = link->rail[r].told && link->rail[r].told_on != on;
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
    forget_told(link, (unsigned) (rail - link->rail));
    gpuring_verbs_start_recovery(link);
}

void gpuring_verbs_rail_fail_wc(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                                const struct ibv_wc *wc)
{
    char what[128];

    if (link->peer_closed || rail->state != GPURING_VERBS_UP) {
        return; /* what we still sent was of no interest to it; or the rest of a failed rail */
    }
    snprintf(what, sizeof what, "%s (status %d, vendor 0x%x)",
             gpuring_verbs.wc_status_str(wc->status), (int) wc->status, wc->vendor_err);
    if (gpuring_verbs_path_failed(wc->status)) {
        gpuring_verbs_rail_fail(link, rail, what, gpuring_verbs_remedy(wc->status));
    } else {
        gpuring_verbs_link_fail(link, rail, GPURING_ERR_NET, what,
                                gpuring_verbs_remedy(wc->status));
    }
}
