/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_PCI_RENDER_H
#define TOOLS_RENDER_PCI_RENDER_H

/*
 * Print documents and graphs as text and pictures.
 *
 * All functions write to a stdio stream that the caller opens and checks with ferror(), because
 * they do not report failed writes. The same input produces the same bytes. Threads: reentrant.
 * Returns: 0 or -ENOMEM.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* Print the machine as a tree of CPUs, PCI switches, GPUs and NICs, with their links and
 * attributes. */
int pci_render_tree(FILE *out, const struct pci_doc *doc, const struct pci_graph *graph);

/*
 * Print the path classes between all GPUs and NICs in the form of nvidia-smi topo -m, the
 * bandwidths, and a legend. NV4 is a path over NVLink with the bandwidth of four links.
 */
int pci_render_matrix(FILE *out, const struct pci_graph *graph);

/* Return the number of NVLinks of this GPU generation in a path of BW GB/s; 0 if SM is unknown. */
unsigned pci_nvlinks_of_bandwidth(int sm, double bw);

/* Write the class of the path that begins at FROM, in the form of the matrix. */
void pci_render_class(const struct pci_node *from, const struct pci_path *path, char *text,
                      size_t size);

/* Write a size as "64K", "1M", or as a plain number. */
void pci_render_size(uint64_t bytes, char *text, size_t size);

/* An edge between two GPUs (indices). PLAIN: draw it without an arrow. */
struct pci_drawing_edge {
    uint32_t from, to;
    bool plain;
};

/* A ring or a tree to draw, in one colour. */
struct pci_drawing_line {
    char label[96];
    uint32_t copies; /* number of channels that look like this */
    uint32_t nedges, nroots;
    struct pci_drawing_edge *edges;
    uint32_t *roots; /* GPUs with a circle around them */
};

/* The lines of one kind ("rings"), drawn together. */
struct pci_drawing {
    char title[160];
    char legend[256]; /* lines of text that explain arrows and circles */
    uint32_t nlines;
    struct pci_drawing_line *lines;
};

/* Draw the machine with its links and bandwidths, and the drawings below it. NOTES: lines of text
 * below the title, or "". */
int pci_render_svg(FILE *out, const char *title, const char *notes, const struct pci_graph *graph,
                   const struct pci_drawing *drawings, size_t count);

/* Draw only the machine, or only one drawing, as a picture for an HTML page. */
int pci_render_svg_machine(FILE *out, const struct pci_graph *graph);
int pci_render_svg_drawing(FILE *out, const struct pci_graph *graph,
                           const struct pci_drawing *drawing);

/* Values by size. Values that are not finite are not drawn. Curves of one colour differ in their
 * dashes. */
struct pci_chart_line {
    char label[32];
    unsigned colour, dashes;
    const double *values;
};

/* A chart of curves. */
struct pci_chart {
    const char *title, *unit;
    const uint64_t *sizes;
    size_t nsizes, ncurves;
    const struct pci_chart_line *curves;
    struct pci_chart_line best; /* the best value of each size */
};

void pci_render_svg_curves(FILE *out, const struct pci_chart *curves);

#endif
