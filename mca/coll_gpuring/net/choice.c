/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/choice.h"

#include <stdio.h>
#include <string.h>

static bool any_reaches(const struct gpuring_net_place *a, const struct gpuring_net_place *b)
{
    for (int i = 0; i < a->nnics; i++) {
        for (int j = 0; j < b->nnics; j++) {
            if (gpuring_nic_reaches(&a->nics[i], &b->nics[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Do both ranks tell of the same ports, as those of a node, or of a well-built cluster, do? */
static bool same_networks(const struct gpuring_net_place *a, const struct gpuring_net_place *b)
{
    if (a->nnics != b->nnics) {
        return false;
    }
    for (int i = 0; i < a->nnics; i++) {
        if (!gpuring_nic_reaches(&a->nics[i], &b->nics[i])) {
            return false;
        }
    }
    return true;
}

/*
 * Ranks whose ports are on the same networks stand for each other; of the rest, every pair on two
 * nodes is looked at. `reaches` is transitive, port by port, so that nothing is lost by that.
 */
static bool all_reach(const struct gpuring_net_place *places, int nranks, int *a, int *b)
{
    for (int i = 0; i < nranks; i++) {
        if (places[i].node != places[0].node && same_networks(&places[i], &places[0])) {
            continue; /* reaches what rank 0 reaches, and rank 0 is looked at below */
        }
        for (int j = 0; j < nranks; j++) {
            if (places[i].node != places[j].node && !any_reaches(&places[i], &places[j])) {
                *a = i;
                *b = j;
                return false;
            }
        }
    }
    return true;
}

/* Why verbs cannot be used, or "" and a word about how. */
static bool verbs_possible(const struct gpuring_net_place *places, int nranks, char *why,
                           size_t size)
{
    int a, b;

    for (int rank = 0; rank < nranks; rank++) {
        if (!places[rank].verbs) {
            snprintf(why, size, "[no-verbs] rank %d on %s has coll/gpuring without verbs", rank,
                     places[rank].host);
            return false;
        }
        if (places[rank].nnics == 0) {
            snprintf(why, size,
                     "[no-rdma-port] %s has no active RDMA port that coll_gpuring_verbs_hca "
                     "selects (rank %d)",
                     places[rank].host, rank);
            return false;
        }
    }
    if (!all_reach(places, nranks, &a, &b)) {
        snprintf(why, size,
                 "[rdma-networks] no RDMA port of %s is of the same network as one of %s (%s %s of "
                 "rank %d, "
                 "%s %s of rank %d)",
                 places[a].host, places[b].host,
                 places[a].nics[0].link == GPURING_NIC_INFINIBAND ? "InfiniBand" : "Ethernet",
                 places[a].nics[0].name, a,
                 places[b].nics[0].link == GPURING_NIC_INFINIBAND ? "InfiniBand" : "Ethernet",
                 places[b].nics[0].name, b);
        return false;
    }
    snprintf(
        why, size,
        "[rdma-ports] all %d ranks have active RDMA ports that reach each other (rank 0: %s:%d)",
        nranks, places[0].nics[0].name, places[0].nics[0].port);
    return true;
}

static bool ucx_possible(const struct gpuring_net_place *places, int nranks, char *why, size_t size)
{
    for (int rank = 0; rank < nranks; rank++) {
        if (!places[rank].ucx) {
            snprintf(why, size, "[no-ucx] rank %d on %s has coll/gpuring without UCX", rank,
                     places[rank].host);
            return false;
        }
    }
    return true;
}

void gpuring_net_choose(enum gpuring_net_wish wish, const struct gpuring_net_place *places,
                        int nranks, const char *failed, struct gpuring_net_choice *choice)
{
    char verbs[192] = "", ucx[160] = "";
    bool verbs_fits = verbs_possible(places, nranks, verbs, sizeof verbs);
    bool ucx_fits = ucx_possible(places, nranks, ucx, sizeof ucx);

    memset(choice, 0, sizeof *choice);
    if (wish == GPURING_NET_WISH_NONE) {
        snprintf(choice->why, sizeof choice->why, "[net-none] coll_gpuring_net=none");
    } else if (wish == GPURING_NET_WISH_VERBS && verbs_fits) {
        choice->kind = GPURING_NET_KIND_VERBS;
        snprintf(choice->why, sizeof choice->why, "[net-asked] as coll_gpuring_net asks");
    } else if (wish == GPURING_NET_WISH_UCX && ucx_fits) {
        choice->kind = GPURING_NET_KIND_UCX;
        snprintf(choice->why, sizeof choice->why, "[net-asked] as coll_gpuring_net asks");
    } else if (wish != GPURING_NET_WISH_AUTO) {
        snprintf(choice->why, sizeof choice->why, "%s",
                 wish == GPURING_NET_WISH_VERBS ? verbs : ucx);
    } else if (verbs_fits && failed == NULL) {
        choice->kind = GPURING_NET_KIND_VERBS;
        choice->spare = ucx_fits;
        snprintf(choice->why, sizeof choice->why, "%s", verbs);
    } else if (ucx_fits) {
        choice->kind = GPURING_NET_KIND_UCX;
        choice->no_rdma = failed != NULL;
        snprintf(choice->why, sizeof choice->why, "%s%s",
                 failed != NULL ? "[verbs-failed] verbs did not connect the ranks: " : "",
                 failed != NULL ? failed : verbs);
    } else {
        snprintf(choice->why, sizeof choice->why, "%s; %s", failed != NULL ? failed : verbs, ucx);
    }
}
