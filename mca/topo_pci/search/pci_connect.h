/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connect the channels of the nodes to the rings and trees of a job.
 *
 * Each rank states its node and its position in each of its node's channels (struct pci_wire,
 * PCI_WIRE_BYTES bytes, one all-gather). From all of them, any rank computes its neighbours:
 *
 *   rings   the chains of the nodes one after another. With cross_nic 2 every second node uses
 *           channel c^1 for ring c, so that data leaves and enters by the same NIC number
 *   trees   between nodes two binary trees, each for half of the data. A node is inner in at most
 *           one of them: it sends and receives as much as every other (two-tree algorithm of
 *           Sanders, Speck and Traeff, 2009). Inside a node the chain of the channel; the parent
 *           node is reached from its first GPU, child nodes from its second one in a balanced tree,
 *           so that either carries half of the traffic, and from its first one otherwise. On one
 *           node the root is in the middle of the chain
 *
 * Nodes may differ in everything; numbers of channels and bandwidths are the least of all nodes.
 *
 * Cost: setting up is O(ranks x channels) in time and 4 bytes a rank in memory (besides the
 * gathered structs, which must outlive it); a position is O(ranks of a node) for a ring, and O(log
 * nodes) more for a tree. 131072 ranks on 16384 nodes: 20 MiB gathered, 0.6 MiB allocated.
 *
 * Threads: no shared state; a finished object may be read by several. Returns: 0 or a negative
 * errno value; outputs are set on success only.
 */
#ifndef TOPO_PCI_SEARCH_PCI_CONNECT_H
#define TOPO_PCI_SEARCH_PCI_CONNECT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/search/pci_channels.h"

#define PCI_WIRE_VERSION  2u
#define PCI_WIRE_BYTES    156u
#define PCI_CONNECT_DOWN  3  /* most children of a rank in a tree */
#define PCI_CONNECT_TREES 2u /* trees of a channel */

/*
 * The struct that a rank sends to all others, in the byte order of the host (the same on all hosts
 * of a job):
 *
 *    0       2       4  5  6  7  8      12
 *    version count   ri tr pa cr node   speeds: 4 floats
 *    28                                   92                                 156
 *    position in ring 0..31 (uint16)      position in tree 0..31 (uint16)
 */
struct pci_wire {
    uint16_t version; /* PCI_WIRE_VERSION */
    uint16_t count;   /* ranks of this node */
    uint8_t rings, trees;
    uint8_t pattern;   /* of the trees: enum pci_pattern */
    uint8_t cross_nic; /* of the rings: 0 or 2 */
    uint32_t node;     /* 0 .. nodes-1, the same numbering on all ranks */
    float bw[4];       /* GB/s of a channel: ring intra, ring inter, tree intra, tree inter */
    uint16_t ring[PCI_CHANNELS_MAX];
    uint16_t tree[PCI_CHANNELS_MAX];
};
static_assert(sizeof(struct pci_wire) == PCI_WIRE_BYTES, "gathered between all ranks");
static_assert(offsetof(struct pci_wire, ring) == 28, "see the picture");

/* Values that are equal on all ranks. */
struct pci_agreed {
    uint32_t rings, trees; /* channels */
    uint32_t channels;     /* numbered as the reference does: every channel once for each of its two
                              trees, so twice the larger of both numbers */
    double bw[4];          /* GB/s of a channel, as in the wires */
    bool swap;             /* odd nodes use their channel c^1 for ring c */
};

struct pci_connect {
    uint32_t nranks, nnodes;
    struct pci_agreed agreed;
    const struct pci_wire *wires; /* the caller's */
    uint32_t *first;              /* node -> where its ranks begin in members; nnodes + 1 */
    uint32_t *members;            /* ranks, node by node, ascending */
};

struct pci_ring_position {
    uint32_t prev, next; /* ranks */
    uint32_t index;      /* position in the ring; 0 is on node 0 */
};

struct pci_tree_position {
    int32_t up;                     /* rank, -1: the root */
    int32_t down[PCI_CONNECT_DOWN]; /* ranks, then -1 */
};

/*
 * Fill in the struct of the rank that uses GPU index GPU of its node's graph. -EINVAL: no such
 * GPU, or channels of different machines; -E2BIG: too many GPUs or channels for the format.
 */
int pci_wire_fill(struct pci_wire *wire, uint32_t node, uint32_t gpu,
                  const struct pci_channels *ring, const struct pci_channels *tree);

/*
 * Prepare a connection from the structs of all ranks, by rank. The data of other ranks is checked.
 * -EPROTO: another version, or structs that contradict each other (the message names the rank);
 * -EINVAL: no rank; -ENOMEM. The result is a function of the structs, so all ranks get the same
 * one.
 */
int pci_connect_init(struct pci_connect *connect, const struct pci_wire *wires, uint32_t nranks,
                     struct pci_error *error);

void pci_connect_fini(struct pci_connect *connect); /* a zeroed one is allowed */

/* Get a rank's position in ring channel C < agreed.rings, or in tree WHICH (0, 1) of tree channel C
 * < agreed.trees. The ranges are not checked. */
void pci_connect_ring(const struct pci_connect *connect, uint32_t rank, uint32_t c,
                      struct pci_ring_position *position);
void pci_connect_tree(const struct pci_connect *connect, uint32_t rank, uint32_t c, uint32_t which,
                      struct pci_tree_position *position);

/* Get the parent and the children (-1: none) of a node in one of the trees over NNODES nodes. */
void pci_connect_node_tree(uint32_t nnodes, uint32_t node, uint32_t which, int32_t *up,
                           int32_t down[2]);

#endif
