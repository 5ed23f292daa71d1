/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The topology engine (libpcigraph): graphs and paths of one node.
 *
 *     XML file or discovery --> document --> graph --> paths --> search, bounds, cost model
 *                               pci_doc      pci_graph
 *
 * A graph contains the nodes and links of a document that affect traffic, and the best path between
 * any two endpoints.
 *
 * Related headers:
 *     pci_doc.h        documents: XML and elements; errors
 *     pci_discover.h   this machine -> document (hwloc, /sys, NVML)
 *     pci_channels.h   graph -> ring and tree channels in a node, global rings and trees
 *     pci_bound.h      bounds on what any pattern can reach
 *     pci_predict.h    the cost model
 *
 * Units: bandwidths in GB/s (1e9 bytes per second) and per direction.
 * Threads, returns: pci_doc.h applies to graphs as well as to documents.
 */
#ifndef TOPO_PCI_GRAPH_PCIGRAPH_H
#define TOPO_PCI_GRAPH_PCIGRAPH_H

#include "mca/topo_pci/xml/pci_doc.h"

/* Limits of graphs, as those of documents. */
#define PCI_GRAPH_MAX_GPUS  1024u
#define PCI_GRAPH_MAX_NETS  1024u
#define PCI_GRAPH_MAX_CPUS  256u
#define PCI_GRAPH_MAX_NODES 65536u

/* Kinds of nodes: constant, name. The order is that of the reference. */
#define PCI_NODE_TYPES(X) \
    X(GPU, "GPU")         \
    X(PCI, "PCI")         \
    X(NVS, "NVS")         \
    X(CPU, "CPU")         \
    X(NIC, "NIC")         \
    X(NET, "NET")

/* Kinds of links. Each is also the class of a path over this one link. */
#define PCI_LINK_TYPES(X) \
    X(LOC, "LOC")         \
    X(NVL, "NVL")         \
    X(C2C, "C2C")         \
    X(PCI, "PCI")         \
    X(SYS, "SYS")         \
    X(NET, "NET")

/*
 * Classes of paths, from near to far.
 * LOC the same device       NVL NVLink          NVB NVLink through another GPU
 * C2C chip to chip          PIX one PCI switch  PXB several PCI switches
 * P2C chip to chip, then PCI to a NIC of the same CPU
 * PXN a NIC through a relay GPU on NVLink       PHB through a CPU
 * SYS between CPUs          NET the network     DIS no path
 */
#define PCI_PATH_CLASSES(X) \
    X(LOC, "LOC")           \
    X(NVL, "NVL")           \
    X(NVB, "NVB")           \
    X(C2C, "C2C")           \
    X(PIX, "PIX")           \
    X(PXB, "PXB")           \
    X(P2C, "P2C")           \
    X(PXN, "PXN")           \
    X(PHB, "PHB")           \
    X(SYS, "SYS")           \
    X(NET, "NET")           \
    X(DIS, "DIS")

#define PCI_ENUM(id, name) PCI_NODE_##id,
enum pci_node_type { PCI_NODE_TYPES(PCI_ENUM) PCI_NODE_TYPE_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, name) PCI_LINK_##id,
enum pci_link_type { PCI_LINK_TYPES(PCI_ENUM) PCI_LINK_TYPE_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, name) PCI_PATH_##id,
enum pci_path_class { PCI_PATH_CLASSES(PCI_ENUM) PCI_PATH_CLASS_COUNT };
#undef PCI_ENUM

const char *pci_node_type_name(enum pci_node_type type);
const char *pci_link_type_name(enum pci_link_type type);
const char *pci_path_class_name(enum pci_path_class class);

/* Return the class of this name, or -EINVAL. */
int pci_path_class_parse(const char *name);

enum pci_cpu_arch { PCI_ARCH_OTHER, PCI_ARCH_X86, PCI_ARCH_POWER, PCI_ARCH_ARM };
enum pci_cpu_vendor { PCI_VENDOR_OTHER, PCI_VENDOR_INTEL, PCI_VENDOR_AMD, PCI_VENDOR_ZHAOXIN };
/* Families of processors of one vendor that differ in the bandwidth between sockets. */
enum pci_cpu_model {
    PCI_MODEL_OTHER,
    PCI_MODEL_INTEL_BDW,           /* family 6, model below 0x55 */
    PCI_MODEL_INTEL_SKL,           /* from 0x55 */
    PCI_MODEL_INTEL_SRP,           /* from 0x8f */
    PCI_MODEL_INTEL_ERP,           /* from 0xcf */
    PCI_MODEL_ZHAOXIN_YONGFENG = 1 /* family 7, model 0x5b; the reference numbers it so */
};

