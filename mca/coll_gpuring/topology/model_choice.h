/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What a node's topology says beside rings and trees: for each size the algorithm and protocol that
 * the cost model finds best. Every rank computes it from its
 * own node's topology; it is used only if all ranks found the same (compared by fingerprint when
 * the communicator is wired up). No MPI.
 */
#ifndef GPURING_TOPOLOGY_MODEL_CHOICE_H
#define GPURING_TOPOLOGY_MODEL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/coll_gpuring/topology/routes.h"
#include "mca/topo_pci/search/pci_channels.h"

#define GPURING_MODEL_CHOICE_SIZES \
    48 /* entry i: vectors of more than 2^(i-1) and at most 2^i bytes */

struct gpuring_model_choice {
    bool known;                                   /* the tables are filled: */
    int8_t algorithm[GPURING_MODEL_CHOICE_SIZES]; /* enum gpuring_algorithm, -1: none */
    int8_t protocol[GPURING_MODEL_CHOICE_SIZES];  /* enum gpuring_protocol */
    struct gpuring_routes routes; /* this node's; not compared, and good also if others' differ */
};

/* Ask the cost model; where that fails, known is false, with a line at verbose 2. local: the
 * number of this rank's GPU. */
void gpuring_model_choice_find(const struct pci_graph *graph, int nnodes, int local,
                               const struct pci_channels *ring, const struct pci_channels *tree,
                               struct gpuring_model_choice *choice);

/* Equal for equal choice; never 0. */
uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *choice);

#endif
