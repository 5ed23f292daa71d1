/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The choice of the network between the nodes of a communicator. Every rank computes it from the
 * data of AllGather 1, so all ranks make the same choice. Pure functions.
 */
#ifndef GPURING_TOPOLOGY_NET_CHOICE_H
#define GPURING_TOPOLOGY_NET_CHOICE_H

#include <stdbool.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/topology/format.h"

struct gpuring_net_choice {
    enum gpuring_param_net kind; /* not AUTO after gpuring_net_choose */
    bool spare;                  /* mpi can be used if this net fails to connect the ranks */
    bool one_net;  /* no rank has ports on several networks, so any two ports connect */
    char why[512]; /* for the log */
};

/* Choose the net. wish: a value of coll_gpuring_net. node: the node of each rank. failed: NULL, or
 * the reason why the net of the previous choice, which had `spare` set, did not connect the
 * ranks. */
void gpuring_net_choose(enum gpuring_param_net wish, const struct gpuring_gathered *rank_infos,
                        const int *node, const char *failed, struct gpuring_net_choice *choice);

#endif
