/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Endpoints of the net `ucx`: one per peer process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/ucx/ucx.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CLOSE_NS UINT64_C(1000000000)

/* What a user can do about an endpoint's error. */
static const char *remedy(ucs_status_t status)
{
    switch (status) {
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
        return "[peer-gone] the peer process has ended, or its host or the network between is "
               "down: see the "
               "output of the peer and the logs of both hosts";
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NO_DEVICE:
        return "[ucx-unreachable] the hosts do not reach each other through the network devices "
               "that UCX chose: "
               "name the right ones with UCX_NET_DEVICES, and look for a firewall";
    case UCS_ERR_NO_MEMORY:
        return "memory is short: lower coll_gpuring_buffer_size, or raise ulimit -l";
    default:
        return "UCX_LOG_LEVEL=info tells more";
    }
}

static void fail_links(const struct gpuring_ucx_peer *peer)
{
    const struct gpuring_net *net = peer->net;
    char why[384];

    snprintf(why, sizeof why, "%s; %s", gpuring_ucx.ucs_status_string(peer->ucx_status),
             remedy(peer->ucx_status));
    for (uint32_t i = 0; i < net->base.nlinks; i++) {
        struct gpuring_net_link *link =
            (struct gpuring_net_link *) gpuring_net_base_at(&net->base, i);

        if (link != NULL && link->peer == peer) {
            gpuring_ucx_link_fail(link, peer->status, why);
        }
    }
}

static void peer_failed(struct gpuring_ucx_peer *peer, ucs_status_t status)
{
    if (peer->status != GPURING_OK) {
        return;
    }
    peer->ucx_status = status;
    peer->status = status == UCS_ERR_CONNECTION_RESET ? GPURING_ERR_PEER : GPURING_ERR_NET;
    fail_links(peer);
}

static void on_ep_error(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    (void) ep;
    peer_failed(argument, status);
}

static struct gpuring_ucx_peer *find_peer(struct gpuring_net *net, const uint8_t *id)
{
    struct gpuring_ucx_peer *peer;

    GPURING_LIST_EACH(peer, &net->peers, struct gpuring_ucx_peer, node)
    {
        if (peer->status == GPURING_OK && memcmp(peer->id, id, sizeof peer->id) == 0) {
            return peer;
        }
    }
    return NULL;
}

static int peer_create(struct gpuring_net *net, const struct gpuring_ucx_process *process,
                       const void *address, const char *name, struct gpuring_ucx_peer **result)
{
    struct gpuring_ucx_peer *peer = calloc(1, sizeof *peer);
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_ep_error, .arg = peer}};
    ucs_status_t status;

    if (peer == NULL) {
        gpuring_error("out of memory for a UCX endpoint");
        return GPURING_ERR_NOMEM;
    }
    peer->net = net;
    memcpy(peer->id, process->id, sizeof peer->id);
    status = gpuring_ucx.ucp_ep_create(net->worker, &params, &peer->ep);
    if (status != UCS_OK) {
        gpuring_error("UCX on %s cannot create an endpoint to %s: %s; %s", net->base.host, name,
                      gpuring_ucx.ucs_status_string(status), remedy(status));
        free(peer);
        return GPURING_ERR_NET;
    }
    gpuring_list_prepend(&net->peers, &peer->node);
    *result = peer;
    return GPURING_OK;
}

int gpuring_ucx_peer_get(struct gpuring_net *net, const void *handle, size_t bytes,
                         const char *peer_name, struct gpuring_ucx_peer **peer)
{
    struct gpuring_ucx_process process;

    if (bytes < sizeof process) {
        gpuring_error("%s sent no UCX address: does it run the same version of coll/gpuring?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    memcpy(&process, handle, sizeof process);
    if (process.bytes != bytes - sizeof process) {
        gpuring_error("%s sent a damaged UCX address: does it run the same version of "
                      "coll/gpuring?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    *peer = find_peer(net, process.id);
    return *peer != NULL ? GPURING_OK
                         : peer_create(net, &process, (const uint8_t *) handle + sizeof process,
                                       peer_name, peer);
}

/* Begin to close; NULL: closed already (or cannot be). */
static void *close_begin(struct gpuring_ucx_peer *peer, uint32_t flags)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
    ucp_ep_h ep = peer->ep;
    void *request;

    peer->ep = NULL;
    if (ep == NULL) {
        return NULL;
    }
    request = gpuring_ucx.ucp_ep_close_nbx(ep, &param);
    return UCS_PTR_IS_PTR(request) ? request : NULL;
}

static void close_finish(struct gpuring_net *net, void *request, uint64_t deadline)
{
    if (request == NULL) {
        return;
    }
    while (gpuring_ucx.ucp_request_check_status(request) == UCS_INPROGRESS &&
           gpuring_now_ns() < deadline) {
        gpuring_ucx.ucp_worker_progress(net->worker);
    }
    gpuring_ucx.ucp_request_free(request);
}

void gpuring_ucx_peer_drop(struct gpuring_ucx_peer *peer)
{
    peer_failed(peer, UCS_ERR_CANCELED);
    close_finish(peer->net, close_begin(peer, UCP_EP_CLOSE_FLAG_FORCE),
                 gpuring_now_ns() + CLOSE_NS);
}

void gpuring_ucx_peers_close(struct gpuring_net *net)
{
    uint64_t deadline = gpuring_now_ns() + CLOSE_NS;
    struct gpuring_ucx_peer *peer;

    /* All closes begin before the first is waited for: they overlap. */
    GPURING_LIST_EACH(peer, &net->peers, struct gpuring_ucx_peer, node)
    {
        peer->closing = close_begin(peer, peer->status != GPURING_OK ? UCP_EP_CLOSE_FLAG_FORCE : 0);
    }
    while ((peer = GPURING_LIST_FIRST(&net->peers, struct gpuring_ucx_peer, node)) != NULL) {
        close_finish(net, peer->closing, deadline);
        gpuring_list_remove(&peer->node);
        free(peer);
    }
}
