/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The page: title, machine, and the panels of rings and trees below it. */

#include <stdarg.h>
#include <stdio.h>

#include "mca/topo_pci/graph/internal.h"
#include "tools/render/svg.h"

enum {
    TITLE_HEIGHT = 34,
    TEXT_MAX = 512,
    PAGE_LEAST = 1000, /* room for panels below a small machine */
};

void svg_text(FILE *out, double x, double y, int size, const char *style, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" %s>", x, y, size, style);
    pci_xml_put(out, text);
    fputs("</text>\n", out);
}

void svg_box(FILE *out, double x, double y, double width, const char *fill, const char *first,
             const char *second)
{
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\" fill=\"%s\" "
            "stroke=\"#444\"/>\n",
            x, y, width, SVG_BOX_HEIGHT, fill);
    svg_text(out, x + width / 2, y + (second[0] ? 16 : 25), 13, "font-weight=\"bold\"", "%s",
             first);
    if (second[0]) {
        svg_text(out, x + width / 2, y + 32, 10, "fill=\"#333\"", "%s", second);
    }
}

/* Measures, or with OUT draws, all panels: beside each other up to WIDTH, then in a new row. */
static int panels(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawings,
                  size_t count, double x, double y, double width, struct svg_size *all)
{
    double at = 0, row = 0;
    int rc = 0;

    all->width = all->height = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct svg_size size = {0, 0};

        rc = svg_panel(NULL, graph, &drawings[i], 0, 0, &size);
        if (at > 0 && at + size.width > width) {
            all->height += row + SVG_GAP;
            at = row = 0;
        }
        if (rc == 0 && out) {
            rc = svg_panel(out, graph, &drawings[i], x + at, y + all->height, &size);
        }
        at += size.width + SVG_GAP;
        all->width = at > all->width ? at : all->width;
        row = size.height > row ? size.height : row;
    }
    all->height += row;
    return rc;
}

static double page_width(const struct svg_size *machine)
{
    return machine->width > PAGE_LEAST ? machine->width : PAGE_LEAST;
}

int pci_render_svg(FILE *out, const char *title, const struct pci_graph *graph,
                   const struct pci_drawing *drawings, size_t count)
{
    struct svg_size machine, row;
    double width, height;
    int rc = svg_machine(NULL, graph, 0, 0, &machine);

    rc = rc ? rc : panels(NULL, graph, drawings, count, 0, 0, page_width(&machine), &row);
    if (rc != 0) {
        return rc;
    }
    width = (machine.width > row.width ? machine.width : row.width) + 2 * SVG_MARGIN;
    height = TITLE_HEIGHT + machine.height + row.height + 3 * SVG_MARGIN;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans, Helvetica, sans-serif\" "
            "text-anchor=\"middle\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    svg_text(out, SVG_MARGIN, SVG_MARGIN + 6, 18, "text-anchor=\"start\" font-weight=\"bold\"",
             "%s", title);
    rc = svg_machine(out, graph, SVG_MARGIN + (width - 2 * SVG_MARGIN - machine.width) / 2,
                     SVG_MARGIN + TITLE_HEIGHT, &machine);
    rc = rc ? rc
            : panels(out, graph, drawings, count, SVG_MARGIN,
                     2 * SVG_MARGIN + TITLE_HEIGHT + machine.height, page_width(&machine), &row);
    fputs("</svg>\n", out);
    return rc;
}
