/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOOLS_RENDER_SVG_H
#define TOOLS_RENDER_SVG_H

/*
 * Shared by the files that write SVG; not for users of the renderer.
 *
 * The colours are those of Okabe and Ito, which can be distinguished with any colour blindness. A
 * text or the kind of a line always repeats the information of a colour. Boxes are as wide as their
 * text. Text widths are estimated for DejaVu Sans, which is wider than the fonts that browsers use
 * instead of it.
 */

#include <stdbool.h>
#include <stdio.h>

#include "tools/render/pci_render.h"

/* Size of a part of the picture, which is as large as its contents. */
struct svg_size {
    double width;
    double height;
};

/* Fixed measures in pixels. */
enum {
    SVG_MARGIN = 24,
    SVG_PAGE = 1000, /* width of the panels; only very large machines are wider */
    SVG_GAP = 12,
    SVG_BOX_HEIGHT = 20,
    SVG_LINE = 17, /* height of a line of text */
};

#define SVG_GPU_FILL "#d9f0e6"
#define SVG_GREEN    "#009e73" /* NVLink */
#define SVG_BLUE     "#0072b2" /* between CPUs */
#define SVG_GREY     "#555555" /* PCI */

/* Combinations of colour and dashes that can be distinguished. */
#define SVG_STYLES 6
struct svg_style {
    const char *colour;
    const char *dashes; /* value of stroke-dasharray */
};
extern const struct svg_style svg_styles[SVG_STYLES];

/* Begin and end a picture of this size. */
void svg_begin(FILE *out, const struct svg_size *size);
void svg_end(FILE *out);

/* Write escaped text, centred at (X, Y). SIZE is in pixels; STYLE: further attributes, or "". */
void svg_text(FILE *out, double x, double y, int size, const char *style, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Return an upper estimate of the width of this text. */
double svg_text_width(const char *text, int size);

/* Draw a rounded box at (X, Y) that contains a bold word and the rest of its text. */
void svg_box(FILE *out, double x, double y, double width, const char *fill, const char *word,
             const char *rest);
double svg_box_width(const char *word, const char *rest);

/* Write lines of text, separated by newlines, from Y down. Return the number of lines. */
unsigned svg_lines(FILE *out, double x, double y, const char *text);
double svg_lines_width(const char *text); /* width of the longest line */

/* Labels that must not overlap. */
struct svg_labels {
    struct {
        double x, y, width;
    } * placed;
    size_t count, room;
    size_t omitted; /* labels without enough room */
};

/* Draw the label centred at the first of the COUNT points AT where it overlaps no other label.
 * Return 0 or -ENOMEM. */
int svg_label(FILE *out, struct svg_labels *labels, const double (*at)[2], size_t count,
              const char *text);

/* Compute the size of the machine and, if OUT is not NULL, draw it at (X, Y). See svg_layout.c and
 * svg_machine.c. */
int svg_machine(FILE *out, const struct pci_graph *graph, double x, double y,
                struct svg_size *size);

/* Do the same for one panel of rings or trees. */
int svg_panel(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing, double x,
              double y, struct svg_size *size);

#endif
