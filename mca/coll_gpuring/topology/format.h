/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The messages that the ranks of a communicator exchange during the wire-up. Tools can include this
 * header, because it needs none of Open MPI's.
 *
 *   reuse           Each rank sends a word for the connections of a freed communicator that it
 *                   offers, or for a survey of the same processes. If all words are equal, nothing
 *                   else follows in the first case (wireup/pool.h), and the second case continues
 *                   with the agreement before the handles (wireup/survey.h).
 *   AllGather 1     struct gpuring_rank_info of each rank: identity, location, capabilities, the
 *                   parameters that must be equal, and one port of each network that the process
 *                   may use (net/net_list.h).
 *   views           If the ranks of a node have different views of it, each view is sent to the
 *                   ranks of the node that do not have it (node_topology.h).
 *   AllGather 2     If all ranks have a topology of GPUs: struct gpuring_channel_block of each rank
 *                   with its position in the channels of its node (pci_connect.h). Version 0 means
 *                   that the rank cannot use its topology.
 *   handles         Each rank sends its neighbours in the channels the handles of the connections
 *                   between them (transport/transport_internal.h).
 *   probe           If the ranks probe the memory of their peers (transport.h), two reports of
 *                   equal size.
 *   agreements      Before and after the handles, the ranks agree whether all of them can continue.
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
    GPURING_CAPABILITY_GRAPH = 4, /* has a topology of GPUs, from the machine or a file */
    GPURING_CAPABILITY_FILE = 8,  /* the topology is from a file */
    /* RDMA has failed to connect an earlier communicator of the process. */
    GPURING_CAPABILITY_RDMA_FAILED = 16,
    /* All RDMA devices of the host are emulated by its processors. */
    GPURING_CAPABILITY_RDMA_EMULATED = 32,
    /* The call that connects the ranks needs more than the short slots of small calls. */
    GPURING_CAPABILITY_LARGE_CALL = 64,
};

/* Ports of a rank that it announces, each on another network; it does not announce further ones. */
#define GPURING_RANK_INFO_NICS 4

/*
 * In large jobs, these blocks need most of a rank's memory during the wire-up. The members from
 * `device` on are only used inside a node and to compare the parameters. Then
 * gpuring_rank_info_compact() removes them.
 */
struct gpuring_rank_info {
    uint64_t node;   /* hash of the node's identity: equal means memory can be shared */
    uint64_t view;   /* fingerprint of the rank's view of the node (node_topology.h); 0 if it has
                        none */
    uint64_t tuning; /* fingerprint of the rules of its tuning file (engine/tuning.h) */
    uint32_t pid;
    uint32_t capabilities; /* enum gpuring_capability */
    uint32_t view_bytes;
    uint32_t nnics; /* entries of nics[] */
    char hostname[64];
    struct gpuring_nic nics[GPURING_RANK_INFO_NICS];
    uint64_t id[2]; /* random; the one of rank 0 also names this wire-up */
    struct gpuring_device_identity device;
    int64_t shared[GPURING_SHARED_COUNT]; /* parameters of scope SHARED, in the list's order */
};
_Static_assert(sizeof(struct gpuring_rank_info) ==
                   168 + 8 * GPURING_SHARED_COUNT + 32 * GPURING_RANK_INFO_NICS,
               "travels between ranks");

static inline const struct gpuring_rank_info *gpuring_rank_info_of(
    const struct gpuring_gathered *rank_infos, int rank)
{
    return gpuring_gathered_block(rank_infos, rank);
}

/* The block of AllGather 2, which takes place if all ranks know a topology of GPUs. */
struct gpuring_channel_block {
    struct pci_wire wire; /* this rank's positions in the channels of its part of the node;
                             wire.node is the number of the part, 0 if the node has no parts */
    uint64_t model;       /* fingerprint of the cost model's choices, see model_choice.h */
};
_Static_assert(sizeof(struct gpuring_channel_block) == 168, "travels between ranks");

#endif
