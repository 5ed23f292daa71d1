/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The process's networks: each kind is opened when the first communicator chooses it, and stays
 * open; all share one progress thread, which starts with the first of them.
 */
#ifndef GPURING_NETWORK_H
#define GPURING_NETWORK_H

#include <stdint.h>

#include "mca/coll_gpuring/net/net.h"

struct gpuring_network {
    const struct gpuring_net_ops *ops; /* NULL: not open */
    struct gpuring_net *net;
};

/*
 * Open the net that coll_gpuring_net asks for among those that all ranks have (capability bits of
 * AllGather 1), and start the progress thread. `pids` are the ranks of this node: the thread keeps
 * off their cores if it can. Thread-safe; owned by the process.
 */
int gpuring_network_open(uint32_t capabilities, const uint32_t *pids, int npids,
                         struct gpuring_network *network);

/* End the progress thread and close all nets, in bounded time. No service may exist any more. */
void gpuring_network_close(void);

#endif
