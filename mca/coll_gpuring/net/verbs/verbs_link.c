/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The life of a link of the net `verbs`: from creation to closing. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define MOST_LINKS (1u << VERBS_IMM_LINK_BITS)

/* Give the link a number, and add it to its endpoint. If there is none left, retire the endpoint
 * and return GPURING_ERR_STALE, so that all ranks connect with new ones. Gate. */
static int take_number(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    unsigned number = 0;

    while (number < ep->nlinks && ep->links[number] != NULL) {
        number++;
    }
    if (number == MOST_LINKS) {
        ep->retired = true;
        return GPURING_ERR_STALE;
    }
    if (number == ep->nlinks) {
        struct gpuring_net_link **links = gpuring_net_grow(ep->links, &ep->nlinks, 2);

        if (links == NULL) {
            return GPURING_ERR_NOMEM;
        }
        ep->links = links;
    }
    ep->links[number] = link;
    link->number = number;
    return GPURING_OK;
}

/* Release a link. The caller holds `making`. */
static void link_release(struct gpuring_net_link *link)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    gpuring_gate_enter(net->base.gate);
    gpuring_net_base_remove(&link->base);
    if (ep != NULL && link->number < ep->nlinks && ep->links[link->number] == link) {
        ep->links[link->number] = NULL;
        gpuring_verbs_flush_forget(link);
        gpuring_verbs_forget_sends(link);
    }
    gpuring_gate_leave(net->base.gate);
    if (ep != NULL) {
        gpuring_verbs_endpoint_put(ep);
    }
    for (unsigned r = 0; r < GPURING_VERBS_MAX_RAILS; r++) {
        if (link->mr[r] != NULL) {
            gpuring_verbs_mr_put(link->mr[r]);
        }
    }
    free(link);
}

/* Register the link's memory with the adapter of each rail. */
static int reach_memory(struct gpuring_net_link *link, const struct gpuring_net_memory *memory)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    int status = GPURING_OK;

    link->on_gpu = memory->device != NULL;
    link->flushes =
        link->on_gpu && memory->device->flush && link->base.direction == GPURING_NET_RECV;
    for (unsigned r = 0; r < ep->nrails && status == GPURING_OK; r++) {
        if (ep->rail[r].qp == NULL) {
            continue;
        }
        status = gpuring_verbs_mr_get(ep->net, ep->rail[r].port->adapter, memory, &link->mr[r]);
        if (status == GPURING_OK && link->flushes) {
            status = gpuring_verbs_rail_flushes(ep, &ep->rail[r]);
        }
    }
    return status;
}

/* Fill in the handle of this end. */
/* Rails are listed in the order of their creation. The peer may not be connected yet although this
 * end is, and it must match the same lists as this end has (match_rails). */
static void fill_handle(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;
    struct gpuring_verbs_handle *handle = &link->mine;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        handle->slots[p] = (uint64_t) (uintptr_t) link->base.count[p].memory.slots;
    }
    handle->endpoint = ep->id;
    handle->peer_endpoint = ep->peer_id;
    handle->number = link->number;
    for (unsigned r = 0; r < ep->nrails; r++) {
        unsigned place = ep->rail[r].place;

        handle->rail[place] = ep->mine[r];
        handle->rail[place].rkey = link->mr[r] != NULL ? link->mr[r]->mr->rkey : 0;
    }
}

/* Choose blocks of which a slot has at most as many as the immediate value can express. */
static void choose_blocks(struct gpuring_net_link *link)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint32_t block = GPURING_VERBS_BLOCK;

        while (link->base.count[p].memory.slot_bytes / block >= 1u << VERBS_IMM_BLOCKS_BITS) {
            block *= 2;
        }
        link->block[p] = block;
    }
}

static int link_build(struct gpuring_net_link *link, int device,
                      const struct gpuring_net_peer *peer, const struct gpuring_net_memory *memory)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    int status = gpuring_verbs_endpoint_get(net, device, peer, &link->endpoint);

    if (status == GPURING_OK) {
        gpuring_gate_enter(net->base.gate);
        status = take_number(link);
        gpuring_gate_leave(net->base.gate);
    }
    if (status == GPURING_OK) {
        status = reach_memory(link, memory);
    }
    if (status == GPURING_OK) {
        choose_blocks(link);
        fill_handle(link);
    }
    return status;
}

int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              const struct gpuring_net_peer *peer,
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
    status = link_build(link, device, peer, memory);
    if (status != GPURING_OK) {
        link_release(link);
        goto out;
    }
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
    memcpy(handle, &link->mine, handle_bytes(link->endpoint->nrails));
    return handle_bytes(link->endpoint->nrails);
}

/* Find the keys of the peer's slots for each rail, whose places may have been exchanged. Returns
 * false if the handle does not contain a queue pair that this end is connected with. */
static bool find_keys(struct gpuring_net_link *link, const struct gpuring_verbs_handle *peer)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails; r++) {
        unsigned at = 0;

        while (at < ep->nrails &&
               (peer->rail[at].qpn != ep->peer[r].qpn || peer->rail[at].psn != ep->peer[r].psn)) {
            at++;
        }
        if (at == ep->nrails) {
            return false;
        }
        link->rkey[r] = peer->rail[at].rkey;
    }
    return true;
}

/* Let messages refer to a link, unless a rail of its endpoint has failed in the meantime. The peer
 * has given its number to the link, so it has closed earlier links with this number. Gate. */
static int begin_use(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    struct gpuring_net_link *other;

    if (!gpuring_verbs_endpoint_whole(ep)) {
        return GPURING_ERR_STALE;
    }
    VERBS_EACH_LINK(ep, other)
    {
        other->peer_knows =
            other->peer_knows || (other->connected && other->peer_number == link->peer_number);
    }
    link->connected = true;
    return GPURING_OK;
}

