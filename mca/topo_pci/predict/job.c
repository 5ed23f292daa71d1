/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the cost model must know of a job, from a machine's graph and channels. */
#include "mca/topo_pci/bounds/pci_pack.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"

#include <errno.h>
#include <string.h>

/* The lowest compute capability: the slowest GPU sets the pace. SAME: all GPUs have it. */
static int lowest_sm(const struct pci_graph *graph, bool *same)
{
    int sm = pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.sm;

    *same = true;
    for (uint32_t g = 1; g < pci_graph_count(graph, PCI_NODE_GPU); g++) {
        int other = pci_graph_node(graph, PCI_NODE_GPU, g)->gpu.sm;

        *same = *same && other == sm;
        sm = other < sm ? other : sm;
    }
    return sm;
}

static enum pci_host host_of(const struct pci_graph *graph)
{
    const struct pci_node *cpu = pci_graph_cpu(graph);

    if (NULL == cpu || PCI_ARCH_X86 != cpu->cpu.arch) {
        return PCI_HOST_OTHER;
    }
    switch (cpu->cpu.vendor) {
    case PCI_VENDOR_INTEL:
        return PCI_HOST_INTEL;
    case PCI_VENDOR_AMD:
        return PCI_HOST_AMD;
    default:
        return PCI_HOST_OTHER;
    }
}

static struct pci_job_graph job_graph(const struct pci_channels *channels, int sm)
{
    return (struct pci_job_graph){
        .channels = channels->nchannels,
        .bw_intra = channels->bw_intra,
        .bw_inter = channels->bw_inter,
        .nvlink = PCI_PATH_NVL == channels->type_intra,
        .ll128 = pci_ll128_whole(sm, channels->type_intra, channels->type_inter),
        .chain = PCI_PATTERN_TREE == channels->pattern,
    };
}

/* The longest latency among the NICs in use. */
static double inter_latency(const struct pci_graph *graph, const struct pci_channels *channels)
{
    double latency = 0;

    for (uint32_t c = 0; c < channels->nchannels; c++) {
        for (int end = 0; end < 2; end++) {
            uint32_t net = channels->nets[c][end];

            if (PCI_NO_NET != net && net < pci_graph_count(graph, PCI_NODE_NET)) {
                double one = pci_graph_node(graph, PCI_NODE_NET, net)->net.latency;

                latency = one > latency ? one : latency;
            }
        }
    }
    return latency;
}

/* Direct exchange: over NVLink when every pair has it, otherwise over all links. */
static int add_direct(const struct pci_graph *graph, struct pci_job *job)
{
    static const enum pci_flow_scope scopes[] = {PCI_FLOW_NVLINK, PCI_FLOW_ALL};

    for (size_t i = 0; i < 2; i++) {
        struct pci_flow flow;
        int rc = pci_flow_from_graph(graph, scopes[i], &flow);

        if (0 == rc) {
            rc = pci_pack_direct_bw(&flow, &job->direct.algbw);
            pci_flow_fini(&flow);
        }
        if (0 != rc) {
            return rc;
        }
        if (job->direct.algbw > 0) {
            job->direct.nvlink = PCI_FLOW_NVLINK == scopes[i];
            return 0;
        }
    }
    return 0;
}

static void add_packed(const struct pci_pack *pack, struct pci_job *job)
{
    for (uint32_t t = 0; t < pack->ntrees; t++) {
        uint32_t depth = pack->trees[t].depth;

        job->packed.depth = depth > job->packed.depth ? depth : job->packed.depth;
    }
    job->packed.algbw = pack->algbw;
    job->packed.nvlink = pack->nvlink;
}

int pci_job_of_graph(const struct pci_graph *graph, uint32_t nodes, const struct pci_channels *ring,
                     const struct pci_channels *tree, uint32_t channels,
                     const struct pci_pack *pack, struct pci_job *job)
{
    uint32_t ngpus = pci_graph_count(graph, PCI_NODE_GPU);
    struct pci_job result = {.nodes = nodes,
                             .ranks = nodes * ngpus,
                             .channels = channels,
                             .protocols = (1u << PCI_PROTOCOL_COUNT) - 1};
    bool same;
    int rc = 0;
    int sm;

    if (0 == nodes || 0 == ngpus || nodes > UINT32_MAX / ngpus) {
        return -EINVAL;
    }
    sm = lowest_sm(graph, &same);
    if (!same || !pci_ll128_whole(sm, PCI_PATH_NVL, PCI_PATH_LOC)) {
        result.protocols &= ~(1u << PCI_PROTOCOL_LL128); /* of any pattern */
    }
    result.generation = pci_generation_of(sm);
    result.host = host_of(graph);
    result.ring = job_graph(ring, sm);
    result.tree = job_graph(tree, sm);
    if (nodes > 1) {
        result.latency_inter = inter_latency(graph, ring);
    } else if (ngpus >= 2 && ngpus <= PCI_PACK_MAX_GPUS) {
        rc = add_direct(graph, &result);
        if (NULL != pack) {
            add_packed(pack, &result);
        }
    }
    if (0 == rc) {
        *job = result;
    }
    return rc;
}
