/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Load a file or this machine, and compute graph, channels, bounds and cost model. */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpuring-topo-machine.h"
#include "mca/topo_pci/discover/pci_discover.h"

double topo_cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

/* Return the milliseconds since *SINCE, and set *SINCE to the current time. */
static double lap(double *since)
{
    double now = topo_cpu_ms(), spent = now - *since;

    *since = now;
    return spent;
}

static int failure(const char *what, int code, const struct pci_error *error)
{
    /* strerror() would report that an argument list is too long. */
    const char *reason =
        -E2BIG == code ? "too many GPUs, switches and processors" : strerror(-code);

    topo_message("%s: %s", what, error && error->text[0] ? error->text : reason);
    return TOPO_EXIT_FAILURE;
}

/* Return the user's name for the machine. */
static const char *machine_named(const struct topo_machine *machine)
{
    const char *path = machine->options->topo;

    return !path ? "this machine" : strcmp(path, "-") == 0 ? "standard input" : path;
}

static void message_print(void *context, const char *text)
{
    const struct topo_options *options = context;

    if (options->verbose) {
        topo_message("%s", text);
    }
}

static void name_find(struct topo_machine *machine)
{
    const char *path = machine->options->topo, *slash;
    size_t length;

    if (!path) {
        if (gethostname(machine->name, sizeof machine->name - 1) != 0) {
            snprintf(machine->name, sizeof machine->name, "localhost");
        }
        return;
    }
    slash = strrchr(path, '/');
    snprintf(machine->name, sizeof machine->name, "%s", slash ? slash + 1 : path);
    length = strlen(machine->name);
    if (length > 4 && strcmp(machine->name + length - 4, ".xml") == 0) {
        machine->name[length - 4] = '\0';
    }
}

static int doc_discover(struct topo_machine *machine, struct pci_error *error)
{
    const struct topo_options *options = machine->options;
    struct pci_discover_options discover = {
        .message = message_print, .message_context = (void *) options, .strict = true};
    char message[256];

    /* The GPUs of a recorded or synthetic machine are not those of the driver. */
    if (!getenv("HWLOC_XMLFILE") && !getenv("HWLOC_SYNTHETIC") && !getenv("HWLOC_FSROOT")) {
        if (pci_nvml_open(NULL, &machine->nvml, message, sizeof message) == 0) {
            discover.hooks = pci_nvml_hooks(machine->nvml);
        } else if (message[0]) {
            topo_message("%s", message);
        }
        if (pci_cuda_open(NULL, false, &machine->cuda) == 0) {
            pci_cuda_hook(machine->cuda, &discover.hooks);
        }
    }
    return pci_discover(&discover, &machine->doc, error);
}

/* Query the driver for peer access between two GPUs of this machine. */
static enum pci_peer peer_ask(void *context, uint32_t a, uint32_t b)
{
    struct topo_machine *machine = context;
    struct pci_discover_hooks hooks = pci_nvml_hooks(machine->nvml);
    const struct pci_node *first = pci_graph_node(machine->graph, PCI_NODE_GPU, a);
    const struct pci_node *second = pci_graph_node(machine->graph, PCI_NODE_GPU, b);

    return hooks.p2p(hooks.context, first->busid, second->busid) == 0 ? PCI_PEER_NO_P2P
                                                                      : PCI_PEER_OK;
}

static int graph_build(struct topo_machine *machine, struct pci_error *error)
{
    const struct topo_options *options = machine->options;
    struct pci_path_rules rules;
    double since = topo_cpu_ms();
    const char *remark;
    int rc;

    pci_path_rules_init(&rules);
    rules.p2p_level = options->p2p_level >= 0 ? options->p2p_level : PCI_LEVEL_AUTO;
    rules.gdr_level = options->gdr_level >= 0 ? options->gdr_level : PCI_LEVEL_AUTO;
    rules.all = options->p2p == 0 ? PCI_PEER_NO_P2P : PCI_PEER_OK;
    rc = pci_graph_build(machine->doc, &rules, &machine->graph, error);
    if (rc != 0) {
        return rc;
    }
    machine->times.build = lap(&since);
    if (machine->nvml && options->p2p < 0) {
        rules.peer = peer_ask;
        rules.context = machine;
    }
    rc = pci_graph_recompute(machine->graph, &rules, error);
    machine->times.paths = lap(&since);
    /* The time to build includes that of the paths. */
    machine->times.build = machine->times.build > machine->times.paths
                               ? machine->times.build - machine->times.paths
                               : 0;
    machine->gpus = pci_graph_count(machine->graph, PCI_NODE_GPU);
    for (size_t i = 0; options->verbose && pci_graph_remark(machine->graph, i, &remark); i++) {
        topo_message("%s", remark);
    }
    return rc;
}

