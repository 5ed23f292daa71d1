/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Rings and trees as drawings, in which equal channels become one line. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"
#include "tools/render/pci_render.h"

static int same_channel(const struct pci_channels *set, uint32_t a, uint32_t b)
{
    return memcmp(set->intra + a * set->ngpus, set->intra + b * set->ngpus,
                  set->ngpus * sizeof *set->intra) == 0 &&
           (set->nodes == 1 || memcmp(set->nets[a], set->nets[b], sizeof set->nets[a]) == 0);
}

static int line_start(struct pci_drawing *drawing, uint32_t edges, struct pci_drawing_line **line)
{
    *line = &drawing->lines[drawing->nlines++];
    memset(*line, 0, sizeof(**line));
    (*line)->copies = 1;
    (*line)->edges = calloc(edges + 1, sizeof(*(*line)->edges));
    (*line)->roots = calloc(edges + 1, sizeof(*(*line)->roots));
    return (*line)->edges && (*line)->roots ? 0 : -ENOMEM;
}

static void label_add(struct pci_drawing_line *line, const char *format, int value)
{
    size_t used = strlen(line->label);

    snprintf(line->label + used, sizeof line->label - used, format, value);
}

static void edge_add(struct pci_drawing_line *line, uint32_t from, uint32_t to, bool plain)
{
    line->edges[line->nedges++] = (struct pci_drawing_edge){from, to, plain};
}

static int net_dev(const struct topo_machine *machine, uint32_t net)
{
    return pci_graph_node(machine->graph, PCI_NODE_NET, net)->net.dev;
}

/* Write the order of a channel's GPUs, with its NICs. */
static void label_make(const struct topo_machine *machine, const struct pci_channels *set,
                       uint32_t c, struct pci_drawing_line *line)
{
    if (set->nodes > 1 && set->nets[c][0] != PCI_NO_NET) {
        label_add(line, "NET%d ", net_dev(machine, set->nets[c][0]));
    }
    for (uint32_t i = 0; i < set->ngpus; i++) {
        label_add(line, i ? " %d" : "%d", (int) set->intra[c * set->ngpus + i]);
    }
    if (set->nodes > 1 && set->nets[c][1] != PCI_NO_NET) {
        label_add(line, " NET%d", net_dev(machine, set->nets[c][1]));
    }
}

/* Add the edges of a ring, which is closed if there is only one node. */
static void ring_draw(const struct pci_channels *set, uint32_t c, struct pci_drawing_line *line)
{
    const uint32_t *order = set->intra + c * set->ngpus;

    for (uint32_t i = 0; i + 1 < set->ngpus; i++) {
        edge_add(line, order[i], order[i + 1], false);
    }
    if (set->nodes == 1) {
        edge_add(line, order[set->ngpus - 1], order[0], false);
    }
}

/* Add the edges of a channel's two trees, towards the roots. The roots are neighbours, and the edge
 * between them has both directions. */
static void tree_draw(const struct topo_machine *machine, uint32_t c, struct pci_drawing_line *line)
{
    for (uint32_t g = 0; g < machine->gpus; g++) {
        struct pci_tree_position first, second;

        pci_connect_tree(&machine->connect, g, c, 0, &first);
        pci_connect_tree(&machine->connect, g, c, 1, &second);
        if (first.up >= 0) {
            edge_add(line, g, (uint32_t) first.up, second.up != first.up);
        }
        if (first.up < 0 || second.up < 0) {
            line->roots[line->nroots++] = g;
        }
    }
}

/* Add the edges of a tree inside one of several nodes, towards the first GPU, which is the root or
 * has its parent in another node. */
static void chain_draw(const struct pci_channels *set, uint32_t c, struct pci_drawing_line *line)
{
    const uint32_t *order = set->intra + c * set->ngpus;

    line->roots[line->nroots++] = order[0];
    for (uint32_t i = 1; i < set->ngpus; i++) {
        edge_add(line, order[i], order[i - 1], false);
    }
}

static int channel_draw(const struct topo_machine *machine, const struct pci_channels *set,
                        uint32_t c, struct pci_drawing *drawing)
{
    struct pci_drawing_line *line;
    int rc = line_start(drawing, set->ngpus, &line);

    if (rc == 0) {
        label_make(machine, set, c, line);
        if (set->pattern == PCI_PATTERN_RING) {
            ring_draw(set, c, line);
        } else if (set->nodes > 1) {
            chain_draw(set, c, line);
        } else {
            tree_draw(machine, c, line);
        }
    }
    return rc;
}

