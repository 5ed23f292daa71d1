/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Apply rules to paths, because links alone do not determine which paths traffic may use. The rules
 * in their order:
 *   - P2P: GPUs exchange data directly only up to a class (p2p_level), and only if the driver
 *     allows it. Otherwise data is copied through memory of the CPU nearest to the receiver.
 *   - P2C: if a GPU is connected to its CPU chip to chip, a NIC of that CPU is near.
 *   - PXN: a GPU far from a NIC sends over NVLink through a relay GPU that is near the NIC.
 *   - GDR: a NIC accesses GPU memory only if both support it and are near (gdr_level), and uses CPU
 *     memory otherwise.
 * The levels and the order of the rules are those of NCCL 2.30.7.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"

void pci_path_rules_init(struct pci_path_rules *rules)
{
    *rules = (struct pci_path_rules){
        .p2p_level = PCI_LEVEL_AUTO, .gdr_level = PCI_LEVEL_AUTO, .pxn = true, .nvb = true};
}

static uint32_t ngpus_of(const struct pci_graph *graph)
{
    return graph->nodes[PCI_NODE_GPU].count;
}

#define INTEL_P2P_LOAD (6.0 / 5.0)

double pci_path_pci_load(const struct pci_path *path)
{
    for (uint32_t i = 0; path->class == PCI_PATH_PHB && i < path->hops; i++) {
        const struct pci_node *node = path->links[i]->to;
        if (node->type == PCI_NODE_CPU && node->cpu.arch == PCI_ARCH_X86 &&
            node->cpu.vendor == PCI_VENDOR_INTEL) {
            return INTEL_P2P_LOAD;
        }
    }
    return 1;
}

/* Return the class of two consecutive paths. */
static enum pci_path_class class_joined(enum pci_path_class a, enum pci_path_class b)
{
    enum pci_path_class far = a > b ? a : b, near = a > b ? b : a;
    return far == PCI_PATH_PHB && near == PCI_PATH_C2C ? PCI_PATH_P2C : far;
}

/* Make the path FROM -> TO pass MID. If MID is not connected to both, there is no path. */
static int detour(struct pci_graph *graph, const struct pci_node *from, const struct pci_node *mid,
                  const struct pci_node *to, struct pci_error *error)
{
    const struct pci_path *first = pci_graph_path(graph, from, mid);
    const struct pci_path *second = pci_graph_path(graph, mid, to);
    struct pci_path *path = pci_path_at(graph, from->type, from->index, to->type, to->index);
    if (first->class == PCI_PATH_DIS || second->class == PCI_PATH_DIS) {
        *path = (struct pci_path){.class = PCI_PATH_DIS};
        return 0;
    }
    struct pci_link **links = pci_pool_take(graph, (size_t) first->hops + second->hops);
    if (!links) {
        return pci_error_memory(error);
    }
    if (first->hops) {
        memcpy(links, first->links, first->hops * sizeof *links);
    }
    if (second->hops) {
        memcpy(links + first->hops, second->links, second->hops * sizeof *links);
    }
    *path = (struct pci_path){
        .class =
            mid->type == PCI_NODE_GPU ? PCI_PATH_PXN : class_joined(first->class, second->class),
        .hops = first->hops + second->hops,
        .bw = first->bw < second->bw ? first->bw : second->bw,
        .links = links,
    };
    return 0;
}

int pci_graph_local_cpu(const struct pci_graph *graph, uint32_t gpu)
{
    int best = -1;
    uint32_t hops = 0;
    for (uint32_t c = 0; c < graph->nodes[PCI_NODE_CPU].count; c++) {
        const struct pci_path *path = pci_graph_route(graph, PCI_NODE_GPU, gpu, PCI_NODE_CPU, c);
        if (path->hops && (!hops || path->hops < hops)) {
            best = (int) c;
            hops = path->hops;
        }
    }
    return best;
}

