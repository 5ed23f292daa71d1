/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The report. */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-json.h"

/* Digits of numbers with a fraction, which exceed the accuracy of all figures of the engine. */
enum {
    DIGITS = 9,
};

static json_t *prediction(const struct topo_machine *machine, uint64_t bytes)
{
    struct topo_way ways[TOPO_WAYS_MAX];
    size_t count = topo_ways(machine, ways);
    json_t *all = json_object();

    for (size_t w = 0; w < count; w++) {
        json_object_set_new(all, ways[w].label,
                            topo_json_number(topo_way_us(machine, &ways[w], bytes)));
    }
    return json_pack("{s:I,s:o}", "bytes", (json_int_t) bytes, "us", all);
}

static json_t *choice(const struct topo_machine *machine, uint32_t algorithms, uint64_t bytes)
{
    struct pci_choice best;

    if (pci_predict_best(&machine->costs, &machine->job, algorithms, bytes, &best) != 0) {
        return json_null();
    }
    return json_pack("{s:s,s:s,s:o,s:i}", "algo", pci_algorithm_label(best.algorithm), "proto",
                     pci_protocol_label(best.protocol), "us", topo_json_number(best.us),
                     "nChannels", (int) best.channels);
}

static json_t *model(const struct topo_machine *machine, const uint64_t *sizes, size_t count)
{
    uint32_t both = 1u << PCI_ALGORITHM_RING | 1u << PCI_ALGORITHM_TREE;
    uint32_t any = (1u << PCI_ALGORITHM_COUNT) - 1;
    json_t *list = json_array();

    for (size_t i = 0; machine->searched && i < count; i++) {
        json_t *object = prediction(machine, sizes[i]);

        json_object_set_new(object, "best_ring_tree", choice(machine, both, sizes[i]));
        json_object_set_new(object, "best", choice(machine, any, sizes[i]));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *graphs(const struct topo_machine *machine, const struct pci_channels *ring,
                      const struct pci_channels *tree)
{
    return json_pack("{s:o,s:o}", "ring", topo_json_channels(machine, ring), "tree",
                     topo_json_channels(machine, tree));
}

/* Return the channels of each part of a node whose parts are connected by NICs. */
static json_t *parts(const struct topo_machine *machine)
{
    json_t *list = json_array();

    for (uint32_t p = 0; p < machine->chosen.nparts; p++) {
        const struct pci_part *part = &machine->chosen.part[p];

        json_array_append_new(list, graphs(machine, &part->ring, &part->tree));
    }
    return list;
}

static void times_set(json_t *root, const struct topo_times *times)
{
    json_object_set_new(root, "search_cpu_ms",
                        json_pack("{s:f,s:f,s:f}", "buildGraph", times->build, "paths",
                                  times->paths, "search", times->search));
    json_object_set_new(root, "more_cpu_ms",
                        json_pack("{s:f,s:f}", "connect", times->connect, "bound", times->bounds));
}

static json_t *head(const struct topo_machine *machine)
{
    const struct topo_options *options = machine->options;

    return json_pack("{s:s,s:i,s:i,s:s}", "name", machine->name, "nodes", (int) options->nodes,
                     "ranks", (int) (options->nodes * machine->gpus), "nvlink_p2p",
                     options->p2p == 0 ? "no" : "ok");
}

static void machine_set(json_t *root, const struct topo_machine *machine)
{
    json_object_set_new(root, "cpu", topo_json_cpu(machine));
    json_object_set_new(root, "gpus", topo_json_gpus(machine));
    json_object_set_new(root, "nets", topo_json_nets(machine));
}

static void paths_set(json_t *root, const struct topo_machine *machine)
{
    json_object_set_new(root, "gpu_to_gpu", topo_json_paths(machine, PCI_NODE_GPU, PCI_NODE_GPU));
    json_object_set_new(root, "gpu_to_net", topo_json_paths(machine, PCI_NODE_GPU, PCI_NODE_NET));
    json_object_set_new(root, "net_to_gpu", topo_json_paths(machine, PCI_NODE_NET, PCI_NODE_GPU));
    json_object_set_new(root, "gpu_order", topo_json_order(machine, PCI_NODE_GPU));
    json_object_set_new(root, "net_order", topo_json_order(machine, PCI_NODE_NET));
}

static void channels_set(json_t *root, const struct topo_machine *machine)
{
    json_object_set_new(root, "graphs", graphs(machine, &machine->ring, &machine->tree));
    if (machine->chosen.nparts > 1) {
        json_object_set_new(root, "parts", parts(machine));
    }
    json_object_set_new(root, "final", topo_json_final(machine));
    json_object_set_new(root, "bound", topo_json_bound(machine));
}

static json_t *report_make(const struct topo_machine *machine, const uint64_t *sizes, size_t count)
{
    json_t *root = head(machine);

    json_object_set_new(root, "omitted_gpus", topo_json_omitted(machine));
    machine_set(root, machine);
    paths_set(root, machine);
    channels_set(root, machine);
    json_object_set_new(root, "allreduce_model", model(machine, sizes, count));
    times_set(root, &machine->times);
    return root;
}

int topo_json_print(FILE *out, const struct topo_machine *machine)
{
    uint64_t *sizes;
    size_t count;
    json_t *root;
    int status = topo_sizes_read(machine->options, &sizes, &count);

    if (status != TOPO_EXIT_OK) {
        return status;
    }
    root = report_make(machine, sizes, count);
    free(sizes);
    if (!root || json_dumpf(root, out, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) != 0) {
        topo_message("no memory for the report");
        status = TOPO_EXIT_FAILURE;
    }
    fputc('\n', out);
    json_decref(root);
    return status;
}
