/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * AllGather 2: the channels of this node, by its topology, and this rank's places in them; and what
 * all ranks told of theirs. No MPI.
 */
#ifndef GPURING_TOPOLOGY_CHANNEL_EXCHANGE_H
#define GPURING_TOPOLOGY_CHANNEL_EXCHANGE_H

#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/topology/format.h"

/*
 * This rank's block, and what its node's topology (which is changed) advises. peers: what is known
 * of peer access between the node's GPUs. 0 or GPURING_ERR_NOMEM; a topology that cannot be used
 * is reported, and offer->wire.version is 0 then.
 */
int gpuring_channel_exchange_make(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members, int rank,
                                  struct pci_doc *doc, bool from_file, enum pci_peer peers,
                                  struct gpuring_graph_offer *offer,
                                  struct gpuring_model_choice *advice);

/*
 * From all ranks' blocks: *wires, of all ranks by rank, to be freed, and *advised: they are advised
 * alike. 0, GPURING_ERR_NOMEM, or GPURING_ERR_PEER: a block is malformed.
 */
int gpuring_channel_exchange_take(const struct gpuring_gathered *offers, int nranks,
                                  struct pci_wire **wires, bool *advised);

#endif
