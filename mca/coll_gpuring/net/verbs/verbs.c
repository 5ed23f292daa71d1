/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `verbs`: opening, progress, waiting. */
#include "mca/coll_gpuring/net/verbs/verbs_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define WATCH_NS    UINT64_C(250000000)
#define WATCH_POLLS 16 /* empty polls between readings of the clock, each as long as a poll */
#define SLEPT_NS    UINT64_C(2000000000) /* after this time without a poll, silence proves nothing */

static void verbs_close(struct gpuring_net *net)
{
    gpuring_verbs_events(net); /* report recent failures, which may be why the process ends */
    for (uint32_t i = 0; i < net->nendpoints; i++) {
        if (net->endpoint[i] != NULL) {
            gpuring_verbs_endpoint_release(net->endpoint[i]);
        }
    }
    gpuring_verbs_forget(net);
    if (net->epoll >= 0) {
        close(net->epoll);
    }
    pthread_mutex_destroy(&net->making);
    free(net->endpoint);
    gpuring_net_base_destroy(&net->base);
    free(net);
}

static int verbs_open(const struct gpuring_net_config *config, struct gpuring_net **result)
{
    struct gpuring_net *net;
    int status;

    status = gpuring_verbs_load();
    if (status != GPURING_OK) {
        return status;
    }
    net = calloc(1, sizeof *net);
    if (net == NULL) {
        gpuring_error("out of memory for the network verbs");
        return GPURING_ERR_NOMEM;
    }
    gpuring_net_base_init(&net->base, &gpuring_net_verbs, config);
    net->config = *config;
    pthread_mutex_init(&net->making, NULL);
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (net->epoll < 0) {
        gpuring_error("the network verbs cannot wait for several devices: %s", strerror(errno));
    }
    status = net->epoll < 0 ? GPURING_ERR_IO : gpuring_verbs_discover(net);
    if (status != GPURING_OK) {
        verbs_close(net);
        return status;
    }
    net->config.hca = NULL; /* owned by the caller and read by discovery only */
    *result = net;
    return GPURING_OK;
}

static const struct gpuring_net_devices *verbs_devices(const struct gpuring_net *net)
{
    return &net->devices;
}

/* Check the adapters' events and the idle links a few times a second. */
static void watch(struct gpuring_net *net)
{
    uint64_t now, passed;

    if (net->unwatched > 0) {
        net->unwatched--;
        return;
    }
    now = gpuring_now_ns();
    passed = now - net->watched_ns;
    net->unwatched = WATCH_POLLS - 1;
    if (passed >= WATCH_NS) {
        net->watched_ns = now;
        gpuring_verbs_events(net);
        gpuring_verbs_probe_idle(net, now, passed > SLEPT_NS);
    }
}

static int verbs_poll(struct gpuring_net *net)
{
    if (gpuring_verbs_completions(net) == 0) {
        watch(net);
    }
    gpuring_verbs_recover(net);
    return gpuring_net_base_events(&net->base);
}

/* The device sends and repeats on its own. Only a recovery needs polls. */
static int verbs_quiet(struct gpuring_net *net)
{
    return net->recovering > 0 ? GPURING_AGAIN : GPURING_OK;
}

/* Consume pending notifications, because the descriptor stays readable until then. */
static void take_notifications(const struct gpuring_verbs_adapter *adapter)
{
    struct ibv_cq *cq;
    void *context;

    while (gpuring_verbs.get_cq_event(adapter->channel, &cq, &context) == 0) {
        ((struct gpuring_verbs_cq *) context)->events++;
    }
}

static int verbs_arm(struct gpuring_net *net, int *fd)
{
    int status = GPURING_OK;

    net->unwatched = 0; /* the next poll follows a nap */
    *fd = net->epoll;
    for (struct gpuring_verbs_adapter *adapter = net->adapters; adapter != NULL;
         adapter = adapter->next) {
        struct gpuring_verbs_cq *cq;

        take_notifications(adapter);
        GPURING_LIST_EACH(cq, &adapter->cqs, struct gpuring_verbs_cq, node)
        {
            if (ibv_req_notify_cq(cq->cq, 0) != 0) {
                status = GPURING_AGAIN;
            }
        }
    }
    /* Completions before the request cause no notification, so poll once more. */
    if (gpuring_verbs_completions(net) > 0 || net->base.events > 0) {
        status = GPURING_AGAIN;
    }
    return status;
}

const struct gpuring_net_ops gpuring_net_verbs = {
    .name = "verbs",
    .carries_credit = true,
    .offloads = true,
    .open = verbs_open,
    .close = verbs_close,
    .devices = verbs_devices,
    .device_memory = gpuring_verbs_device_memory,
    .link_create = gpuring_verbs_link_create,
    .link_handle = gpuring_verbs_link_handle,
    .link_connect = gpuring_verbs_link_connect,
    .link_ready = gpuring_verbs_ready,
    .link_leave = gpuring_verbs_link_leave,
    .link_whole = gpuring_verbs_link_whole,
    .link_holds = gpuring_verbs_link_holds,
    .link_close = gpuring_verbs_link_close,
    .link_abort = gpuring_verbs_abort,
    .post = gpuring_verbs_post,
    .credit = gpuring_verbs_credit,
    .poll = verbs_poll,
    .quiet = verbs_quiet,
    .arm = verbs_arm,
};
