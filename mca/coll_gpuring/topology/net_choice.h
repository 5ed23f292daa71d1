/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The choice of the network between the nodes of a communicator. Every rank computes it from the
 * data of AllGather 1, so all ranks make the same choice. Pure functions.
 */
#ifndef GPURING_TOPOLOGY_NET_CHOICE_H
#define GPURING_TOPOLOGY_NET_CHOICE_H

#include <stdbool.h>

#include "mca/coll_gpuring/topology/format.h"

enum gpuring_net_kind { GPURING_NET_KIND_NONE, GPURING_NET_KIND_VERBS, GPURING_NET_KIND_UCX };

struct gpuring_net_choice {
    enum gpuring_net_kind kind;
    bool spare;    /* ucx can be used if this net fails to connect the ranks */
    bool one_net;  /* all RDMA ports are on one network, so any two of them connect */
    bool no_rdma;  /* use ucx without RDMA devices, because verbs did not connect the ranks */
    char why[512]; /* for the log */
};

/* Choose the net. wish: a value of coll_gpuring_net. node: of each rank. failed: the reason why
 * verbs did not connect the ranks (spare was true), or NULL. */
void gpuring_net_choose(int wish, const struct gpuring_gathered *rank_infos, const int *node,
                        const char *failed, struct gpuring_net_choice *choice);

/* Fill `shared` with the IPv4 addresses of a rank's host that a rank of another node also
 * announces, which belong to bridges that every host has. Return their number. */
int gpuring_net_shared_addresses(const struct gpuring_gathered *rank_infos, const int *node,
                                 int rank, uint32_t shared[GPURING_HELLO_ADDRESSES]);

#endif
