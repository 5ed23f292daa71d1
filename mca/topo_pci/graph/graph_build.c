/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Build a graph from a document: CPUs, the PCI tree below them, GPUs, NICs and their nets. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

struct build {
    struct pci_graph *graph;
    struct pci_ranks ranks;
    size_t next_gpu; /* ranks are in the order of the document, and so is the walk */
    struct pci_error *error;
    /* The node of the element at each level above the current one, or NULL if this element has
     * none. */
    struct pci_node *above[PCI_DOC_MAX_DEPTH + 1];
};

static const char *text_or_empty(const struct pci_elem *elem, const char *key)
{
    const char *text = pci_elem_get(elem, key);
    return text ? text : "";
}

static int add_cpu(struct build *build, const struct pci_elem *elem)
{
    uint64_t host = pci_elem_host(elem), id = (uint64_t) pci_elem_long(elem, "numaid", -1);
    struct pci_node *cpu;
    if (pci_node_find(build->graph, PCI_NODE_CPU, host, id)) {
        pci_graph_remark_add(build->graph, "cpu numaid %s is listed twice: taken as two",
                             text_or_empty(elem, "numaid"));
    }
    int rc = pci_node_add(build->graph, PCI_NODE_CPU, host, id, NULL, &cpu, build->error);
    if (rc) {
        return rc;
    }
    struct pci_vertex *vertex = pci_vertex_of(cpu);
    vertex->text = strdup(text_or_empty(elem, "affinity"));
    if (!vertex->text) {
        return pci_error_memory(build->error);
    }
    pci_cpu_read(&cpu->cpu, elem);
    if (cpu->cpu.arch == PCI_ARCH_OTHER ||
        (cpu->cpu.arch == PCI_ARCH_X86 && cpu->cpu.vendor == PCI_VENDOR_OTHER)) {
        pci_graph_remark_add(
            build->graph,
            "cpu numaid %s: architecture \"%s\" of vendor \"%s\" is not known: its "
            "links to other CPUs count as unlimited",
            text_or_empty(elem, "numaid"), text_or_empty(elem, "arch"),
            text_or_empty(elem, "vendor"));
    }
    cpu->cpu.affinity = vertex->text;
    build->above[elem->depth] = cpu;
    return 0;
}

static int add_net(struct build *build, const struct pci_elem *elem, struct pci_node *nic)
{
    struct pci_node *node;
    long dev = pci_elem_long(elem, "dev", -1);
    if (dev < 0 || dev > INT_MAX) {
        pci_graph_remark_add(build->graph, "net \"%s\" has no device number (dev): not used",
                             text_or_empty(elem, "name"));
        return 0;
    }
    if (pci_node_find(build->graph, PCI_NODE_NET, nic->host, (uint64_t) dev)) {
        pci_graph_remark_add(build->graph, "net %s (dev %ld) is listed more than once: used once",
                             text_or_empty(elem, "name"), dev);
    }
    int rc = pci_node_add(build->graph, PCI_NODE_NET, nic->host, (uint64_t) dev, NULL, &node,
                          build->error);
    if (rc) {
        return rc;
    }
    struct pci_vertex *vertex = pci_vertex_of(node);
    vertex->text = strdup(text_or_empty(elem, "name"));
    if (!vertex->text) {
        return pci_error_memory(build->error);
    }
    const char *latency = text_or_empty(elem, "latency");
    long maxconn = pci_elem_long(elem, "maxconn", 0);
    node->net.dev = (int) dev;
    node->net.port = (int) pci_elem_long(elem, "port", 0);
    node->net.bw = pci_bw_of_net(pci_elem_long(elem, "speed", 0));
    node->assumed =
        pci_elem_long(elem, "speed", 0) <= 0 || pci_elem_long(elem, "speed_assumed", 0) == 1;
    if (node->assumed) {
        pci_graph_remark_add(build->graph, "net %ld (%s): its speed is not known, %g Gb/s assumed",
                             dev, text_or_empty(elem, "name"), node->net.bw * 8);
    }
    node->net.latency = strtod(latency, NULL);
    node->net.guid = strtoull(text_or_empty(elem, "guid"), NULL, 16);
    node->net.gdr = pci_elem_long(elem, "gdr", 0) == 1;
    node->net.maxconn = maxconn > 0 && maxconn < INT_MAX ? (unsigned) maxconn : 0;
    node->net.name = vertex->text;
    rc = pci_link_join(nic, node, PCI_LINK_NET, node->net.bw, build->error);
    return rc ? rc : pci_link_join(node, nic, PCI_LINK_NET, node->net.bw, build->error);
}

static int join_up(struct build *build, struct pci_node *node, struct pci_node *up, double bw)
{
    pci_vertex_of(node)->up = up;
    int rc = pci_link_join(node, up, PCI_LINK_PCI, bw, build->error);
    return rc ? rc : pci_link_join(up, node, PCI_LINK_PCI, bw, build->error);
}

/* Add a nic element below UP. As in the reference, functions of a card that a file lists separately
 * are separate NICs with separate links. NCCL and discovery write them as one. */
