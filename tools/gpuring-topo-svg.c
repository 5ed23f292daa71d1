/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Rings and trees as drawings: equal channels become one line. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"
#include "tools/render/pci_render.h"

enum {
    DRAWINGS = 2,
};

static int same_channel(const struct pci_channels *set, uint32_t a, uint32_t b)
{
    return memcmp(set->intra + a * set->ngpus, set->intra + b * set->ngpus,
                  set->ngpus * sizeof(*set->intra)) == 0 &&
           (set->nodes == 1 || memcmp(set->nets[a], set->nets[b], sizeof(set->nets[a])) == 0);
}

static int line_start(struct pci_drawing *drawing, uint32_t edges, struct pci_drawing_line **line)
{
    *line = &drawing->lines[drawing->nlines];
    memset(*line, 0, sizeof(**line));
    (*line)->copies = 1;
    (*line)->edges = calloc(edges + 1, sizeof(*(*line)->edges));
    drawing->nlines += (*line)->edges != NULL;
    return (*line)->edges ? 0 : -ENOMEM;
}

static void label_add(struct pci_drawing_line *line, const char *format, int value)
{
    size_t used = strlen(line->label);

    snprintf(line->label + used, sizeof(line->label) - used, format, value);
}

static void edge_add(struct pci_drawing_line *line, uint32_t from, uint32_t to)
{
    line->edges[line->nedges][0] = from;
    line->edges[line->nedges++][1] = to;
}

/* The order of a channel, closed when it is a ring on one node. */
static int channel_draw(const struct topo_machine *machine, const struct pci_channels *set,
                        uint32_t c, struct pci_drawing *drawing)
{
    const uint32_t *order = set->intra + c * set->ngpus;
    struct pci_drawing_line *line;
    int rc = line_start(drawing, set->ngpus, &line);

    if (rc != 0) {
        return rc;
    }
    if (set->nodes > 1 && set->nets[c][0] != PCI_NO_NET) {
        label_add(line, "NET%d ",
                  pci_graph_node(machine->graph, PCI_NODE_NET, set->nets[c][0])->net.dev);
    }
    for (uint32_t i = 0; i < set->ngpus; i++) {
        label_add(line, i ? " %d" : "%d", (int) order[i]);
        if (i + 1 < set->ngpus) {
            edge_add(line, order[i], order[i + 1]);
        } else if (set->nodes == 1 && set->pattern == PCI_PATTERN_RING && set->ngpus > 1) {
            edge_add(line, order[i], order[0]);
        }
    }
    if (set->nodes > 1 && set->nets[c][1] != PCI_NO_NET) {
        label_add(line, " NET%d",
                  pci_graph_node(machine->graph, PCI_NODE_NET, set->nets[c][1])->net.dev);
    }
    return 0;
}

static int set_draw(const struct topo_machine *machine, const struct pci_channels *set,
                    const char *name, struct pci_drawing *drawing)
{
    int rc = 0;

    snprintf(drawing->title, sizeof(drawing->title), "%s: %" PRIu32 " x %.4g GB/s (%s)", name,
             set->nchannels, set->nodes > 1 ? set->bw_inter : set->bw_intra,
             pci_path_class_name(set->type_intra));
    drawing->lines = calloc(set->nchannels + 1, sizeof(*drawing->lines));
    if (!drawing->lines) {
        return -ENOMEM;
    }
    for (uint32_t c = 0, line = 0; rc == 0 && c < set->nchannels; c++) {
        uint32_t earlier = 0;

        /* The line of the first channel like this one. */
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

static void drawings_free(struct pci_drawing *drawings)
{
    for (size_t d = 0; d < DRAWINGS; d++) {
        for (uint32_t l = 0; l < drawings[d].nlines; l++) {
            free(drawings[d].lines[l].edges);
        }
        free(drawings[d].lines);
    }
}

int topo_svg_print(FILE *out, const struct topo_machine *machine)
{
    struct pci_drawing drawings[DRAWINGS] = {0};
    uint32_t nets = pci_graph_count(machine->graph, PCI_NODE_NET);
    size_t count = 0;
    char title[320];
    int rc = 0;

    snprintf(title, sizeof(title), "%s: %" PRIu32 " GPU%s, %" PRIu32 " network port%s%s, GB/s",
             machine->name, machine->gpus, machine->gpus == 1 ? "" : "s", nets,
             nets == 1 ? "" : "s", machine->options->nodes > 1 ? ", one of several nodes" : "");
    if (machine->searched && machine->gpus > 1) {
        rc = set_draw(machine, &machine->ring, "Rings", &drawings[count++]);
        rc = rc ? rc : set_draw(machine, &machine->tree, "Trees", &drawings[count++]);
    }
    rc = rc ? rc : pci_render_svg(out, title, machine->graph, drawings, count);
    drawings_free(drawings);
    if (rc != 0) {
        topo_message("%s", strerror(-rc));
    }
    return rc == 0 ? TOPO_EXIT_OK : TOPO_EXIT_FAILURE;
}