struct pci_node;

/*
 * One direction of a link. Parallel links are one link with the sum of their bandwidths. A link
 * always has two directions, whose bandwidths may differ, and `reverse` points to the other one.
 */
struct pci_link {
    uint32_t id; /* 0 .. links of the graph - 1 */
    enum pci_link_type type;
    double bw; /* GB/s */
    struct pci_node *from;
    struct pci_node *to;
    struct pci_link *reverse;
};

struct pci_gpu {
    int rank; /* in the document, or the index when it has none */
    int dev;  /* CUDA device number */
    int sm;   /* 10 x major + minor of the compute capability; 0 unknown */
    bool gdr; /* GPUDirect RDMA is possible */
};

struct pci_net {
    int dev;
    int port;
    double bw; /* GB/s */
    double latency;
    uint64_t guid;
    bool gdr;
    unsigned maxconn;
    const char *name; /* never NULL; belongs to the graph */
};

struct pci_cpu {
    int numa;
    enum pci_cpu_arch arch;
    enum pci_cpu_vendor vendor;
    enum pci_cpu_model model;
    const char *affinity; /* a mask "ffff,00000000"; never NULL; belongs to the graph */
};

/* A node. Only the member of its kind is set. Links are in the order in which paths prefer them. */
struct pci_node {
    enum pci_node_type type;
    uint32_t index;    /* among the nodes of this kind */
    uint32_t vertex;   /* among all nodes: 0 .. pci_graph_vertices() - 1 */
    uint64_t host;     /* host_hash of its CPU, 0 without: a document may hold several hosts */
    uint64_t id;       /* bus id of GPU, PCI and NIC; numaid of CPU; dev of NET */
    const char *busid; /* as in the document ("" without); belongs to the graph */
    bool assumed;      /* NET: its speed is not known; GPU, PCI, NIC: that of its PCI link */
    uint32_t nlinks;
    struct pci_link **links;
    union {
        struct pci_gpu gpu;
        struct pci_net net;
        struct pci_cpu cpu;
        uint64_t device; /* PCI: vendor, device, subsystem vendor and device, 16 bits each */
    };
};

/*
 * A path. links[i] leads from the i-th node to the next one. A path of class DIS has no links and
 * no bandwidth. bw follows from the engine's rules. If the two directions of a link differ, the
 * bandwidth of the opposite direction counts, as in the reference.
 */
struct pci_path {
    enum pci_path_class class;
    uint32_t hops;
    double bw;
    struct pci_link *const *links;
};

struct pci_graph;

/* What the driver and the system report about traffic between the GPUs of two processes. */
enum pci_peer {
    PCI_PEER_OK,
    PCI_PEER_NO_P2P,  /* the driver refuses peer-to-peer: traffic passes the CPU */
    PCI_PEER_ISOLATED /* neither peer-to-peer nor shared memory: only the network is left */
};

#define PCI_LEVEL_AUTO (-1)

/* Rules for paths. pci_path_rules_init sets the defaults, which are the reference's. */
struct pci_path_rules {
    int p2p_level;     /* farthest class for direct GPU to GPU traffic, or PCI_LEVEL_AUTO */
    int gdr_level;     /* farthest class for GPUDirect RDMA, or PCI_LEVEL_AUTO */
    bool pxn;          /* allow relay GPUs for NICs */
    bool nvb;          /* allow paths through one other GPU on NVLink */
    enum pci_peer all; /* for all pairs, when there is no hook: OK, or NO_P2P (--p2p no) */
    /* Answer for the GPUs of these ranks. NULL: ALL applies. */
    enum pci_peer (*peer)(void *context, uint32_t a, uint32_t b);
    void *context;
};

void pci_path_rules_init(struct pci_path_rules *rules);

/*
 * Build the graph of a document and its paths. RULES may be NULL (defaults). They are kept for
 * later recomputation, so the hook's context must outlive the graph. The document may be freed.
 *
 * GPUs are numbered in the order of their ranks (rank attribute; without any, the order of the
 * document), nets in the order of dev, other nodes in the order of the document. If some GPUs have
 * a rank, GPUs without one are ignored. A graph without GPUs is valid. -EINVAL: a contradiction
 * (bus id twice, rank twice, a loop); -E2BIG: see the limits; -ENOMEM.
 */
int pci_graph_build(const struct pci_doc *doc, const struct pci_path_rules *rules,
                    struct pci_graph **graph, struct pci_error *error);
void pci_graph_free(struct pci_graph *graph); /* NULL is allowed */

/* Compute all paths again under RULES (NULL: as before). On failure the graph has no paths. */
int pci_graph_recompute(struct pci_graph *graph, const struct pci_path_rules *rules,
                        struct pci_error *error);

