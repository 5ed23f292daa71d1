/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The process's networks: each kind is opened when the first communicator chooses it, and stays
 * open; all share one progress thread, which starts with the first of them.
 */
#ifndef GPURING_WIREUP_NET_SELECT_H
#define GPURING_WIREUP_NET_SELECT_H

#include "mca/coll_gpuring/topology/net_choice.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/topology/node_map.h"

struct gpuring_network {
    const struct gpuring_net_ops *ops; /* NULL: not open */
    struct gpuring_net *net;
};

/*
 * The net for a communicator whose ranks are on several nodes: what coll_gpuring_net asks for, or
 * the best; decided alike on all ranks. failed: see gpuring_net_choose. Rank 0 logs the choice. 0,
 * GPURING_ERR_NOMEM or GPURING_ERR_UNSUPPORTED (logged by rank 0): no network connects them.
 */
int gpuring_network_choose(const struct gpuring_gathered *hellos, const int *node, int rank,
                           const char *failed, struct gpuring_net_choice *choice);

/*
 * Does a network connect the ranks of this rank's node, so that it may join parts of the node? RDMA
 * by verbs, or UCX where it is asked for. The same on all ranks of the node.
 */
bool gpuring_network_inside(const struct gpuring_gathered *hellos,
                            const struct gpuring_node_map *map, int rank);

/*
 * Open a net and start the progress thread, which keeps off the cores of the ranks of this node if
 * it can. Thread-safe; owned by the process.
 */
int gpuring_network_open(const struct gpuring_net_choice *choice,
                         const struct gpuring_gathered *hellos, const int *node, int rank,
                         struct gpuring_network *network);

/* End the progress thread and close all nets, in bounded time. No engine may exist any more. */
void gpuring_network_close(void);

#endif
