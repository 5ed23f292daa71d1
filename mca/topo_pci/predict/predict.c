/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The formulas of the model. */
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/predict/predict.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The latency of a Simple ring is multiplied by the plateau from this many bytes per channel and
 * rank. */
#define PLATEAU_BYTES 64u

/* Number of consecutive hops of a vector, and the kind of link of the hops inside a node. */
struct path_hops {
    uint32_t intra;
    uint32_t inter;
    enum pci_hop kind;
};

#define NAME_REPORT(id, file, report) report,

static const char *const algorithm_labels[] = {PCI_ALGORITHMS(NAME_REPORT)};
static const char *const protocol_labels[] = {PCI_PROTOCOLS(NAME_REPORT)};

const char *pci_algorithm_label(enum pci_algorithm algorithm)
{
    return (unsigned) algorithm < PCI_ALGORITHM_COUNT ? algorithm_labels[algorithm] : NULL;
}

const char *pci_protocol_label(enum pci_protocol protocol)
{
    return (unsigned) protocol < PCI_PROTOCOL_COUNT ? protocol_labels[protocol] : NULL;
}

enum pci_generation pci_generation_of(int sm)
{
    if (sm < 80) {
        return PCI_GENERATION_SM70;
    }
    if (sm < 90) {
        return PCI_GENERATION_SM80;
    }
    return sm < 100 ? PCI_GENERATION_SM90 : PCI_GENERATION_SM100;
}

bool pci_ll128_whole(int sm, enum pci_path_class intra, enum pci_path_class inter)
{
    return sm >= 70 && intra <= PCI_PATH_NVB && inter <= (sm >= 90 ? PCI_PATH_PXN : PCI_PATH_PXB);
}

bool pci_ll128_ring_excluded(const struct pci_job *job, int toolkit)
{
    return toolkit == 11080 && job->ranks == 2 && job->sm == 90;
}

const char *pci_collective_name(enum pci_collective collective)
{
#define NAME(id, file, factor) file,
    static const char *const names[] = {PCI_COLLECTIVES(NAME)};
#undef NAME

    return (unsigned) collective < PCI_COLLECTIVE_COUNT ? names[collective] : NULL;
}

int pci_collective_parse(const char *name)
{
    int c = 0;

    while (c < PCI_COLLECTIVE_COUNT &&
           strcmp(pci_collective_name((enum pci_collective) c), name) != 0) {
        c++;
    }
    return c < PCI_COLLECTIVE_COUNT ? c : -1;
}

double pci_collective_bus(enum pci_collective collective, uint32_t ranks)
{
    double n = ranks;

#define FACTOR(id, file, factor) factor,
    const double factors[] = {PCI_COLLECTIVES(FACTOR)};
#undef FACTOR

    return (unsigned) collective < PCI_COLLECTIVE_COUNT ? factors[collective] : 0;
}

void pci_job_share(struct pci_job *job, uint32_t sharing)
{
    job->sharing = sharing;
    job->ranks *= sharing;
}

static enum pci_span span_of(const struct pci_job *job)
{
    if (job->nodes <= 1) {
        return PCI_SPAN_ONE;
    }
    return job->nodes == 2 ? PCI_SPAN_TWO : PCI_SPAN_MORE;
}

static uint32_t floor_log2(uint64_t value)
{
    uint32_t log = 0;

    while (value > 1) {
        value >>= 1;
        log++;
    }
    return log;
}

static bool job_offers(const struct pci_job *job, enum pci_algorithm algorithm)
{
    if (job->ranks < 2 || job->nodes == 0 || job->ranks < job->nodes) {
        return false;
    }
    switch (algorithm) {
    case PCI_ALGORITHM_RING:
        return job->ring.channels > 0;
    case PCI_ALGORITHM_TREE:
        return job->tree.channels > 0;
    case PCI_ALGORITHM_DIRECT:
    case PCI_ALGORITHM_TWO_SHOT:
        return job->nodes == 1 && (job->direct.algbw > 0 || job->sharing >= job->ranks);
    default:
        return false;
    }
}

static bool protocol_works(const struct pci_job *job, enum pci_algorithm algorithm,
                           enum pci_protocol protocol)
{
    if ((job->protocols & 1u << protocol) == 0 || protocol != PCI_PROTOCOL_LL128) {
        return (job->protocols & 1u << protocol) != 0;
    }
    switch (algorithm) {
    case PCI_ALGORITHM_RING:
        return job->ring.ll128;
    case PCI_ALGORITHM_TREE:
        return job->tree.ll128;
    default:
        return job->direct.nvlink;
    }
}

