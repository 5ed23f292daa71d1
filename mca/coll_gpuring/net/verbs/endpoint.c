/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The life of an endpoint of the net `verbs`, and which rails of both ends belong together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static unsigned room(unsigned wanted, int most)
{
    return most > 0 && (unsigned) most < wanted ? (unsigned) most : wanted;
}

/* Choose the sizes of the queues. They do not depend on the number of links, because queue pairs
 * cannot be resized: a full send queue delays a post, and a lack of receives delays the peer. */
static void choose_room(struct gpuring_verbs_endpoint *ep, const struct ibv_device_attr *attr)
{
    ep->send_room = room(GPURING_VERBS_SENDS, attr->max_qp_wr);
    ep->receive_room = room(GPURING_VERBS_RECEIVES, attr->max_qp_wr);
    ep->repost_at = ep->receive_room - ep->receive_room / 8; /* in batches */
    ep->cq_room = ep->send_room + ep->receive_room + 1;
}

/* Give the endpoint an entry in the table. Gate. */
static int table_add(struct gpuring_net *net, struct gpuring_verbs_endpoint *ep)
{
    uint32_t i = 0;

    while (i < net->nendpoints && net->endpoint[i] != NULL) {
        i++;
    }
    if (i == net->nendpoints) {
        struct gpuring_verbs_endpoint **table =
            gpuring_net_grow(net->endpoint, &net->nendpoints, 16);

        if (table == NULL) {
            return GPURING_ERR_NOMEM;
        }
        net->endpoint = table;
    }
    net->endpoint[i] = ep;
    ep->index = i;
    ep->id = ++net->created_endpoints;
    return GPURING_OK;
}

bool gpuring_verbs_endpoint_whole(const struct gpuring_verbs_endpoint *ep)
{
    bool whole = !ep->retired && !ep->failed;

    for (unsigned r = 0; r < ep->nrails; r++) {
        whole = whole && !gpuring_verbs_has_failed(&ep->rail[r]);
    }
    return whole;
}

void gpuring_verbs_endpoint_release(struct gpuring_verbs_endpoint *ep)
{
    struct gpuring_net *net = ep->net;

    gpuring_gate_enter(net->base.gate);
    net->recovering -= ep->recovering;
    net->endpoint[ep->index] = NULL;
    gpuring_gate_leave(net->base.gate);
    for (unsigned r = 0; r < ep->nrails; r++) {
        gpuring_verbs_rail_release(ep, &ep->rail[r]);
    }
    free(ep->links);
    free(ep);
}

static bool has_links(const struct gpuring_verbs_endpoint *ep)
{
    const struct gpuring_net_link *link;

    VERBS_EACH_LINK(ep, link)
    {
        return true;
    }
    return false;
}

/* Release endpoints without links, except one: those that new links would not use, or all. Returns
 * true if there were any. */
static bool give_up(struct gpuring_net *net, const struct gpuring_verbs_endpoint *except, bool all)
{
    bool any = false;

    for (uint32_t i = 0; i < net->nendpoints; i++) { /* only a thread with `making` changes it */
        struct gpuring_verbs_endpoint *ep = net->endpoint[i];
        bool unused;

        if (ep != NULL && ep != except) {
            gpuring_gate_enter(net->base.gate);
            unused = !has_links(ep) && (all || !gpuring_verbs_endpoint_whole(ep));
            gpuring_gate_leave(net->base.gate);
            if (unused) {
                gpuring_verbs_endpoint_release(ep);
                any = true;
            }
        }
    }
    return any;
}

/* Create a rail. If the device has no more queue pairs, give up those of other endpoints that no
 * link uses. */
static int create_rail(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                       struct gpuring_verbs_port *port)
{
    int status = gpuring_verbs_rail_create(ep, rail, port);

    while (status == GPURING_AGAIN && give_up(ep->net, ep, true)) {
        gpuring_verbs_rail_release(ep, rail);
        status = gpuring_verbs_rail_create(ep, rail, port);
    }
    if (status == GPURING_AGAIN) {
        gpuring_error("[no-queue-pair] %s cannot create a queue pair on device %s port %d: %s; "
                      "with coll_gpuring_net=auto the ranks use another network",
                      ep->net->base.host, port->adapter->name, port->number, strerror(ENOMEM));
        return GPURING_ERR_NOMEM;
    }
    return status;
}

