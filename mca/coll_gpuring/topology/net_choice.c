/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/net_choice.h"

#include <stdio.h>
#include <string.h>

static bool any_reaches(const struct gpuring_rank_info *a, const struct gpuring_rank_info *b)
{
    for (uint32_t i = 0; i < a->nnics; i++) {
        for (uint32_t j = 0; j < b->nnics; j++) {
            if (gpuring_nic_reaches(&a->nics[i], &b->nics[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Return true if both ranks announce ports on the same networks, as usual in a cluster. */
static bool same_networks(const struct gpuring_rank_info *a, const struct gpuring_rank_info *b)
{
    for (uint32_t i = 0; i < a->nnics && a->nnics == b->nnics; i++) {
        if (!gpuring_nic_reaches(&a->nics[i], &b->nics[i])) {
            return false;
        }
    }
    return a->nnics == b->nnics;
}

/*
 * Return true if all pairs of ranks on different nodes reach each other. Ranks with ports on the
 * same networks are equivalent, so only one of them is compared. Because `reaches` is transitive
 * for each port, this finds every failure.
 */
static bool all_reach(const struct gpuring_gathered *rank_infos, const int *node, int *a, int *b)
{
    for (*a = 0; *a < rank_infos->nranks; ++*a) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, *a);

        if (node[*a] != node[0] && same_networks(rank_info, gpuring_rank_info_of(rank_infos, 0))) {
            continue; /* equivalent to rank 0, which is compared */
        }
        for (*b = 0; *b < rank_infos->nranks; ++*b) {
            if (node[*a] != node[*b] &&
                !any_reaches(rank_info, gpuring_rank_info_of(rank_infos, *b))) {
                return false;
            }
        }
    }
    return true;
}

/* Return true if verbs can be used. Write the reason, or a remark on the use, to `why`. */
static bool verbs_possible(const struct gpuring_gathered *rank_infos, const int *node, char *why,
                           size_t size)
{
    const struct gpuring_nic *nics[2];
    int rank[2];

    for (int i = 0; i < rank_infos->nranks; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, i);

        if ((rank_info->capabilities & GPURING_CAPABILITY_VERBS) == 0) {
            snprintf(why, size, "[no-verbs] rank %d on %s has coll/gpuring without verbs", i,
                     rank_info->hostname);
            return false;
        }
        if (rank_info->nnics == 0) {
            snprintf(why, size,
                     "[no-rdma-port] %s has no active RDMA port that coll_gpuring_verbs_hca "
                     "selects (rank %d)",
                     rank_info->hostname, i);
            return false;
        }
    }
    if (!all_reach(rank_infos, node, &rank[0], &rank[1])) {
        for (int i = 0; i < 2; i++) {
            nics[i] = gpuring_rank_info_of(rank_infos, rank[i])->nics;
        }
        snprintf(why, size,
                 "[rdma-networks] no RDMA port of %s is of the same network as one of %s (%s %s of "
                 "rank %d, %s %s of rank %d)",
                 gpuring_rank_info_of(rank_infos, rank[0])->hostname,
                 gpuring_rank_info_of(rank_infos, rank[1])->hostname,
                 nics[0]->link == GPURING_NIC_INFINIBAND ? "InfiniBand" : "Ethernet", nics[0]->name,
                 rank[0], nics[1]->link == GPURING_NIC_INFINIBAND ? "InfiniBand" : "Ethernet",
                 nics[1]->name, rank[1]);
        return false;
    }
    nics[0] = gpuring_rank_info_of(rank_infos, 0)->nics;
    snprintf(
        why, size,
        "[rdma-ports] all %d ranks have active RDMA ports that reach each other (rank 0: %s:%d)",
        rank_infos->nranks, nics[0]->name, nics[0]->port);
    return true;
}

static bool ucx_possible(const struct gpuring_gathered *rank_infos, char *why, size_t size)
{
    for (int i = 0; i < rank_infos->nranks; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, i);

        if ((rank_info->capabilities & GPURING_CAPABILITY_UCX) == 0) {
            snprintf(why, size, "[no-ucx] rank %d on %s has coll/gpuring without UCX", i,
                     rank_info->hostname);
            return false;
        }
    }
    return true;
}

void gpuring_net_choose(int wish, const struct gpuring_gathered *rank_infos, const int *node,
                        const char *failed, struct gpuring_net_choice *choice)
{
    char verbs[320] = "", ucx[160] = "";
    bool verbs_fits = verbs_possible(rank_infos, node, verbs, sizeof verbs);
    bool ucx_fits = ucx_possible(rank_infos, ucx, sizeof ucx);
    const char *before = "", *why = failed != NULL ? failed : verbs, *behind = "";

    memset(choice, 0, sizeof *choice);
    choice->one_net = true;
    for (int rank = 0; rank < rank_infos->nranks;
         rank++) { /* one port of each network, see format.h */
        choice->one_net = choice->one_net && gpuring_rank_info_of(rank_infos, rank)->nnics <= 1;
    }
    if (wish == GPURING_PARAM_NET_NONE) {
        why = "[net-none] coll_gpuring_net=none";
    } else if (wish == GPURING_PARAM_NET_VERBS || wish == GPURING_PARAM_NET_UCX) {
        bool fits = wish == GPURING_PARAM_NET_VERBS ? verbs_fits : ucx_fits;

        why = wish == GPURING_PARAM_NET_VERBS ? verbs : ucx;
        if (fits) {
            choice->kind =
                wish == GPURING_PARAM_NET_VERBS ? GPURING_NET_KIND_VERBS : GPURING_NET_KIND_UCX;
            why = "[net-asked] as coll_gpuring_net asks";
        }
    } else if (verbs_fits && failed == NULL) {
        choice->kind = GPURING_NET_KIND_VERBS;
        choice->spare = ucx_fits;
    } else if (ucx_fits) {
        choice->kind = GPURING_NET_KIND_UCX;
        choice->no_rdma = failed != NULL;
        before = failed != NULL ? "[verbs-failed] verbs did not connect the ranks: " : "";
    } else {
        behind = ucx;
    }
    snprintf(choice->why, sizeof choice->why, "%s%s%s%s", before, why,
             behind[0] != '\0' ? "; " : "", behind);
}

static bool another_node_has(const struct gpuring_gathered *rank_infos, const int *node, int rank,
                             uint32_t address)
{
    for (int other = 0; other < rank_infos->nranks; other++) {
        const uint32_t *theirs = gpuring_rank_info_of(rank_infos, other)->addresses;

        for (int i = 0; node[other] != node[rank] && i < GPURING_HELLO_ADDRESSES; i++) {
            if (theirs[i] == address) {
                return true;
            }
        }
    }
    return false;
}

int gpuring_net_shared_addresses(const struct gpuring_gathered *rank_infos, const int *node,
                                 int rank, uint32_t shared[GPURING_HELLO_ADDRESSES])
{
    const uint32_t *mine = gpuring_rank_info_of(rank_infos, rank)->addresses;
    int count = 0;

    for (int i = 0; i < GPURING_HELLO_ADDRESSES; i++) {
        if (mine[i] != 0 && another_node_has(rank_infos, node, rank, mine[i])) {
            shared[count++] = mine[i];
        }
    }
    return count;
}
