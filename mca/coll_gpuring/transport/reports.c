/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Rounds of reports on the status pages, which take the time of one cache line between two cores.
 * Two reports of a rank are enough: it replaces the report of round n after it has read the reports
 * of round n + 1 of all ranks, which have therefore ended round n.
 */
#include "mca/coll_gpuring/transport/transport_internal.h"

static struct gpuring_report *report_at(struct gpuring_status_page *page, uint32_t round)
{
    return &page->reports[round % 2];
}

uint32_t *gpuring_transport_report_begin(struct gpuring_transport *transport)
{
    return report_at(transport->page, ++transport->round)->words;
}

void gpuring_transport_report_publish(struct gpuring_transport *transport)
{
    /* This release pairs with gpuring_transport_report_poll. */
    __atomic_store_n(&report_at(transport->page, transport->round)->round, transport->round,
                     __ATOMIC_RELEASE);
}

int gpuring_transport_report_poll(const struct gpuring_transport *transport,
                                  const uint32_t **reports)
{
    reports[transport->config.rank] = report_at(transport->page, transport->round)->words;
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];
        const struct gpuring_report *report = report_at(peer->page, transport->round);

        if (__atomic_load_n(&report->round, __ATOMIC_ACQUIRE) != transport->round) {
            return peer->rank;
        }
        reports[peer->rank] = report->words;
    }
    return -1;
}
