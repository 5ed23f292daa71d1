/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The life of a link of the net `verbs`: from creation to closing. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Choose the sizes of the queues, which must have room for everything that may be in flight. A slot
 * may need two sends. */
static void choose_room(struct gpuring_net_link *link, const struct gpuring_net_memory *memory,
                        unsigned rails)
{
    unsigned steps = 0, large = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_net_ring *ring = &memory->ring[p];

        steps += ring->slots != NULL ? ring->nslots : 0;
        large += ring->slots != NULL && ring->slot_bytes >= GPURING_VERBS_BLOCK ? ring->nslots : 0;
    }
    link->messages = steps + GPURING_VERBS_CONTROL(rails);
    link->send_room = link->messages + large;
    link->receive_room = link->messages + link->messages / 4; /* reposted in batches */
    link->cq_room = link->send_room + link->receive_room + 1;
}

/* Release a link. The caller holds `making`. */
static void link_release(struct gpuring_net_link *link)
{
    struct gpuring_net *net = gpuring_verbs_net(link);

    gpuring_gate_enter(net->base.gate);
    net->recovering -= link->recovering;
    gpuring_net_base_remove(&link->base);
    gpuring_gate_leave(net->base.gate);
    for (unsigned r = 0; r < link->nrails; r++) {
        gpuring_verbs_rail_release(link, &link->rail[r]);
    }
    free(link);
}

/* Create the lanes on the link's own port, then one spare on each of the next ports. A host with
 * fewer ports has several rails on one port. Spares that turn out not to be separate paths are
 * given up when the peer's ports are known. */
static int link_build(struct gpuring_net *net, struct gpuring_net_link *link, int device,
                      const struct gpuring_net_memory *memory)
{
    unsigned qps = net->config.verbs_qps > 0 ? (unsigned) net->config.verbs_qps : 1;
    unsigned rails = qps + (unsigned) net->config.verbs_spares;
    int status = GPURING_OK;

    choose_room(link, memory, rails);
    link->nlanes = qps;
    while (status == GPURING_OK && link->nrails < rails) {
        unsigned spare = link->nrails < qps ? 0 : link->nrails - qps + 1;
        unsigned port = ((unsigned) device + spare) % (unsigned) net->devices.count;

        link->nrails++;
        status = gpuring_verbs_rail_create(link, &link->rail[link->nrails - 1], &net->ports[port],
                                           memory);
    }
    return status;
}

/* Fill in the handle of this end. Call it before connecting, which may give up spares. */
static void fill_handle(struct gpuring_net_link *link)
{
    struct gpuring_verbs_handle *handle = &link->mine;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        handle->slots[p] = (uint64_t) (uintptr_t) link->base.count[p].memory.slots;
    }
    for (unsigned r = 0; r < link->nrails; r++) {
        const struct gpuring_verbs_rail *rail = &link->rail[r];

        handle->rail[r] = gpuring_verbs_rail_address(rail, rail->qp);
    }
}

int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              enum gpuring_net_direction direction,
                              const struct gpuring_net_memory *memory,
                              struct gpuring_net_link **result)
{
    struct gpuring_net_link *link;
    int status;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        if (memory->ring[p].nslots > GPURING_VERBS_MAX_SLOTS) {
            gpuring_error("the network verbs has at most %d slots in a ring",
                          GPURING_VERBS_MAX_SLOTS);
            return GPURING_ERR_ARG;
        }
    }
    if (device < 0 || device >= net->devices.count) {
        gpuring_error("the network verbs has no device number %d", device);
        return GPURING_ERR_ARG;
    }
    link = calloc(1, sizeof *link);
    if (link == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    pthread_mutex_lock(&net->making);
    gpuring_gate_enter(net->base.gate);
    status = gpuring_net_base_add(&net->base, &link->base, direction, memory);
    gpuring_gate_leave(net->base.gate);
    if (status != GPURING_OK) {
        free(link);
        goto out;
    }
    status = link_build(net, link, device, memory);
    if (status != GPURING_OK) {
        link_release(link);
        goto out;
    }
    fill_handle(link);
    *result = link;
out:
    pthread_mutex_unlock(&net->making);
    return status;
}

