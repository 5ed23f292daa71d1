/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the ranks of a node see of it, put together as AllGather 1 tells. No MPI. */
#ifndef GPURING_TOPOLOGY_NODE_TOPOLOGY_H
#define GPURING_TOPOLOGY_NODE_TOPOLOGY_H

#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/topology/local_topology.h"
#include "mca/coll_gpuring/topology/node_map.h"

/* The ranks of a rank's node, in their order. */
struct gpuring_mates {
    const struct gpuring_gathered *hellos;
    const int *rank;
    int count, self;
};
struct gpuring_mates gpuring_mates_of(const struct gpuring_gathered *hellos,
                                      const struct gpuring_node_map *members, int rank);
const struct gpuring_hello *gpuring_mates_hello(const struct gpuring_mates *mates, int place);

/* Do the ranks of some node see different things? The same on all ranks. */
bool gpuring_node_topology_differ(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members);

/* Is the rank at this place the first one with its view? That one tells the others. */
bool gpuring_node_topology_tells(const struct gpuring_mates *mates, int place);

/*
 * One document of all views of the node. seen: one a place, of those that tell; *from_file: all are
 * from files. *doc is NULL where none sees anything, or they do not fit together, which is logged
 * by the node's first rank. The same on all ranks of the node, but for GPURING_ERR_NOMEM and
 * GPURING_ERR_PEER (a view is not there).
 */
int gpuring_node_topology_unite(const struct gpuring_mates *mates,
                                const struct gpuring_local_topology *seen, struct pci_doc **doc,
                                bool *from_file);

#endif
