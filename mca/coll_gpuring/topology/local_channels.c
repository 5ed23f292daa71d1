/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/local_channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/xml/pci_file.h"

#include "gpuring_config.h"

void gpuring_local_channels_write(const char *parameter, const char *path, const char *text,
                                  size_t size)
{
    char why[128];

    if (pci_file_write(path, text, size, why, sizeof why) != 0) {
        gpuring_warn("coll_gpuring_%s: cannot write %s: %s", parameter, path, why);
    }
}

void gpuring_local_channels_dump(const struct pci_doc *doc)
{
    const char *path = gpuring_params.topo_dump_file;
    struct pci_error error = {.text = ""};
    char *text = NULL;
    size_t size = 0;

    if (pci_doc_format(doc, &text, &size, &error) != 0) {
        gpuring_warn("coll_gpuring_topo_dump_file=%s: %s", path, error.text);
        return;
    }
    gpuring_local_channels_write("topo_dump_file", path, text, size);
    free(text);
}

static const char *busid_of(const struct gpuring_node_ranks *ranks, int i)
{
    return gpuring_node_ranks_rank_info(ranks, i)->device.pci_bus_id;
}

/* The GPU of each rank of a node. GPUs are numbered in the order of the ranks. */
struct gpus {
    int count;
    int *of; /* [ranks]: number of the rank's GPU */
};

/* Find the GPUs by the driver's bus IDs. The host device has none, so there each rank gets a
 * separate GPU: those of the topology file in their order. */
static bool gpus_find(const struct gpuring_node_ranks *ranks, struct gpus *gpus)
{
    *gpus = (struct gpus){.of = malloc((size_t) ranks->count * sizeof *gpus->of)};
    for (int i = 0; gpus->of != NULL && i < ranks->count; i++) {
        const char *busid = busid_of(ranks, i);
        int same = 0;

        while (same < i && (busid[0] == '\0' || strcmp(busid, busid_of(ranks, same)) != 0)) {
            same++;
        }
        gpus->of[i] = same < i ? gpus->of[same] : gpus->count++;
    }
    return gpus->of != NULL;
}

/* Give the document's GPUs the numbers of `gpus`. On the host device, the numbers in the file
 * apply. Return true if the document contains all GPUs. */
static bool number_gpus(struct pci_doc *doc, bool from_file, const struct gpuring_node_ranks *ranks,
                        const struct gpus *gpus)
{
    struct pci_elem *gpu = NULL;
    int count = 0;

    if (from_file && gpuring_params.device == GPURING_PARAM_DEVICE_HOST) {
        while ((gpu = pci_doc_next(doc, gpu, "gpu")) != NULL) {
            count++;
        }
        return count >= ranks->count;
    }
    while ((gpu = pci_doc_next(doc, gpu, "gpu")) != NULL) {
        const char *busid = pci_elem_get(pci_elem_parent(gpu), "busid");

        for (int i = 0; i < ranks->count && busid != NULL; i++) {
            if (pci_busid_parse(busid) == pci_busid_parse(busid_of(ranks, i))) {
                if (pci_elem_setf(gpu, "rank", "%d", gpus->of[i]) != 0) {
                    return false;
                }
                count++;
                break;
            }
        }
    }
    return count == gpus->count;
}

int gpuring_level_class(int level)
{
#define NAME(name, text) text,
    static const char *const names[] = {GPURING_VALUES_level(NAME)};
#undef NAME

    return level == GPURING_PARAM_LEVEL_AUTO ? PCI_LEVEL_AUTO : pci_path_class_parse(names[level]);
}

static uint32_t at_most(int channels)
{
    return channels < (int) PCI_CHANNELS_MAX ? (uint32_t) channels : PCI_CHANNELS_MAX;
}

static struct pci_search limits_of(int nnodes)
{
    struct pci_search limits;

    pci_search_init(&limits);
    limits.nodes = (uint32_t) nnodes;
    limits.min_channels = at_most(gpuring_params.min_channels);
    limits.max_channels = at_most(gpuring_params.max_channels);
    return limits;
}

/* Build the graph of the ranks' GPUs. Return 0 or a negative errno value with a text. */
static int make_graph(struct pci_doc *doc, bool from_file, enum pci_peer peers,
                      const struct gpuring_node_ranks *ranks, const struct gpus *gpus,
                      struct pci_graph **graph, struct pci_error *error)
{
    struct pci_path_rules rules;
    uint32_t removed = 0;
    int status;

