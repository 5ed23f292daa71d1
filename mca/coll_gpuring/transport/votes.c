/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Votes on the status pages. A page has the number of the last call in which its owner voted HOST,
 * and the last two with another vote: it may be one such call ahead of a rank that still reads the
 * votes of the call before, but no further, for it waits for that rank's vote. So a call between
 * these is one in which it voted HOST.
 */
#include "mca/coll_gpuring/transport/internal.h"

/* Votes other than HOST: the call's number, and whether the owner has data in it. */
static uint64_t ballot(uint64_t number, enum gpuring_vote vote)
{
    return number << 1 | (vote == GPURING_VOTE_GPU);
}

bool gpuring_transport_votes(const struct gpuring_transport *transport)
{
    return transport->npeers == transport->config.nranks - 1 && transport->nremote == 0;
}

void gpuring_transport_vote(struct gpuring_transport *transport, uint64_t number,
                            enum gpuring_vote vote)
{
    struct gpuring_status_page *page = transport->page;

    /* Release: pairs with vote_of, which reads the later vote first. */
    if (vote == GPURING_VOTE_HOST) {
        __atomic_store_n(&page->vote_on_hosts, number, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&page->vote_before, page->vote, __ATOMIC_RELAXED);
        __atomic_store_n(&page->vote, ballot(number, vote), __ATOMIC_RELEASE);
    }
}

static enum gpuring_vote vote_of(const struct gpuring_status_page *page, uint64_t number)
{
    uint64_t last = __atomic_load_n(&page->vote, __ATOMIC_ACQUIRE);
    uint64_t before = __atomic_load_n(&page->vote_before, __ATOMIC_RELAXED);
    uint64_t on_hosts = __atomic_load_n(&page->vote_on_hosts, __ATOMIC_ACQUIRE);
    uint64_t found = last >> 1 == number ? last : before >> 1 == number ? before : 0;

    if (found != 0) {
        return found & 1 ? GPURING_VOTE_GPU : GPURING_VOTE_NONE;
    }
    return last >> 1 > number || on_hosts >= number ? GPURING_VOTE_HOST : GPURING_VOTE_UNKNOWN;
}

enum gpuring_vote gpuring_transport_voted(const struct gpuring_transport *transport,
                                          uint64_t number, enum gpuring_vote own, int *missing)
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