/* Create the lanes on the device's own port, then one spare on each of the next ports. A host with
 * fewer ports has several rails on one port. Spares that turn out not to be separate paths are
 * given up when the peer's ports are known. */
static int create_rails(struct gpuring_verbs_endpoint *ep)
{
    struct gpuring_net *net = ep->net;
    unsigned qps = net->config.verbs_qps > 0 ? (unsigned) net->config.verbs_qps : 1;
    unsigned rails = qps + (unsigned) net->config.verbs_spares;
    int status = GPURING_OK;

    choose_room(ep, &net->ports[ep->device].adapter->attr);
    ep->nlanes = qps;
    while (status == GPURING_OK && ep->nrails < rails) {
        unsigned spare = ep->nrails < qps ? 0 : ep->nrails - qps + 1;
        unsigned port = ((unsigned) ep->device + spare) % (unsigned) net->devices.count;
        struct gpuring_verbs_rail *rail = &ep->rail[ep->nrails++];

        status = create_rail(ep, rail, &net->ports[port]);
        if (status == GPURING_OK) {
            rail->place = ep->nrails - 1;
            ep->mine[rail->place] = gpuring_verbs_rail_address(rail);
        }
    }
    return status;
}

static int endpoint_create(struct gpuring_net *net, int device, const struct gpuring_net_peer *peer,
                           struct gpuring_verbs_endpoint **endpoint)
{
    struct gpuring_verbs_endpoint *ep = calloc(1, sizeof *ep);
    int status;

