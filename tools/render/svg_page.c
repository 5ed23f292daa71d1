/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The page: title, machine, and the panels of rings and trees. */

#include "tools/render/svg.h"

#include <math.h>

enum {
    TITLE_SIZE = 18,
    TITLE_HEIGHT = 30,
};

/* Draw all panels, in rows that fill the page, as svg_panel does for one. */
static int panels_draw(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawings,
                       size_t count, double x, double y, struct svg_size *all)
{
    double at = 0, row = 0;
    int rc = 0;

    all->width = all->height = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct svg_size size = {0, 0};

        rc = svg_panel(NULL, graph, &drawings[i], 0, 0, &size);
        if (at > 0 && at + size.width > SVG_PAGE) {
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

int pci_render_svg_machine(FILE *out, const struct pci_graph *graph)
{
    struct svg_size size;
    int rc = svg_machine(NULL, graph, 0, 0, &size);

    if (rc == 0) {
        svg_begin(out, &size);
        rc = svg_machine(out, graph, 0, 0, &size);
        svg_end(out);
    }
    return rc;
}

int pci_render_svg_drawing(FILE *out, const struct pci_graph *graph,
                           const struct pci_drawing *drawing)
{
    struct svg_size size;
    int rc = svg_panel(NULL, graph, drawing, 0, 0, &size);

    if (rc == 0) {
        svg_begin(out, &size);
        rc = svg_panel(out, graph, drawing, 0, 0, &size);
        svg_end(out);
    }
    return rc;
}

int pci_render_svg(FILE *out, const char *title, const char *notes, const struct pci_graph *graph,
                   const struct pci_drawing *drawings, size_t count)
{
    double top = SVG_MARGIN + TITLE_HEIGHT + SVG_LINE * svg_lines(NULL, 0, 0, notes);
    struct svg_size machine, row, page;
    int rc = svg_machine(NULL, graph, 0, 0, &machine);

    rc = rc ? rc : panels_draw(NULL, graph, drawings, count, 0, 0, &row);
    if (rc != 0) {
        return rc;
    }
    page.width = fmax(fmax(machine.width, row.width), svg_lines_width(notes));
    page.width = fmax(page.width, 1.1 * svg_text_width(title, TITLE_SIZE)) + 2 * SVG_MARGIN;
    page.height = top + machine.height + row.height + 2 * SVG_MARGIN;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
    svg_begin(out, &page);
    svg_text(out, SVG_MARGIN, SVG_MARGIN + 6, TITLE_SIZE,
             "text-anchor=\"start\" font-weight=\"bold\"", "%s", title);
    svg_lines(out, SVG_MARGIN, SVG_MARGIN + TITLE_HEIGHT - 12, notes);
    rc = svg_machine(out, graph, SVG_MARGIN, top, &machine);
    rc = rc ? rc
            : panels_draw(out, graph, drawings, count, SVG_MARGIN,
                          top + SVG_MARGIN + machine.height, &row);
    svg_end(out);
    return rc;
}
