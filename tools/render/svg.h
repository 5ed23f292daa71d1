/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_SVG_H
#define TOOLS_RENDER_SVG_H

/*
 * Shared by the files that write SVG; not for users of the renderer.
 *
 * Colours are those of Okabe and Ito, which people with any colour blindness tell apart; whatever a
 * colour says, a text or the kind of a line says too.  Boxes are as wide as their text: widths of
 * text are estimated for DejaVu Sans, which is wider than what browsers put in its place.
 */

#include <stdbool.h>
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
    SVG_PAGE = 1000, /* width that panels fill; the machine stays below it but for huge ones */
    SVG_GAP = 12,
    SVG_BOX_HEIGHT = 20,
    SVG_LINE = 17, /* of text */
};

#define SVG_GPU_FILL "#d9f0e6"
#define SVG_GREEN    "#009e73" /* NVLink */
#define SVG_BLUE     "#0072b2" /* between CPUs */
#define SVG_GREY     "#555555" /* PCI */

/* Colours and kinds of lines that are told apart together. */
#define SVG_STYLES 6
struct svg_style {
    const char *colour;
    const char *dashes; /* of stroke-dasharray */
};
extern const struct svg_style svg_styles[SVG_STYLES];

/* Begins and ends a picture of this size. */
void svg_begin(FILE *out, const struct svg_size *size);
void svg_end(FILE *out);

/* Text centred at (X, Y), escaped; SIZE in pixels, STYLE further attributes or "". */
void svg_text(FILE *out, double x, double y, int size, const char *style, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The width of this text, or a little more. */
double svg_text_width(const char *text, int size);

/* A rounded box that begins at (X, Y) with a bold word and what follows it. */
void svg_box(FILE *out, double x, double y, double width, const char *fill, const char *word,
             const char *rest);
double svg_box_width(const char *word, const char *rest);

/* Lines of text, separated by line ends, from Y down: how many. */
unsigned svg_lines(FILE *out, double x, double y, const char *text);
double svg_lines_width(const char *text); /* of the longest */

/* Labels that do not cover each other. */
struct svg_labels {
    struct {
        double x, y, width;
    } * placed;
    size_t count, room;
    size_t omitted; /* found no room */
};

/* Draws the label centred at the first of the COUNT points AT where it covers no other.  0 or
 * -ENOMEM. */
int svg_label(FILE *out, struct svg_labels *labels, const double (*at)[2], size_t count,
              const char *text);

/* The machine: measured, or with OUT drawn at (X, Y).  svg_layout.c and svg_machine.c. */
int svg_machine(FILE *out, const struct pci_graph *graph, double x, double y,
                struct svg_size *size);

/* The same for a panel of rings or trees, and for all of them beside and below each other. */
int svg_panel(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing, double x,
              double y, struct svg_size *size);
int svg_panels(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawings,
               size_t count, double x, double y, struct svg_size *size);

#endif