/*
 * Remove the GPUs that cannot be reached from the GPU with index GPU (or only over the network),
 * and recompute. Indexes change because they stay contiguous. REMOVED (may be NULL) returns the
 * number of removed GPUs.
 */
int pci_graph_trim(struct pci_graph *graph, uint32_t gpu, uint32_t *removed,
                   struct pci_error *error);

/*
 * Parts of a node: two GPUs are in different ones if each reaches a NIC at PXB or nearer faster
 * than the other GPU, and no third GPU is near to both. PART has room for the number of each GPU's
 * part, 0 .. NPARTS-1 in the order of their first GPUs. -ENOMEM.
 */
int pci_graph_parts(const struct pci_graph *graph, uint32_t *part, uint32_t *nparts);

/* Build the graph of one part's GPUs and of all NICs, from the document of GRAPH. Errors as
 * pci_graph_build(). */
int pci_graph_of_part(const struct pci_graph *graph, const struct pci_doc *doc,
                      const uint32_t *part, uint32_t number, struct pci_graph **result,
                      struct pci_error *error);

uint32_t pci_graph_count(const struct pci_graph *graph, enum pci_node_type type);
uint32_t pci_graph_vertices(const struct pci_graph *graph); /* all nodes */
uint32_t pci_graph_links(const struct pci_graph *graph);    /* all directed links */
struct pci_node *pci_graph_node(const struct pci_graph *graph, enum pci_node_type type,
                                uint32_t index);
struct pci_node *pci_graph_vertex(const struct pci_graph *graph, uint32_t vertex);
struct pci_link *pci_graph_link(const struct pci_graph *graph, uint32_t id);

/*
 * Return the index of the GPU or net at this POSITION of the document. The reference numbers nodes
 * in this order, also in its matrices. Here it only decides ties. -1: another kind, or no such
 * node.
 */
int pci_graph_listed(const struct pci_graph *graph, enum pci_node_type type, uint32_t position);

/* Return the first net of the port of NET. Nets with the same GUID and port number share a port,
 * and a net without a GUID has a separate port. */
uint32_t pci_graph_port(const struct pci_graph *graph, uint32_t net);

/* Return the node on whose properties rules depend, which is the first CPU, or NULL. */
const struct pci_node *pci_graph_cpu(const struct pci_graph *graph);

/* Return false if the document does not specify the speed of a PCI link, or its width, in a form
 * that is known. The missing figure counts as 8 GT/s, or as 16 lanes. */
bool pci_link_known(long width, const char *speed);

/* Get a remark about a problem that was tolerated ("... ignored"). Return false if INDEX is too
 * large. */
bool pci_graph_remark(const struct pci_graph *graph, size_t index, const char **text);

/*
 * Return the path between two endpoints of kind GPU, CPU, NVS or NET. It is never NULL. For other
 * kinds, or if there is no path, it has class DIS. It is valid until the next recomputation.
 */
const struct pci_path *pci_graph_path(const struct pci_graph *graph, const struct pci_node *from,
                                      const struct pci_node *to);

/* pci_graph_path by kind and index. */
const struct pci_path *pci_graph_route(const struct pci_graph *graph, enum pci_node_type from,
                                       uint32_t ifrom, enum pci_node_type to, uint32_t ito);

/* Return the factor with which traffic from a GPU loads the PCI links of its path: 6/5 through an
 * Intel CPU (class PHB), which divides it into small packets, and otherwise 1. This is the
 * reference's figure. */
double pci_path_pci_load(const struct pci_path *path);

/* Return true if A may access B's memory directly. Sets RELAY to the GPU in between (NVB) or -1. */
bool pci_graph_p2p(const struct pci_graph *graph, uint32_t a, uint32_t b, int *relay);

/*
 * Return true if the NIC may access GPU memory directly (GPUDirect RDMA). READ: for sending from
 * it. A path with a relay GPU is judged by the relay.
 */
bool pci_graph_gdr(const struct pci_graph *graph, uint32_t gpu, uint32_t net, bool read);

/* Return the relay GPU on the path from GPU to NET (class PXN), or -1. */
int pci_graph_pxn(const struct pci_graph *graph, uint32_t gpu, uint32_t net);

/* Return the CPU that is the fewest hops away from a GPU, or -1. */
int pci_graph_local_cpu(const struct pci_graph *graph, uint32_t gpu);

/*
 * List the nets that are best for a GPU: those with the highest bandwidth, and of these the nearest
 * class. NETS has room for all nets of the graph. Return their number.
 */
uint32_t pci_graph_local_nets(const struct pci_graph *graph, uint32_t gpu, uint32_t *nets);

#endif
