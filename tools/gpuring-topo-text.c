/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Channels and predictions as text, and the file of the topology. */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"
#include "tools/render/pci_render.h"

static int net_dev(const struct pci_graph *graph, uint32_t net)
{
    return pci_graph_node(graph, PCI_NODE_NET, net)->net.dev;
}

static void set_print(FILE *out, const char *name, const struct topo_machine *machine,
                      const struct pci_channels *set)
{
    char title[160];

    topo_channels_title(machine, name, set, title, sizeof title);
    fprintf(out, "%s\n", title);
    for (uint32_t c = 0; c < set->nchannels; c++) {
        fprintf(out, "  %2" PRIu32 ":", c);
        if (set->nets && set->nets[c][0] != PCI_NO_NET) {
            fprintf(out, " NET%d", net_dev(machine->graph, set->nets[c][0]));
        }
        for (uint32_t i = 0; i < set->ngpus; i++) {
            fprintf(out, " %" PRIu32, set->intra[c * set->ngpus + i]);
        }
        if (set->nets && set->nets[c][1] != PCI_NO_NET) {
            fprintf(out, " NET%d", net_dev(machine->graph, set->nets[c][1]));
        }
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void bound_print(FILE *out, const char *links, const struct pci_bound *bound)
{
    if (bound->connected) {
        fprintf(out, "  %-12s reduce-scatter + allgather %7.4g   any trees %7.4g\n", links,
                bound->ag.gbps, bound->ar.gbps);
    } else {
        fprintf(out, "  %-12s does not connect the GPUs\n", links);
    }
}

/* Print the bandwidth for large vectors on one node, as bytes of the vector over time. A ring moves
 * each byte 2 (n-1)/n times over its links, a tree once up and once down. */
static void reached_print(FILE *out, const struct topo_machine *machine)
{
    double n = machine->gpus;

    double ring = machine->ring.bw_intra, tree = machine->tree.bw_intra;

    for (uint32_t p = 0; machine->chosen.nparts > 1 && p < machine->chosen.nparts; p++) {
        ring = fmin(ring, machine->chosen.part[p].ring.bw_inter);
        tree = fmin(tree, machine->chosen.part[p].tree.bw_inter);
    }
    fprintf(out, "  %-12s ring %.4g, tree %.4g\n", "channels",
            machine->connect.agreed.rings * ring * n / (2 * (n - 1)),
            machine->connect.agreed.trees * tree / 2);
}

int topo_channels_print(FILE *out, const struct topo_machine *machine)
{
    if (machine->chosen.nparts > 1) {
        fprintf(out,
                "NICs join %" PRIu32
                " parts of the node: they are faster than the paths between them.\n\n",
                machine->chosen.nparts);
    }
    for (uint32_t p = 0; p < machine->chosen.nparts; p++) {
        set_print(out, "Rings", machine, &machine->chosen.part[p].ring);
        set_print(out, "Trees", machine, &machine->chosen.part[p].tree);
    }
    if (machine->gpus > 1) {
        fputs("Bounds on an allreduce in one node, GB/s of the vector:\n", out);
        bound_print(out, "NVLink", &machine->bounds.nvlink);
        bound_print(out, "all links", &machine->bounds.all);
        if (machine->options->nodes == 1) {
            reached_print(out, machine);
        }
    }
    return TOPO_EXIT_OK;
}

/* Print the parts of the best time if the executor is modelled. */
static void parts_print(FILE *out, const struct topo_machine *machine,
                        const struct pci_choice *choice, uint64_t bytes)
{
    struct pci_parts parts;

    if (pci_predict_parts(&machine->costs, &machine->job, choice->algorithm, choice->protocol,
                          bytes, &parts)) {
        fprintf(out, " (launch %.1f, steps %.1f, data %.1f by %s, end %.1f)",
                parts.us[PCI_PART_LAUNCH], parts.us[PCI_PART_STEPS], parts.us[PCI_PART_DATA],
                parts.limit, parts.us[PCI_PART_END]);
    }
}

static void predict_row(FILE *out, const struct topo_machine *machine, const struct topo_way *ways,
                        size_t nways, uint64_t bytes)
{
    struct topo_best best;
    char size[32];

    pci_render_size(bytes, size, sizeof size);
    fprintf(out, "%8s", size);
    for (size_t w = 0; w < nways; w++) {
        fprintf(out, " %13.1f", topo_way_us(machine, &ways[w], bytes));
    }
    if (topo_best_find(machine, bytes, &best)) {
        fprintf(out, "  %s x%" PRIu32 " %.1f us, %.4g GB/s, bus %.4g GB/s", best.label,
                best.choice.channels, best.choice.us, best.gbps, best.bus_gbps);
        parts_print(out, machine, &best.choice, bytes);
    }
    fputc('\n', out);
}

int topo_predict_print(FILE *out, const struct topo_machine *machine)
{
    struct topo_way ways[TOPO_WAYS_MAX];
    uint64_t *sizes;
    size_t count, nways = topo_ways(machine, ways);
    int status = topo_sizes_read(machine->options, &sizes, &count);

    if (status != TOPO_EXIT_OK) {
        return status;
    }
    if (machine->job.ranks < 2) {
        free(sizes);
        fputs("One GPU: there is nothing to exchange.\n", out);
        return TOPO_EXIT_OK;
    }
    fprintf(out, "Microseconds of %s, %" PRIu32 " ranks on %" PRIu32 " GPUs of %" PRIu32 " node%s",
            pci_collective_name(machine->job.collective), machine->job.ranks,
            machine->job.ranks / machine->options->sharing, machine->options->nodes,
            machine->options->nodes == 1 ? "" : "s");
    if (machine->chosen.nparts > 1) {
        fprintf(out, " of %" PRIu32 " parts", machine->chosen.nparts);
    }
    fprintf(out, "\n%8s", "bytes");
    for (size_t w = 0; w < nways; w++) {
        fprintf(out, " %13s", ways[w].label);
    }
    fputs("  best\n", out);
    for (size_t i = 0; i < count; i++) {
        predict_row(out, machine, ways, nways, sizes[i]);
    }
    free(sizes);
    return TOPO_EXIT_OK;
}

int topo_xml_print(FILE *out, const struct topo_machine *machine)
{
    struct pci_error error = {""};
    char *text;
    int rc = pci_doc_format(machine->doc, &text, NULL, &error);

    if (rc != 0) {
        topo_message("%s", error.text[0] ? error.text : strerror(-rc));
        return TOPO_EXIT_FAILURE;
    }
    fputs(text, out);
    free(text);
    return TOPO_EXIT_OK;
}