#define TREE_LEGEND "Circles: GPUs by rank. Arrows: towards the root (of a broadcast: reversed).\n"

static void legend_make(const struct pci_channels *set, const char *joined,
                        struct pci_drawing *drawing)
{
    size_t size = sizeof drawing->legend;

    if (set->pattern == PCI_PATTERN_RING) {
        snprintf(drawing->legend, size, "Circles: GPUs by rank. Arrows: the way of the data%s",
                 set->nodes > 1 ? ",\nfrom the NIC that receives it to the NIC that sends "
                                  "it.\n"
                                : ".\n");
    } else if (set->nodes > 1) {
        snprintf(drawing->legend, size,
                 TREE_LEGEND
                 "Circle around a GPU: the root, or joined to the parent in another %s.\n",
                 joined);
    } else {
        snprintf(drawing->legend, size,
                 TREE_LEGEND "Circle around a GPU: a root; a channel has two trees.\n");
    }
}

static int set_draw(const struct topo_machine *machine, const struct pci_channels *set,
                    const char *name, struct pci_drawing *drawing)
{
    const char *joined = machine->chosen.nparts > 1 ? "part" : "node";
    int rc = 0;

    topo_channels_title(machine, name, set, drawing->title, sizeof drawing->title);
    legend_make(set, joined, drawing);
    drawing->lines = calloc(set->nchannels + 1, sizeof *drawing->lines);
    if (!drawing->lines) {
        return -ENOMEM;
    }
    for (uint32_t c = 0, line = 0; rc == 0 && c < set->nchannels; c++) {
        uint32_t earlier = 0;

        /* Find the line of the first equal channel. */
        for (line = 0; earlier < c && !same_channel(set, earlier, c); earlier++) {
            uint32_t first = 0;

            while (!same_channel(set, first, earlier)) {
                first++;
            }
            line += first == earlier;
        }
        if (earlier < c) {
            drawing->lines[line].copies++;
        } else {
            rc = channel_draw(machine, set, c, drawing);
        }
    }
    return rc;
}

void topo_drawings_free(struct pci_drawing *drawings, size_t count)
{
    for (size_t d = 0; d < count; d++) {
        for (uint32_t l = 0; l < drawings[d].nlines; l++) {
            free(drawings[d].lines[l].edges);
            free(drawings[d].lines[l].roots);
        }
        free(drawings[d].lines);
    }
    free(drawings);
}

int topo_drawings_make(const struct topo_machine *machine, struct pci_drawing **drawings,
                       size_t *count)
{
    uint32_t nparts = machine->chosen.nparts;
    int rc = 0;

    *count = 0;
    *drawings = calloc(2 * nparts + 1, sizeof(**drawings)); /* rings and trees */
    if (!*drawings) {
        return -ENOMEM;
    }
    for (uint32_t p = 0; rc == 0 && machine->gpus > 1 && p < nparts; p++) {
        const struct pci_part *part = &machine->chosen.part[p];

        rc = set_draw(machine, &part->ring, "Rings", &(*drawings)[(*count)++]);
        rc = rc ? rc : set_draw(machine, &part->tree, "Trees", &(*drawings)[(*count)++]);
    }
    return rc;
}

void topo_title(const struct topo_machine *machine, char *title, size_t size)
{
    uint32_t nets = pci_graph_count(machine->graph, PCI_NODE_NET);
    size_t used = (size_t) snprintf(
        title, size, "%s: %" PRIu32 " GPU%s, %" PRIu32 " network port%s", machine->name,
        machine->gpus, machine->gpus == 1 ? "" : "s", nets, nets == 1 ? "" : "s");

    if (machine->options->nodes > 1 && used < size) {
        snprintf(title + used, size - used, ", one of %u nodes", machine->options->nodes);
    }
}

int topo_svg_print(FILE *out, const struct topo_machine *machine)
{
    struct pci_drawing *drawings;
    size_t count;
    char title[320];
    int rc = topo_drawings_make(machine, &drawings, &count);

    topo_title(machine, title, sizeof title);
    rc = rc ? rc : pci_render_svg(out, title, machine->notes, machine->graph, drawings, count);
    topo_drawings_free(drawings, count);
    if (rc != 0) {
        topo_message("%s", strerror(-rc));
    }
    return rc == 0 ? TOPO_EXIT_OK : TOPO_EXIT_FAILURE;
}