static struct path_hops job_hops(const struct pci_job *job, enum pci_algorithm algorithm)
{
    uint32_t per_node = job->ranks / job->nodes;
    struct path_hops hops = {.intra = 0};
    bool nvlink;

    switch (algorithm) {
    case PCI_ALGORITHM_RING:
        hops.inter = 2 * (job->nodes - 1);
        hops.intra = 2 * (job->ranks - 1) - hops.inter;
        nvlink = job->ring.nvlink;
        break;
    case PCI_ALGORITHM_TREE:
        hops.inter = 2 * floor_log2(job->nodes);
        hops.intra = 2 * (per_node - 1);
        nvlink = job->tree.nvlink;
        break;
    default:
        hops.intra = algorithm == PCI_ALGORITHM_TWO_SHOT ? 2 : 1;
        nvlink = job->direct.nvlink;
        break;
    }
    hops.kind = nvlink ? PCI_HOP_NVLINK : PCI_HOP_PCI;
    return hops;
}

/* Return the bandwidth of the vector in GB/s if only the links limit it. */
static double job_link_bw(const struct pci_job *job, enum pci_algorithm algorithm)
{
    const struct pci_job_graph *graph = algorithm == PCI_ALGORITHM_RING ? &job->ring : &job->tree;
    double channel = job->nodes <= 2 ? graph->bw_intra : graph->bw_inter;

    switch (algorithm) {
    case PCI_ALGORITHM_RING: /* each link carries 2 (n-1)/n times the vector */
        return graph->channels * channel * job->ranks / (2.0 * (job->ranks - 1));
    case PCI_ALGORITHM_TREE: /* inner GPUs pass it up and down the same links */
        return graph->channels * channel / 2;
    case PCI_ALGORITHM_TWO_SHOT: /* each pair moves one of the vector's n parts in each direction */
        return job->direct.algbw * job->ranks / 2;
    default:
        return job->direct.algbw;
    }
}

/* Return true for a broadcast or reduction, which between nodes is one half of an allreduce with
 * rings or trees. Other collectives are not modelled there, and on the host only allreduce is. */
static bool one_way(const struct pci_job *job)
{
    return job->collective == PCI_COLLECTIVE_BCAST || job->collective == PCI_COLLECTIVE_REDUCE;
}

static bool formula_offers(const struct pci_job *job, enum pci_algorithm algorithm)
{
    return job_offers(job, algorithm) &&
           (job->collective == PCI_COLLECTIVE_ALLREDUCE || (one_way(job) && job->nodes > 1));
}

/* Return the bandwidth of the vector with all limits. The limits apply to bus bandwidth and are
 * scaled to the vector in the same way as the bandwidth of the links. */
static double limited_bw(const struct pci_costs *costs, const struct pci_job *job,
                         enum pci_algorithm a, enum pci_protocol p)
{
    enum pci_span span = span_of(job);
    uint32_t channels = a == PCI_ALGORITHM_RING ? job->ring.channels : job->tree.channels;
    double part = a == PCI_ALGORITHM_RING ? job->ranks / (2.0 * (job->ranks - 1)) : 0.5;
    double bw = job_link_bw(job, a) * costs->factor[a][p][span];
    double cap = span == PCI_SPAN_ONE ? costs->cap[a][p][job->generation]
                                      : costs->net_cap[a][p][job->host][span];
    double channel_cap = costs->channel_cap[a][p][job->generation][span];

    if (channel_cap > 0) {
        bw = fmin(bw, channel_cap * channels * part);
    }
    if (cap > 0) {
        bw = fmin(bw, cap * part);
    }
    return a == PCI_ALGORITHM_TREE && job->tree.chain ? bw * costs->chain_tree[span] : bw;
}

static double latency_us(const struct pci_costs *costs, const struct pci_job *job,
                         enum pci_algorithm a, enum pci_protocol p, uint64_t bytes)
{
    struct path_hops hops = job_hops(job, a);
    double intra = costs->hop[a][p][hops.kind];
    /* With one GPU per node, nothing hides a ring's network hops: they cost as much as a tree's. */
    enum pci_algorithm net = job->ranks == job->nodes ? PCI_ALGORITHM_TREE : a;
    double inter =
        costs->hop[net][p][PCI_HOP_NET] + job->latency_inter * (p == PCI_PROTOCOL_SIMPLE ? 2 : 1);
    double ways = one_way(job) ? 1 : 2, us;

