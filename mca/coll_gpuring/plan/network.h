/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The plans of all ranks as one network. A process is one lane of one rank. A wire joins a send
 * connection with the receive connection of the same sender, receiver and key; some wires belong to
 * no lane. Internal to plan/: the checker and the simulator run it.
 */
#ifndef GPURING_PLAN_NETWORK_H
#define GPURING_PLAN_NETWORK_H

#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_plan_process {
    int rank;
    uint32_t lane;
    const struct gpuring_plan_lane *plan;
    uint32_t *recvs; /* wire of each receive connection of the lane */
    uint32_t *sends;
};

struct gpuring_wire {
    int from, to; /* ranks */
};

struct gpuring_network {
    uint32_t nprocesses, nwires;
    struct gpuring_plan_process *processes; /* by rank, then by lane */
    struct gpuring_wire *wires;
    uint32_t *ends; /* storage of the processes' lists */
};

/*
 * Join the plans of all ranks. Returns 0 and fills in *network, which the caller must destroy, or
 * returns GPURING_ERR_NOMEM, or GPURING_ERR_DATA with the reason in text: a plan for another rank
 * or size, a reference out of range, or a connection that is listed twice or at one end only.
 */
int gpuring_network_create(const struct gpuring_plan *const *plans, int nranks,
                           struct gpuring_network *network, char *text, size_t size);
void gpuring_network_destroy(struct gpuring_network *network);

#endif
