/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the ranks of a communicator tell each other when it is wired up. Without Open MPI headers,
 * so that tools can reckon with it.
 *
 *   AllGather 1    struct gpuring_hello, one a rank: who and where it is, what it can, the
 *                  parameters that all must share; rank 0's carries the unique id
 *   AllGather 2    where all have a topology of GPUs: struct pci_wire (pci_connect.h), one a rank:
 *                  its place in the channels of its node; version 0: its topology does not serve.
 *                  Then struct gpuring_offer, one a rank: outcome so far, and the size of its
 *                  connection handles (transport.h: blob); then these, of their own sizes
 *   probe          where peers' memory is probed (transport.h), two reports, of equal size
 *   agreement      int32, one a rank: 0, or why the communicator cannot be served
 */
#ifndef GPURING_WIREUP_FORMAT_H
#define GPURING_WIREUP_FORMAT_H

#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/params.h"
#include "mca/topo_pci/pci_connect.h"

#define GPURING_HELLO_MAGIC  UINT32_C(0x67707268) /* "gprh" */
#define GPURING_WIRE_VERSION 1 /* raised whenever what travels or lies in a FIFO changes */

enum gpuring_capability {
    GPURING_CAPABILITY_VERBS = 1, /* built with verbs, and this node has an RDMA device */
    GPURING_CAPABILITY_UCX = 2,   /* built with UCX */
    GPURING_CAPABILITY_GRAPH = 4, /* has a topology of GPUs, or a file that says so */
};

/*
 *  0        4         8        12      16         32       40    44        48           56
 *  | magic  | version | status | bytes | id[2]    | node   | pid | flags   | byte order | ...
 */
struct gpuring_hello {
    uint32_t magic;
    uint32_t version;
    int32_t status; /* 0, or the negative gpuring_status that keeps this rank from serving */
    uint32_t bytes; /* sizeof this structure: differs between versions */
    uint64_t id[2]; /* rank 0: unique id of this wire-up */
    uint64_t node;  /* hash of the node's identity: equal means memory can be shared */
    uint32_t pid;
    uint32_t capabilities; /* enum gpuring_capability */
    char hostname[64];
    struct gpuring_device_identity device;
    int64_t shared[GPURING_SHARED_COUNT]; /* parameters of scope SHARED, in the list's order */
};
_Static_assert(sizeof(struct gpuring_hello) == 160 + 8 * GPURING_SHARED_COUNT,
               "travels between ranks");

/* With AllGather 2 where all ranks know a topology of GPUs. */
struct gpuring_graph_offer {
    struct pci_wire wire; /* this node's channels, this rank's places */
    uint64_t advice;      /* fingerprint, see advice.h */
};
_Static_assert(sizeof(struct gpuring_graph_offer) == 168, "travels between ranks");

struct gpuring_offer {
    int32_t status;
    uint32_t reserved;
    uint64_t blob_bytes;
};
_Static_assert(sizeof(struct gpuring_offer) == 16, "travels between ranks");

#endif
