/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Channels of one node: the rings and trees over which its GPUs exchange data.
 *
 *     pci_graph --> pci_fabric --> pci_channels_search() --> pci_channels --> pci_connect.h
 *                   links, ways      ring or tree            orders, NICs     all nodes
 *
 * A fabric is the part of a graph that the search needs: directed links with a capacity, and for
 * each pair of GPUs, and of a GPU and a NIC, the links that one byte on its way loads, each with a
 * factor. A channel is an order of the node's GPUs; with several nodes also the NIC through which
 * data enters, at the first GPU, and the NIC through which it leaves. All channels of a set have
 * the same speed.
 *
 * The load of a channel of speed s (bw_intra;
 * bw_inter between nodes) on each direction of a link:
 *   ring           s on the way from each GPU to the next; on one node also from the last to the
 *                  first; on several nodes bw_inter from the NIC to the first GPU and from the last
 *                  GPU to the NIC (the other NIC of the pair with cross_nic)
 *   tree           s / 2 on the way from each GPU to the next and s / 2 on the way back: an
 *                  allreduce goes up and down the chain (algorithm bandwidth = channels x s / 2).
 *                  On several nodes bw_inter from the NIC to the first GPU and back
 *   balanced tree  as a tree, but half of what leaves starts at the second GPU
 * A NIC's port has a capacity in each direction, common to all nets with the same identity. Two
 * factors, both the reference's (NCCL's graph code): traffic that starts at a GPU and passes an
 * Intel CPU on a path of class PHB loads PCI links 6/5 times; traffic from elsewhere into a GPU
 * before compute capability 8.0 loads the opposite direction of its last link by 1/8.
 *
 * Units: GB/s per direction. Threads: no shared state. Returns: 0 or a negative errno value;
 * outputs are set on success only. The engine prints nothing.
 */
#ifndef TOPO_PCI_SEARCH_PCI_CHANNELS_H
#define TOPO_PCI_SEARCH_PCI_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/graph/pcigraph.h"

#define PCI_SEARCH_STEPS 4000000u   /* of one search; each takes about two nanoseconds */
#define PCI_CHANNELS_MAX 32u        /* channels of a search; connecting may double them */
#define PCI_NO_NET       UINT32_MAX /* instead of a NIC: one node, or a node without NICs */

/* Nominal bandwidth if GPUs have no path or nodes have no NIC, so that a search always has a
 * result. */
#define PCI_CHANNELS_BW_UNREACHABLE 0.1
#define PCI_CHANNELS_BW_ONE         5000.0 /* one GPU alone moves nothing: as inside a device */
#define PCI_CHANNELS_BW_NO_NIC      1.25 /* of all channels: an unknown network counts as 10 Gb/s */

/* ---- Fabrics ---- */

/* FACTOR times the traffic on a link. */
struct pci_use {
    uint32_t link;
    double factor;
};

/* The links between two endpoints: uses[first .. first+count-1] of the fabric. */
struct pci_way {
    size_t first;
    uint32_t count;
    uint32_t hops;
    enum pci_path_class class; /* DIS: no way */
};

struct pci_fabric {
    uint32_t ngpus, nnets, nlinks;
    int sm;               /* lowest compute capability of the GPUs, 10 x major + minor */
    double *capacity;     /* link -> GB/s */
    struct pci_way *gpus; /* from * ngpus + to */
    struct pci_way *out;  /* gpu * nnets + net: to the NIC */
    struct pci_way *in;   /* net * ngpus + gpu: from the NIC */
    struct pci_use *uses;
    size_t nuses, uses_room;
};

/* Create a fabric without ways. -E2BIG: more GPUs or NICs than a graph may have; -ENOMEM. */
int pci_fabric_init(struct pci_fabric *fabric, uint32_t ngpus, uint32_t nnets, uint32_t nlinks);
void pci_fabric_fini(struct pci_fabric *fabric); /* a zeroed one is allowed */

/* Begin a way (an element of gpus, out or in), and then add its links. Add a link twice if it is
 * used twice. -EINVAL: no such link, or a factor that is not positive; -ENOMEM. */