    pci_path_rules_init(&rules);
    rules.p2p_level = gpuring_level_class(gpuring_params.p2p_level);
    rules.gdr_level = gpuring_level_class(gpuring_params.gdr_level);
    rules.nvb = false; /* no GPU relays data, so a mapping of the far GPU uses PCI */
    rules.all = peers;
    if (number_gpus(doc, from_file, ranks, gpus)) {
        status = pci_doc_keep_gpus(doc, NULL, (size_t) gpus->count, error);
    } else {
        snprintf(error->text, sizeof error->text, "it lacks some of the %d GPUs of the ranks",
                 gpus->count);
        status = -ENOENT;
    }
    if (status == 0) {
        status = pci_graph_build(doc, &rules, graph, error);
    }
    if (status == 0) {
        status = pci_graph_trim(*graph, 0, &removed, error);
    }
    if (status == 0 && removed > 0) {
        snprintf(error->text, sizeof error->text, "%u GPUs cannot be reached from the others",
                 removed);
        status = -ENOENT;
    }
    return status;
}

/* Return the number of the part that contains this rank's GPU, and in *gpu the GPU's number in this
 * part. */
static uint32_t part_of(const struct pci_chosen *chosen, int self, uint32_t *gpu)
{
    for (uint32_t p = 0; p < chosen->nparts; p++) {
        for (*gpu = 0; *gpu < chosen->part[p].ring.ngpus; (*gpu)++) {
            if (pci_graph_node(chosen->part[p].graph, PCI_NODE_GPU, *gpu)->gpu.rank == self) {
                return p;
            }
        }
    }
    *gpu = UINT32_MAX; /* pci_wire_fill rejects it */
    return 0;
}

/* Log facts about the node's channels. Only the first rank of the node calls this. */
static void log_channels(const struct pci_chosen *chosen)
{
    if (pci_channels_no_nic(&chosen->part->ring)) {
        gpuring_info("[no-nic] the topology has no NIC that serves the GPUs of this node: choices "
                     "of algorithms assume a network of 10 Gb/s; coll_gpuring_topo_file can "
                     "describe the NICs");
    }
    if (chosen->nparts > 1) {
        gpuring_info("[node-in-parts] the NICs of this node are faster than the paths between "
                     "some of its GPUs: %u parts of it are connected through the NICs; "
                     "coll_gpuring_net=none prevents this",
                     chosen->nparts);
    }
}

/* Convert channels of GPUs to channels of ranks. Ranks that share a GPU become neighbours. */
static int channels_of_ranks(const struct gpuring_node_ranks *ranks, const struct gpus *gpus,
                             struct pci_channels *channels)
{
    uint32_t *order, *next;

    if (gpus->count == ranks->count) {
        return 0;
    }
    order = next =
        malloc(((size_t) channels->nchannels * (size_t) ranks->count + 1) * sizeof *order);
    if (order == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < (size_t) channels->nchannels * channels->ngpus; i++) {
        for (int rank = 0; rank < ranks->count; rank++) {
            if (gpus->of[rank] == (int) channels->intra[i]) {
                *next++ = (uint32_t) rank;
            }
        }
    }
    free(channels->intra);
    channels->intra = order;
    channels->ngpus = (uint32_t) ranks->count;
    return 0;
}

