/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/local_channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/xml/pci_file.h"

void gpuring_local_channels_write(const char *parameter, const char *path, const char *text,
                                  size_t size)
{
    char why[128] = "";
    FILE *file = pci_file_create(path, why, sizeof why);

    if (file != NULL) {
        bool failed = fwrite(text, 1, size, file) != size;

        if (fclose(file) != 0 || failed) {
            snprintf(why, sizeof why, "%s", strerror(errno));
        }
    }
    if (why[0] != '\0') {
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
    return gpuring_node_ranks_hello(ranks, i)->device.pci_bus_id;
}

/* Number the document's GPUs by the ranks that use them. Does each rank have one of its own? On the
 * host device the ranks take a file's GPUs in their order. */
static bool number_gpus(struct pci_doc *doc, bool from_file, const struct gpuring_node_ranks *ranks)
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
                if (pci_elem_setf(gpu, "rank", "%d", i) != 0) {
                    return false;
                }
                count++;
                break;
            }
        }
    }
    return count == ranks->count;
}

/* True if two of a node's ranks use one GPU. */
static bool share_gpus(const struct gpuring_node_ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        for (int j = 0; j < i; j++) {
            if (busid_of(ranks, i)[0] != '\0' &&
                strcmp(busid_of(ranks, i), busid_of(ranks, j)) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int level_of(int param)
{
    static const char *const names[] = {"auto", "LOC", "NVL", "PIX", "PXB", "PHB", "SYS"};

    return param == GPURING_PARAM_LEVEL_AUTO ? PCI_LEVEL_AUTO : pci_path_class_parse(names[param]);
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

/* The graph of the ranks' GPUs. 0 or a negative errno value, with a text. */
static int make_graph(struct pci_doc *doc, bool from_file, enum pci_peer peers,
                      const struct gpuring_node_ranks *ranks, struct pci_graph **graph,
                      struct pci_error *error)
{
    unsigned *keep = malloc((size_t) ranks->count * sizeof *keep);
    struct pci_path_rules rules;
    uint32_t removed = 0;
    int status = -ENOMEM;

    if (keep == NULL) {
        return status;
    }
    for (int i = 0; i < ranks->count; i++) {
        keep[i] = (unsigned) i;
    }
    pci_path_rules_init(&rules);
    rules.p2p_level = level_of(gpuring_params.p2p_level);
    rules.gdr_level = level_of(gpuring_params.gdr_level);
    rules.all = peers;
    if (number_gpus(doc, from_file, ranks)) {
        status = pci_doc_keep_gpus(doc, keep, (size_t) ranks->count, error);
    } else {
        snprintf(error->text, sizeof error->text, "it has no GPU of its own for each of %d ranks",
                 ranks->count);
        status = -ENOENT;
    }
    if (status == 0) {
        status = pci_graph_build(doc, &rules, graph, error);
    }
    if (status == 0) {
        status = pci_graph_trim(*graph, 0, true, &removed, error);
    }
    if (status == 0 && removed > 0) {
        snprintf(error->text, sizeof error->text, "%u GPUs cannot be reached from the others",
                 removed);
        status = -ENOENT;
    }
    free(keep);
    return status;
}

/* The number of the part with the GPU of this rank of the node, and the GPU's number in it. */
static uint32_t part_of(const struct pci_chosen *chosen, int self, uint32_t *gpu)
{
    for (uint32_t p = 0; p < chosen->nparts; p++) {
        for (*gpu = 0; *gpu < chosen->part[p].ring.ngpus; (*gpu)++) {
            if (pci_graph_node(chosen->part[p].graph, PCI_NODE_GPU, *gpu)->gpu.rank == self) {
                return p;
            }
        }
    }
    *gpu = UINT32_MAX; /* pci_wire_fill refuses it */
    return 0;
}

/* What rank 0 of the node logs of its channels. */
static void log_channels(const struct pci_chosen *chosen)
{
    if (pci_channels_no_nic(&chosen->part->ring)) {
        gpuring_info("[no-nic] the topology has no NIC that serves the GPUs of this node: choices "
                     "of algorithms assume a network of 10 Gb/s; coll_gpuring_topo_file can "
                     "describe the NICs");
    }
    if (chosen->nparts > 1) {
        gpuring_info("[node-in-parts] the NICs of this node are faster than the paths between some "
                     "of its GPUs: %u parts of it are connected by the NICs; coll_gpuring_net=none "
                     "keeps it whole",
                     chosen->nparts);
    }
}

/* All that follows from the document. 0 or a negative errno value, with a text. */
static int find(struct pci_doc *doc, bool from_file, enum pci_peer peers, bool parts, int nnodes,
                const struct gpuring_node_ranks *ranks, struct gpuring_local_channels *local,
                struct pci_error *error)
{
    const struct pci_search limits = limits_of(nnodes);
    struct pci_chosen chosen = {.nparts = 0};
    struct pci_graph *graph = NULL;
    struct pci_costs costs;
    int status = make_graph(doc, from_file, peers, ranks, &graph, error);

    if (status == 0) {
        status = pci_costs_gpu(&costs);
    }
    if (status == 0) {
        status = pci_choose(graph, parts ? doc : NULL, &costs, &limits, &chosen, error);
    }
    if (status == 0) {
        uint32_t gpu, number = part_of(&chosen, ranks->self, &gpu);
        const struct pci_part *part = &chosen.part[number];

        local->in_parts = chosen.nparts > 1;
        status = pci_wire_fill(&local->block.wire, number, gpu, &part->ring, &part->tree);
        gpuring_model_choice_find(&costs, &chosen.job, &local->model);
        gpuring_nic_select_find(part->graph, ranks->self, &part->ring, &part->tree, &local->nics);
        if (ranks->self == 0) {
            log_channels(&chosen);
        }
    }
    pci_chosen_fini(&chosen);
    pci_graph_free(graph);
    return status;
}

void gpuring_local_channels_find(const struct gpuring_gathered *hellos,
                                 const struct gpuring_node_map *map, int rank, struct pci_doc *doc,
                                 bool from_file, enum pci_peer peers, bool parts,
                                 struct gpuring_local_channels *local)
{
    static bool reported;
    struct gpuring_node_ranks ranks = gpuring_node_ranks_of(hellos, map, rank);
    struct pci_error error = {.text = ""};
    int status = 0;

    memset(local, 0, sizeof *local);
    /* On the host device without a file there are no GPUs to search channels for. */
    if (from_file || gpuring_params.device != GPURING_PARAM_DEVICE_HOST) {
        status = find(doc, from_file, peers, parts, map->nnodes, &ranks, local, &error);
    }
    if (status != 0) {
        memset(local, 0, sizeof *local);
        if (share_gpus(&ranks)) {
            gpuring_info(
                "[shared-gpu] several ranks share a GPU: they are connected in their order");
        } else if (!reported) {
            gpuring_warn("the topology%s%s does not serve for channels: %s; ranks are connected in "
                         "their order",
                         from_file ? " of " : "", from_file ? gpuring_params.topo_file : "",
                         error.text[0] != '\0' ? error.text : strerror(-status));
            reported = true;
        }
    }
    local->block.model = gpuring_model_choice_fingerprint(&local->model);
}
