/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the ranks of a communicator exchange when it is wired up. Without Open MPI headers,
 * so that tools can use it.
 *
 *   AllGather 1     struct gpuring_rank_info of each rank: who and where it is, what it can, the
 *                   parameters that all must share, a port of each network that the process may
 *                   use (net/net_list.h)
 *   views           on nodes of which the ranks see different things: each different view, to the
 *                   node's ranks that do not have it (node_topology.h)
 *   AllGather 2     where all have a topology of GPUs: struct gpuring_channel_block of each rank:
 *                   its position in the channels of its node (pci_connect.h); version 0: its
 *                   topology does not serve
 *   handles         to each neighbour in the channels, and from it: how to reach the connections
 *                   between the two (transport/transport_internal.h)
 *   probe           where peers' memory is probed (transport.h), two reports, of equal size
 *   agreements      before and after the handles: nothing but whether each rank can go on
 */
#ifndef GPURING_WIREUP_FORMAT_H
#define GPURING_WIREUP_FORMAT_H

#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/topo_pci/search/pci_connect.h"

#define GPURING_VIEW_BYTES_MAX (64u << 20)

enum gpuring_capability {
    GPURING_CAPABILITY_VERBS = 1, /* built with verbs */
    GPURING_CAPABILITY_UCX = 2,   /* built with UCX */
    GPURING_CAPABILITY_GRAPH = 4, /* has a topology of GPUs, or a file that says so */
    GPURING_CAPABILITY_FILE = 8,  /* it comes from a file */
};

#define GPURING_HELLO_NICS      4 /* one port of each network; what is beyond is not announced */
#define GPURING_HELLO_ADDRESSES 4 /* IPv4 addresses; what is beyond is not compared */

/*
 * Of large jobs these blocks are most of what a rank holds while it is wired up. What follows
 * hostname and ports is of use to the ranks of a node and to the comparison alone:
 * gpuring_rank_info_compact() removes it.
 */
struct gpuring_rank_info {
    uint64_t node;   /* hash of the node's identity: equal means memory can be shared */
    uint64_t view;   /* fingerprint of what it sees of its node (node_topology.h); 0: nothing */
    uint64_t tuning; /* fingerprint of the rules of its tuning file (engine/tuning.h) */
    uint32_t pid;
    uint32_t capabilities; /* enum gpuring_capability */
    uint32_t view_bytes;
    uint32_t nnics; /* of nics[] */
    char hostname[64];
    struct gpuring_nic nics[GPURING_HELLO_NICS];
    uint64_t id[2]; /* unique; rank 0's is that of the wire-up */
    struct gpuring_device_identity device;
    uint32_t addresses[GPURING_HELLO_ADDRESSES]; /* IPv4, network byte order; 0: none */
    int64_t shared[GPURING_SHARED_COUNT]; /* parameters of scope SHARED, in the list's order */
};
_Static_assert(sizeof(struct gpuring_rank_info) == 168 + 8 * GPURING_SHARED_COUNT +
                                                       32 * GPURING_HELLO_NICS +
                                                       4 * GPURING_HELLO_ADDRESSES,
               "travels between ranks");

static inline const struct gpuring_rank_info *gpuring_rank_info_of(
    const struct gpuring_gathered *rank_infos, int rank)
{
    return gpuring_gathered_block(rank_infos, rank);
}

/* With AllGather 2 where all ranks know a topology of GPUs. */
struct gpuring_channel_block {
    struct pci_wire wire; /* channels of this part of the node, this rank's positions; wire.node is
                             the number of the part among those of the node: 0, where it is whole */
    uint64_t model;       /* fingerprint of the cost model's choices, see model_choice.h */
};
_Static_assert(sizeof(struct gpuring_channel_block) == 168, "travels between ranks");

#endif