int topo_machine_load(const struct topo_options *options, struct topo_machine *machine)
{
    struct pci_error error = {""};
    int rc;

    memset(machine, 0, sizeof *machine);
    machine->options = options;
    name_find(machine);
    rc = options->topo ? pci_doc_read(options->topo, &machine->doc, &error)
                       : doc_discover(machine, &error);
    if (rc != 0) {
        if (options->topo && error.text[0]) {
            topo_message("%s", error.text); /* contains the name of the file */
            return TOPO_EXIT_FAILURE;
        }
        return failure(machine_named(machine), rc, &error);
    }
    rc = topo_omitted_find(machine);
    if (rc == 0 && options->ngpus > 0) {
        rc = pci_doc_keep_gpus(machine->doc, options->gpus, options->ngpus, &error);
        if (rc != 0) {
            return failure("--gpus", rc, &error);
        }
    }
    rc = rc ? rc : graph_build(machine, &error);
    rc = rc ? rc : topo_notes_make(machine, &machine->notes);
    return rc == 0 ? TOPO_EXIT_OK : failure(machine_named(machine), rc, &error);
}

static int costs_read(struct topo_machine *machine)
{
    char error[256] = "";
    const char *model = machine->options->model;
    bool reference = model && strcmp(model, "reference") == 0;
    int rc = reference ? pci_costs_reference(&machine->costs) : pci_costs_gpu(&machine->costs);

    if (rc == 0 && model && !reference) {
        rc = pci_costs_load(machine->options->model, &machine->costs, error, sizeof error);
        if (rc != 0) {
            topo_message("%s: %s", machine->options->model, error[0] ? error : strerror(-rc));
        }
    }
    return rc;
}

/* Return the number in the whole graph of a GPU of a part. */
static uint32_t gpu_in_whole(const struct topo_machine *machine, const struct pci_part *part,
                             uint32_t gpu)
{
    int rank = pci_graph_node(part->graph, PCI_NODE_GPU, gpu)->gpu.rank;
    uint32_t g = 0;

    while (pci_graph_node(machine->graph, PCI_NODE_GPU, g)->gpu.rank != rank) {
        g++;
    }
    return g;
}

static int wires_make(const struct topo_machine *machine, uint32_t nodes, struct pci_wire **result)
{
    size_t ranks = (size_t) nodes * machine->gpus;
    uint32_t nparts = machine->chosen.nparts;
    struct pci_wire *wires = calloc(ranks, sizeof *wires);
    int rc = wires ? 0 : -ENOMEM;

    for (uint32_t p = 0; rc == 0 && p < nparts; p++) {
        const struct pci_part *part = &machine->chosen.part[p];

        for (uint32_t g = 0; rc == 0 && g < part->ring.ngpus; g++) {
            rc = pci_wire_fill(&wires[gpu_in_whole(machine, part, g)], p, g, &part->ring,
                               &part->tree);
        }
    }
    for (size_t r = machine->gpus; rc == 0 && r < ranks; r++) {
        wires[r] = wires[r % machine->gpus];
        wires[r].node += (uint32_t) (r / machine->gpus) * nparts;
    }
    if (rc != 0) {
        free(wires);
        return rc;
    }
    *result = wires;
    return 0;
}

/* Replace the numbers of GPUs in their part by those in the whole graph. */
static void parts_renumber(struct topo_machine *machine)
{
    for (uint32_t p = 0; machine->chosen.nparts > 1 && p < machine->chosen.nparts; p++) {
        struct pci_part *part = &machine->chosen.part[p];

        for (int tree = 0; tree < 2; tree++) {
            struct pci_channels *set = tree ? &part->tree : &part->ring;

            for (uint32_t i = 0; i < set->nchannels * set->ngpus; i++) {
                set->intra[i] = gpu_in_whole(machine, part, set->intra[i]);
            }
        }
    }
    machine->ring = machine->chosen.part->ring;
    machine->tree = machine->chosen.part->tree;
}

/* Connect rings and trees over all nodes. */
static int nodes_connect(struct topo_machine *machine, struct pci_error *error)
{
    uint32_t nodes = machine->options->nodes;
    int rc = wires_make(machine, nodes, &machine->wires);

    return rc ? rc
              : pci_connect_init(&machine->connect, machine->wires, nodes * machine->gpus, error);
}

/* Complete the job with options of the command line and, on one node, with the component's number
 * of channels. */
