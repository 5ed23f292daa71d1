/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The topology of this node. Each process has a view of it, which is a document in text form.
 * Because a container may only show a part of the node, the ranks of a node exchange their views
 * and merge them. No MPI.
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
    size_t bytes;         /* 0: there is no view, or none was needed */
    uint64_t fingerprint; /* of the text; 0: there is none */
    bool from_file;       /* from coll_gpuring_topo_file */
};

/* Return true if this process has a topology of GPUs, from a topology file or the machine. */
bool gpuring_local_topology_of_gpus(void);

/*
 * Get the view of this process: the selected topology file, or what hwloc and the drivers know, or
 * nothing if it is not needed. The view is found once and kept. Thread-safe. Failures are logged.
 */
void gpuring_local_topology_own(struct gpuring_local_topology *view);
void gpuring_local_topology_close(void);

uint64_t gpuring_local_topology_fingerprint(const char *text, size_t bytes);

/* Return true if the ranks of any node have different views. Equal on all ranks. */
bool gpuring_node_topology_differ(const struct gpuring_gathered *rank_infos,
                                  const struct gpuring_node_map *map);

/* Return true if rank i of the node is the first with its view, and sends it to the others. */
bool gpuring_node_topology_first_view(const struct gpuring_node_ranks *ranks, int i);

/*
 * Merge all views of the node into one document. views: one per rank of the node; only those of
 * ranks that are the first with their view are used. *from_file: all views are from files. *doc is
 * NULL if there is no view, or if the views contradict each other, which the node's first rank
 * logs. The result is the same on all ranks of the node, except for GPURING_ERR_NOMEM and
 * GPURING_ERR_PEER (a view is missing).
 */
int gpuring_node_topology_unite(const struct gpuring_node_ranks *ranks,
                                const struct gpuring_local_topology *views, struct pci_doc **doc,
                                bool *from_file);

#endif
