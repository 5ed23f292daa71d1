/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Identity, liveness and last known activity of peers, stopping all of them, and data that an
 * operation has left unsent to them. */
#include <stdio.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/pid.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_transport_peer_rank(const struct gpuring_transport *transport, int plan, uint32_t lane,
                                enum gpuring_lane_wait wait, uint32_t ref)
{
    const struct gpuring_plan *p = transport->ends[plan].plan;

    if (lane >= p->nlanes) {
        return -1;
    }
    if (wait == GPURING_WAIT_RECV && ref < p->lanes[lane].nrecvs) {
        return p->recvs[p->lanes[lane].first_recv + ref].peer;
    }
    if (wait == GPURING_WAIT_SEND && ref < p->lanes[lane].nsends) {
        return p->sends[p->lanes[lane].first_send + ref].peer;
    }
    return -1;
}

void gpuring_transport_peer_text(const struct gpuring_transport *transport, int rank, char *text,
                                 size_t size)
{
    const struct gpuring_peer *peer = gpuring_peer_find(transport, rank);

    if (peer == NULL) {
        snprintf(text, size, "no peer");
        return;
    }
    snprintf(text, size, "rank %d (host %s, pid %u) by %s", rank, peer->hostname, peer->pid,
             peer->remote          ? transport->config.net_ops->name
             : peer->host_fallback ? "pinned host memory"
             : transport->probes   ? "peer memory"
                                   : "shared memory");
}

/* Stop the owner of the page. The first status is kept. */
static void abort_page(struct gpuring_status_page *page, int status)
{
    uint32_t running = 0;

    /* Pairs with the executors' acquire load of work->abort and with gpuring_transport_health. */
    __atomic_compare_exchange_n(&page->abort, &running, (uint32_t) -status, 0, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

void gpuring_transport_abort(struct gpuring_transport *transport, int status)
{
    abort_page(transport->page, status);
    for (int i = 0; i < transport->npeers; i++) {
        if (transport->peers[i].page != NULL) {
            abort_page(transport->peers[i].page, status);
        }
    }
    gpuring_remote_abort(transport, status);
}

int gpuring_transport_health(struct gpuring_transport *transport, char *text, size_t size)
{
    uint32_t abort_word = __atomic_load_n(&transport->page->abort, __ATOMIC_ACQUIRE);

    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        if (!peer->remote && !gpuring_pid_exists((pid_t) peer->pid)) {
            snprintf(text, size, "[peer-died] rank %d (host %s, pid %u) has died", peer->rank,
                     peer->hostname, peer->pid);
            return GPURING_ERR_PEER;
        }
    }
    if (abort_word != 0) {
        snprintf(text, size, "another rank stopped the communicator: %s",
                 gpuring_status_text(-(int) abort_word));
        return GPURING_ERR_ABORTED;
    }
    return gpuring_remote_health(transport, text, size);
}

bool gpuring_transport_unsent(struct gpuring_transport *transport, bool waited)
{
    return transport->nremote > 0 &&
           (gpuring_proxy_unsent(&transport->group) ||
            (waited && gpuring_remote_health(transport, NULL, 0) != GPURING_OK));
}

int gpuring_transport_unsent_to(const struct gpuring_transport *transport)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];

        if (conn->link != NULL && gpuring_proxy_link_unsent(conn->link)) {
            return conn->peer;
        }
    }
    return -1;
}

void gpuring_transport_note_call(struct gpuring_transport *transport, uint64_t call, bool on_gpu)
{
    /* This release pairs with on_hosts_at. */
    __atomic_store_n(on_gpu ? &transport->page->on_gpu : &transport->page->on_hosts,
                     transport->earlier_calls + call, __ATOMIC_RELEASE);
}

/* Return true if the page's owner passed host buffers to this call. */
static bool on_hosts_at(const struct gpuring_status_page *page, uint64_t call)
{
    /* This acquire pairs with gpuring_transport_note_call, so that on_gpu is not older. */
    uint64_t on_hosts = __atomic_load_n(&page->on_hosts, __ATOMIC_ACQUIRE);
    uint64_t on_gpu = __atomic_load_n(&page->on_gpu, __ATOMIC_RELAXED);

    return on_hosts == call || (on_hosts > call && on_gpu < call);
}

