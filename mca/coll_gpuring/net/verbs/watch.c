/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A thread that waits for the adapters' asynchronous events: ports that go down and come back, and
 * fatal errors of devices and queue pairs. It sleeps in poll() and costs nothing otherwise.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/net/verbs/verbs.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define DEVICE_REMEDY gpuring_verbs_remedy(IBV_WC_FATAL_ERR)

struct gpuring_verbs_watch {
    struct gpuring_net *net;
    pthread_t thread;
    pid_t pid;
    nfds_t nadapters;
    int stop;            /* an eventfd */
    struct pollfd fds[]; /* of each adapter, in their order, then stop */
};

/* Which rails an event is about: those of a queue pair, of a port, or of a whole adapter. */
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

/* Can the link go on without the rails that are concerned? */
static bool has_others(const struct gpuring_net_link *link, const struct concerned *who)
{
    for (unsigned r = 0; r < link->nrails; r++) {
        if (link->rail[r].state == GPURING_VERBS_UP && !concerns(who, &link->rail[r])) {
            return true;
        }
    }
    return false;
}

/* `spare`: only where there is another rail to go on by. */
static void fail_rails(struct gpuring_net *net, const struct concerned *who, bool spare,
                       const char *what, const char *remedy)
{
    struct gpuring_net_link *link;

    gpuring_gate_enter(&net->base.gate);
    GPURING_NET_EACH_LINK(net, link)
    {
        bool goes_on = !spare || has_others(link, who);

        for (unsigned r = 0; r < link->nrails && link->connected && !link->peer_closed && goes_on;
             r++) {
            if (concerns(who, &link->rail[r])) {
                gpuring_verbs_rail_fail(link, &link->rail[r], what, remedy);
            }
        }
    }
    gpuring_gate_leave(&net->base.gate);
}

static void handle(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter)
{
    struct ibv_async_event event;
    struct concerned who = {.adapter = adapter};
    const struct ibv_qp *qp;
    const char *what;
    int port;

    if (gpuring_verbs.get_async_event(adapter->context, &event) != 0) {
        return;
    }
    /* Acknowledged first: destroying a queue pair waits for that, under the gate that we need.
     * From here on its address is only compared. */
    what = gpuring_verbs.event_type_str(event.event_type);
    qp = event.element.qp;
    port = event.element.port_num;
    gpuring_verbs.ack_async_event(&event);
    switch (event.event_type) {
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
            "[port-up] %s: device %s port %d is up again; connections that left it stay where they "
            "are",
            net->base.host, adapter->name, port);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        who.qp = qp;
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

static void *watch_main(void *argument)
{
    struct gpuring_verbs_watch *watch = argument;
    nfds_t count = watch->nadapters;

    pthread_setname_np(pthread_self(), "gpuring-events");
    while ((poll(watch->fds, count + 1, -1) >= 0 || errno == EINTR) &&
           watch->fds[count].revents == 0) {
        struct pollfd *fd = watch->fds;

        for (struct gpuring_verbs_adapter *adapter = watch->net->adapters; adapter != NULL;
             adapter = adapter->next, fd++) {
            if ((fd->revents & POLLIN) != 0) {
                handle(watch->net, adapter);
            } else if (fd->revents != 0) {
                const struct concerned who = {.adapter = adapter};

                fd->fd = -1; /* the device is gone for good */
                fail_rails(watch->net, &who, false, "the device was removed", DEVICE_REMEDY);
            }
        }
    }
    return NULL;
}

int gpuring_verbs_watch_start(struct gpuring_net *net)
{
    struct gpuring_verbs_watch *watch;
    int error, stop = eventfd(0, EFD_CLOEXEC);

    /* Every adapter has a port at least, and every port is a device. */
    watch = calloc(1, sizeof *watch + ((size_t) net->devices.count + 1) * sizeof watch->fds[0]);
    if (watch == NULL || stop < 0) {
        gpuring_error("out of memory or file descriptors for the watch over network devices");
        error = GPURING_ERR_NOMEM;
        goto fail;
    }
    *watch = (struct gpuring_verbs_watch){.net = net, .pid = getpid(), .stop = stop};
    for (struct gpuring_verbs_adapter *a = net->adapters; a != NULL; a = a->next) {
        watch->fds[watch->nadapters++] =
            (struct pollfd){.fd = a->context->async_fd, .events = POLLIN};
    }
    watch->fds[watch->nadapters] = (struct pollfd){.fd = stop, .events = POLLIN};
    error = gpuring_proxy_thread_start(&watch->thread, watch_main, watch);
    if (error == 0) {
        net->watch = watch;
        return GPURING_OK;
    }
    gpuring_error("cannot start the thread that watches network devices: %s (see ulimit -u)",
                  strerror(error));
    error = GPURING_ERR_IO;
fail:
    if (stop >= 0) {
        close(stop);
    }
    free(watch);
    return error;
}

void gpuring_verbs_watch_stop(struct gpuring_net *net)
{
    struct gpuring_verbs_watch *watch = net->watch;
    const uint64_t one = 1;

    if (watch == NULL) {
        return;
    }
    net->watch = NULL;
    if (watch->pid == getpid()) { /* a forked child has no such thread */
        while (write(watch->stop, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(watch->thread, NULL); /* it never blocks but in poll and at the gate */
    }
    close(watch->stop);
    free(watch);
}