    if (ep == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    *ep = (struct gpuring_verbs_endpoint){.net = net, .key = *peer, .device = device};
    gpuring_gate_enter(net->base.gate);
    status = table_add(net, ep);
    gpuring_gate_leave(net->base.gate);
    if (status != GPURING_OK) {
        free(ep);
        return status;
    }
    status = create_rails(ep);
    if (status != GPURING_OK) {
        gpuring_verbs_endpoint_release(ep);
        return status;
    }
    *endpoint = ep;
    return GPURING_OK;
}

static struct gpuring_verbs_endpoint *find(struct gpuring_net *net, int device,
                                           const struct gpuring_net_peer *peer)
{
    struct gpuring_verbs_endpoint *ep, *found = NULL;

    gpuring_gate_enter(net->base.gate);
    VERBS_EACH_ENDPOINT(net, ep)
    {
        if (ep->device == device && ep->key.process == peer->process &&
            ep->key.device == peer->device && gpuring_verbs_endpoint_whole(ep) &&
            (found == NULL || ep->id > found->id)) {
            found = ep;
        }
    }
    gpuring_gate_leave(net->base.gate);
    return found;
}

int gpuring_verbs_endpoint_get(struct gpuring_net *net, int device,
                               const struct gpuring_net_peer *peer,
                               struct gpuring_verbs_endpoint **endpoint)
{
    *endpoint = find(net, device, peer);
    if (*endpoint != NULL) {
        return GPURING_OK;
    }
    (void) give_up(net, NULL, false); /* rails of unused endpoints may have failed */
    return endpoint_create(net, device, peer, endpoint);
}

void gpuring_verbs_endpoint_put(struct gpuring_verbs_endpoint *ep)
{
    struct gpuring_net *net = ep->net;
    bool used;

    gpuring_gate_enter(net->base.gate);
    used = gpuring_verbs_endpoint_whole(ep) || has_links(ep);
    gpuring_gate_leave(net->base.gate);
    if (!used) {
        gpuring_verbs_endpoint_release(ep);
    }
}

bool gpuring_verbs_endpoint_stop(struct gpuring_verbs_endpoint *ep)
{
    bool stopped = true;

    for (unsigned r = 0; r < ep->nrails; r++) {
        stopped = gpuring_verbs_rail_stop(ep, &ep->rail[r]) && stopped;
    }
    return stopped;
}

enum path { NO_PATH, ROUTED, SAME_NETWORK };

static enum path path_between(const struct gpuring_verbs_address *a,
                              const struct gpuring_verbs_address *b)
{
    return gpuring_nic_same_network(&a->nic, &b->nic) ? SAME_NETWORK
           : gpuring_nic_reaches(&a->nic, &b->nic)    ? ROUTED
                                                      : NO_PATH;
}

/* Return true at one of the two ends. */
static bool comes_first(const struct gpuring_verbs_endpoint *ep)
{
    const struct gpuring_verbs_address *a = &ep->mine[0], *b = &ep->peer[0];
    int order = memcmp(a->nic.gid, b->nic.gid, sizeof a->nic.gid);

    order = order != 0 ? order : (int) a->lid - (int) b->lid;
    if (order == 0) { /* two queue pairs of one port, or ports whose numbers are not unique */
        return a->qpn != b->qpn ? a->qpn < b->qpn : a->psn < b->psn;
    }
    return order < 0;
}

/* Find the rails with the best path among the rails of both ends from number k on. Among equal
 * paths, those with the lowest numbers are taken. Both ends call one of them the first. */
static enum path best_path(const struct gpuring_verbs_endpoint *ep, bool is_first, unsigned k,
                           unsigned *from, unsigned *to)
{
    const struct gpuring_verbs_address *first = is_first ? ep->mine : ep->peer;
    const struct gpuring_verbs_address *second = is_first ? ep->peer : ep->mine;
    enum path best = NO_PATH;

    *from = *to = k;
    for (unsigned sum = 2 * k; sum <= 2 * (ep->nrails - 1); sum++) {
        for (unsigned i = k; i < ep->nrails && i + k <= sum; i++) {
            unsigned j = sum - i;
            bool lane = (i > 0 && i < ep->nlanes) || (j > 0 && j < ep->nlanes);
            enum path path =
                j >= ep->nrails || lane ? NO_PATH : path_between(&first[i], &second[j]);

            if (path > best) {
                best = path;
                *from = i;
                *to = j;
            }
        }
    }
    return best;
}

static void swap_addresses(struct gpuring_verbs_address *rails, unsigned a, unsigned b)
{
    struct gpuring_verbs_address address = rails[a];

    rails[a] = rails[b];
    rails[b] = address;
}

static void swap_rails(struct gpuring_verbs_endpoint *ep, unsigned a, unsigned b)
{
    struct gpuring_verbs_rail rail = ep->rail[a];
    struct gpuring_net_link *link;

    ep->rail[a] = ep->rail[b];
    ep->rail[b] = rail;
    swap_addresses(ep->mine, a, b);
    VERBS_EACH_LINK(ep, link)
    {
        struct gpuring_verbs_mr *mr = link->mr[a];

        link->mr[a] = link->mr[b];
        link->mr[b] = mr;
    }
}

/*
 * Match the rails of both ends: exchange their places so that rails of equal number have the best
 * path. Both ends compute the same from the lists of both handles, which never change. Further
 * lanes, which share the port of lane 0, keep their places. Returns the kind of path that all rails
 * must have.
 */
static enum path match_rails(struct gpuring_verbs_endpoint *ep)
{
    bool first = comes_first(ep);
    enum path needed = NO_PATH;

