/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The machine as JSON: processors, GPUs, nets and the paths between them. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpuring-topo-json.h"

json_t *topo_json_cpu(const struct topo_machine *machine)
{
    const struct pci_node *cpu = pci_graph_cpu(machine->graph);
    int arch = cpu ? (int) cpu->cpu.arch : 0, vendor = cpu ? (int) cpu->cpu.vendor : 0;
    int model = cpu && cpu->cpu.model != PCI_MODEL_OTHER ? (int) cpu->cpu.model : -1;

    return json_pack("{s:i,s:i,s:i,s:i}", "arch", arch, "vendor", vendor, "model", model,
                     "numaNodes", (int) pci_graph_count(machine->graph, PCI_NODE_CPU));
}

json_t *topo_json_gpus(const struct topo_machine *machine)
{
    json_t *list = json_array();

    for (uint32_t g = 0; g < machine->gpus; g++) {
        const struct pci_node *gpu = pci_graph_node(machine->graph, PCI_NODE_GPU, g);
        int cpu = pci_graph_local_cpu(machine->graph, g);
        int numa =
            cpu < 0 ? -1 : pci_graph_node(machine->graph, PCI_NODE_CPU, (uint32_t) cpu)->cpu.numa;

        json_t *object =
            json_pack("{s:i,s:i,s:i,s:i,s:s,s:i}", "rank", gpu->gpu.rank, "dev", gpu->gpu.dev, "sm",
                      gpu->gpu.sm, "gdr", gpu->gpu.gdr ? 1 : 0, "busid", gpu->busid, "numa", numa);

        if (gpu->assumed) {
            json_object_set_new(object, "linkSpeedAssumed", json_true());
        }
        json_array_append_new(list, object);
    }
    return list;
}

json_t *topo_json_omitted(const struct topo_machine *machine)
{
    json_t *list = json_array();

    for (size_t i = 0; i < machine->nomitted; i++) {
        const struct topo_omitted *omitted = &machine->omitted[i];

        json_array_append_new(list, json_pack("{s:I,s:I,s:s,s:s}", "dev", (json_int_t) omitted->dev,
                                              "rank", (json_int_t) omitted->rank, "busid",
                                              omitted->busid, "reason", omitted->reason));
    }
    return list;
}

/* Return the first net element with this device number, or NULL. */
static struct pci_elem *net_element(const struct pci_doc *doc, int dev)
{
    struct pci_elem *elem = NULL;

    while ((elem = pci_doc_next(doc, elem, "net")) != NULL) {
        if (pci_elem_long(elem, "dev", -1) == dev) {
            return elem;
        }
    }
    return NULL;
}

/* Set the text of the file if it has one, so that reports can be compared with it. */
static void net_text_set(json_t *object, const char *key, const struct pci_elem *elem,
                         const char *attribute, const char *format, uint64_t otherwise)
    __attribute__((format(printf, 5, 0)));

static void net_text_set(json_t *object, const char *key, const struct pci_elem *elem,
                         const char *attribute, const char *format, uint64_t otherwise)
{
    const char *text = elem ? pci_elem_get(elem, attribute) : NULL;
    char made[32];

    snprintf(made, sizeof made, format, otherwise);
    json_object_set_new(object, key, json_string(text ? text : made));
}

/* Return true if an earlier net is the same device, which is attached to several CPUs. */
static int listed_before(const struct topo_machine *machine, uint32_t net)
{
    int dev = pci_graph_node(machine->graph, PCI_NODE_NET, net)->net.dev;

    for (uint32_t n = 0; n < net; n++) {
        if (pci_graph_node(machine->graph, PCI_NODE_NET, n)->net.dev == dev) {
            return 1;
        }
    }
    return 0;
}

json_t *topo_json_nets(const struct topo_machine *machine)
{
    json_t *list = json_array();

    for (uint32_t n = 0; n < pci_graph_count(machine->graph, PCI_NODE_NET); n++) {
        const struct pci_net *net = &pci_graph_node(machine->graph, PCI_NODE_NET, n)->net;
        const struct pci_elem *elem = net_element(machine->doc, net->dev);
        json_t *object;

        if (listed_before(machine, n)) {
            continue;
        }
        object = json_pack("{s:i,s:s}", "dev", net->dev, "name", net->name);
        net_text_set(object, "speedMbps", elem, "speed", "%" PRIu64,
                     (uint64_t) (net->bw * 8000 + 0.5));
        if (pci_graph_node(machine->graph, PCI_NODE_NET, n)->assumed) {
            json_object_set_new(object, "speedAssumed", json_true());
        }
        net_text_set(object, "port", elem, "port", "%" PRIu64, (uint64_t) net->port);
        net_text_set(object, "guid", elem, "guid", "0x%" PRIx64, net->guid);
        net_text_set(object, "gdr", elem, "gdr", "%" PRIu64, net->gdr ? 1 : 0);
        json_array_append_new(list, object);
    }
    return list;
}

/*
 * Return the node at a position. Rows and columns are in the order of the file, as in the
 * reference's answers, whose lists of GPUs and nets are in the order of rank and dev.
 */
static uint32_t at(const struct topo_machine *machine, enum pci_node_type type, uint32_t position)
{
    return (uint32_t) pci_graph_listed(machine->graph, type, position);
}

json_t *topo_json_paths(const struct topo_machine *machine, enum pci_node_type from,
                        enum pci_node_type to)
{
    uint32_t rows = pci_graph_count(machine->graph, from);
    uint32_t columns = pci_graph_count(machine->graph, to);
    json_t *list = json_array();

    for (uint32_t i = 0; columns > 0 && i < rows; i++) {
        json_t *row = json_array();

        for (uint32_t j = 0; j < columns; j++) {
            const struct pci_path *path =
                pci_graph_route(machine->graph, from, at(machine, from, i), to, at(machine, to, j));

            json_array_append_new(row, json_pack("[s,o,i]", pci_path_class_name(path->class),
                                                 topo_json_number(path->bw), (int) path->hops));
        }
        json_array_append_new(list, row);
    }
    return list;
}

json_t *topo_json_order(const struct topo_machine *machine, enum pci_node_type type)
{
    json_t *list = json_array();

    for (uint32_t n = 0; n < pci_graph_count(machine->graph, type); n++) {
        const struct pci_node *node = pci_graph_node(machine->graph, type, at(machine, type, n));

        json_array_append_new(list,
                              json_integer(type == PCI_NODE_GPU ? node->gpu.rank : node->net.dev));
    }
    return list;
}
