/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How fast an allreduce can be at most on a set of GPUs.
 *
 * Everything here works on a flow network: GPUs (vertices 0 .. ngpus-1), relays that only forward
 * (NVSwitches, PCI switches, CPUs: vertices from ngpus on) and directed links with a capacity. Two
 * bounds are computed, both as algorithm bandwidth (bytes of the vector / time):
 *
 * AG, reduce-scatter followed by allgather. In an allgather, each set of vertices S that does not
 * contain all GPUs must send out the data of its GPUs. Reduce-scatter and allgather take half of
 * the time each:
 *
 *     AG = N/2 x min over S of (capacity leaving S) / (GPUs in S)
 *
 * (Zhao et al., ForestColl, arXiv 2402.06787).
 *
 * AR, a set of trees, each with a share of the vector. A tree reduces towards its root and
 * broadcasts back. A tree crosses a partition of the GPUs in k parts V_i at least k-1 times and
 * uses both directions of each crossing link:
 *
 *     AR = min over partitions of (sum of cut(V_i) / 2) / (k-1)
 *
 * where cut(V_i) is the least capacity that separates the GPUs V_i from the other GPUs. Without
 * relays, sum of cut(V_i) / 2 is the crossing capacity and AR is reached exactly (Tutte and
 * Nash-Williams; trees for GPUs: Wang et al., Blink, arXiv 1910.04940). With relays it is an upper
 * limit: sum of cut(V_i) / 2 is the traffic that all pairs of parts together can exchange (Lovasz
 * and Cherkassky). If the two directions of a link differ, the smaller capacity counts.
 *
 * AR >= AG holds by construction on networks with equal directions: cut(V_i) >= 2 AG (N-|V_i|)/N.
 * Where links are asymmetric the larger of the two figures is reported as AR, because AR is the
 * limit of the best known pattern.
 *
 * Both are upper limits of the links. They ignore rules about allowed paths: if the driver refuses
 * peer-to-peer, all traffic must pass a CPU and the real limit is lower.
 *
 * Capacities are kept as integers in kB/s, and the minimising sets are found by maximum flows with
 * exact fractions: results carry no rounding error until they are turned into GB/s.
 *
 * Threads: no shared state; a network may be read by several threads, changed by one.
 * Returns: 0, or a negative errno value; outputs are set on success only.
 */
#ifndef TOPO_PCI_BOUNDS_PCI_BOUND_H
#define TOPO_PCI_BOUNDS_PCI_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* Capacity units in one GB/s. PCI bandwidths are multiples of 3/16 GB/s: exact in this unit. */
#define PCI_FLOW_UNITS 1000000.0

/* Largest capacity of one link in GB/s (far above any real link; keeps all sums within 63 bits). */
#define PCI_FLOW_MAX_GBPS 100000.0

/* Most vertices of a network; larger ones are refused with -E2BIG. */
#define PCI_FLOW_MAX_VERTICES 4096u

struct pci_flow_link {
    uint32_t from;
    uint32_t to;
    uint64_t capacity; /* of this direction, in units */
};

/* A network. The capacities of parallel links are added. */
struct pci_flow {
    uint32_t ngpus;
    uint32_t nvertices;
    size_t nlinks, links_room;
    struct pci_flow_link *links; /* owned */
};

/* Start a network of ngpus GPUs and no links. Free it with pci_flow_fini().
 * -EINVAL: no GPU; -E2BIG: more than PCI_FLOW_MAX_VERTICES. */
int pci_flow_init(struct pci_flow *flow, uint32_t ngpus);

/* Free the memory of a network. A zeroed or finished network is allowed. */
void pci_flow_fini(struct pci_flow *flow);

/* Add a relay and store its vertex number. -E2BIG, as above. */
int pci_flow_add_relay(struct pci_flow *flow, uint32_t *vertex);

/* Add a link from one vertex to another. A capacity that rounds to zero adds no link. -EINVAL:
 * unknown vertex, from == to, capacity negative or above PCI_FLOW_MAX_GBPS; -ENOMEM. */
int pci_flow_add_link(struct pci_flow *flow, uint32_t from, uint32_t to, double gbps);

/* Copy a network. In the copy, parallel links are merged, links are sorted by (from, to), and both
 * directions of a link have the smaller of their two capacities. Free it with pci_flow_fini().
 * -ENOMEM. */
int pci_flow_symmetric(const struct pci_flow *flow, struct pci_flow *even);

/* A bound as fraction num/den of units, and in GB/s. */
struct pci_ratio {
    uint64_t num;
    uint64_t den;
    double gbps;
};

struct pci_bound {
    bool connected; /* every GPU can reach every other one; if false, the ratios are 0/1 */
    struct pci_ratio ag;
    struct pci_ratio ar;
};

/* Compute both bounds of a network with at least two GPUs.
 * Cost: one maximum flow per GPU for AG, and one per GPU and Newton step (few) for AR.
 * -EINVAL: fewer than two GPUs; -ERANGE: the capacities add up to more than 63 bits can hold;
 * -ENOMEM. */
int pci_bound_compute(const struct pci_flow *flow, struct pci_bound *bound);

/* The bounds of both scopes, as reports show them. */
struct pci_bounds {
    struct pci_bound nvlink;
    struct pci_bound all;
};

/* Compute the bounds of a machine (one node). With fewer than two GPUs, neither is connected.
 * -ENOMEM, -E2BIG, -ERANGE.
 */
int pci_bounds_of_graph(const struct pci_graph *graph, struct pci_bounds *bounds);

#endif /* TOPO_PCI_BOUNDS_PCI_BOUND_H */