static enum pci_path_class p2p_level(const struct pci_graph *graph)
{
    const struct pci_node *cpu = pci_graph_cpu(graph);
    if (graph->rules.p2p_level != PCI_LEVEL_AUTO) {
        return (enum pci_path_class) graph->rules.p2p_level;
    }
    return cpu && cpu->cpu.arch == PCI_ARCH_X86 && cpu->cpu.vendor == PCI_VENDOR_AMD &&
                   ngpus_of(graph) <= 2
               ? PCI_PATH_SYS
               : PCI_PATH_PXB;
}

static enum pci_peer peer_status(const struct pci_graph *graph, uint32_t a, uint32_t b)
{
    const struct pci_path_rules *rules = &graph->rules;
    const struct pci_nodes *gpus = &graph->nodes[PCI_NODE_GPU];
    return rules->peer ? rules->peer(rules->context, (uint32_t) gpus->node[a]->gpu.rank,
                                     (uint32_t) gpus->node[b]->gpu.rank)
                       : rules->all;
}

/* Return the GPU in the middle of a path of class NVB, or -1. */
static int gpu_between(const struct pci_path *path)
{
    return path->hops == 2 && path->links[0]->to->type == PCI_NODE_GPU
               ? (int) path->links[0]->to->index
               : -1;
}

bool pci_graph_p2p(const struct pci_graph *graph, uint32_t a, uint32_t b, int *relay)
{
    const struct pci_path *path = pci_graph_route(graph, PCI_NODE_GPU, a, PCI_NODE_GPU, b);
    int between = gpu_between(path);
    if (relay) {
        *relay = between;
    }
    if (a == b) {
        return path->class == PCI_PATH_LOC;
    }
    if (path->class > p2p_level(graph)) {
        return false;
    }
    if (between < 0) {
        return peer_status(graph, a, b) == PCI_PEER_OK;
    }
    return peer_status(graph, a, (uint32_t) between) == PCI_PEER_OK &&
           peer_status(graph, (uint32_t) between, b) == PCI_PEER_OK;
}

static int apply_p2p(struct pci_graph *graph, uint32_t a, uint32_t b, int cpu,
                     struct pci_error *error)
{
    const struct pci_nodes *gpus = &graph->nodes[PCI_NODE_GPU];
    struct pci_path *path = pci_path_at(graph, PCI_NODE_GPU, a, PCI_NODE_GPU, b);
    int rc = 0;
    if (a == b) {
        return 0;
    }
    if (!pci_graph_p2p(graph, a, b, NULL)) {
        if (cpu < 0) {
            *path = (struct pci_path){.class = PCI_PATH_DIS};
        } else {
            rc = detour(graph, gpus->node[a], graph->nodes[PCI_NODE_CPU].node[cpu], gpus->node[b],
                        error);
        }
    }
    if (!rc && peer_status(graph, a, b) == PCI_PEER_ISOLATED && path->class < PCI_PATH_NET) {
        path->class = PCI_PATH_NET;
    }
    return rc;
}

/* Add a remark, because a driver that refuses P2P over NVLink indicates a fault. */
static void remark_refusals(struct pci_graph *graph)
{
    const struct pci_nodes *gpus = &graph->nodes[PCI_NODE_GPU];
    for (uint32_t a = 0; a < gpus->count; a++) {
        for (uint32_t b = 0; b < gpus->count; b++) {
            if (a != b && !pci_graph_p2p(graph, a, b, NULL) &&
                pci_graph_route(graph, PCI_NODE_GPU, a, PCI_NODE_GPU, b)->class <= PCI_PATH_NVL &&
                peer_status(graph, a, b) == PCI_PEER_NO_P2P) {
                pci_graph_remark_add(graph,
                                     "peer-to-peer is refused between GPUs that NVLink connects, "
                                     "e.g. %s and %s: a fault of hardware or driver?",
                                     gpus->node[a]->busid, gpus->node[b]->busid);
                return;
            }
        }
    }
}

