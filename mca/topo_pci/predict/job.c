/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Describe a job for the cost model, from a machine's graph and channels. */
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Return the lowest compute capability: the slowest GPU limits the job. SAME: all have it. */
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

    if (cpu == NULL || cpu->cpu.arch != PCI_ARCH_X86) {
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
        .bw_intra = pci_channels_no_nic(channels) ? channels->bw_inter : channels->bw_intra,
        .bw_inter = channels->bw_inter,
        .nvlink = channels->type_intra == PCI_PATH_NVL,
        .ll128 = pci_ll128_whole(sm, channels->type_intra, channels->type_inter),
        .chain = channels->pattern == PCI_PATTERN_TREE,
    };
}

/* Return the longest latency of the used NICs. */
static double inter_latency(const struct pci_graph *graph, const struct pci_channels *channels)
{
    double latency = 0;

    for (uint32_t c = 0; c < channels->nchannels; c++) {
        for (int end = 0; end < 2; end++) {
            uint32_t net = channels->nets[c][end];

            if (net != PCI_NO_NET && net < pci_graph_count(graph, PCI_NODE_NET)) {
                double one = pci_graph_node(graph, PCI_NODE_NET, net)->net.latency;

                latency = one > latency ? one : latency;
            }
        }
    }
    return latency;
}

/* Add the load of each link while a path carries 1 GB/s. */
static void add_load(const struct pci_fabric *fabric, const struct pci_way *way, double *load)
{
    for (uint32_t i = 0; i < way->count; i++) {
        const struct pci_use *use = &fabric->uses[way->first + i];

        load[use->link] += use->factor;
    }
}

/* Add the direct exchanges. They use all paths simultaneously, and the most loaded link limits
 * them. They are not offered if a pair has no path. */
static void add_direct(const struct pci_fabric *fabric, double *load, struct pci_job *job)
{
    double gbps = INFINITY;

    job->direct.nvlink = true;
    for (size_t from = 0; from < fabric->ngpus; from++) {
        for (size_t to = 0; to < fabric->ngpus; to++) {
            const struct pci_way *way = &fabric->gpus[from * fabric->ngpus + to];

            if (from != to) {
                gbps = way->class == PCI_PATH_DIS ? 0 : gbps;
                job->direct.nvlink = job->direct.nvlink && way->class <= PCI_PATH_NVL;
                add_load(fabric, way, load);
            }
        }
    }
    for (uint32_t l = 0; l < fabric->nlinks; l++) {
        gbps = load[l] > 0 ? fmin(gbps, fabric->capacity[l] / load[l]) : gbps;
    }
    job->direct.algbw = isinf(gbps) ? 0 : gbps;
}

static int find_direct(const struct pci_graph *graph, struct pci_job *job)
{
    struct pci_fabric fabric;
    double *load;
    int rc = pci_fabric_from_graph(graph, &fabric);

    if (rc != 0) {
        return rc;
    }
    load = calloc(fabric.nlinks + 1u, sizeof *load);
    if (load != NULL) {
        add_direct(&fabric, load, job);
    }
    free(load);
    pci_fabric_fini(&fabric);
    return load != NULL ? 0 : -ENOMEM;
}

int pci_job_of_graph(const struct pci_graph *graph, uint32_t nodes, const struct pci_channels *ring,
                     const struct pci_channels *tree, uint32_t channels, struct pci_job *job)
{
    uint32_t ngpus = pci_graph_count(graph, PCI_NODE_GPU);
    struct pci_job result = {.nodes = nodes,
                             .ranks = nodes * ngpus,
                             .channels = channels,
                             .protocols = (1u << PCI_PROTOCOL_COUNT) - 1};
    bool same;
    int rc = 0;
    int sm;

    if (nodes == 0 || ngpus == 0 || nodes > UINT32_MAX / ngpus) {
        return -EINVAL;
    }
    sm = lowest_sm(graph, &same);
    if (!same || !pci_ll128_whole(sm, PCI_PATH_NVL, PCI_PATH_LOC)) {
        result.protocols &= ~(1u << PCI_PROTOCOL_LL128); /* for every pattern */
    }
    result.sm = sm;
    result.generation = pci_generation_of(sm);
    result.host = host_of(graph);
    result.ring = job_graph(ring, sm);
    result.tree = job_graph(tree, sm);
    if (nodes > 1) {
        result.latency_inter = inter_latency(graph, ring);
    } else if (ngpus >= 2) {
        rc = find_direct(graph, &result);
    }
    if (rc == 0) {
        *job = result;
    }
    return rc;
}

static void graph_join(struct pci_job_graph *graph, const struct pci_job_graph *other)
{
    graph->channels = other->channels < graph->channels ? other->channels : graph->channels;
    graph->bw_intra = fmin(graph->bw_intra, other->bw_intra);
    graph->bw_inter = fmin(graph->bw_inter, other->bw_inter);
    graph->nvlink = graph->nvlink && other->nvlink;
    graph->ll128 = graph->ll128 && other->ll128;
    graph->chain = graph->chain || other->chain;
}

void pci_job_join(struct pci_job *job, const struct pci_job *other)
{
    graph_join(&job->ring, &other->ring);
    graph_join(&job->tree, &other->tree);
    job->sm = other->sm < job->sm ? other->sm : job->sm;
    job->generation = other->generation < job->generation ? other->generation : job->generation;
    job->latency_inter = fmax(job->latency_inter, other->latency_inter);
    job->protocols &= other->protocols;
}
