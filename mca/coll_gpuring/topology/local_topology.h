/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What a process sees of its node: a topology document as text. A container may show it a part
 * only, so the processes of a node put theirs together. No MPI.
 */
#ifndef GPURING_TOPOLOGY_LOCAL_TOPOLOGY_H
#define GPURING_TOPOLOGY_LOCAL_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
 * This process's view: the topology file that was given, else what hwloc and the drivers tell;
 * nothing where nobody needs it. Found once and kept; thread-safe. What fails is logged.
 */
void gpuring_local_topology_own(struct gpuring_local_topology *view);
void gpuring_local_topology_close(void);

uint64_t gpuring_local_topology_fingerprint(const char *text, size_t bytes);

/*
 * One document of the views of a node, in this order; the first one's word counts where they
 * differ in what may change (a link's speed). A negative errno value: one cannot be read, or they
 * contradict each other in what a device is. The same on all processes that give the same.
 */
int gpuring_node_topology_merge(const struct gpuring_local_topology *views, int count,
                                struct pci_doc **doc, struct pci_error *error);

#endif
