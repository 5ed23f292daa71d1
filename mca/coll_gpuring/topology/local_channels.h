/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The channels inside of this node, by its topology, and what follows from them. No MPI. */
#ifndef GPURING_TOPOLOGY_LOCAL_CHANNELS_H
#define GPURING_TOPOLOGY_LOCAL_CHANNELS_H

#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/topology/model_choice.h"
#include "mca/coll_gpuring/topology/nic_select.h"
#include "mca/coll_gpuring/topology/node_map.h"

#define GPURING_LOCAL_PEERS 1024 /* ranks of a node beyond these are not known to be near */

struct gpuring_local_channels {
    struct gpuring_channel_block block;      /* of this rank, for AllGather 2 */
    bool known;                              /* the topology, and so `near` */
    uint64_t near[GPURING_LOCAL_PEERS / 64]; /* a bit for each rank of the node: its GPU is within
                                                coll_gpuring_p2p_level; for auto, within the class
                                                up to which channels use P2P */
    bool in_parts;                           /* of the node, which a network joins */
    struct gpuring_model_choice model;
    struct gpuring_nic_select nics;
};

/*
 * Search them on the node's topology, which is changed. peers: what is known of peer access between
 * the node's GPUs; parts: a network may join parts of the node. A topology that cannot be used is
 * reported, and leaves all of *local zero but the model's fingerprint.
 */
void gpuring_local_channels_find(const struct gpuring_gathered *rank_infos,
                                 const struct gpuring_node_map *map, int rank, struct pci_doc *doc,
                                 bool from_file, enum pci_peer peers, bool parts,
                                 struct gpuring_local_channels *local);

/* Return true if this rank may map the memory of the GPU of a rank of its node, by
 * coll_gpuring_p2p_level. Where the topology is not known, levels auto and SYS allow it. */
bool gpuring_local_channels_may_map(const struct gpuring_local_channels *local, int local_rank);

/* Write a text to the file that a parameter names (which may be a device and is not replaced), and
 * the topology to coll_gpuring_topo_dump_file; failures are reported. */
void gpuring_local_channels_write(const char *parameter, const char *path, const char *text,
                                  size_t size);
void gpuring_local_channels_dump(const struct pci_doc *doc);

#endif
