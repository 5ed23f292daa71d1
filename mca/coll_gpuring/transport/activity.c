/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Begin and end operations, for the network and for the other ranks of the node. Each rank has on
 * its status page its activity and words that describe its last GPURING_OPERATIONS_KEPT operations.
 * Transports do not interpret the words, which are equal on all ranks unless the program violates
 * MPI's rules (serve/differ.h).
 */
#include <sched.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/pid.h"

/* Return the word of an operation, or 0 if the owner has not started it, or if the word may have
 * been replaced since. */
static uint64_t word_at(const struct gpuring_status_page *page, uint64_t operation)
{
    uint64_t word, last;

    /* This acquire pairs with gpuring_transport_publish, which follows the store of the word. */
    if (__atomic_load_n(&page->operation, __ATOMIC_ACQUIRE) < operation) {
        return 0;
    }
    word = __atomic_load_n(&page->made[operation % GPURING_OPERATIONS_KEPT], __ATOMIC_ACQUIRE);
    /* The next operation that uses this place replaces the word. Before that, the owner publishes
     * the operation that precedes it. */
    last = __atomic_load_n(&page->operation, __ATOMIC_RELAXED);
    return last < operation + GPURING_OPERATIONS_KEPT - 1 ? word : 0;
}

uint64_t gpuring_transport_made(const struct gpuring_transport *transport, int rank,
                                uint64_t operation)
{
    const struct gpuring_peer *peer = gpuring_peer_find(transport, rank);
    const struct gpuring_status_page *page = rank == transport->config.rank ? transport->page
                                             : peer != NULL                 ? peer->page
                                                                            : NULL;

    return page != NULL ? word_at(page, operation) : 0;
}

int gpuring_transport_differs(const struct gpuring_transport *transport, uint64_t operation,
                              uint64_t word, uint64_t *other)
{
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        *other = peer->page != NULL ? word_at(peer->page, operation) : 0;
        if (*other != 0 && *other != word) {
            return peer->rank;
        }
    }
    return -1;
}

#define OPERATIONS_PER_CORE 16 /* operations between queries of the current core */

void gpuring_transport_publish(struct gpuring_transport *transport, uint64_t operation,
                               enum gpuring_activity activity)
{
    /* This release pairs with word_at. */
    __atomic_store_n(&transport->page->operation, operation, __ATOMIC_RELEASE);
    /* This release pairs with gpuring_transport_peers_run. */
    __atomic_store_n(&transport->page->activity, (uint32_t) activity, __ATOMIC_RELEASE);
    if (activity == GPURING_ACTIVITY_RUNNING && operation % OPERATIONS_PER_CORE == 1) {
        __atomic_store_n(&transport->page->core, (uint32_t) (sched_getcpu() + 1), __ATOMIC_RELAXED);
    }
}

void gpuring_transport_begin_operation(struct gpuring_transport *transport, uint64_t operation,
                                       uint64_t word, enum gpuring_activity activity)
{
    /* This release orders the word after the store of the previous operation, see word_at. */
    __atomic_store_n(&transport->page->made[operation % GPURING_OPERATIONS_KEPT], word,
                     __ATOMIC_RELEASE);
    gpuring_transport_publish(transport, operation, activity);
}

bool gpuring_transport_shares_core(const struct gpuring_transport *transport)
{
    uint32_t core = (uint32_t) (sched_getcpu() + 1);

    for (int i = 0; core != 0 && i < transport->npeers; i++) {
        const struct gpuring_status_page *page = transport->peers[i].page;

        if (page != NULL && __atomic_load_n(&page->core, __ATOMIC_RELAXED) == core) {
            return true;
        }
    }
    return false;
}

bool gpuring_transport_peers_run(const struct gpuring_transport *transport)
{
    bool run = false;

    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        run = run || (peer->page != NULL && gpuring_pid_exists(peer->pid) &&
                      __atomic_load_n(&peer->page->activity, __ATOMIC_ACQUIRE) ==
                          GPURING_ACTIVITY_RUNNING);
    }
    return run;
}

const volatile uint32_t *gpuring_transport_abort_word(const struct gpuring_transport *transport)
{
    return &transport->page->abort;
}

const uint64_t *gpuring_transport_id(const struct gpuring_transport *transport)
{
    return transport->page->id;
}

bool gpuring_transport_remote(const struct gpuring_transport *transport)
{
    return transport->nremote > 0;
}

bool gpuring_transport_only_remote(const struct gpuring_transport *transport)
{
    return transport->nremote > 0 && transport->nremote == transport->nconns &&
           transport->config.device_ops->kind == GPURING_DEVICE_HOST;
}

bool gpuring_transport_by_mpi(const struct gpuring_transport *transport)
{
    return transport->nremote > 0 && transport->config.net_ops == &gpuring_net_mpi;
}

void gpuring_transport_begin(struct gpuring_transport *transport, bool driven)
{
    if (transport->nremote > 0) {
        gpuring_proxy_begin(&transport->group, driven);
    }
}

void gpuring_transport_end(struct gpuring_transport *transport, bool driven)
{
    if (transport->nremote > 0) {
        gpuring_proxy_end(&transport->group, driven);
    }
}

void gpuring_transport_keep(struct gpuring_transport *transport, bool repeated)
{
    transport->keeps = true;
    transport->keeps_repeated |= repeated;
    if (transport->nremote > 0 && !transport->kept) {
        gpuring_proxy_begin(&transport->group, false);
        transport->kept = true;
    } else if (transport->nremote > 0 && transport->keeps_repeated) {
        /* The thread may nap for long while no graph runs. */
        gpuring_proxy_begin(&transport->group, false);
        gpuring_proxy_end(&transport->group, false);
    }
}

void gpuring_transport_unkeep(struct gpuring_transport *transport, bool repeated)
{
    if (transport->kept && (repeated || !transport->keeps_repeated)) {
        transport->kept = false;
        gpuring_proxy_end(&transport->group, false);
    }
}

bool gpuring_transport_help(struct gpuring_transport *transport, bool ran)
{
    return transport->nremote > 0 && gpuring_proxy_help(&transport->group, ran);
}

void gpuring_transport_nap(struct gpuring_transport *transport, uint64_t ns)
{
    gpuring_proxy_nap(transport->config.proxy, ns);
}

uint64_t gpuring_transport_moved(const struct gpuring_transport *transport)
{
    return gpuring_proxy_moved(&transport->group);
}

bool gpuring_transport_settle(struct gpuring_transport *transport, bool late)
{
    return transport->nremote == 0 || gpuring_proxy_settle(&transport->group, late);
}

void gpuring_transport_unpost(struct gpuring_transport *transport)
{
    /* Only these nets hold the communicator. The connections of others may be closed meanwhile. */
    if (transport->nremote > 0 && transport->config.net_ops->link_withdraw != NULL) {
        gpuring_proxy_unpost(&transport->group);
    }
}