static int apply_p2p_all(struct pci_graph *graph, struct pci_error *error)
{
    remark_refusals(graph);
    for (uint32_t b = 0; b < ngpus_of(graph); b++) {
        int cpu = pci_graph_local_cpu(graph, b);
        for (uint32_t a = 0; a < ngpus_of(graph); a++) {
            int rc = apply_p2p(graph, a, b, cpu, error);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

static void cap_class(struct pci_path *path, enum pci_path_class class)
{
    path->class = path->class > class && path->hops ? class : path->class;
}

/*
 * Set class P2C for a NIC of the CPU to which a GPU is connected chip to chip, which is nearer than
 * any other path through a CPU. The NIC must be among the best ones of the GPU, because slower NICs
 * are for other GPUs and relays. NETS has room for all.
 */
static void apply_p2c(struct pci_graph *graph, uint32_t gpu, int cpu, uint32_t *nets)
{
    uint32_t n = cpu < 0 ? 0 : pci_graph_local_nets(graph, gpu, nets);
    for (uint32_t i = 0; i < n; i++) {
        const struct pci_path *above =
            pci_graph_route(graph, PCI_NODE_GPU, gpu, PCI_NODE_CPU, (uint32_t) cpu);
        const struct pci_path *below =
            pci_graph_route(graph, PCI_NODE_NET, nets[i], PCI_NODE_CPU, (uint32_t) cpu);
        if (class_joined(above->class, below->class) == PCI_PATH_P2C) {
            cap_class(pci_path_at(graph, PCI_NODE_GPU, gpu, PCI_NODE_NET, nets[i]), PCI_PATH_P2C);
            cap_class(pci_path_at(graph, PCI_NODE_NET, nets[i], PCI_NODE_GPU, gpu), PCI_PATH_P2C);
            pci_local_changed(graph, gpu, nets[i]);
        }
    }
}

int pci_graph_pxn(const struct pci_graph *graph, uint32_t gpu, uint32_t net)
{
    const struct pci_path *path = pci_graph_route(graph, PCI_NODE_GPU, gpu, PCI_NODE_NET, net);
    if (path->class != PCI_PATH_PXN) {
        return -1;
    }
    /* Return the first other GPU on the path. */
    for (uint32_t i = 0; i < path->hops; i++) {
        if (path->links[i]->to->type == PCI_NODE_GPU) {
            return (int) path->links[i]->to->index;
        }
    }
    return -1;
}

/* Before sm80, a NIC's reads disturb other PCI traffic, so they are only allowed if GPUs are
 * connected with NVLink. */
static bool reads_allowed(const struct pci_graph *graph, uint32_t gpu)
{
    bool allowed = graph->nodes[PCI_NODE_GPU].node[gpu]->gpu.sm >= 80 || ngpus_of(graph) == 1;
    for (uint32_t i = 0; i < ngpus_of(graph) && !allowed; i++) {
        allowed = i != gpu &&
                  pci_graph_route(graph, PCI_NODE_GPU, gpu, PCI_NODE_GPU, i)->class == PCI_PATH_NVL;
    }
    return allowed;
}

bool pci_graph_gdr(const struct pci_graph *graph, uint32_t gpu, uint32_t net, bool read)
{
    const struct pci_node *device = pci_graph_node(graph, PCI_NODE_GPU, gpu);
    const struct pci_node *nic = pci_graph_node(graph, PCI_NODE_NET, net);
    if (!device || !nic || !device->gpu.gdr || !nic->net.gdr ||
        (read && !reads_allowed(graph, gpu))) {
        return false;
    }
    int level = graph->rules.gdr_level == PCI_LEVEL_AUTO ? PCI_PATH_P2C : graph->rules.gdr_level;
    int relay = pci_graph_pxn(graph, gpu, net);
    uint32_t near = relay < 0 ? gpu : (uint32_t) relay;
    return (int) pci_graph_route(graph, PCI_NODE_GPU, near, PCI_NODE_NET, net)->class <= level;
}

/* Return true if GPU should send to NET through the GPU RELAY. */
static bool relay_helps(const struct pci_graph *graph, uint32_t gpu, uint32_t relay, uint32_t net)
{
    const struct pci_path *direct = pci_graph_route(graph, PCI_NODE_GPU, gpu, PCI_NODE_NET, net);
    const struct pci_path *last = pci_graph_route(graph, PCI_NODE_GPU, relay, PCI_NODE_NET, net);
    return last->class <= PCI_PATH_P2C &&
           pci_graph_route(graph, PCI_NODE_GPU, relay, PCI_NODE_GPU, gpu)->class <= PCI_PATH_NVL &&
           graph->nodes[PCI_NODE_GPU].node[relay]->host ==
               graph->nodes[PCI_NODE_GPU].node[gpu]->host &&
           (last->bw > direct->bw || direct->class > PCI_PATH_PXN) &&
           pci_graph_gdr(graph, relay, net, false);
}

static bool as_good(const struct pci_path *a, const struct pci_path *b)
{
    return a->class == b->class && a->bw == b->bw;
}

/* PXN, then GDR, for one pair. GPUs receive from nets directly, so a relay is only used for
 * sending. */
static int apply_net(struct pci_graph *graph, uint32_t gpu, uint32_t net, int cpu,
                     struct pci_error *error)
{
    const struct pci_node *device = graph->nodes[PCI_NODE_GPU].node[gpu];
    const struct pci_node *nic = graph->nodes[PCI_NODE_NET].node[net];
    const struct pci_path *there = pci_graph_path(graph, device, nic);
    const struct pci_path *back = pci_graph_path(graph, nic, device);
    struct pci_path old_there = *there, old_back = *back;
    int relay = graph->rules.pxn ? pci_local_relay(graph, net) : -1;
    int rc = 0;
    if (relay >= 0 && (uint32_t) relay != gpu && relay_helps(graph, gpu, (uint32_t) relay, net)) {
        rc = detour(graph, device, graph->nodes[PCI_NODE_GPU].node[relay], nic, error);
    }
    /* Paths that pass a CPU anyway stay unchanged. */
    if (!rc && cpu >= 0 && there->class < PCI_PATH_PHB && !pci_graph_gdr(graph, gpu, net, false)) {
        const struct pci_node *through = graph->nodes[PCI_NODE_CPU].node[cpu];
        rc = detour(graph, nic, through, device, error);
        rc = rc ? rc : detour(graph, device, through, nic, error);
    }
    if (!as_good(there, &old_there) || !as_good(back, &old_back)) {
        pci_local_changed(graph, gpu, net);
    }
    return rc;
}

/* Apply the rules in document order, because the nearest nets and GPUs depend on it. */
static int apply_nets(struct pci_graph *graph, const int *cpu, struct pci_error *error)
{
    uint32_t nnets = graph->nodes[PCI_NODE_NET].count;
    uint32_t *nets = calloc((size_t) nnets + 1, sizeof *nets);
    if (!nets) {
        return pci_error_memory(error);
    }
    for (uint32_t g = 0; g < ngpus_of(graph); g++) {
        apply_p2c(graph, g, cpu[g], nets);
    }
    free(nets);
    for (uint32_t n = 0; n < nnets; n++) {
        for (uint32_t g = 0; g < ngpus_of(graph); g++) {
            uint32_t gpu = graph->gpu_order[g];
            int rc = apply_net(graph, gpu, graph->net_order[n], cpu[gpu], error);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

static int paths_apply(struct pci_graph *graph, struct pci_error *error)
{
    int rc = apply_p2p_all(graph, error);
    rc = rc ? rc : pci_local_init(graph, error);
    if (rc) {
        return rc;
    }
    int *cpu = calloc((size_t) ngpus_of(graph) + 1, sizeof *cpu);
    if (!cpu) {
        return pci_error_memory(error);
    }
    for (uint32_t g = 0; g < ngpus_of(graph); g++) {
        cpu[g] = pci_graph_local_cpu(graph, g);
    }
    rc = apply_nets(graph, cpu, error);
    free(cpu);
    if (!rc) {
        pci_local_refresh(graph);
    }
    return rc;
}

int pci_graph_recompute(struct pci_graph *graph, const struct pci_path_rules *rules,
                        struct pci_error *error)
{
    if (rules) {
        graph->rules = *rules;
    }
    int rc = pci_paths_search(graph, error);
    rc = rc ? rc : paths_apply(graph, error);
    if (rc) {
        pci_paths_free(graph);
    }
    return rc;
}
