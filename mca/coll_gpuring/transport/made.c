/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Words that describe the last GPURING_OPERATIONS_KEPT operations of each rank of the node, on the
 * rank's status page. Transports do not interpret the words, which are equal on all ranks unless
 * the program violates MPI's rules (serve/differ.h).
 */
#include "mca/coll_gpuring/transport/transport_internal.h"

void gpuring_transport_make(struct gpuring_transport *transport, uint64_t operation, uint64_t word)
{
    /* This release orders the word after the store of the previous operation, see word_at. */
    __atomic_store_n(&transport->page->made[operation % GPURING_OPERATIONS_KEPT], word,
                     __ATOMIC_RELEASE);
}

/* Return the word of an operation, or 0 if the owner has not started it, or if the word may have
 * been replaced since. */
static uint64_t word_at(const struct gpuring_status_page *page, uint64_t operation)
{
    uint64_t word, last;

    /* This acquire pairs with gpuring_transport_publish, which follows gpuring_transport_make. */
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

    return peer != NULL && peer->page != NULL ? word_at(peer->page, operation) : 0;
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