static void note_near(const struct pci_graph *graph, const struct gpuring_node_ranks *ranks,
                      const struct gpus *gpus, struct gpuring_local_channels *local)
{
    uint64_t *near = local->near;

    local->known = true;
    for (int i = 0; i < ranks->count && i < GPURING_LOCAL_PEERS; i++) {
        if (gpus->of[i] == gpus->of[ranks->self] ||
            pci_graph_p2p(graph, (uint32_t) gpus->of[ranks->self], (uint32_t) gpus->of[i], NULL)) {
            near[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
}

bool gpuring_local_channels_may_map(const struct gpuring_local_channels *local, int local_rank)
{
    bool near = local_rank < GPURING_LOCAL_PEERS &&
                (local->near[local_rank / 64] >> local_rank % 64 & 1) != 0;

    switch (gpuring_params.p2p_level) {
    case GPURING_PARAM_LEVEL_AUTO: /* as in the search for channels, without planned detours */
        return !local->known || near;
    case GPURING_PARAM_LEVEL_SYS:
        return true;
    case GPURING_PARAM_LEVEL_LOC:
        return false;
    default:
        return near;
    }
}

/* Let the model use as many lanes as the plans will. */
static void set_lanes(const struct gpuring_node_ranks *ranks, const struct gpuring_node_map *map,
                      const struct pci_chosen *chosen, struct pci_job *job)
{
    struct gpuring_gpu_parts parts = gpuring_node_map_parts(ranks->rank_infos, map);
    const struct pci_channels *ring = &chosen->part->ring;

    if (parts.blocks > 0 && map->nnodes == 1 && chosen->nparts == 1) {
        job->channels =
            gpuring_node_map_lanes(&parts, ring->nchannels, ring->nchannels * ring->bw_intra);
    }
}

/* Return CUDA_VERSION of the toolkit that compiled the kernels, or 0. */
static int toolkit(void)
{
#if GPURING_HAVE_CUDA
    return gpuring_device_cuda.toolkit;
#else
    return 0;
#endif
}

/* Fill in this rank's wire for the selected channels, and everything that depends on them. */
static int take_chosen(const struct pci_costs *costs, struct pci_chosen *chosen,
                       const struct gpuring_node_map *map, const struct gpuring_node_ranks *ranks,
                       const struct gpus *gpus, struct gpuring_local_channels *local)
{
    uint32_t gpu, number = part_of(chosen, gpus->of[ranks->self], &gpu);
    struct pci_part *part = &chosen->part[number];
    int status = 0;

    local->in_parts = chosen->nparts > 1;
    gpuring_nic_select_find(part->graph, gpus->of[ranks->self], &part->ring, &part->tree,
                            &local->nics);
    if (gpus->count < ranks->count) {
        gpu = (uint32_t) ranks->self;
        status = channels_of_ranks(ranks, gpus, &part->ring);
        status = status == 0 ? channels_of_ranks(ranks, gpus, &part->tree) : status;
        if (ranks->count % gpus->count == 0) {
            pci_job_share(&chosen->job, (uint32_t) (ranks->count / gpus->count));
            set_lanes(ranks, map, chosen, &chosen->job);
            gpuring_model_choice_mapped(costs, &chosen->job, gpuring_params.deterministic != 0,
                                        &local->model);
        }
    } else {
        set_lanes(ranks, map, chosen, &chosen->job);
        if (pci_ll128_ring_excluded(&chosen->job, toolkit())) {
            chosen->job.ring.ll128 = false;
        }
        gpuring_model_choice_find(costs, &chosen->job, gpuring_params.deterministic != 0,
                                  &local->model);
    }
    if (ranks->self == 0) {
        log_channels(chosen);
    }
    return status == 0 ? pci_wire_fill(&local->block.wire, number, gpu, &part->ring, &part->tree)
                       : status;
}

/* Compute everything that depends on the document. Return 0 or a negative errno value with a text.
 * A node whose ranks share GPUs is not divided into parts. */
static int find_channels(struct pci_doc *doc, bool from_file, enum pci_peer peers, bool parts,
                         const struct gpuring_node_map *map, const struct gpuring_node_ranks *ranks,
                         const struct gpus *gpus, struct gpuring_local_channels *local,
                         struct pci_error *error)
{
    const struct pci_search limits = limits_of(map->nnodes);
    struct pci_chosen chosen = {.nparts = 0};
    struct pci_graph *graph = NULL;
    struct pci_costs costs;
    int status = make_graph(doc, from_file, peers, ranks, gpus, &graph, error);

    if (status == 0) {
        note_near(graph, ranks, gpus, local);
        status = pci_costs_gpu(&costs);
    }
    if (status == 0) {
        status = pci_choose(graph, parts && gpus->count == ranks->count ? doc : NULL, &costs,
                            &limits, &chosen, error);
    }
    if (status == 0) {
        status = take_chosen(&costs, &chosen, map, ranks, gpus, local);
    }
    pci_chosen_fini(&chosen);
    pci_graph_free(graph);
    return status;
}

void gpuring_local_channels_find(const struct gpuring_gathered *rank_infos,
                                 const struct gpuring_node_map *map, int rank, struct pci_doc *doc,
                                 bool from_file, enum pci_peer peers, bool parts,
                                 struct gpuring_local_channels *local)
{
    static bool reported;
    struct gpuring_node_ranks ranks = gpuring_node_ranks_of(rank_infos, map, rank);
    struct pci_error error = {.text = ""};
    struct gpus gpus;
    int status = -ENOMEM;

    memset(local, 0, sizeof *local);
    if (!from_file && gpuring_params.device == GPURING_PARAM_DEVICE_HOST) {
        status = 0; /* there are no GPUs, so no channels are needed */
    } else if (gpus_find(&ranks, &gpus)) {
        status = find_channels(doc, from_file, peers, parts, map, &ranks, &gpus, local, &error);
        if (gpus.count < ranks.count) {
            gpuring_info("[shared-gpu] %d ranks of this node share %d GPUs%s", ranks.count,
                         gpus.count,
                         gpuring_rank_info_of(rank_infos, rank)->device.mps
                             ? " under CUDA MPS"
                             : " and take turns on them, because CUDA MPS does not run: calls "
                               "of less than some MiB are staged through host memory; start "
                               "MPS on each node, as the user who runs the job: "
                               "nvidia-cuda-mps-control -d");
        }
        free(gpus.of);
    }
    if (status != 0) {
        memset(local, 0, sizeof *local);
        if (!reported) {
            gpuring_warn("[no-channels] the topology%s%s has no channels for these ranks: %s; "
                         "ranks are connected in rank order",
                         from_file ? " of " : "", from_file ? gpuring_params.topo_file : "",
                         error.text[0] != '\0' ? error.text : strerror(-status));
            reported = true;
        }
    }
    local->block.model = gpuring_model_choice_fingerprint(&local->model);
}