static int add_nic(struct build *build, const struct pci_elem *elem, struct pci_node *up,
                   const char *busid, double bw)
{
    uint64_t id = pci_busid_parse(busid);
    struct pci_node *nic = pci_node_find(build->graph, PCI_NODE_NIC, up->host, id);
    if (!nic) {
        int rc = pci_node_add(build->graph, PCI_NODE_NIC, up->host, id, busid, &nic, build->error);
        rc = rc ? rc : join_up(build, nic, up, bw);
        if (rc) {
            return rc;
        }
    }
    for (struct pci_elem *net = pci_elem_child(elem, "net"); net;
         net = pci_elem_sibling(net, "net")) {
        int rc = add_net(build, net, nic);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static long rank_of(struct build *build, const struct pci_elem *gpu)
{
    const struct pci_ranks *ranks = &build->ranks;
    while (build->next_gpu < ranks->count && ranks->elem[build->next_gpu] != gpu) {
        build->next_gpu++;
    }
    return build->next_gpu < ranks->count ? ranks->rank[build->next_gpu] : -1;
}

static int add_gpu(struct build *build, const struct pci_elem *elem, struct pci_node *up,
                   const char *busid, double bw)
{
    struct pci_node *node;
    uint64_t id = pci_busid_parse(busid);
    long rank = rank_of(build, elem);
    if (rank < 0) {
        pci_graph_remark_add(build->graph, "GPU %s has no rank, but others have: it takes no part",
                             busid);
        return 0;
    }
    if (!busid[strcspn(busid, "0123456789abcdefABCDEF")]) { /* 0000:00:00.0 is one */
        return pci_error_set(build->error, -EINVAL, "GPU of rank %ld has no bus id (\"%.40s\")",
                             rank, busid);
    }
    if (pci_node_find(build->graph, PCI_NODE_GPU, up->host, id)) {
        return pci_error_set(build->error, -EINVAL,
                             "bus id %.40s belongs to two GPUs; remove one from the topology",
                             busid);
    }
    int rc = pci_node_add(build->graph, PCI_NODE_GPU, up->host, id, busid, &node, build->error);
    if (rc) {
        return rc;
    }
    node->gpu.rank = (int) rank;
    node->gpu.dev = (int) pci_elem_long(elem, "dev", rank);
    node->gpu.sm = (int) pci_elem_long(elem, "sm", 0);
    node->gpu.gdr = pci_elem_long(elem, "gdr", 0) == 1;
    return join_up(build, node, up, bw);
}

static uint64_t id16(const struct pci_elem *elem, const char *key)
{
    return (uint64_t) pci_elem_long(elem, key, 0) & 0xffff;
}

static int add_switch(struct build *build, const struct pci_elem *elem, struct pci_node *up,
                      const char *busid, double bw)
{
    struct pci_node *node;
    uint64_t id = pci_busid_parse(busid);
    for (struct pci_elem *above = elem->parent; id && above; above = above->parent) {
        if (pci_busid_parse(pci_elem_get(above, "busid")) == id) {
            return pci_error_set(build->error, -EINVAL,
                                 "PCI device %.40s is below itself: the tree has a cycle", busid);
        }
    }
    int rc = pci_node_add(build->graph, PCI_NODE_PCI, up->host, id, busid, &node, build->error);
    if (rc) {
        return rc;
    }
    node->device = id16(elem, "vendor") << 48 | id16(elem, "device") << 32 |
                   id16(elem, "subsystem_vendor") << 16 | id16(elem, "subsystem_device");
    build->above[elem->depth] = node;
    return join_up(build, node, up, bw);
}

/* Ignore elements of a PCI device except its first GPU or NIC, as the reference does.
 */
static void remark_more(struct build *build, const struct pci_elem *first, const char *name,
                        const char *busid)
{
    for (const struct pci_elem *more = first; first && (more = pci_elem_sibling(more, name));) {
        pci_graph_remark_add(build->graph,
                             "PCI device %s has more than one %s element: the first is used", busid,
                             name);
    }
}

/* Add the PCI link of a device whose speed or width is not known. */
static void remark_link(struct build *build, enum pci_node_type type, const struct pci_node *up,
                        const char *busid, double bw)
{
    struct pci_node *node = pci_node_find(build->graph, type, up->host, pci_busid_parse(busid));
    if (node) {
        node->assumed = true;
        pci_graph_remark_add(
            build->graph, "PCI device %s: link_speed or link_width is not known, %g GB/s assumed",
            busid, bw);
    }
}

static int add_pci(struct build *build, const struct pci_elem *elem, struct pci_node *up)
{
    const char *busid = text_or_empty(elem, "busid");
    const struct pci_elem *gpu = pci_elem_child(elem, "gpu");
    const struct pci_elem *nic = pci_elem_child(elem, "nic");
    double bw =
        pci_bw_of_pci(pci_elem_long(elem, "link_width", 0), pci_elem_get(elem, "link_speed"));
    int rc = 0;
    if (gpu) {
        rc = add_gpu(build, gpu, up, busid, bw);
    }
    if (!rc && nic) {
        rc = add_nic(build, nic, up, busid, bw);
    }
    if (!gpu && !nic && pci_type_of_class(pci_elem_get(elem, "class")) == PCI_NODE_PCI) {
        rc = add_switch(build, elem, up, busid, bw);
    }
    if (!rc) {
        remark_more(build, gpu, "gpu", busid);
        remark_more(build, nic, "nic", busid);
    }
    if (!rc &&
        !pci_link_known(pci_elem_long(elem, "link_width", 0), pci_elem_get(elem, "link_speed"))) {
        remark_link(build, gpu ? PCI_NODE_GPU : nic ? PCI_NODE_NIC : PCI_NODE_PCI, up, busid, bw);
    }
    return rc;
}

static int add_element(struct build *build, const struct pci_elem *elem)
{
    struct pci_node *up = build->above[elem->depth - 1];
    build->above[elem->depth] = NULL;
    if (elem->depth == 2 && pci_elem_is(elem, "cpu")) {
        return add_cpu(build, elem);
    }
    if (pci_elem_is(elem, "pci") && elem->depth == 2) {
        pci_graph_remark_add(build->graph, "PCI device %s is outside of any cpu: ignored",
                             text_or_empty(elem, "busid"));
    }
    if (!up) {
        return 0;
    }
    if (pci_elem_is(elem, "pci")) {
        return add_pci(build, elem, up);
    }
    if (pci_elem_is(elem, "gpu") && !pci_elem_is(elem->parent, "pci")) {
        pci_graph_remark_add(build->graph, "a gpu element is outside of any pci element: ignored");
    }
    if (pci_elem_is(elem, "nic") && up->type == PCI_NODE_CPU) {
        return add_nic(build, elem, up, "", PCI_BW_LOC); /* a NIC without a PCI address */
    }
    return 0;
}

static int connect_cpus(struct build *build)
{
    const struct pci_nodes *cpus = &build->graph->nodes[PCI_NODE_CPU];
    for (uint32_t i = 0; i < cpus->count; i++) {
        for (uint32_t j = 0; j < cpus->count; j++) {
            struct pci_node *a = cpus->node[i], *b = cpus->node[j];
            int rc =
                i == j || a->host != b->host
                    ? 0
                    : pci_link_join(a, b, PCI_LINK_SYS, pci_bw_between_cpus(&a->cpu), build->error);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct pci_node *x = *(struct pci_node *const *) a;
    const struct pci_node *y = *(struct pci_node *const *) b;
    return (x->gpu.rank > y->gpu.rank) - (x->gpu.rank < y->gpu.rank);
}

static int by_dev(const void *a, const void *b)
{
    const struct pci_vertex *x = *(struct pci_vertex *const *) a;
    const struct pci_vertex *y = *(struct pci_vertex *const *) b;
    int dev = (x->node.net.dev > y->node.net.dev) - (x->node.net.dev < y->node.net.dev);
    return dev ? dev : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* GPUs by rank, nets by device number. */
static int sort_nodes(struct build *build)
{
    struct pci_nodes *gpus = &build->graph->nodes[PCI_NODE_GPU];
    struct pci_nodes *nets = &build->graph->nodes[PCI_NODE_NET];
    if (gpus->count) {
        qsort(gpus->node, gpus->count, sizeof *gpus->node, by_rank);
    }
    if (nets->count) {
        qsort(nets->node, nets->count, sizeof *nets->node, by_dev);
    }
    for (uint32_t i = 1; i < gpus->count; i++) {
        if (gpus->node[i]->gpu.rank == gpus->node[i - 1]->gpu.rank) {
            return pci_error_set(build->error, -EINVAL, "GPUs %s and %s have the same rank %d",
                                 gpus->node[i - 1]->busid, gpus->node[i]->busid,
                                 gpus->node[i]->gpu.rank);
        }
    }
    return 0;
}

static int build_all(struct build *build, const struct pci_doc *doc)
{
    struct pci_elem *elem = doc->root;
    int rc = pci_ranks_read(doc, &build->ranks, build->error);
    while (!rc && (elem = pci_doc_next(doc, elem, NULL))) {
        rc = add_element(build, elem);
    }
    rc = rc ? rc : pci_graph_connect(build->graph, doc, build->error);
    rc = rc ? rc : pci_graph_flatten(build->graph, build->error);
    rc = rc ? rc : connect_cpus(build);
    rc = rc ? rc : sort_nodes(build);
    return rc ? rc : pci_graph_number(build->graph, build->error);
}

int pci_graph_build(const struct pci_doc *doc, const struct pci_path_rules *rules,
                    struct pci_graph **graph, struct pci_error *error)
{
    struct build build = {.error = error};
    build.graph = calloc(1, sizeof *build.graph);
    if (!build.graph) {
        return pci_error_memory(error);
    }
    pci_path_rules_init(&build.graph->rules);
    int rc = build_all(&build, doc);
    rc = rc ? rc : pci_graph_recompute(build.graph, rules, error);
    pci_ranks_free(&build.ranks);
    if (rc) {
        pci_graph_free(build.graph);
        return rc;
    }
    *graph = build.graph;
    return 0;
}
