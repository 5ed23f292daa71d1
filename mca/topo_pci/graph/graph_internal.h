/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internals that the files of graph/ share. Nothing has a fixed size; arrays grow through
 * pci_array_reserve.
 */
#ifndef TOPO_PCI_GRAPH_INTERNAL_H
#define TOPO_PCI_GRAPH_INTERNAL_H

#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/xml/doc.h"

#define PCI_NONE UINT32_MAX

/* A link with its private part. */
struct pci_edge {
    struct pci_link link; /* first: a pci_link is a pci_edge */
    uint64_t count;       /* parallel NVLinks; 0: bw was given as such */
    double unit;          /* GB/s of one of them */
};

/* A node with its private part. */
struct pci_vertex {
    struct pci_node node; /* first: a pci_node is a pci_vertex */
    size_t links_capacity;
    uint32_t sequence;   /* order of creation, which is that of the document */
    struct pci_node *up; /* towards the CPU in the PCI tree, or NULL */
    char *text;          /* name of a net, affinity of a CPU, or NULL */
    char *busid;
};

struct pci_nodes {
    struct pci_node **node;
    uint32_t count;
    size_t capacity;
};

/* A block of links of paths. Paths point into blocks, which never move. */
struct pci_pool {
    struct pci_pool *next;
    size_t used;
    size_t size;
    struct pci_link *links[];
};

/*
 * The nearest nets of each GPU and the nearest GPUs of each net, in document order, and the
 * GPU that uses each net. When rules change paths, the affected entries are computed again at their
 * next use.
 */
struct pci_local {
    uint32_t *nets;  /* ngpus rows of nnets */
    uint32_t *nnets; /* valid entries of each row; PCI_NONE: to be computed */
    uint32_t *gpus;  /* nnets rows of ngpus */
    uint32_t *ngpus;
    int *relay;        /* of each net: pci_local_relay, as of its version */
    uint64_t *version; /* of each relay; 0: none yet */
    uint64_t now;      /* grows with every change */
};

struct pci_graph {
    struct pci_nodes nodes[PCI_NODE_TYPE_COUNT];
    struct pci_node **vertices; /* all nodes; NULL before they are numbered */
    struct pci_link **links;    /* all directed links by id */
    uint32_t nvertices;
    uint32_t nlinks;
    uint32_t sequence;
    char **remarks;
    size_t nremarks;
    size_t remarks_capacity;

    /* Order of the document: position -> index. Rules that break ties by position need it. */
    uint32_t *gpu_order;
    uint32_t *net_order;

    struct pci_path_rules rules;
    struct pci_path *paths; /* nends x nends; NULL: none */
    uint32_t nends;
    uint32_t first_end[PCI_NODE_TYPE_COUNT]; /* endpoint number of index 0; PCI_NONE: no endpoint */
    struct pci_pool *pool;
    struct pci_local local;
};

/* Add a node, and set its type, host, id and busid (which is copied; NULL: none). */
int pci_node_add(struct pci_graph *graph, enum pci_node_type type, uint64_t host, uint64_t id,
                 const char *busid, struct pci_node **node, struct pci_error *error);
struct pci_node *pci_node_find(const struct pci_graph *graph, enum pci_node_type type,
                               uint64_t host, uint64_t id);
void pci_node_remove(struct pci_graph *graph, struct pci_node *node);
static inline struct pci_vertex *pci_vertex_of(struct pci_node *node)
{
    return (struct pci_vertex *) node;
}

/*
 * Add bandwidth in one direction, to the existing link of this type or as a new link. The bandwidth
 * is that of COUNT links of UNIT each, or UNIT if COUNT is 0. Links stay sorted, the widest one
 * first.
 */
int pci_link_add(struct pci_node *from, struct pci_node *to, enum pci_link_type type,
                 uint64_t count, double unit, struct pci_error *error);

/* Add both directions of a link between nodes that have none. */
int pci_link_join(struct pci_node *a, struct pci_node *b, enum pci_link_type type, double bw,
                  struct pci_error *error);

/* Store a remark about a problem that was tolerated. If there is no memory, the remark is lost. */
void pci_graph_remark_add(struct pci_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* NVLink, C2C and pcilink elements. */
int pci_graph_connect(struct pci_graph *graph, const struct pci_doc *doc, struct pci_error *error);

int pci_graph_flatten(struct pci_graph *graph, struct pci_error *error);

/* Number nodes and links, sort links, and set `reverse`. Call this after every change of nodes. */
int pci_graph_number(struct pci_graph *graph, struct pci_error *error);

/* Constants (graph/graph_tables.c). */
#define PCI_BW_LOC 5000.0   /* GB/s inside one device */
#define PCI_BW_MAX 100000.0 /* GB/s; more is no bandwidth of a link */
double pci_bw_of_pci(long width, const char *speed);
double pci_bw_of_nvlink(int sm);
double pci_bw_between_cpus(const struct pci_cpu *cpu);
double pci_bw_of_net(long mbps);
enum pci_node_type pci_type_of_class(const char *class); /* of a PCI class text */
void pci_cpu_read(struct pci_cpu *cpu, const struct pci_elem *elem);

/* ---- Paths ---- */

struct pci_path *pci_path_at(const struct pci_graph *graph, enum pci_node_type from, uint32_t ifrom,
                             enum pci_node_type to, uint32_t ito);
struct pci_link **pci_pool_take(struct pci_graph *graph, size_t n);
void pci_paths_free(struct pci_graph *graph);

/* Compute the paths from every endpoint to every endpoint, without rules. */
int pci_paths_search(struct pci_graph *graph, struct pci_error *error);

/* Compute the nearest nets and GPUs, and keep them in graph->local. */
int pci_local_init(struct pci_graph *graph, struct pci_error *error);
/* Update the lists after the paths between GPU and NET got another class or bandwidth. */
void pci_local_changed(struct pci_graph *graph, uint32_t gpu, uint32_t net);
void pci_local_refresh(struct pci_graph *graph);
/* Return the GPU through which other GPUs send to a net (PXN), or -1. */
int pci_local_relay(struct pci_graph *graph, uint32_t net);
void pci_local_free(struct pci_graph *graph);

#endif
