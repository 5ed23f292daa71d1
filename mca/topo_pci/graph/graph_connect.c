/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Add links outside the PCI tree: NVLink between GPUs, to NVSwitches and to CPUs, C2C, and links
 * between PCI switches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

#define PCI_NVLINKS_MAX 1024 /* of one element; real ones have at most 18 */

/* Return the bus ID of the device that contains ELEM, or NULL. */
static const char *busid_above(const struct pci_elem *elem)
{
    for (; elem; elem = elem->parent) {
        const char *busid = pci_elem_get(elem, "busid");
        if (busid) {
            return busid;
        }
    }
    return NULL;
}

static struct pci_node *node_around(const struct pci_graph *graph, const struct pci_elem *elem,
                                    enum pci_node_type type)
{
    const char *busid = busid_above(elem);
    return busid ? pci_node_find(graph, type, pci_elem_host(elem), pci_busid_parse(busid)) : NULL;
}

static struct pci_node *cpu_above(struct pci_node *node)
{
    while (node && node->type != PCI_NODE_CPU) {
        node = pci_vertex_of(node)->up;
    }
    return node;
}

/* All NVSwitches are one node, because every GPU reaches every other one through any of them. */
static int nvswitch(struct pci_graph *graph, struct pci_node **node, struct pci_error *error)
{
    *node = pci_graph_node(graph, PCI_NODE_NVS, 0);
    return *node ? 0 : pci_node_add(graph, PCI_NODE_NVS, 0, 0, NULL, node, error);
}

/* Return the node at the other end, or NULL if the graph does not contain it. */
static int far_end(struct pci_graph *graph, const struct pci_elem *elem, struct pci_node *gpu,
                   struct pci_node **remote, struct pci_error *error)
{
    const char *class = pci_elem_get(elem, "tclass");
    uint64_t id = pci_busid_parse(pci_elem_get(elem, "target"));
    struct pci_node *peer = pci_node_find(graph, PCI_NODE_GPU, gpu->host, id);
    enum pci_node_type type = class && *class ? pci_type_of_class(class)
                              : peer          ? PCI_NODE_GPU
                                              : PCI_NODE_NVS;
    if (type == PCI_NODE_CPU) {
        *remote = cpu_above(gpu);
        return 0;
    }
    if (type != PCI_NODE_GPU) {
        return nvswitch(graph, remote, error);
    }
    *remote = peer == gpu ? NULL : peer;
    if (!*remote) {
        const char *target = pci_elem_get(elem, "target");
        pci_graph_remark_add(graph, "NVLink of GPU %s to %s: %s, ignored", gpu->busid,
                             target ? target : "nowhere",
                             peer ? "the GPU itself" : "no GPU that takes part");
    }
    return 0;
}

static int add_nvlink(struct pci_graph *graph, const struct pci_elem *elem, struct pci_error *error)
{
    struct pci_node *gpu = node_around(graph, elem, PCI_NODE_GPU), *remote = NULL;
    long count = pci_elem_long(elem, "count", 0);
    if (!gpu || count <= 0) {
        return 0;
    }
    if (count > PCI_NVLINKS_MAX) {
        return pci_error_set(error, -EINVAL, "GPU %s has %ld NVLinks in one element; at most %d",
                             gpu->busid, count, PCI_NVLINKS_MAX);
    }
    int rc = far_end(graph, elem, gpu, &remote, error);
    if (rc || !remote) {
        return rc;
    }
    double unit = pci_bw_of_nvlink(gpu->gpu.sm);
    rc = pci_link_add(gpu, remote, PCI_LINK_NVL, (uint64_t) count, unit, error);
    if (!rc && remote->type != PCI_NODE_GPU) { /* other GPUs list their own direction */
        rc = pci_link_add(remote, gpu, PCI_LINK_NVL, (uint64_t) count, unit, error);
    }
    return rc;
}

/* Add COUNT chip-to-chip links of BW MB/s between a GPU and its CPU. */
static int add_c2c(struct pci_graph *graph, const struct pci_elem *elem, struct pci_error *error)
{
    struct pci_node *gpu = node_around(graph, elem, PCI_NODE_GPU);
    struct pci_node *cpu = cpu_above(gpu);
    long count = pci_elem_long(elem, "count", 0);
    double bw = (double) pci_elem_long(elem, "bw", 0) / 1000.0;
    if (!cpu || count <= 0 || bw <= 0) {
        return 0;
    }
    int rc = pci_link_add(gpu, cpu, PCI_LINK_C2C, (uint64_t) count, bw, error);
    return rc ? rc : pci_link_add(cpu, gpu, PCI_LINK_C2C, (uint64_t) count, bw, error);
}

static int add_pcilink(struct pci_graph *graph, const struct pci_elem *elem,
                       struct pci_error *error)
{
    struct pci_node *from = node_around(graph, elem, PCI_NODE_PCI);
    uint64_t target = pci_busid_parse(pci_elem_get(elem, "target"));
    struct pci_node *to = from ? pci_node_find(graph, PCI_NODE_PCI, from->host, target) : NULL;
    if (!to || to == from) {
        pci_graph_remark_add(graph, "PCI link to %s leads nowhere: ignored",
                             pci_elem_get(elem, "target") ? pci_elem_get(elem, "target") : "?");
        return 0;
    }
    return pci_link_add(from, to, PCI_LINK_LOC, 1, PCI_BW_LOC, error);
}

static const struct pci_link *way_back(const struct pci_link *link)
{
    for (uint32_t i = 0; i < link->to->nlinks; i++) {
        if (link->to->links[i]->to == link->from && link->to->links[i]->type == link->type) {
            return link->to->links[i];
        }
    }
    return NULL;
}

/* Links have two directions. If a file lists only one of them, add the other. */
static int complete_graph(struct pci_graph *graph, enum pci_node_type type, enum pci_link_type kind,
                          struct pci_error *error)
{
    for (uint32_t n = 0; n < graph->nodes[type].count; n++) {
        struct pci_node *node = graph->nodes[type].node[n];
        for (uint32_t i = 0; i < node->nlinks; i++) {
            struct pci_link *link = node->links[i];
            const struct pci_edge *edge = (const struct pci_edge *) link;
            if (link->type != kind || way_back(link)) {
                continue;
            }
            pci_graph_remark_add(graph,
                                 "link from %s to %s is listed in one direction only: "
                                 "taken as both",
                                 node->busid, link->to->busid);
            int rc = pci_link_add(link->to, node, kind, edge->count, edge->unit, error);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

int pci_graph_connect(struct pci_graph *graph, const struct pci_doc *doc, struct pci_error *error)
{
    static const struct {
        const char *name;
        int (*add)(struct pci_graph *, const struct pci_elem *, struct pci_error *);
    } kinds[] = {{"nvlink", add_nvlink}, {"c2c", add_c2c}, {"pcilink", add_pcilink}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct pci_elem *elem = NULL;
        while ((elem = pci_doc_next(doc, elem, kinds[k].name))) {
            int rc = kinds[k].add(graph, elem, error);
            if (rc) {
                return rc;
            }
        }
    }
    int rc = complete_graph(graph, PCI_NODE_GPU, PCI_LINK_NVL, error);
    return rc ? rc : complete_graph(graph, PCI_NODE_PCI, PCI_LINK_LOC, error);
}
