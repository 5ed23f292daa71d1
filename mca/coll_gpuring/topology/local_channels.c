/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* This node's topology and the channels in it; see channels.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/topo_pci/xml/pci_file.h"

/* Write to whatever the path names, without replacing it (it may be a device). */
void gpuring_local_channels_dump(const struct pci_doc *doc)
{
    const char *path = gpuring_params.topo_dump_file;
    struct pci_error error = {.text = ""};
    char *text = NULL;
    size_t size = 0;
    char why[128] = "";
    FILE *file;

    if (pci_doc_format(doc, &text, &size, &error) != 0) {
        gpuring_warn("coll_gpuring_topo_dump_file=%s: %s", path, error.text);
        return;
    }
    file = pci_file_create(path, why, sizeof why);
    if (file != NULL) {
        bool failed = fwrite(text, 1, size, file) != size;

        if (fclose(file) != 0 || failed) {
            snprintf(why, sizeof why, "%s", strerror(errno));
        }
    }
    if (why[0] != '\0') {
        gpuring_warn("coll_gpuring_topo_dump_file: cannot write %s: %s", path, why);
    }
    free(text);
}

/* GPUs of the ranks, in their order: numbers for pci_doc_keep_gpus. 0 or -1. */
static int number_gpus(struct pci_doc *doc, bool from_file, int nlocal,
                       const struct gpuring_device_identity *identities, unsigned *ranks)
{
    struct pci_elem *gpu = NULL;
    int count = 0;

    for (int i = 0; i < nlocal; i++) {
        ranks[i] = (unsigned) i;
    }
    if (from_file && gpuring_params.device == GPURING_PARAM_DEVICE_HOST) {
        while ((gpu = pci_doc_next(doc, gpu, "gpu")) != NULL) {
            count++;
        }
        return count >= nlocal ? 0 : -1;
    }
    while ((gpu = pci_doc_next(doc, gpu, "gpu")) != NULL) {
        const char *busid = pci_elem_get(pci_elem_parent(gpu), "busid");

        for (int i = 0; i < nlocal && busid != NULL; i++) {
            if (pci_busid_parse(busid) == pci_busid_parse(identities[i].pci_bus_id)) {
                if (pci_elem_setf(gpu, "rank", "%d", i) != 0) {
                    return -1;
                }
                count++;
                break;
            }
        }
    }
    return count == nlocal ? 0 : -1; /* several ranks on one GPU: in their order */
}

/* True if two of a node's ranks use one GPU. */
static bool share_gpus(int nlocal, const struct gpuring_device_identity *identities)
{
    for (int i = 0; i < nlocal; i++) {
        for (int j = 0; j < i; j++) {
            if (identities[i].pci_bus_id[0] != '\0' &&
                strcmp(identities[i].pci_bus_id, identities[j].pci_bus_id) == 0) {
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

/* Search rings, then trees with as many channels where that costs little. */
static int search_channels(const struct pci_graph *graph, int nnodes, struct pci_channels *ring,
                           struct pci_channels *tree)
{
    struct pci_fabric fabric = {.ngpus = 0};
    struct pci_search search;
    int status = pci_fabric_from_graph(graph, &fabric);

    if (status == 0) {
        pci_search_init(&search);
        search.nodes = (uint32_t) nnodes;
        search.min_channels = gpuring_params.min_channels < (int) PCI_CHANNELS_MAX
                                  ? (uint32_t) gpuring_params.min_channels
                                  : PCI_CHANNELS_MAX;
        search.max_channels = gpuring_params.max_channels < (int) PCI_CHANNELS_MAX
                                  ? (uint32_t) gpuring_params.max_channels
                                  : PCI_CHANNELS_MAX;
        status = pci_channels_search(&fabric, &search, ring);
    }
    if (status == 0) {
        search.pattern = PCI_PATTERN_BALANCED_TREE;
        search.prefer_channels = ring->nchannels;
        status = pci_channels_search(&fabric, &search, tree);
    }
    pci_fabric_fini(&fabric);
    return status;
}

/* Document -> graph of the ranks' GPUs -> channels -> wire. 0 or an errno value, with a text. */
static int make_wire(struct pci_doc *doc, bool from_file, enum pci_peer peers, uint32_t node,
                     int nnodes, int local, int nlocal,
                     const struct gpuring_device_identity *identities, struct pci_wire *wire,
                     struct gpuring_model_choice *advice, struct pci_error *error)
{
    struct pci_channels ring = {.nchannels = 0}, tree = {.nchannels = 0};
    struct pci_graph *graph = NULL;
    struct pci_path_rules rules;
    unsigned *ranks = malloc((size_t) nlocal * sizeof *ranks);
    uint32_t removed = 0;
    int status = ranks == NULL ? -ENOMEM : 0;

    if (status == 0 && number_gpus(doc, from_file, nlocal, identities, ranks) != 0) {
        snprintf(error->text, sizeof error->text, "it has no GPU of its own for each of %d ranks",
                 nlocal);
        status = -ENOENT;
    }
    if (status == 0) {
        status = pci_doc_keep_gpus(doc, ranks, (size_t) nlocal, error);
    }
    pci_path_rules_init(&rules);
    rules.p2p_level = level_of(gpuring_params.p2p_level);
    rules.gdr_level = level_of(gpuring_params.gdr_level);
    rules.all = peers;
    if (status == 0) {
        status = pci_graph_build(doc, &rules, &graph, error);
    }
    if (status == 0) {
        status = pci_graph_trim(graph, 0, nnodes > 1, &removed, error);
    }
    if (status == 0 && removed > 0) {
        snprintf(error->text, sizeof error->text, "%u GPUs cannot be reached from the others",
                 removed);
        status = -ENOENT;
    }
    if (status == 0) {
        status = search_channels(graph, nnodes, &ring, &tree);
    }
    if (status == 0) {
        status = pci_wire_fill(wire, node, (uint32_t) local, &ring, &tree);
    }
    if (status == 0) {
        gpuring_model_choice_find(graph, nnodes, local, &ring, &tree, advice);
    }
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_graph_free(graph);
    free(ranks);
    return status;
}

void gpuring_local_channels_wire(struct pci_doc *doc, bool from_file, enum pci_peer peers,
                                 uint32_t node, int nnodes, int local, int nlocal,
                                 const struct gpuring_device_identity *identities,
                                 struct pci_wire *wire, struct gpuring_model_choice *advice)
{
    static bool told;
    struct pci_error error = {.text = ""};
    int status;

    memset(wire, 0, sizeof *wire);
    memset(advice, 0, sizeof *advice);
    if (!from_file && gpuring_params.device == GPURING_PARAM_DEVICE_HOST) {
        return; /* ranks without GPUs: nothing to search */
    }
    status = make_wire(doc, from_file, peers, node, nnodes, local, nlocal, identities, wire, advice,
                       &error);
    if (status != 0) {
        memset(wire, 0, sizeof *wire);
        if (share_gpus(nlocal, identities)) {
            gpuring_info(
                "[shared-gpu] several ranks share a GPU: they are connected in their order");
        } else if (!told) {
            gpuring_warn("the topology%s%s does not serve for channels: %s; ranks are connected in "
                         "their order",
                         from_file ? " of " : "", from_file ? gpuring_params.topo_file : "",
                         error.text[0] != '\0' ? error.text : strerror(-status));
            told = true;
        }
    }
}
