/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_SVG_H
#define TOOLS_RENDER_SVG_H

/* Shared by the files that write SVG; not for users of the renderer. */

#include <stdio.h>

#include "tools/render/pci_render.h"

/* What a layout needs and takes: the picture is as large as its contents. */
struct svg_size {
    double width;
    double height;
};

/* Fixed measures in pixels. */
enum {
    SVG_MARGIN = 24,
    SVG_BOX_WIDTH = 92,
    SVG_BOX_HEIGHT = 40,
    SVG_GAP = 12,
};

/* Text centred at (X, Y), escaped; SIZE in pixels, STYLE further attributes or "". */
void svg_text(FILE *out, double x, double y, int size, const char *style, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* A rounded box with up to two lines of text. */
void svg_box(FILE *out, double x, double y, double width, const char *fill, const char *first,
             const char *second);

/* Measures the machine, or with OUT draws it at (X, Y). */
int svg_machine(FILE *out, const struct pci_graph *graph, double x, double y,
                struct svg_size *size);

/* The same for a panel of rings or trees. */
int svg_panel(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing, double x,
              double y, struct svg_size *size);

#endif
