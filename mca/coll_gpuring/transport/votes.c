/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Votes on the status pages. A rank that votes HOST only stores the number of the call, so that it
 * can make any number of such calls before others reach the first of them. Other votes are stored
 * as ballots. In calls up to `voted` without a ballot, the owner has voted HOST.
 *
 * A ballot may be replaced after all other ranks have voted and know the results of their votes
 * other than HOST up to that call, because they then no longer need it. Until then, the owner votes
 * HOST instead of its actual vote.
 */
#include "mca/coll_gpuring/transport/transport_internal.h"

/* Return the ballot of a vote other than HOST: the call's number, and if the owner has data. */
static uint64_t ballot(uint64_t number, enum gpuring_vote vote)
{
    return number << 1 | (vote == GPURING_VOTE_GPU);
}

bool gpuring_transport_can_vote(const struct gpuring_transport *transport)
{
    return transport->npeers == transport->config.nranks - 1 &&
           transport->nlocal == transport->config.nranks;
}

/* Return true if the page's owner no longer needs votes in this call and earlier ones. */
static bool needs_no_more(const struct gpuring_status_page *page, uint64_t number)
{
    /* Acquire, so that last_open is not older. Acquire last_known, so that the owner has read the
     * ballots. */
    uint64_t voted = __atomic_load_n(&page->voted, __ATOMIC_ACQUIRE);
    uint64_t last_open = __atomic_load_n(&page->last_open, __ATOMIC_RELAXED);
    uint64_t last_known = __atomic_load_n(&page->last_known, __ATOMIC_ACQUIRE);

    return voted >= number && (last_known >= number || last_known >= last_open);
}

/* Return true if a ballot for this call may be stored. */
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

    number += transport->earlier_votes;
    if (vote != GPURING_VOTE_HOST && !has_room(transport, number)) {
        vote = GPURING_VOTE_HOST;
    }
    if (vote != GPURING_VOTE_HOST) {
        __atomic_store_n(&page->ballots[number % GPURING_BALLOTS], ballot(number, vote),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&page->last_open, number, __ATOMIC_RELAXED);
    }
    /* This release pairs with vote_of and needs_no_more. */
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

/* Count the current votes. */
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
    enum gpuring_vote result;

    number += transport->earlier_votes;
    result = count_votes(transport, number, own, missing);
    if (result != GPURING_VOTE_UNKNOWN) {
        /* This release pairs with needs_no_more, so that the ballots are read before. */
        __atomic_store_n(&transport->page->last_known, number, __ATOMIC_RELEASE);
    }
    return result;
}
