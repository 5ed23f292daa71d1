/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which network connects the nodes of a communicator: decided by every rank from what all ranks
 * told (AllGather 1), hence alike. Pure.
 */
#ifndef GPURING_NET_CHOICE_H
#define GPURING_NET_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/net/nics.h"

enum gpuring_net_kind { GPURING_NET_KIND_NONE, GPURING_NET_KIND_VERBS, GPURING_NET_KIND_UCX };

/* What is asked for: the values of coll_gpuring_net, in their order. */
enum gpuring_net_wish {
    GPURING_NET_WISH_AUTO,
    GPURING_NET_WISH_VERBS,
    GPURING_NET_WISH_UCX,
    GPURING_NET_WISH_NONE,
};

/* What a rank told. */
struct gpuring_net_place {
    int node;
    bool verbs, ucx; /* built with it */
    const struct gpuring_nic *nics;
    int nnics;
    const char *host;
};

struct gpuring_net_choice {
    enum gpuring_net_kind kind;
    bool spare;    /* if it does not connect the ranks after all, ucx may take its place */
    bool no_rdma;  /* ucx, because verbs did not connect the ranks: without RDMA devices */
    char why[384]; /* for the log */
};

/* failed: NULL, or why verbs did not connect the ranks when it was tried (spare was true). */
void gpuring_net_choose(enum gpuring_net_wish wish, const struct gpuring_net_place *places,
                        int nranks, const char *failed, struct gpuring_net_choice *choice);

#endif