static size_t handle_bytes(unsigned rails)
{
    return offsetof(struct gpuring_verbs_handle, rail) +
           rails * sizeof(struct gpuring_verbs_address);
}

size_t gpuring_verbs_link_handle(const struct gpuring_net_link *link, void *handle)
{
    memcpy(handle, &link->mine, handle_bytes(link->nrails));
    return handle_bytes(link->nrails);
}

enum path { NO_PATH, ROUTED, SAME_NETWORK };

static enum path path_between(const struct gpuring_verbs_address *a,
                              const struct gpuring_verbs_address *b)
{
    return gpuring_nic_same_network(&a->nic, &b->nic) ? SAME_NETWORK
           : gpuring_nic_reaches(&a->nic, &b->nic)    ? ROUTED
                                                      : NO_PATH;
}

/* Find the rails with the best path among the sender's and receiver's rails from number k on. Among
 * equal paths, those with the lowest numbers are taken. */
static enum path best_path(const struct gpuring_net_link *link, unsigned k, unsigned *from,
                           unsigned *to)
{
    bool sends = link->base.direction == GPURING_NET_SEND;
    const struct gpuring_verbs_handle *sender = sends ? &link->mine : &link->peer;
    const struct gpuring_verbs_handle *receiver = sends ? &link->peer : &link->mine;
    enum path best = NO_PATH;

    *from = *to = k;
    for (unsigned sum = 2 * k; sum <= 2 * (link->nrails - 1); sum++) {
        for (unsigned i = k; i < link->nrails && i + k <= sum; i++) {
            unsigned j = sum - i;
            bool lane = (i > 0 && i < link->nlanes) || (j > 0 && j < link->nlanes);
            enum path path = j >= link->nrails || lane
                                 ? NO_PATH
                                 : path_between(&sender->rail[i], &receiver->rail[j]);

            if (path > best) {
                best = path;
                *from = i;
                *to = j;
            }
        }
    }
    return best;
}

static void swap_addresses(struct gpuring_verbs_handle *handle, unsigned a, unsigned b)
{
    struct gpuring_verbs_address address = handle->rail[a];

    handle->rail[a] = handle->rail[b];
    handle->rail[b] = address;
}

static void swap_rails(struct gpuring_net_link *link, unsigned a, unsigned b)
{
    struct gpuring_verbs_rail rail = link->rail[a];

    link->rail[a] = link->rail[b];
    link->rail[b] = rail;
    swap_addresses(&link->mine, a, b);
}

/*
 * Match the rails of both ends: exchange their places so that rails of equal number have the best
 * path. Both ends compute the same from both handles. Further lanes, which share the port of lane
 * 0, keep their places. Returns the kind of path that all rails must have.
 */
static enum path match_rails(struct gpuring_net_link *link)
{
    bool sends = link->base.direction == GPURING_NET_SEND;
    enum path needed = NO_PATH;

    for (unsigned k = 0; k < link->nrails; k = k == 0 ? link->nlanes : k + 1) {
        unsigned from, to;
        enum path path = best_path(link, k, &from, &to);

        needed = k == 0 ? path : needed;
        swap_rails(link, k, sends ? from : to);
        swap_addresses(&link->peer, k, sends ? to : from);
    }
    return needed;
}

static bool same_port(const struct gpuring_verbs_address *a, const struct gpuring_verbs_address *b)
{
    return a->lid == b->lid && memcmp(a->nic.gid, b->nic.gid, sizeof a->nic.gid) == 0;
}

/* Return true if rail `r` has a path of the kind that all rails need and, as a spare, differs from
 * all earlier rails at one end at least. Both ends get the same answer. */
