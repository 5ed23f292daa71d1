/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The topology of this node. What a process sees of it is a document as text; a container may show
 * a part only, so the ranks of a node exchange and merge their views. No MPI.
 */
#ifndef GPURING_TOPOLOGY_NODE_TOPOLOGY_H
#define GPURING_TOPOLOGY_NODE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/topology/node_map.h"
#include "mca/topo_pci/graph/pcigraph.h"

struct gpuring_local_topology {
    const char *text;
    size_t bytes;         /* 0: it sees nothing, or did not look */
    uint64_t fingerprint; /* of the text; 0: there is none */
    bool from_file;       /* from coll_gpuring_topo_file */
};

/* True if this process has a topology of GPUs: a topology file, or GPUs. */
bool gpuring_local_topology_of_gpus(void);

/*
 * This process's view: the topology file that was given, else what hwloc and the drivers say;
 * nothing where nobody needs it. Found once and kept; thread-safe. What fails is logged.
 */
void gpuring_local_topology_own(struct gpuring_local_topology *view);
void gpuring_local_topology_close(void);

uint64_t gpuring_local_topology_fingerprint(const char *text, size_t bytes);

/* Do the ranks of some node see different things? The same on all ranks. */
bool gpuring_node_topology_differ(const struct gpuring_gathered *rank_infos,
                                  const struct gpuring_node_map *map);

/* Is the i-th rank of the node the first one with its view? That one sends it to the others. */
bool gpuring_node_topology_first_view(const struct gpuring_node_ranks *ranks, int i);

/*
 * One document of all views of the node. views: one a rank, of those that are the first with it;
 * *from_file: all are from files. *doc is NULL where none sees anything, or they contradict each
 * other, which the node's first rank logs. The same on all ranks of the node, but for
 * GPURING_ERR_NOMEM and GPURING_ERR_PEER (a view is not there).
 */
int gpuring_node_topology_unite(const struct gpuring_node_ranks *ranks,
                                const struct gpuring_local_topology *views, struct pci_doc **doc,
                                bool *from_file);

#endif
