/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Notes about a machine: no GPU, unused devices, assumed speeds. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"

enum {
    IN_A_LINE = 4, /* devices in a line */
};

/* A list of devices: a heading, then several devices in each line. */
struct list {
    FILE *out;
    const char *head;
    size_t count;
};

static void list_next(struct list *list)
{
    if (list->count == 0) {
        fprintf(list->out, "%s:", list->head);
    } else {
        fputs(list->count % IN_A_LINE == 0 ? ",\n   " : ",", list->out);
    }
    list->count++;
}

static void list_end(const struct list *list)
{
    fputs(list->count > 0 ? "\n" : "", list->out);
}

/* List the GPUs with the same reason as omitted GPU number FIRST, unless they have been listed. */
static void omitted_put(FILE *out, const struct topo_machine *machine, size_t first)
{
    const char *reason = machine->omitted[first].reason;
    char head[96];
    struct list list = {.out = out, .head = head};

    snprintf(head, sizeof head, "Omitted, %s", reason);
    for (size_t i = 0; i < machine->nomitted; i++) {
        if (machine->omitted[i].reason != reason) {
            continue;
        }
        if (i < first) {
            return;
        }
        list_next(&list);
        fprintf(out, " GPU %ld (%s)", machine->omitted[i].dev, machine->omitted[i].busid);
    }
    list_end(&list);
}

static void omitted_nets_put(FILE *out, const struct topo_machine *machine)
{
    struct list list = {.out = out, .head = "Omitted, without a device number (dev)"};
    struct pci_elem *net = NULL;

    while ((net = pci_doc_next(machine->doc, net, "net")) != NULL) {
        const char *name = pci_elem_get(net, "name");

        if (pci_elem_long(net, "dev", -1) < 0) {
            list_next(&list);
            fprintf(out, " NET %s", name && name[0] ? name : "without a name");
        }
    }
    list_end(&list);
}

static void assumed_put(FILE *out, const struct topo_machine *machine)
{
    struct list list = {.out = out, .head = "Assumed, because the speed is not known"};
    const struct pci_graph *graph = machine->graph;
    uint32_t links = 0;

    for (uint32_t v = 0; v < pci_graph_vertices(graph); v++) {
        const struct pci_node *node = pci_graph_vertex(graph, v);

        if (node->assumed && node->type == PCI_NODE_NET) {
            list_next(&list);
            fprintf(out, " NET %d (%s) %g Gb/s", node->net.dev, node->net.name, node->net.bw * 8);
        }
        links += node->assumed && node->type != PCI_NODE_NET;
    }
    if (links > 0) {
        list_next(&list);
        fprintf(out, " PCI links of %" PRIu32 " device%s%s", links, links == 1 ? "" : "s",
                machine->options->verbose ? "" : " (-v lists them)");
    }
    list_end(&list);
}

/* Return true if the file has places for GPUs but no GPU. */
static bool is_template(const struct topo_machine *machine)
{
    struct pci_elem *pci = NULL;

    while (machine->options->topo && (pci = pci_doc_next(machine->doc, pci, "pci")) != NULL) {
        const char *class = pci_elem_get(pci, "class");

        if (class && strncmp(class, "0x03", 4) == 0) {
            return pci_doc_next(machine->doc, NULL, "gpu") == NULL;
        }
    }
    return false;
}

const char *topo_no_gpu(const struct topo_machine *machine)
{
    return is_template(machine) ? "[template] This file has places for GPUs and no GPU: it is a "
                                  "template that must be "
                                  "completed on the machine.\nRun gpuring-topo there without "
                                  "--topo, or let NCCL write "
                                  "the complete file (NCCL_TOPO_DUMP_FILE)."
           : machine->options->topo ? "[no-gpu] The topology has no GPU."
                                    : "[no-gpu] This machine has no GPU.";
}

int topo_notes_make(const struct topo_machine *machine, char **text)
{
    size_t length;
    FILE *out = open_memstream(text, &length);

    if (!out) {
        return -ENOMEM;
    }
    if (machine->gpus == 0) {
        fprintf(out, "%s\n", strchr(topo_no_gpu(machine), ' ') + 1); /* without its code */
    }
    for (size_t i = 0; i < machine->nomitted; i++) {
        omitted_put(out, machine, i);
    }
    omitted_nets_put(out, machine);
    assumed_put(out, machine);
    return fclose(out) == 0 ? 0 : -ENOMEM;
}