static bool is_path(const struct gpuring_net_link *link, unsigned r, enum path needed)
{
    const struct gpuring_verbs_address *here = link->mine.rail, *there = link->peer.rail;

    for (unsigned before = 0; r >= link->nlanes && before < r; before++) {
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
static int connect_rails(struct gpuring_net_link *link, enum path needed)
{
    int first = 0;

    for (unsigned r = 0; r < link->nrails; r++) {
        struct gpuring_verbs_rail *rail = &link->rail[r];
        bool path = is_path(link, r, needed);
        int error = path ? gpuring_verbs_rail_connect(link, rail) : ENOENT;

        if (error != 0 && path && r < link->nlanes) {
            rail->refused = error;
            first = first != 0 ? first : error;
        } else if (error != 0) {
            gpuring_debug("%s: no path from device %s port %d to %s: %s", link->base.net->host,
                          rail->port->adapter->name, rail->port->number, link->base.peer_name,
                          path ? strerror(error) : "another network, or no path of its own");
            gpuring_verbs_rail_release(link, rail);
        }
    }
    return gpuring_verbs_first_up(link) == NULL ? first : 0;
}

int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    enum path needed;
    int error;

    (void) process_handle;
    (void) process_bytes;
    if (bytes != handle_bytes(link->nrails)) {
        gpuring_error("%s sent no handle of a verbs connection: does it run the same version of "
                      "coll/gpuring, with the same coll_gpuring_net?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    memcpy(&link->peer, handle, bytes);
    needed = match_rails(link);
    if (needed == NO_PATH) {
        gpuring_error("[rdma-networks] %s and %s have no ports on a common network for a "
                      "connection (this host: device %s port %d): select ports that reach "
                      "each other with coll_gpuring_verbs_hca",
                      net->base.host, peer_name, link->rail[0].port->adapter->name,
                      link->rail[0].port->number);
        return GPURING_ERR_PEER;
    }
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    pthread_mutex_lock(&net->making);
    error = connect_rails(link, needed);
    pthread_mutex_unlock(&net->making);
    gpuring_gate_enter(net->base.gate);
    link->connected = true;
    gpuring_gate_leave(net->base.gate);
    if (error != 0) {
        gpuring_error("%s cannot connect device %s port %d through verbs to %s: %s; do the "
                      "ports reach each other? coll_gpuring_verbs_hca selects ports",
                      net->base.host, link->rail[0].port->adapter->name, link->rail[0].port->number,
                      peer_name, strerror(error));
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Send BYE, so that the peer does not mistake silence for a failure. */
int gpuring_verbs_link_leave(struct gpuring_net_link *link)
{
    struct gpuring_verbs_rail *up = gpuring_verbs_first_up(link);

    if (!link->ready || link->base.status != GPURING_OK || link->peer_closed || up == NULL) {
        return GPURING_OK;
    }
    if (link->bye != NULL && link->bye->state == GPURING_VERBS_UP) {
        return link->bye->sq_done == link->bye->sq_posted ? GPURING_OK : GPURING_AGAIN;
    }
    if (gpuring_verbs_post_control(link, up, GPURING_VERBS_BYE, 0, 0, 0) == GPURING_OK) {
        link->bye = up; /* otherwise there was no room, or the rail failed */
    }
    return GPURING_AGAIN;
}

bool gpuring_verbs_link_whole(struct gpuring_net_link *link)
{
    bool whole = !link->peer_closed;

    for (unsigned r = 0; r < link->nrails; r++) {
        whole = whole && !gpuring_verbs_has_failed(&link->rail[r]);
    }
    return whole;
}

void gpuring_verbs_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net *net;

    if (link == NULL) {
        return;
    }
    net = gpuring_verbs_net(link);
    pthread_mutex_lock(&net->making);
    link_release(link);
    pthread_mutex_unlock(&net->making);
}
