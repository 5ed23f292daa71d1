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

/* Choose the sizes of the queues, which must have room for everything that may be in flight. A slot
 * may need two sends. */
static void choose_room(struct gpuring_verbs_endpoint *ep, const struct gpuring_net_memory *memory,
                        unsigned rails)
{
    unsigned steps = 0, large = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_net_ring *ring = &memory->ring[p];

        steps += ring->slots != NULL ? ring->nslots : 0;
        large += ring->slots != NULL && ring->slot_bytes >= GPURING_VERBS_BLOCK ? ring->nslots : 0;
    }
    ep->repost_at = steps + GPURING_VERBS_CONTROL(rails);
    ep->send_room = ep->repost_at + large;
    ep->receive_room = ep->repost_at + ep->repost_at / 4; /* reposted in batches */
    ep->cq_room = ep->send_room + ep->receive_room + 1;
}

/* Give the endpoint an entry in the table. Gate. */
static int table_add(struct gpuring_net *net, struct gpuring_verbs_endpoint *ep)
{
    uint32_t i = 0, count = net->nendpoints;
    struct gpuring_verbs_endpoint **table = net->endpoint;

    while (i < count && table[i] != NULL) {
        i++;
    }
    if (i == count) {
        count = count > 0 ? 2 * count : 16;
        table = realloc(table, count * sizeof(*table));
        if (table == NULL) {
            return GPURING_ERR_NOMEM;
        }
        memset(table + i, 0, (count - i) * sizeof(*table));
        net->endpoint = table;
        net->nendpoints = count;
    }
    table[i] = ep;
    ep->index = i;
    return GPURING_OK;
}

/* Create the lanes on the device's own port, then one spare on each of the next ports. A host with
 * fewer ports has several rails on one port. Spares that turn out not to be separate paths are
 * given up when the peer's ports are known. */
static int create_rails(struct gpuring_verbs_endpoint *ep, int device,
                        const struct gpuring_net_memory *memory)
{
    struct gpuring_net *net = ep->net;
    unsigned qps = net->config.verbs_qps > 0 ? (unsigned) net->config.verbs_qps : 1;
    unsigned rails = qps + (unsigned) net->config.verbs_spares;
    int status = GPURING_OK;

    choose_room(ep, memory, rails);
    ep->nlanes = qps;
    while (status == GPURING_OK && ep->nrails < rails) {
        unsigned spare = ep->nrails < qps ? 0 : ep->nrails - qps + 1;
        unsigned port = ((unsigned) device + spare) % (unsigned) net->devices.count;
        struct gpuring_verbs_rail *rail = &ep->rail[ep->nrails++];

        status = gpuring_verbs_rail_create(ep, rail, &net->ports[port]);
        if (status == GPURING_OK) {
            ep->mine[ep->nrails - 1] = gpuring_verbs_rail_address(rail);
        }
    }
    return status;
}

int gpuring_verbs_endpoint_create(struct gpuring_net *net, int device,
                                  const struct gpuring_net_memory *memory,
                                  struct gpuring_verbs_endpoint **endpoint)
{
    struct gpuring_verbs_endpoint *ep = calloc(1, sizeof *ep);
    int status = ep != NULL ? GPURING_OK : GPURING_ERR_NOMEM;

    if (status == GPURING_OK) {
        ep->net = net;
        gpuring_gate_enter(net->base.gate);
        status = table_add(net, ep);
        gpuring_gate_leave(net->base.gate);
    }
    if (status != GPURING_OK) {
        gpuring_error("out of memory for a verbs connection");
        free(ep);
        return status;
    }
    status = create_rails(ep, device, memory);
    if (status != GPURING_OK) {
        gpuring_verbs_endpoint_release(ep);
        return status;
    }
    *endpoint = ep;
    return GPURING_OK;
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
 * path. Both ends compute the same from both handles. Further lanes, which share the port of lane
 * 0, keep their places. Returns the kind of path that all rails must have.
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

int gpuring_verbs_endpoint_connect(struct gpuring_verbs_endpoint *ep,
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
