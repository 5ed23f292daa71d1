/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What a failed connection says: both hosts, device, port, status, remedy. */
#include <stdio.h>

#include "mca/coll_gpuring/net/net_verbs.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

const char *gpuring_verbs_remedy(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer does not answer: its process or host is gone, a port or cable is down, or "
               "the network loses packets; if it is only slow, raise coll_gpuring_verbs_timeout or "
               "coll_gpuring_verbs_retry_count";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer takes no more messages: its process hangs or is stopped";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
        return "the peer's memory or queue pair is gone: its process has failed or freed the "
               "communicator; see its output";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_MW_BIND_ERR:
        return "memory of this process was unmapped under a transfer, or this is a bug: please "
               "report it";
    case IBV_WC_WR_FLUSH_ERR:
        return "the queue pair was in error already: an earlier message says why";
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
        return "the device failed: see the kernel's log (dmesg); coll_gpuring_verbs_hca can "
               "exclude "
               "it";
    default:
        return "see the kernel's log (dmesg)";
    }
}

/* The peer's probes and sends then get no answer any more, and it learns of the failure too. */
static void stop_answering(const struct gpuring_net_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (link->connected && gpuring_verbs.modify_qp(link->qp, &attr, IBV_QP_STATE) != 0) {
        gpuring_debug("%s: a failed queue pair of device %s does not leave its state",
                      link->base.net->host, link->port->adapter->name);
    }
}

void gpuring_verbs_link_fail(struct gpuring_net_link *link, int status, const char *what,
                             const char *remedy)
{
    if (link->base.status == GPURING_OK) {
        stop_answering(link);
    }
    gpuring_net_base_fail(&link->base, status,
                          "verbs connection from %s to %s, device %s port %d, failed: %s; %s",
                          link->base.net->host, link->base.peer_name, link->port->adapter->name,
                          link->port->number, what, remedy);
}

void gpuring_verbs_link_fail_wc(struct gpuring_net_link *link, const struct ibv_wc *wc)
{
    char what[128];

    snprintf(what, sizeof what, "%s (status %d, vendor 0x%x)",
             gpuring_verbs.wc_status_str(wc->status), (int) wc->status, wc->vendor_err);
    gpuring_verbs_link_fail(link, GPURING_ERR_NET, what, gpuring_verbs_remedy(wc->status));
}
