/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_SVG_LAYOUT_H
#define TOOLS_RENDER_SVG_LAYOUT_H

/*
 * Positions of the nodes of a machine. The tree grows to the right and has a row for each GPU and
 * each port of a NIC, so that the width of the picture does not grow with the machine.
 *
 *     CPU --+-- PCI --+-- GPU
 *           |         `-- NET
 *           `-- PCI --+-- GPU
 *                     `-- NET
 */

#include "tools/render/svg.h"

enum { SVG_NO_LEVEL = -1 };

/* Place of a node, indexed by its vertex. */
struct svg_place {
    int level;                   /* 0: CPUs; SVG_NO_LEVEL: not drawn */
    uint32_t parent;             /* vertex of the parent; a CPU is its own parent */
    uint32_t number;             /* among the drawn nodes of its type, from the top */
    const struct pci_link *link; /* from the parent; NULL for CPUs */
    double y;                    /* of the centre */
    char word[16];
    char rest[80];
    char label[48]; /* text at the link */
};

struct svg_layout {
    const struct pci_graph *graph;
    struct svg_place *places;
    uint32_t *order; /* vertices from the root down, children after their parents */
    uint32_t count;
    uint32_t numbers[PCI_NODE_TYPE_COUNT];
    int levels; /* of nodes with children; GPUs and ports are to the right of them all */
    double column[3],
        gap; /* widths of the boxes (CPUs, switches, GPUs and ports), and between them */
    double height;
};

int svg_layout_make(const struct pci_graph *graph, struct svg_layout *layout);
void svg_layout_free(struct svg_layout *layout);

/* Return the left edge of a node's box, and its width. */
double svg_layout_x(const struct svg_layout *layout, const struct pci_node *node, double *width);

/* Write "NV4 80" or "SYS 10"; both directions if they differ. */
void svg_link_text(const struct pci_link *link, char *text, size_t size);

#endif
