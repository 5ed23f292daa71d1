/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_PCI_RENDER_H
#define TOOLS_RENDER_PCI_RENDER_H

/*
 * Documents and graphs as text and pictures.
 *
 * Everything is written to a stdio stream that the caller opens and checks (ferror): a failed write
 * is not reported here.  The same input gives the same bytes.  Threads: reentrant. Returns: 0 or
 * -ENOMEM.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* The machine as a tree: CPUs, PCI switches, GPUs and NICs, with links and what else is known. */
int pci_render_tree(FILE *out, const struct pci_doc *doc, const struct pci_graph *graph);

/*
 * The classes of the paths between all GPUs and NICs, as nvidia-smi topo -m prints them, the
 * bandwidths, and a legend.  NV4 means a path over NVLink as wide as four links.
 */
int pci_render_matrix(FILE *out, const struct pci_graph *graph);

/* NVLinks of this generation of GPUs in a path of BW GB/s; 0 when SM is unknown. */
unsigned pci_nvlinks_of_bandwidth(int sm, double bw);

/* The class of the path that begins at FROM, as in the matrix. */
void pci_render_class(const struct pci_node *from, const struct pci_path *path, char *text,
                      size_t size);

/* "64K", "1M", or the number. */
void pci_render_size(uint64_t bytes, char *text, size_t size);

/* The graph's nodes and links for Graphviz; NOTES are lines of text below it, or "". */
int pci_render_dot(FILE *out, const struct pci_graph *graph, const char *notes);

/* An edge between GPUs (indexes); PLAIN: without an arrow. */
struct pci_drawing_edge {
    uint32_t from, to;
    bool plain;
};

/* A ring or a tree to draw, in one colour. */
struct pci_drawing_line {
    char label[96];
    uint32_t copies; /* how many channels look like this */
    uint32_t nedges, nroots;
    struct pci_drawing_edge *edges;
    uint32_t *roots; /* GPUs with a circle around them */
};

/* The lines of one kind ("rings"), drawn together. */
struct pci_drawing {
    char title[160];
    char legend[256]; /* lines of text: what arrows and circles mean */
    uint32_t nlines;
    struct pci_drawing_line *lines;
};

/* The machine with its links and their bandwidths, and below it the drawings. NOTES: as above. */
int pci_render_svg(FILE *out, const char *title, const char *notes, const struct pci_graph *graph,
                   const struct pci_drawing *drawings, size_t count);

/* One of them as a picture of its own, to stand in an HTML page. */
int pci_render_svg_machine(FILE *out, const struct pci_graph *graph);
int pci_render_svg_drawing(FILE *out, const struct pci_graph *graph,
                           const struct pci_drawing *drawing);

/* Values by size; what is not finite is not drawn.  Curves of one colour differ by their dashes. */
struct pci_chart_line {
    char label[32];
    unsigned colour, dashes;
    const double *values;
};

/* A chart of them. */
struct pci_chart {
    const char *title, *unit;
    const uint64_t *sizes;
    size_t nsizes, ncurves;
    const struct pci_chart_line *curves;
    struct pci_chart_line best; /* of each size */
};

void pci_render_svg_curves(FILE *out, const struct pci_chart *curves);

#endif