static void job_complete(struct topo_machine *machine)
{
    struct pci_job *job = &machine->job;
    unsigned sharing = machine->options->sharing;
    uint32_t sms = pci_sms(&machine->costs, job->sm), found = job->ring.channels;

    job->collective = (enum pci_collective) machine->options->collective;
    job->mapped = machine->options->mapped;
    if (sharing > 1) {
        pci_job_share(job, sharing);
    }
    if (job->nodes == 1 && sms > 0) {
        job->channels = pci_lanes(&machine->costs, job->sm, sms / sharing, found,
                                  sharing > 1 ? 0 : found * job->ring.bw_intra);
    }
}

static int all_search(struct topo_machine *machine, struct pci_error *error)
{
    uint32_t nodes = machine->options->nodes;
    double since = topo_cpu_ms();
    struct pci_search limits;
    int rc;

    pci_search_init(&limits);
    limits.nodes = nodes;
    rc =
        pci_choose(machine->graph, machine->doc, &machine->costs, &limits, &machine->chosen, error);
    machine->times.search = lap(&since);
    rc = rc ? rc : nodes_connect(machine, error);
    if (rc == 0) {
        parts_renumber(machine);
        machine->job = machine->chosen.job;
        machine->job.channels = machine->connect.agreed.channels;
        job_complete(machine);
    }
    machine->times.connect = lap(&since);
    rc = rc ? rc : pci_bounds_of_graph(machine->graph, &machine->bounds);
    machine->times.bounds = lap(&since);
    if (rc == 0 && pci_channels_no_nic(&machine->ring)) {
        topo_message("[no-nic] no NIC of the topology serves the GPUs: a network with 10 Gb/s "
                     "for each node is assumed; describe the NICs in a file and name it with "
                     "--topo");
    }
    return rc;
}

int topo_machine_search(struct topo_machine *machine)
{
    struct pci_error error = {""};
    int rc;

    if (costs_read(machine) != 0) {
        return TOPO_EXIT_FAILURE;
    }
    if (machine->gpus == 0) {
        return TOPO_EXIT_OK;
    }
    rc = all_search(machine, &error);
    machine->searched = rc == 0;
    return rc == 0 ? TOPO_EXIT_OK : failure(machine_named(machine), rc, &error);
}

static void label_make(enum pci_algorithm algorithm, enum pci_protocol protocol, char label[32])
{
    snprintf(label, 32, "%s/%s", pci_algorithm_label(algorithm), pci_protocol_label(protocol));
}

size_t topo_ways(const struct topo_machine *machine, struct topo_way ways[TOPO_WAYS_MAX])
{
    size_t count = 0;

    for (int a = 0; a < PCI_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < PCI_PROTOCOL_COUNT; p++) {
            struct topo_way *way = &ways[count];

            way->algorithm = (enum pci_algorithm) a;
            way->protocol = (enum pci_protocol) p;
            label_make(way->algorithm, way->protocol, way->label);
            count += isfinite(topo_way_us(machine, way, 1));
        }
    }
    return count;
}

double topo_way_us(const struct topo_machine *machine, const struct topo_way *way, uint64_t bytes)
{
    return pci_predict_us(&machine->costs, &machine->job, way->algorithm, way->protocol, bytes);
}

bool topo_best_find(const struct topo_machine *machine, uint64_t bytes, struct topo_best *best)
{
    const uint32_t all = (1u << PCI_ALGORITHM_COUNT) - 1;
    const struct pci_choice *choice = &best->choice;

    if (pci_predict_best(&machine->costs, &machine->job, all, bytes, &best->choice) != 0) {
        return false;
    }
    label_make(choice->algorithm, choice->protocol, best->label);
    best->gbps = choice->us > 0 ? (double) bytes / choice->us / 1e3 : 0;
    best->bus_gbps = best->gbps * pci_collective_bus(machine->job.collective, machine->job.ranks);
    return true;
}

void topo_channels_title(const struct topo_machine *machine, const char *name,
                         const struct pci_channels *set, char *title, size_t size)
{
    size_t used =
        (size_t) snprintf(title, size, "%s: %" PRIu32 " x %.4g GB/s (%s)", name, set->nchannels,
                          set->bw_intra, pci_path_class_name(set->type_intra));

    if (set->nodes > 1 && used < size) {
        snprintf(title + used, size - used, ", %.4g GB/s between %s (%s)", set->bw_inter,
                 machine->chosen.nparts > 1 ? "parts" : "nodes",
                 pci_path_class_name(set->type_inter));
    }
}

void topo_machine_free(struct topo_machine *machine)
{
    pci_connect_fini(&machine->connect);
    free(machine->wires);
    pci_chosen_fini(&machine->chosen);
    free(machine->omitted);
    free(machine->notes);
    pci_graph_free(machine->graph);
    pci_doc_free(machine->doc);
    pci_nvml_close(machine->nvml);
    pci_cuda_close(machine->cuda);
}