    if (a == PCI_ALGORITHM_RING && job->nodes > 1) {
        intra = fmax(intra, costs->net_hop[p][job->host]);
    }
    us = costs->base[a][p] + (hops.intra * intra + hops.inter * inter) * ways / 2;
    if (a == PCI_ALGORITHM_RING && p == PCI_PROTOCOL_SIMPLE && job->nodes > 1 &&
        bytes >= (uint64_t) PLATEAU_BYTES * job->channels * job->ranks) {
        us *= costs->plateau[job->generation];
    }
    return us;
}

bool pci_predict_parts(const struct pci_costs *costs, const struct pci_job *job,
                       enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                       struct pci_parts *parts)
{
    if ((unsigned) algorithm >= PCI_ALGORITHM_COUNT || (unsigned) protocol >= PCI_PROTOCOL_COUNT ||
        !pci_block_models(costs, job) || !job_offers(job, algorithm) ||
        !pci_block_offers(job, algorithm) || !protocol_works(job, algorithm, protocol)) {
        return false;
    }
    pci_block_parts(costs, job, algorithm, protocol, bytes, parts);
    return true;
}

double pci_predict_us(const struct pci_costs *costs, const struct pci_job *job,
                      enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes)
{
    uint32_t log = floor_log2(bytes);
    struct pci_parts parts;
    double bw;

    if (pci_predict_parts(costs, job, algorithm, protocol, bytes, &parts)) {
        return parts.total;
    }
    if ((unsigned) algorithm >= PCI_ALGORITHM_COUNT || (unsigned) protocol >= PCI_PROTOCOL_COUNT ||
        pci_block_models(costs, job) || !formula_offers(job, algorithm) ||
        !protocol_works(job, algorithm, protocol)) {
        return INFINITY;
    }
    bw = limited_bw(costs, job, algorithm, protocol) *
         costs->correction[algorithm][protocol][log < PCI_SIZE_COUNT ? log : PCI_SIZE_COUNT - 1] *
         (pci_collective_bus(PCI_COLLECTIVE_ALLREDUCE, job->ranks) /
          pci_collective_bus(job->collective, job->ranks));
    return bw > 0 ? latency_us(costs, job, algorithm, protocol, bytes) +
                        (double) bytes / (bw * PCI_BYTES_PER_US)
                  : INFINITY;
}

uint32_t pci_predict_channels(const struct pci_costs *costs, const struct pci_job *job,
                              enum pci_algorithm algorithm, enum pci_protocol protocol,
                              uint64_t bytes)
{
    double each = costs->channel_bytes[algorithm][protocol] +
                  costs->channel_rank_bytes[algorithm][protocol] * job->ranks;
    double most = each > 0 ? (double) bytes / each : job->channels;
    struct pci_parts parts;

    if (pci_predict_parts(costs, job, algorithm, protocol, bytes, &parts)) {
        return parts.channels;
    }
    if (most >= job->channels) {
        return job->channels > 0 ? job->channels : 1;
    }
    return most >= 1 ? (uint32_t) most : 1;
}

int pci_predict_best(const struct pci_costs *costs, const struct pci_job *job, uint32_t algorithms,
                     uint64_t bytes, struct pci_choice *choice)
{
    struct pci_choice best = {.us = INFINITY};
    /* Prefer the first of several similar times, because the model of the executor is not exact. */
    double margin = pci_block_models(costs, job) ? 0.99 : 1;

    for (int a = 0; a < PCI_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < PCI_PROTOCOL_COUNT; p++) {
            double us = (algorithms & 1u << a) != 0
                            ? pci_predict_us(costs, job, (enum pci_algorithm) a,
                                             (enum pci_protocol) p, bytes)
                            : INFINITY;

            if (us < best.us * margin) {
                best = (struct pci_choice){(enum pci_algorithm) a, (enum pci_protocol) p, 0, us};
            }
        }
    }
    if (isinf(best.us)) {
        return -ENOENT;
    }
    best.channels = pci_predict_channels(costs, job, best.algorithm, best.protocol, bytes);
    *choice = best;
    return 0;
}