    for (unsigned k = 0; k < ep->nrails; k = k == 0 ? ep->nlanes : k + 1) {
        unsigned from, to;
        enum path path = best_path(ep, first, k, &from, &to);

        needed = k == 0 ? path : needed;
        swap_rails(ep, k, first ? from : to);
        swap_addresses(ep->peer, k, first ? to : from);
    }
    return needed;
}

static bool same_port(const struct gpuring_verbs_address *a, const struct gpuring_verbs_address *b)
{
    return a->lid == b->lid && memcmp(a->nic.gid, b->nic.gid, sizeof a->nic.gid) == 0;
}

/* Return true if rail `r` has a path of the kind that all rails need and, as a spare, differs from
 * all earlier rails at one end at least. Both ends get the same answer. */
static bool is_path(const struct gpuring_verbs_endpoint *ep, unsigned r, enum path needed)
{
    const struct gpuring_verbs_address *here = ep->mine, *there = ep->peer;

    for (unsigned before = 0; r >= ep->nlanes && before < r; before++) {
        if (same_port(&here[before], &here[r]) && same_port(&there[before], &there[r])) {
            return false;
        }
    }
    return path_between(&here[r], &there[r]) == needed;
}

/*
 * Connect all rails. A spare that does not connect, and a rail without a path, is given up. A lane
 * that does not connect counts as failed; another rail reports this when the peer is ready. Returns
 * 0, or an errno if no rail connects.
 */
static int connect_rails(struct gpuring_verbs_endpoint *ep, enum path needed)
{
    int first = 0;

    for (unsigned r = 0; r < ep->nrails; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];
        bool path = is_path(ep, r, needed);
        int error = path ? gpuring_verbs_rail_connect(ep, rail) : ENOENT;

        if (error != 0 && path && r < ep->nlanes) {
            rail->refused = error;
            first = first != 0 ? first : error;
        } else if (error != 0) {
            gpuring_debug("%s: no path from device %s port %d to %s: %s", ep->net->base.host,
                          rail->port->adapter->name, rail->port->number, ep->peer_name,
                          path ? strerror(error) : "another network, or no path of its own");
            gpuring_verbs_rail_release(ep, rail);
        }
    }
    return gpuring_verbs_first_up(ep) == NULL ? first : 0;
}

static int connect_endpoint(struct gpuring_verbs_endpoint *ep,
                            const struct gpuring_verbs_handle *peer, const char *peer_name)
{
    struct gpuring_net *net = ep->net;
    enum path needed;
    int error;

    memcpy(ep->peer, peer->rail, sizeof ep->peer);
    snprintf(ep->peer_name, sizeof ep->peer_name, "%s", peer_name);
    needed = match_rails(ep);
    if (needed == NO_PATH) {
        gpuring_error("[rdma-networks] %s and %s have no ports on a common network for a "
                      "connection (this host: device %s port %d): select ports that reach "
                      "each other with coll_gpuring_verbs_hca",
                      net->base.host, peer_name, ep->rail[0].port->adapter->name,
                      ep->rail[0].port->number);
        return GPURING_ERR_PEER;
    }
    error = connect_rails(ep, needed);
    gpuring_gate_enter(net->base.gate);
    ep->connected = true;
    ep->peer_id = peer->endpoint;
    ep->retired = error != 0;
    gpuring_gate_leave(net->base.gate);
    if (error != 0) {
        gpuring_error("%s cannot connect device %s port %d through verbs to %s: %s; do the "
                      "ports reach each other? coll_gpuring_verbs_hca selects ports",
                      net->base.host, ep->rail[0].port->adapter->name, ep->rail[0].port->number,
                      peer_name, strerror(error));
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/*
 * Return true if the handle and this end do not belong together. Either of them may be outdated,
 * because links of several communicators are created while endpoints fail. Numbers of endpoints
 * grow, so the end that knows an older endpoint of the other one retires its own. The ends then use
 * new endpoints, or one of them does and the next wire-up retires the other one.
 */
static bool is_stale(struct gpuring_verbs_endpoint *ep, const struct gpuring_verbs_handle *peer)
{
    bool connected = ep->peer_id != 0, peer_connected = peer->peer_endpoint != 0;

    if ((!connected || ep->peer_id == peer->endpoint) &&
        (!peer_connected || peer->peer_endpoint == ep->id)) {
        return connected && !gpuring_verbs_endpoint_whole(ep);
    }
    ep->retired =
        ep->retired || (connected && ep->peer_id <= peer->endpoint) || peer->peer_endpoint > ep->id;
    return true;
}

int gpuring_verbs_endpoint_connect(struct gpuring_verbs_endpoint *ep,
                                   const struct gpuring_verbs_handle *peer, const char *peer_name)
{
    bool stale;

    gpuring_gate_enter(ep->net->base.gate);
    stale = is_stale(ep, peer);
    gpuring_gate_leave(ep->net->base.gate);
    if (stale) {
        return GPURING_ERR_STALE;
    }
    return ep->connected ? GPURING_OK : connect_endpoint(ep, peer, peer_name);
}
