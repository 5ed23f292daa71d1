/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Packed trees: a few weighted spanning trees over the GPUs of a flow network. Each carries a share
 * of the vector: it is reduced towards the root and broadcast back, so that a tree of rate w takes
 * w of both directions of each link that it uses. Together the trees come close to the bound AR of
 * pci_bound.h; on parts of a hybrid cube mesh that is up to 1.7 times what rings reach, and the
 * trees are shallower than chains of all GPUs.
 *
 * Two GPUs are neighbours in a tree over one fixed route: the direct link where there is one,
 * otherwise the widest (then shortest) way over relays. GPUs that are not neighbours forward for
 * each other as inner nodes of a tree, never as relays.
 *
 * Method: linear programming over trees. Columns (trees) are generated one by one: the prices of
 * the links in the current solution make a cheapest spanning tree, which improves the solution as
 * long as it costs less than it earns (the pricing of Garg and Koenemann's packing, solved by
 * simplex). Then trees are dropped while the loss is small, and single edges exchanged while that
 * gains. All of it is deterministic and bounded in work, not in time.
 */
#ifndef TOPO_PCI_BOUNDS_PCI_PACK_H
#define TOPO_PCI_BOUNDS_PCI_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/bounds/pci_bound.h"

#define PCI_PACK_MAX_GPUS  32u /* larger networks are refused with -E2BIG */
#define PCI_PACK_MAX_TREES 16u
#define PCI_PACK_TREES     8u    /* the usual limit for pci_pack_compute() */
#define PCI_PACK_SHARES    4096u /* the integer shares of all trees add up to this */
#define PCI_PACK_ROOT      (-1)

struct pci_pack_tree {
    double gbps;    /* rate of this tree, GB/s of vector bytes */
    uint32_t share; /* its part of the vector, in 1/PCI_PACK_SHARES */
    uint32_t root;
    uint32_t depth;                    /* hops from the root to the farthest GPU */
    int32_t parent[PCI_PACK_MAX_GPUS]; /* GPU -> parent; PCI_PACK_ROOT for the root */
};

struct pci_pack {
    uint32_t ngpus;
    uint32_t ntrees; /* 0: the network does not connect the GPUs */
    double algbw;    /* sum of the rates: vector bytes / time for large vectors, GB/s */
    double optimum;  /* what any number of trees over these routes reaches (on large networks: the
                        best that the limit of work allowed to find) */
    bool nvlink;     /* set by pci_pack_of_graph(): all links used are NVLink */
    struct pci_pack_tree trees[PCI_PACK_MAX_TREES]; /* largest share first */
};

/* Pack at most max_trees (1 .. PCI_PACK_MAX_TREES) trees. A plain struct: nothing to free.
 * -EINVAL: fewer than two GPUs or a bad max_trees; -E2BIG: too many GPUs; -ENOMEM. */
int pci_pack_compute(const struct pci_flow *flow, uint32_t max_trees, struct pci_pack *pack);

/* Pack the GPUs of a machine: over NVLink where that connects them, otherwise over all links. Fewer
 * than two GPUs: no trees. Errors as above. */
int pci_pack_of_graph(const struct pci_graph *graph, uint32_t max_trees, struct pci_pack *pack);

/* Prove a packing against its network: each tree spans all GPUs from its root without a cycle,
 * depth and sums are as stated, and no link carries more than its capacity in either direction.
 * Returns 0, or -EINVAL with a sentence in why (always terminated); -ENOMEM. */
int pci_pack_check(const struct pci_flow *flow, const struct pci_pack *pack, char *why,
                   size_t size);

/* Algorithm bandwidth, GB/s, of the direct pattern in which every GPU sends the whole vector to
 * every other at the same time over the routes above; 0 when some pair has no route. Errors as
 * pci_pack_compute(). */
int pci_pack_direct_bw(const struct pci_flow *flow, double *gbps);

#endif /* TOPO_PCI_BOUNDS_PCI_PACK_H */
