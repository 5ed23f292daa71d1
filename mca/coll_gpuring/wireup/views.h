/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The ranks of a node tell each other what they see of it (local_topology.h). Each view goes once
 * to each rank that does not have it; where all see the same, which AllGather 1 tells, nothing
 * travels.
 */
#ifndef GPURING_WIREUP_VIEWS_H
#define GPURING_WIREUP_VIEWS_H

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/topology/node_topology.h"

/* This rank's letters. 0 or GPURING_ERR_NOMEM. */
int gpuring_node_topology_letters(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members, int rank,
                                  const struct gpuring_oob *oob, struct gpuring_letters *letters);

/*
 * One document of all views of the node, as gpuring_node_topology_unite, from the letters
 * (complete, or none where nothing had to travel).
 */
int gpuring_node_topology_document(const struct gpuring_gathered *hellos,
                                   const struct gpuring_node_map *members, int rank,
                                   const struct gpuring_letters *letters, struct pci_doc **doc,
                                   bool *from_file);

#endif