void pci_fabric_way(struct pci_fabric *fabric, struct pci_way *way, enum pci_path_class class,
                    uint32_t hops);
int pci_fabric_use(struct pci_fabric *fabric, struct pci_way *way, uint32_t link, double factor);

/* Create the fabric of a graph. After the links of the graph, it has one link per direction of each
 * NIC port. -ENOMEM. */
int pci_fabric_from_graph(const struct pci_graph *graph, struct pci_fabric *fabric);

/* ---- Channels ---- */

/* Constant, name as the reference writes it. */
#define PCI_PATTERNS(X)               \
    X(RING, "RING")                   \
    X(BALANCED_TREE, "BALANCED_TREE") \
    X(TREE, "TREE")
#define PCI_ENUM(id, name) PCI_PATTERN_##id,
enum pci_pattern { PCI_PATTERNS(PCI_ENUM) PCI_PATTERN_COUNT };
#undef PCI_ENUM

const char *pci_pattern_name(enum pci_pattern pattern);

struct pci_search {
    enum pci_pattern pattern; /* RING, or BALANCED_TREE (which becomes TREE where that is better) */
    uint32_t nodes;           /* 1: no NICs take part */
    uint32_t min_channels;    /* 0: as many as are useful */
    uint32_t max_channels;    /* 0: PCI_CHANNELS_MAX */
    uint32_t prefer_channels; /* wanted if it costs little bandwidth, e.g. the rings' number; 0 */
    uint64_t max_steps;       /* elementary ones; the search ends soon after */
    bool balanced;            /* only balanced trees */
    bool cross_nic;           /* data may enter and leave a node through different NICs */
    enum pci_path_class max_intra; /* farthest class between GPUs, usually SYS */
    enum pci_path_class max_inter; /* and between a GPU and a NIC */
};

struct pci_channels {
    enum pci_pattern pattern;
    uint32_t ngpus;
    uint32_t nodes; /* as searched for */
    uint32_t nchannels;
    double bw_intra, bw_inter;      /* of each channel */
    enum pci_path_class type_intra; /* farthest class used between GPUs; LOC for one GPU */
    enum pci_path_class type_inter; /* between GPU and NIC; PIX on one node */
    bool same_channels;             /* all channels have one order and the same NICs */
    uint32_t cross_nic;             /* 0, or 2: channels 2k and 2k+1 swap their NICs */
    double limit;        /* no set within these classes has more nchannels x speed; 0: not known */
    uint64_t steps;      /* elementary steps of the search */
    uint32_t *intra;     /* nchannels x ngpus GPU indexes; owned */
    uint32_t (*nets)[2]; /* nchannels x {in, out} net indexes or PCI_NO_NET; owned */
};

/* Return true if these channels are for several nodes but the machine has no usable NIC. */
static inline bool pci_channels_no_nic(const struct pci_channels *channels)
{
    return channels->nodes > 1 && channels->nchannels > 0 && channels->nets[0][0] == PCI_NO_NET;
}

/* Defaults: ring, one node, cross_nic, classes up to SYS. */
void pci_search_init(struct pci_search *search);

/*
 * Find channels. The search is deterministic, has a limited number of steps, and always returns an
 * answer. Without GPUs there are no channels. GPUs without a path between them are connected in
 * their order with the nominal speed PCI_CHANNELS_BW_UNREACHABLE. NICs that no GPU reaches are
 * ignored. -EINVAL: a pattern, class or number that is out of range; -ENOMEM.
 */
int pci_channels_search(const struct pci_fabric *fabric, const struct pci_search *search,
                        struct pci_channels *channels);
void pci_channels_fini(struct pci_channels *channels); /* a zeroed one is allowed */

/* A way of a channel, whether it is inside the node, and its share of the channel's speed. */
struct pci_leg {
    const struct pci_way *way;
    bool inside;
    double part;
};

/* Get the I-th way of channel C. Returns false if it has fewer ways. */
bool pci_channel_leg(const struct pci_fabric *fabric, const struct pci_channels *channels,
                     uint32_t c, uint32_t i, struct pci_leg *leg);

#endif
