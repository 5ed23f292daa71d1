/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the links can do for a job, from a topology file or from a stated bandwidth. */
#include "gpuring-fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/search/pci_channels.h"

#define TOO_FEW_GPUS 1 /* beside negative errno values */

/* The graph of the first so many GPUs of a file: the ranks of a node take them in order. */
static int graph_of_file(const char *path, uint32_t gpus, struct pci_graph **graph)
{
    struct pci_error error = {.text = ""};
    struct pci_doc *doc = NULL;
    unsigned *ranks = calloc(gpus, sizeof(*ranks));
    int rc = NULL == ranks ? -ENOMEM : pci_doc_read(path, &doc, &error);

    for (uint32_t g = 0; 0 == rc && g < gpus; g++) {
        ranks[g] = g;
    }
    if (0 == rc) {
        rc = pci_doc_keep_gpus(doc, ranks, gpus, &error);
        rc = -ENOENT == rc ? TOO_FEW_GPUS : rc;
    }
    if (0 == rc) {
        rc = pci_graph_build(doc, NULL, graph, &error);
    }
    if (rc < 0 && NULL == doc && '\0' != error.text[0]) {
        fit_message("%s", error.text); /* names the file */
    } else if (rc < 0) {
        fit_message("%s: %s", path, '\0' != error.text[0] ? error.text : strerror(-rc));
    }
    pci_doc_free(doc);
    free(ranks);
    return rc;
}

static int job_of_graph(const struct pci_graph *graph, uint32_t nodes, struct pci_job *job)
{
    struct pci_channels ring = {.nchannels = 0}, tree = {.nchannels = 0};
    struct pci_costs costs;
    int rc = pci_channels_of_graph(graph, nodes, &ring, &tree);

    if (0 == rc) {
        rc = pci_job_of_graph(graph, nodes, &ring, &tree, ring.nchannels, job);
    }
    if (0 == rc && 1 == nodes && 0 == pci_costs_gpu(&costs)) {
        job->channels = pci_lanes(&costs, job->sm, pci_sms(&costs, job->sm), ring.nchannels,
                                  ring.nchannels * ring.bw_intra);
    }
    if (0 != rc) {
        fit_message("no channels for %u nodes: %s", nodes, strerror(-rc));
    }
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    return rc;
}

static int job_make(const struct fit_options *options, uint32_t nodes, uint32_t ranks,
                    struct pci_job *job)
{
    struct pci_graph *graph = NULL;
    int rc;

    if (NULL == options->topo) {
        pci_job_shared(options->bandwidth, nodes, ranks, job);
        return 0;
    }
    rc = graph_of_file(options->topo, ranks / nodes, &graph);
    if (0 == rc) {
        rc = job_of_graph(graph, nodes, job);
        pci_graph_free(graph);
    }
    return rc;
}

int fit_job_find(struct fit_data *data, enum pci_collective collective, uint32_t nodes,
                 uint32_t ranks, const struct pci_job **job)
{
    struct fit_job *entry;
    int rc;

    *job = NULL;
    if (0 == nodes || ranks < 2 || 0 != ranks % nodes) {
        return 0;
    }
    for (entry = data->jobs; NULL != entry; entry = entry->next) {
        if (entry->job.collective == collective && entry->job.nodes == nodes &&
            entry->job.ranks == ranks) {
            *job = &entry->job;
            return 0;
        }
    }
    entry = calloc(1, sizeof(*entry));
    if (NULL == entry) {
        fit_message("no memory");
        return -ENOMEM;
    }
    rc = job_make(data->options, nodes, ranks, &entry->job);
    if (0 != rc) {
        free(entry);
        return TOO_FEW_GPUS == rc ? 0 : rc;
    }
    entry->job.collective = collective;
    entry->next = data->jobs;
    data->jobs = entry;
    *job = &entry->job;
    return 0;
}

void fit_jobs_free(struct fit_data *data)
{
    while (NULL != data->jobs) {
        struct fit_job *next = data->jobs->next;

        free(data->jobs);
        data->jobs = next;
    }
}