int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    struct gpuring_verbs_handle peer;
    int status;

    (void) process_handle;
    (void) process_bytes;
    if (bytes != handle_bytes(ep->nrails)) {
        gpuring_error("%s sent no handle of a verbs connection: does it run the same version of "
                      "coll/gpuring, with the same coll_gpuring_net?",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    memset(&peer, 0, sizeof peer);
    memcpy(&peer, handle, bytes);
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    link->peer_number = VERBS_LOW(peer.number, VERBS_IMM_LINK_BITS);
    memcpy(link->peer_slots, peer.slots, sizeof link->peer_slots);
    pthread_mutex_lock(&net->making);
    status = gpuring_verbs_endpoint_connect(ep, &peer, peer_name);
    pthread_mutex_unlock(&net->making);
    if (status == GPURING_OK && !find_keys(link, &peer)) {
        gpuring_error("%s sent the handle of another verbs connection", peer_name);
        status = GPURING_ERR_PEER;
    }
    gpuring_gate_enter(net->base.gate);
    if (status == GPURING_OK) {
        status = begin_use(link);
    }
    gpuring_gate_leave(net->base.gate);
    return status;
}

/* Choose the rails that carry BYE: those that the link has used. */
static void choose_bye(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    link->left = true;
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (ep->rail[r].state == GPURING_VERBS_UP && (link->used >> r & 1) != 0) {
            link->bye |= 1u << r;
        }
    }
    if (link->bye == 0) {
        link->bye = 1u << gpuring_verbs_rail_number(ep, gpuring_verbs_first_up(ep));
    }
}

/* Post BYE on each chosen rail once, as far as there is room. Returns true if the peer has received
 * all of them. */
static bool say_bye(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    bool received = true;

    for (unsigned r = 0; r < ep->nrails; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];
        bool chosen = (link->bye >> r & 1) != 0;

        if (chosen && link->bye_at[r] == 0 &&
            gpuring_verbs_post_control(ep, rail, GPURING_VERBS_BYE, link->peer_number, 0,
                                       link->bye) == GPURING_OK) {
            link->bye_at[r] = rail->sq_posted;
        }
        received =
            received && (!chosen || (link->bye_at[r] > 0 && rail->sq_done >= link->bye_at[r]));
    }
    return received;
}

/* Forget the BYE of rails that have failed. */
static void forget_bye(struct gpuring_net_link *link)
{
    for (unsigned r = 0; r < link->endpoint->nrails; r++) {
        if (link->endpoint->rail[r].state != GPURING_VERBS_UP) {
            link->bye &= ~(1u << r);
            link->bye_at[r] = 0;
        }
    }
}

/* Return true if the peer receives nothing more on rails that have failed. */
static bool all_settled(const struct gpuring_verbs_endpoint *ep)
{
    for (unsigned r = 0; r < ep->nrails; r++) {
        if (gpuring_verbs_has_failed(&ep->rail[r]) && !ep->rail[r].peer_reported) {
            return false;
        }
    }
    return true;
}

/* Post BYE if all slots of the link have completed. Returns true if the peer has received it. */
static bool leave_link(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;

    forget_bye(link);
    if (link->peer_knows) {
        return true;
    }
    if (link->bye == 0 && link->in_flight == 0 && all_settled(ep) &&
        gpuring_verbs_say_abort(link) && !ep->failed) {
        choose_bye(link);
    }
    link->peer_knows = link->bye != 0 && say_bye(link);
    return link->peer_knows;
}

/* Wait until BYE can be posted, but not until the peer has received it, because the peer may be
 * outside MPI for long, without receives for any further message. link_holds does the rest. */
int gpuring_verbs_link_leave(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    if (!link->ready || ep->failed || gpuring_verbs_first_up(ep) == NULL) {
        return GPURING_OK;
    }
    return leave_link(link) || link->left ? GPURING_OK : GPURING_AGAIN;
}

/* Return true if the peer or a flush may still access the link's memory, or if the peer does not
 * know yet that this end has closed the link. Gate. */
static bool is_held(struct gpuring_net_link *link)
{
    if (link->ready && !link->closing) {
        bool known = leave_link(link);

        link->closing = known && link->in_flight == 0 && link->peer_closed &&
                        !gpuring_verbs_flush_pending(link);
    }
    link->closing = link->closing || !link->ready;
    return !link->closing || gpuring_verbs_flush_reads(link);
}

bool gpuring_verbs_link_holds(struct gpuring_net_link *link)
{
    struct gpuring_net *net = gpuring_verbs_net(link);
    struct gpuring_verbs_endpoint *ep = link->endpoint;
    bool failed, held;

    gpuring_gate_enter(net->base.gate);
    /* The proxy sleeps while no operation runs, so nothing else may poll the net or probe the peer.
     */
    (void) gpuring_verbs_completions(net);
    gpuring_verbs_recover(net);
    failed = ep->failed;
    held = !failed && is_held(link);
    if (held) {
        gpuring_verbs_probe_endpoint(ep, gpuring_now_ns(), false);
    }
    gpuring_gate_leave(net->base.gate);
    if (failed) {
        pthread_mutex_lock(&net->making);
        held = !gpuring_verbs_endpoint_stop(ep);
        pthread_mutex_unlock(&net->making);
    }
    return held;
}

bool gpuring_verbs_link_whole(struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;
    bool whole = !link->peer_closed;

    for (unsigned r = 0; r < ep->nrails; r++) {
        whole = whole && !gpuring_verbs_has_failed(&ep->rail[r]);
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
