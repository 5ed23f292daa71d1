/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the ranks of a communicator exchange when it is wired up. Without Open MPI headers,
 * so that tools can use it.
 *
 *   broadcast       the unique id of the wire-up, from rank 0
 *   AllGather 1     struct gpuring_hello, and behind it the ports of the network devices that the
 *                   process may use (net/nics.h), one block a rank: who and where it is, what it
 *                   can, the parameters that all must share
 *   views           on nodes of which the ranks see different things: each different view, to the
 *                   node's ranks that do not have it (node_topology.h)
 *   AllGather 2     where all have a topology of GPUs: struct gpuring_channel_block, one a rank:
 * its place in the channels of its node (pci_connect.h); version 0: its topology does not serve
 *   handles         to each neighbour in the channels, and from it: how to reach the connections
 *                   between the two (transport/internal.h)
 *   probe           where peers' memory is probed (transport.h), two reports, of equal size
 *   agreements      before and after the handles: nothing but whether each rank can go on
 */
#ifndef GPURING_WIREUP_FORMAT_H
#define GPURING_WIREUP_FORMAT_H

#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/net/nics.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/topo_pci/search/pci_connect.h"

#define GPURING_HELLO_MAGIC    UINT32_C(0x67707268) /* "gprh" */
#define GPURING_VIEW_BYTES_MAX (64u << 20)

#define GPURING_WIRE_VERSION 7 /* raised whenever what travels or lies in a FIFO changes */

enum gpuring_capability {
    GPURING_CAPABILITY_VERBS = 1, /* built with verbs; the ports follow */
    GPURING_CAPABILITY_UCX = 2,   /* built with UCX */
    GPURING_CAPABILITY_GRAPH = 4, /* has a topology of GPUs, or a file that says so */
    GPURING_CAPABILITY_FILE = 8,  /* it comes from a file */
};

/*
 *  0       4         8       12     16     24    28             32         48       56
 *  | magic | version | bytes | nics | node | pid | capabilities | view ... | tuning | hostname ..
 */
struct gpuring_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t bytes; /* sizeof this structure: differs between versions */
    uint32_t nnics; /* ports that follow, GPURING_NICS_MAX at most */
    uint64_t node;  /* hash of the node's identity: equal means memory can be shared */
    uint32_t pid;
    uint32_t capabilities; /* enum gpuring_capability */
    uint64_t view; /* fingerprint of what it sees of its node (node_topology.h); 0: nothing */
    uint32_t view_bytes;
    uint32_t reserved;
    uint64_t tuning; /* fingerprint of the rules of its tuning file (engine/tuning.h) */
    char hostname[64];
    struct gpuring_device_identity device;
    int64_t shared[GPURING_SHARED_COUNT]; /* parameters of scope SHARED, in the list's order */
};
_Static_assert(sizeof(struct gpuring_hello) == 168 + 8 * GPURING_SHARED_COUNT,
               "travels between ranks");

/* Bytes of a rank's block, and its parts once gpuring_node_map_compare has found it well formed. */
static inline size_t gpuring_hello_bytes(uint32_t nnics)
{
    return sizeof(struct gpuring_hello) + nnics * sizeof(struct gpuring_nic);
}
static inline const struct gpuring_hello *gpuring_hello_of(const struct gpuring_gathered *hellos,
                                                           int rank)
{
    return gpuring_gathered_block(hellos, rank);
}
static inline const struct gpuring_nic *gpuring_hello_nics(const struct gpuring_hello *hello)
{
    return (const struct gpuring_nic *) (hello + 1);
}

/* With AllGather 2 where all ranks know a topology of GPUs. */
struct gpuring_channel_block {
    struct pci_wire wire; /* this node's channels, this rank's places */
    uint64_t model;       /* fingerprint of the cost model's choices, see model_choice.h */
};
_Static_assert(sizeof(struct gpuring_channel_block) == 168, "travels between ranks");

#endif
