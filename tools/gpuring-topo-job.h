/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TOPO_JOB_H
#define GPURING_TOPO_JOB_H

/* The wire-up of one rank of a job on copies of a machine, with the component's functions. */

#include <stdint.h>

#include "gpuring-topo-machine.h"
#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/coll_gpuring/topology/node_topology.h"

/* Figures of one job. It has no pointers, because it is passed between processes. */
struct topo_figures {
    int rc;
    uint32_t nodes, ranks, rings, trees;
    uint64_t rank_info_bytes;    /* AllGather 1, of all ranks */
    uint64_t view_bytes;         /* of views that this rank sends and receives if they differ */
    uint64_t wire_bytes;         /* AllGather 2: channels */
    uint64_t connect_info_bytes; /* maximum for this rank's messages to its neighbours */
    uint32_t neighbours;
    uint64_t plan_bytes;  /* of all plans of this rank */
    uint32_t connections; /* of this rank */
    double compare_ms, views_ms, search_ms, connect_ms, plan_ms;
    double memory_mib; /* maximum of resident memory, relative to the start */
};

/* The data that the ranks of one node would send, prepared before the measurement. */
struct topo_job {
    const struct topo_machine *machine;
    uint32_t nodes;
    struct gpuring_local_topology *views; /* of each rank of a node */
    char **texts;                         /* text of the views: one, or one for each rank */
    uint32_t ntexts;
    struct gpuring_channel_block *blocks; /* of each rank of a node */
};

/* Prepare the job. Return 0 or a negative errno value. Free the job in both cases. */
int topo_job_prepare(const struct topo_machine *machine, uint32_t nodes, struct topo_job *job);
void topo_job_free(struct topo_job *job);

/* Do the work of one rank in the middle of the job, and measure it. */
void topo_job_run(const struct topo_job *job, struct topo_figures *figures);

#endif
