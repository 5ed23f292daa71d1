/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which network connects the nodes of a communicator: decided by every rank from what all ranks
 * announce (AllGather 1), hence alike. Pure.
 */
#ifndef GPURING_TOPOLOGY_NET_CHOICE_H
#define GPURING_TOPOLOGY_NET_CHOICE_H

#include <stdbool.h>

#include "mca/coll_gpuring/topology/format.h"

enum gpuring_net_kind { GPURING_NET_KIND_NONE, GPURING_NET_KIND_VERBS, GPURING_NET_KIND_UCX };

struct gpuring_net_choice {
    enum gpuring_net_kind kind;
    bool spare;    /* if it does not connect the ranks after all, there is ucx */
    bool one_net;  /* each rank's RDMA ports, if any, are on one network: all of them connect */
    bool no_rdma;  /* ucx, because verbs did not connect the ranks: without RDMA devices */
    char why[512]; /* for the log */
};

/* wish: a value of coll_gpuring_net. node: of each rank. failed: NULL, or why verbs did not connect
 * the ranks when it was tried (spare was true). */
void gpuring_net_choose(int wish, const struct gpuring_gathered *rank_infos, const int *node,
                        const char *failed, struct gpuring_net_choice *choice);

/* Fill `shared` with the IPv4 addresses of a rank's host that a rank of another node announces as
 * well: those of bridges that every host has. Returns their number. */
int gpuring_net_shared_addresses(const struct gpuring_gathered *rank_infos, const int *node,
                                 int rank, uint32_t shared[GPURING_HELLO_ADDRESSES]);

#endif
