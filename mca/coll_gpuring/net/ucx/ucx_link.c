/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `ucx`: endpoints, one per peer process, and links, which share them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/ucx/ucx_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CLOSE_NS UINT64_C(1000000000)

/* Return the remedy for an endpoint's error, to be shown to the user. */
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
        return "UCX_LOG_LEVEL=info says more";
    }
}

void gpuring_ucx_link_fail(struct gpuring_net_link *link, int status, const char *why)
{
    gpuring_net_base_fail(&link->base, status, "UCX connection from %s to %s failed: %s",
                          link->base.net->host, link->base.peer_name, why);
}

static void fail_links(const struct gpuring_ucx_peer *peer)
{
    const struct gpuring_net *net = peer->net;
    struct gpuring_net_link *link;
    char why[384];

    snprintf(why, sizeof why, "%s; %s", gpuring_ucx.ucs_status_string(peer->ucx_status),
             remedy(peer->ucx_status));
    GPURING_NET_EACH_LINK(net, link)
    {
        if (link->peer == peer) {
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

static int peer_create(struct gpuring_net *net, const void *address, size_t bytes, const char *name,
                       struct gpuring_ucx_peer **result)
{
    struct gpuring_ucx_peer *peer = calloc(1, sizeof *peer + bytes);
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
    peer->bytes = bytes;
    memcpy(peer->address, address, bytes);
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

static int peer_get(struct gpuring_net *net, const void *address, size_t bytes, const char *name,
                    struct gpuring_ucx_peer **peer)
{
    GPURING_LIST_EACH(*peer, &net->peers, struct gpuring_ucx_peer, node)
    {
        if ((*peer)->status == GPURING_OK && (*peer)->bytes == bytes &&
            memcmp((*peer)->address, address, bytes) == 0) {
            return GPURING_OK;
        }
    }
    return peer_create(net, address, bytes, name, peer);
}

/* Begin to close an endpoint. Returns the request, or NULL if the endpoint is closed already or
 * closing it has failed. */
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

/* Close a failed endpoint by force. All operations in flight on it complete with an error. */
static void peer_drop(struct gpuring_ucx_peer *peer)
{
    close_finish(peer->net, close_begin(peer, UCP_EP_CLOSE_FLAG_FORCE),
                 gpuring_now_ns() + CLOSE_NS);
}

void gpuring_ucx_peers_close(struct gpuring_net *net)
{
    uint64_t deadline = gpuring_now_ns() + CLOSE_NS;
    struct gpuring_ucx_peer *peer;

    /* Begin all closes before waiting for the first one, so that they overlap. */
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

void gpuring_ucx_link_free(struct gpuring_net_link *link)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        free(link->ops[p]);
    }
    free(link);
}

static bool make_ops(struct gpuring_net_link *link, const struct gpuring_net_memory *memory)
{
    bool made = true;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        link->ops[p] = calloc((size_t) memory->ring[p].nslots * 2 + 1, sizeof *link->ops[p]);
        made = made && link->ops[p] != NULL;
    }
    return made;
}

int gpuring_ucx_link_create(struct gpuring_net *net, int device,
                            const struct gpuring_net_peer *peer,
                            enum gpuring_net_direction direction,
                            const struct gpuring_net_memory *memory,
                            struct gpuring_net_link **result)
{
    struct gpuring_net_link *link = calloc(1, sizeof *link);
    int status;

    (void) peer;
    (void) device; /* UCX chooses how to stripe messages over its devices */
    if (link == NULL || !make_ops(link, memory)) {
        gpuring_error("out of memory for a UCX connection");
        status = GPURING_ERR_NOMEM;
        goto fail;
    }
    gpuring_gate_enter(net->base.gate);
    status = gpuring_net_base_add(&net->base, &link->base, direction, memory);
    gpuring_gate_leave(net->base.gate);
    if (status != GPURING_OK) {
        goto fail;
    }
    *result = link;
    return GPURING_OK;
fail:
    if (link != NULL) {
        gpuring_ucx_link_free(link);
    }
    return status;
}

size_t gpuring_ucx_link_handle(const struct gpuring_net_link *link, void *handle)
{
    memcpy(handle, &link->base.id, sizeof link->base.id);
    return sizeof link->base.id;
}

int gpuring_ucx_link_connect(struct gpuring_net_link *link, const void *process_handle,
                             size_t process_bytes, const void *handle, size_t bytes,
                             const char *peer_name)
{
    struct gpuring_net *net = gpuring_ucx_net(link);
    struct gpuring_ucx_peer *peer;
    int status;

    if (bytes != sizeof link->peer_id || process_bytes == 0) {
        gpuring_error("%s sent no handle of a UCX connection: does it run the same version of "
                      "coll/gpuring, with the same coll_gpuring_net?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    gpuring_gate_enter(net->base.gate);
    status = peer_get(net, process_handle, process_bytes, peer_name, &peer);
    if (status == GPURING_OK) {
        memcpy(&link->peer_id, handle, sizeof link->peer_id);
        link->peer = peer;
    }
    gpuring_gate_leave(net->base.gate);
    return status;
}

/* Return GPURING_AGAIN while operations are in flight, because UCX may still access their headers
 * and slots. */
int gpuring_ucx_link_leave(struct gpuring_net_link *link)
{
    return link->busy > 0 ? GPURING_AGAIN : GPURING_OK;
}

/* Fail the link, so that no further message is received into its memory. Other links share the
 * endpoint, so close it by force only if it has failed. */
static bool is_held(struct gpuring_net_link *link)
{
    gpuring_ucx_link_fail(link, GPURING_ERR_ABORTED, "this process has closed it");
    if (link->busy > 0 && link->peer->status != GPURING_OK) {
        peer_drop(link->peer);
    }
    return link->busy > 0;
}

bool gpuring_ucx_link_holds(struct gpuring_net_link *link)
{
    struct gpuring_gate *gate = link->base.net->gate;
    bool held;

    gpuring_gate_enter(gate);
    held = is_held(link);
    gpuring_gate_leave(gate);
    return held;
}

/* If operations are in flight, they complete when the peer makes progress, and the last one frees
 * the link. */
void gpuring_ucx_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net *net;

    if (link == NULL) {
        return;
    }
    net = gpuring_ucx_net(link);
    gpuring_gate_enter(net->base.gate);
    link->closed = is_held(link);
    gpuring_net_base_remove(&link->base);
    if (link->closed) {
        gpuring_info("a connection to %s is closed with transfers in flight: its memory is not "
                     "freed",
                     link->base.peer_name);
    } else {
        gpuring_ucx_link_free(link);
    }
    gpuring_gate_leave(net->base.gate);
}
