/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What a node's topology advises beside rings and trees: packed trees (on one node), and for each
 * size the algorithm and protocol that the cost model finds best. Every rank computes it from its
 * own node's topology; it is used only if all ranks found the same (compared by fingerprint when
 * the communicator is wired up). No MPI.
 */
#ifndef GPURING_TOPOLOGY_MODEL_CHOICE_H
#define GPURING_TOPOLOGY_MODEL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/coll_gpuring/topology/routes.h"
#include "mca/topo_pci/bounds/pci_pack.h"
#include "mca/topo_pci/search/pci_channels.h"

#define GPURING_MODEL_CHOICE_SIZES \
    48 /* entry i: vectors of more than 2^(i-1) and at most 2^i bytes */

struct gpuring_model_choice {
    struct pci_pack pack; /* ntrees == 0: none; GPU i is the i-th rank of the node */
    bool predicted;       /* the tables are filled: */
    int8_t algorithm[GPURING_MODEL_CHOICE_SIZES]; /* enum gpuring_algorithm, -1: none */
    int8_t protocol[GPURING_MODEL_CHOICE_SIZES];  /* enum gpuring_protocol */
    struct gpuring_routes routes; /* this node's; not compared, and good also if others' differ */
};

/* local: the number of this rank's GPU. Pack trees and ask the cost model. What fails is left out,
 * with a line at verbose 2. */
void gpuring_model_choice_find(const struct pci_graph *graph, int nnodes, int local,
                               const struct pci_channels *ring, const struct pci_channels *tree,
                               struct gpuring_model_choice *advice);

/* Equal for equal advice; never 0. */
uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *advice);

/* One rank's places in the packed trees, and the room that they point to. */
struct gpuring_model_choice_places {
    struct gpuring_packed_place place[PCI_PACK_MAX_TREES];
    int down[PCI_PACK_MAX_TREES][PCI_PACK_MAX_GPUS];
    uint32_t count;
};
void gpuring_model_choice_place(const struct gpuring_model_choice *advice,
                                const struct gpuring_node_map *members, int rank,
                                struct gpuring_model_choice_places *places);

#endif
