/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Votes on the status pages. Who votes HOST stores the number of the call, and no more: a rank may
 * make any number of such calls before others come to the first of them. Other votes are written
 * down, as ballots. In calls up to `voted` the owner has voted HOST where there is no ballot.
 *
 * A ballot is replaced when all other ranks are known to need it no more: when they have voted
 * themselves, and know the results of their own votes other than HOST until then. Until that is so
 * the owner votes HOST in place of what it would.
 */
#include "mca/coll_gpuring/transport/transport_internal.h"

/* Votes other than HOST: the call's number, and whether the owner has data in it. */
static uint64_t ballot(uint64_t number, enum gpuring_vote vote)
{
    return number << 1 | (vote == GPURING_VOTE_GPU);
}

bool gpuring_transport_can_vote(const struct gpuring_transport *transport)
{
    return transport->npeers == transport->config.nranks - 1 && transport->nremote == 0;
}

/* Does the owner of the page ask no more for votes in this call, and those before it? */
static bool needs_no_more(const struct gpuring_status_page *page, uint64_t number)
{
    /* Acquire: last_open is no older. Of last_known, acquire: it has read the ballots. */
    uint64_t voted = __atomic_load_n(&page->voted, __ATOMIC_ACQUIRE);
    uint64_t last_open = __atomic_load_n(&page->last_open, __ATOMIC_RELAXED);
    uint64_t last_known = __atomic_load_n(&page->last_known, __ATOMIC_ACQUIRE);

    return voted >= number && (last_known >= number || last_known >= last_open);
}

/* May a ballot for this call be written down? */
static bool has_room(const struct gpuring_transport *transport, uint64_t number)
{
    uint64_t before = transport->page->ballots[number % GPURING_BALLOTS] >> 1;

    for (int i = 0; before != 0 && i < transport->npeers; i++) {
        if (!needs_no_more(transport->peers[i].page, before)) {
            return false;
        }
    }
    return true;
}

enum gpuring_vote gpuring_transport_vote_cast(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote vote)
{
    struct gpuring_status_page *page = transport->page;

    if (vote != GPURING_VOTE_HOST && !has_room(transport, number)) {
        vote = GPURING_VOTE_HOST;
    }
    if (vote != GPURING_VOTE_HOST) {
        __atomic_store_n(&page->ballots[number % GPURING_BALLOTS], ballot(number, vote),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&page->last_open, number, __ATOMIC_RELAXED);
    }
    /* Release: pairs with vote_of and needs_no_more. */
    __atomic_store_n(&page->voted, number, __ATOMIC_RELEASE);
    return vote;
}

static enum gpuring_vote vote_of(const struct gpuring_status_page *page, uint64_t number)
{
    uint64_t voted = __atomic_load_n(&page->voted, __ATOMIC_ACQUIRE);
    uint64_t found = __atomic_load_n(&page->ballots[number % GPURING_BALLOTS], __ATOMIC_RELAXED);

    return voted < number         ? GPURING_VOTE_UNKNOWN
           : found >> 1 != number ? GPURING_VOTE_HOST
           : found & 1            ? GPURING_VOTE_GPU
                                  : GPURING_VOTE_NONE;
}

/* The result, but not for good. */
static enum gpuring_vote count_votes(const struct gpuring_transport *transport, uint64_t number,
                                     enum gpuring_vote own, int *missing)
{
    enum gpuring_vote result = own;
    bool all = true;

    for (int i = 0; i < transport->npeers; i++) {
        enum gpuring_vote vote = vote_of(transport->peers[i].page, number);

        if (vote == GPURING_VOTE_HOST) {
            return GPURING_VOTE_HOST;
        }
        if (vote == GPURING_VOTE_UNKNOWN) {
            all = false;
            *missing = transport->peers[i].rank;
        }
        result = vote == GPURING_VOTE_GPU ? vote : result;
    }
    return !all ? GPURING_VOTE_UNKNOWN : result == GPURING_VOTE_NONE ? GPURING_VOTE_HOST : result;
}

enum gpuring_vote gpuring_transport_vote_poll(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote own, int *missing)
{
    enum gpuring_vote result = count_votes(transport, number, own, missing);

    if (result != GPURING_VOTE_UNKNOWN) {
        /* Release: pairs with needs_no_more; the ballots were read before. */
        __atomic_store_n(&transport->page->last_known, number, __ATOMIC_RELEASE);
    }
    return result;
}
