/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Asynchronous events of the adapters: ports that go down or up, and fatal errors of devices and
 * queue pairs. The proxy checks for events a few times a second while it is awake, and before its
 * first post when it wakes up.
 */
#include <errno.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"

#define DEVICE_REMEDY gpuring_verbs_remedy(IBV_WC_FATAL_ERR)

/* The rails that an event concerns: those of a queue pair, of a port, or of a whole adapter. */
struct concerned {
    const struct gpuring_verbs_adapter *adapter;
    const struct ibv_qp *qp; /* NULL: any */
    int port;                /* 0: any */
};

static bool concerns(const struct concerned *who, const struct gpuring_verbs_rail *rail)
{
    return rail->state == GPURING_VERBS_UP && rail->port->adapter == who->adapter &&
           (who->qp == NULL || rail->qp == who->qp) &&
           (who->port == 0 || rail->port->number == who->port);
}

/* Return true if the endpoint has a usable rail that the event does not concern. */
static bool has_others(const struct gpuring_verbs_endpoint *ep, const struct concerned *who)
{
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (ep->rail[r].state == GPURING_VERBS_UP && !concerns(who, &ep->rail[r])) {
            return true;
        }
    }
    return false;
}

/* Fail the rails that an event concerns. spare: only of endpoints that have another usable rail. */
static void fail_rails(struct gpuring_net *net, const struct concerned *who, bool spare,
                       const char *what, const char *remedy)
{
    struct gpuring_verbs_endpoint *ep;

    VERBS_EACH_ENDPOINT(net, ep)
    {
        bool goes_on = ep->connected && (!spare || has_others(ep, who));

        for (unsigned r = 0; goes_on && r < ep->nrails; r++) {
            if (concerns(who, &ep->rail[r])) {
                gpuring_verbs_rail_fail(ep, &ep->rail[r], what, remedy);
            }
        }
    }
}

/* Let the next failure of a port be reported. */
static void port_up(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter, int port)
{
    for (int i = 0; i < net->devices.count; i++) {
        if (net->ports[i].adapter == adapter && net->ports[i].number == port) {
            memset(net->ports[i].failed_ns, 0, sizeof net->ports[i].failed_ns);
        }
    }
}

static void handle(struct gpuring_net *net, const struct gpuring_verbs_adapter *adapter,
                   const struct ibv_async_event *event)
{
    const char *what = gpuring_verbs.event_type_str(event->event_type);
    struct concerned who = {.adapter = adapter};
    int port = event->element.port_num;

    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        gpuring_warn("[port-down] %s: device %s port %d is down; connections that have no other "
                     "path fail if "
                     "it does not come back within the retries (coll_gpuring_verbs_timeout, "
                     "coll_gpuring_verbs_retry_count)",
                     net->base.host, adapter->name, port);
        who.port = port;
        fail_rails(net, &who, true, what, "check the cable and the switch");
        break;
    case IBV_EVENT_PORT_ACTIVE:
        gpuring_warn(
            "[port-up] %s: device %s port %d is up again; new connections use it, and those that "
            "failed over stay on their new port",
            net->base.host, adapter->name, port);
        port_up(net, adapter, port);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        who.qp = event->element.qp;
        fail_rails(net, &who, false, what,
                   "the peer sent what this end refuses, or the device failed: see the kernel's "
                   "log (dmesg)");
        break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
        fail_rails(net, &who, false, what, DEVICE_REMEDY);
        break;
    default:
        gpuring_debug("%s: device %s: %s", net->base.host, adapter->name, what);
        break;
    }
}

void gpuring_verbs_events(struct gpuring_net *net)
{
    for (struct gpuring_verbs_adapter *a = net->adapters; a != NULL; a = a->next) {
        const struct concerned who = {.adapter = a};
        struct ibv_async_event event;

        while (!a->removed && gpuring_verbs.get_async_event(a->context, &event) == 0) {
            handle(net, a, &event);
            gpuring_verbs.ack_async_event(&event); /* destroying a queue pair waits for that */
        }
        if (!a->removed && errno != EAGAIN && errno != EINTR) {
            a->removed = true;
            fail_rails(net, &who, false, "the device was removed", DEVICE_REMEDY);
        }
    }
}
