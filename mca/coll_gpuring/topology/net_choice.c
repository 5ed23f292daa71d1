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
 * Return true if all pairs of ranks on different nodes reach each other. If not, *a and *b become
 * a pair that does not. A rank with ports on the same networks as rank 0, but on another node, is
 * not compared with all others: because `reaches` is transitive for each port, a pair with this
 * rank that fails is found when rank 0 or the other rank of the pair is compared.
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

/* Return true if verbs can connect the ranks. why: their ports, or the reason why it cannot. */
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
                     "[no-rdma-port] %s has no usable RDMA port that coll_gpuring_verbs_hca "
                     "selects (rank %d; its log has the reason, level info)",
                     rank_info->hostname, i);
            return false;
        }
        if ((rank_info->capabilities & GPURING_CAPABILITY_RDMA_FAILED) != 0) {
            snprintf(why, size,
                     "[rdma-failed] RDMA did not connect an earlier communicator of rank %d on %s",
                     i, rank_info->hostname);
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

/* Return true if UCX can connect the ranks through RDMA devices. For this, the same ports must
 * reach each other as for verbs. */
static bool ucx_reaches(const struct gpuring_gathered *rank_infos, const int *node)
{
    char why[160];
    int a, b;

    for (int i = 0; i < rank_infos->nranks; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, i);

        if (rank_info->nnics == 0 ||
            (rank_info->capabilities & GPURING_CAPABILITY_RDMA_FAILED) != 0) {
            return false;
        }
    }
    return ucx_possible(rank_infos, why, sizeof why) && all_reach(rank_infos, node, &a, &b);
}

/* Return the network that coll_gpuring_net selects, or none if it cannot be used, and the
 * reason. */
static enum gpuring_param_net asked(enum gpuring_param_net wish,
                                    const struct gpuring_gathered *rank_infos, const int *node,
                                    char *why, size_t size)
{
    if ((wish == GPURING_PARAM_NET_VERBS && !verbs_possible(rank_infos, node, why, size)) ||
        (wish == GPURING_PARAM_NET_UCX && !ucx_possible(rank_infos, why, size))) {
        return GPURING_PARAM_NET_NONE;
    }
    snprintf(why, size,
             wish == GPURING_PARAM_NET_NONE ? "[net-none] coll_gpuring_net=none"
                                            : "[net-asked] as coll_gpuring_net asks");
    return wish;
}

void gpuring_net_choose(enum gpuring_param_net wish, const struct gpuring_gathered *rank_infos,
                        const int *node, const char *failed, struct gpuring_net_choice *choice)
{
    memset(choice, 0, sizeof *choice);
    choice->one_net = true;
    for (int rank = 0; rank < rank_infos->nranks;
         rank++) { /* one port of each network, see format.h */
        choice->one_net = choice->one_net && gpuring_rank_info_of(rank_infos, rank)->nnics <= 1;
    }
    if (wish != GPURING_PARAM_NET_AUTO) {
        choice->kind = asked(wish, rank_infos, node, choice->why, sizeof choice->why);
    } else if (failed != NULL) {
        choice->kind = GPURING_PARAM_NET_MPI;
        snprintf(choice->why, sizeof choice->why,
                 "[rdma-failed] RDMA did not connect the ranks: %s", failed);
    } else if (verbs_possible(rank_infos, node, choice->why, sizeof choice->why)) {
        choice->kind = GPURING_PARAM_NET_VERBS;
    } else {
        choice->kind =
            ucx_reaches(rank_infos, node) ? GPURING_PARAM_NET_UCX : GPURING_PARAM_NET_MPI;
    }
    choice->spare = wish == GPURING_PARAM_NET_AUTO && choice->kind != GPURING_PARAM_NET_MPI;
}