int gpuring_transport_on_hosts(const struct gpuring_transport *transport, uint64_t call)
{
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        if (peer->page != NULL && on_hosts_at(peer->page, transport->earlier_calls + call)) {
            return peer->rank;
        }
    }
    return -1;
}

bool gpuring_transport_reusable(struct gpuring_transport *transport)
{
    char text[640];

    return gpuring_transport_health(transport, text, sizeof text) == GPURING_OK &&
           gpuring_remote_whole(transport);
}

void gpuring_transport_attach(struct gpuring_transport *transport, struct ompi_communicator_t *comm,
                              int track)
{
    const struct gpuring_net_ops *ops = transport->config.net_ops;

    if (transport->nremote > 0) {
        if (ops->attach != NULL) {
            ops->attach(transport->config.net, comm, track);
        }
        gpuring_proxy_reused(&transport->group);
    }
}

void gpuring_transport_continue(struct gpuring_transport *transport, uint64_t calls, uint64_t votes)
{
    transport->earlier_calls += calls;
    transport->earlier_votes += votes;
}

uint64_t gpuring_transport_identity(const struct gpuring_transport *transport, uint64_t hash)
{
    hash = gpuring_hash_bytes(hash, transport->page->id, sizeof transport->page->id);
    hash = gpuring_hash_number(hash, transport->page->operation);
    hash = gpuring_hash_number(hash, transport->earlier_calls);
    return gpuring_hash_number(hash, transport->earlier_votes);
}

void gpuring_transport_peer_state(const struct gpuring_transport *transport, int peer,
                                  uint64_t *operation, char *text, size_t size)
{
    static const char *const doing[] = {
        [GPURING_ACTIVITY_OUTSIDE] = "is outside, its last operation was",
        [GPURING_ACTIVITY_RUNNING] = "is in operation",
        [GPURING_ACTIVITY_FAILED] = "failed in operation",
        [GPURING_ACTIVITY_QUEUED] = "has last queued operation",
        [GPURING_ACTIVITY_CLOSED] = "has freed the communicator after operation"};
    const struct gpuring_peer *known = gpuring_peer_find(transport, peer);
    uint32_t activity;

    *operation = UINT64_MAX;
    if (known == NULL || known->page == NULL) {
        snprintf(text, size, "unknown (it is on another node)");
        return;
    }
    *operation = __atomic_load_n(&known->page->operation, __ATOMIC_RELAXED);
    activity = __atomic_load_n(&known->page->activity, __ATOMIC_RELAXED);
    if (activity == GPURING_ACTIVITY_OUTSIDE && *operation == 0) {
        snprintf(text, size, "has not entered any operation yet");
    } else {
        snprintf(text, size, "%s %llu", doing[activity % (GPURING_ACTIVITY_CLOSED + 1)],
                 (unsigned long long) *operation);
    }
}

bool gpuring_transport_maps_all(const struct gpuring_transport *transport)
{
    bool all = transport->npeers == transport->config.nranks - 1;

    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        all = all && peer->region != NULL && !peer->host_fallback;
    }
    return all;
}

uint64_t gpuring_transport_memory(const struct gpuring_transport *transport)
{
    return (uint64_t) transport->region_bytes * (transport->host_fallback_reached ? 2 : 1) +
           transport->net_region_bytes + transport->direct_bytes;
}

void gpuring_transport_name(const struct gpuring_transport *transport, char *text, size_t size)
{
    bool cuda = transport->config.device_ops->kind == GPURING_DEVICE_CUDA,
         net = transport->nremote > 0;
    int direct = 0, staged = 0;

    for (int i = 0; i < transport->npeers; i++) {
        direct += !transport->peers[i].remote && !transport->peers[i].host_fallback;
        staged += transport->peers[i].host_fallback;
    }
    snprintf(text, size, "%s%s%s%s%s",
             direct == 0 ? ""
             : cuda      ? "peer"
                         : "shm",
             direct > 0 && staged > 0 ? "+" : "", staged > 0 ? "staged" : "",
             direct + staged > 0 && net ? "+" : "", net ? transport->config.net_ops->name : "");
}
