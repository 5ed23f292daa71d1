/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The channels inside this node according to its topology, and the data derived from them. No
 * MPI. */
#ifndef GPURING_TOPOLOGY_LOCAL_CHANNELS_H
#define GPURING_TOPOLOGY_LOCAL_CHANNELS_H

#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/topology/model_choice.h"
#include "mca/coll_gpuring/topology/nic_select.h"
#include "mca/coll_gpuring/topology/node_map.h"

#define GPURING_LOCAL_PEERS 1024 /* further ranks of a node never count as near */

struct gpuring_local_channels {
    struct gpuring_channel_block block;      /* of this rank, for AllGather 2 */
    bool known;                              /* the topology is known, and `near` is set */
    uint64_t near[GPURING_LOCAL_PEERS / 64]; /* a bit for each rank of the node whose GPU is within
                                                coll_gpuring_p2p_level; for auto, within the class
                                                up to which channels use P2P */
    bool in_parts;                           /* the node has parts, which a network connects */
    struct gpuring_model_choice model;
    struct gpuring_nic_select nics;
};

/*
 * Search for channels on the topology of the node, which this function modifies. peers: the
 * knowledge about peer access between the node's GPUs. parts: the node may be divided into parts
 * that a network connects. If the topology cannot be used, this is reported, and *local is zero
 * except for the fingerprint of the model.
 */
void gpuring_local_channels_find(const struct gpuring_gathered *rank_infos,
                                 const struct gpuring_node_map *map, int rank, struct pci_doc *doc,
                                 bool from_file, enum pci_peer peers, bool parts,
                                 struct gpuring_local_channels *local);

/* Return the path class that a value of coll_gpuring_p2p_level or coll_gpuring_gdr_level names, or
 * PCI_LEVEL_AUTO. */
int gpuring_level_class(int level);

/* Return true if coll_gpuring_p2p_level lets this rank map the GPU memory of another rank of its
 * node. If the topology is unknown, only the levels auto and SYS allow it. */
bool gpuring_local_channels_may_map(const struct gpuring_local_channels *local, int local_rank);

/* Write a text to the file that a parameter names. If the file is a device, it is written to and
 * not replaced. gpuring_local_channels_dump() writes the topology to coll_gpuring_topo_dump_file.
 * Failures are reported. */
void gpuring_local_channels_write(const char *parameter, const char *path, const char *text,
                                  size_t size);
void gpuring_local_channels_dump(const struct pci_doc *doc);

#endif
