/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Blocking calls on host memory for which the previous component is faster; see select.h. */
#include "mca/coll_gpuring/engine/select.h"

#define MOST_NODES 5 /* with 6, 8 and 12 nodes, plans were 1.2, 0.9 and 1.15 times as fast */

/* Return true if coll/tuned exchanges whole vectors of this size in an allreduce, instead of parts
 * of them. Then it sends as few messages as a plan does. */
static bool is_whole_in_tuned(int nranks, uint64_t bytes)
{
    return nranks > 3 ? bytes < 8 << 10 : bytes < 4 << 10 || (bytes >= 8 << 10 && bytes < 16 << 10);
}

/*
 * MPI sends messages of the sizes below without waiting for the receiver. Between nodes of one rank
 * each, over messages of MPI, a call then takes only the time that the processors need for it, and
 * other components execute fewer instructions. Calls with requests are faster here. Measured with
 * TCP: doc/results/ucx.md.
 */
bool gpuring_select_leaves_blocking(const struct gpuring_select_config *config,
                                    enum gpuring_collective collective, uint64_t bytes)
{
    int n = config->nranks;

    return config->any_memory && config->nnodes == n && config->protocol < 0 &&
           (collective == GPURING_COLLECTIVE_ALLREDUCE
                ? n <= MOST_NODES && is_whole_in_tuned(n, bytes)
                : n == 2 && bytes <= GPURING_FIFO_WANTED);
}
