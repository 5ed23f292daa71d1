/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * The machine: the tree of svg_layout.h, arcs between CPUs on its left, NVLinks on its right, and a
 * legend of the lines below it.
 *
 *      .-- CPU --+-- PCI --+-- GPU --.
 *     SYS        |         `-- NET   NV4
 *      `-- CPU --+-- PCI --+-- GPU --'
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render/svg_layout.h"

enum {
    ARC_LEAST = 40,  /* depth of an arc between neighbours */
    ARC_STEP = 28,   /* additional depth for each node between its ends */
    ARC_MOST = 230,  /* maximum depth */
    LABEL_ABOVE = 6, /* height of a link's label above the topmost box */
    SWITCH_SPACE = 100,
    SWITCH_WIDTH = 24,
    STEM = 14, /* length of a link from a box to the line that connects its children */
};

static const char *fill_of(const struct pci_node *node)
{
    return node->type == PCI_NODE_GPU                                 ? SVG_GPU_FILL
           : node->type == PCI_NODE_CPU                               ? "#d6e8f5"
           : node->type == PCI_NODE_NET || node->type == PCI_NODE_NIC ? "#fbe6c3"
                                                                      : "#eeeeee";
}

/* Draw a box and the link from its parent (right, up or down, right), with the bandwidth above the
 * link's end. */
static void node_draw(FILE *out, const struct svg_layout *layout, const struct pci_node *node,
                      double x, double y)
{
    const struct svg_place *place = &layout->places[node->vertex];
    double width, left = x + svg_layout_x(layout, node, &width), parent_width;

    if (place->link) {
        const struct pci_node *parent = pci_graph_vertex(layout->graph, place->parent);
        double from = x + svg_layout_x(layout, parent, &parent_width);

        from += parent_width;
        fprintf(out,
                "<path d=\"M%.1f %.1f H%.1f V%.1f H%.1f\" fill=\"none\" stroke=\"" SVG_GREY
                "\" stroke-width=\"1.4\"/>\n",
                from, y + layout->places[parent->vertex].y, from + STEM, y + place->y, left);
        svg_text(out, left - 4, y + place->y - 3, 10, "text-anchor=\"end\" fill=\"#222\"", "%s",
                 place->label);
    }
    svg_box(out, left, y + place->y - SVG_BOX_HEIGHT / 2.0, width, fill_of(node), place->word,
            place->rest);
}

static bool is_arc(const struct svg_layout *layout, const struct pci_link *link,
                   enum pci_node_type type)
{
    const struct svg_place *from = &layout->places[link->from->vertex];
    const struct svg_place *to = &layout->places[link->to->vertex];

    return link->from->type == type && link->to->type == type && from->level != SVG_NO_LEVEL &&
           to->level != SVG_NO_LEVEL && from->number < to->number;
}

/* Return the depth of the arc of a link. */
static double arc_depth(const struct svg_layout *layout, const struct pci_link *link)
{
    double most = layout->numbers[link->from->type];
    double step = fmin(ARC_STEP, (ARC_MOST - ARC_LEAST) / fmax(1, most - 2));
    uint32_t from = layout->places[link->from->vertex].number;
    uint32_t to = layout->places[link->to->vertex].number;

    return ARC_LEAST + step * (to - from - 1);
}

/* Return the width of a type's arcs next to the boxes, with their labels; 0: there are none. */
static double arcs_width(const struct svg_layout *layout, enum pci_node_type type)
{
    double most = 0;

    for (uint32_t id = 0; id < pci_graph_links(layout->graph); id++) {
        const struct pci_link *link = pci_graph_link(layout->graph, id);
        char label[64];

        if (is_arc(layout, link, type)) {
            svg_link_text(link, label, sizeof label);
            most = fmax(most, fmax(arc_depth(layout, link), svg_text_width(label, 10) / 2 + 6) +
                                  svg_text_width(label, 10) / 2 + 6);
        }
    }
    return most;
}

/* Draw an arc that begins and ends at X and extends to the right (SIDE 1) or the left (-1), or
 * place its label where there is room along the arc. */
static int arc_draw(FILE *out, const struct svg_layout *layout, const struct pci_link *link,
                    double x, double y, int side, int labelled, struct svg_labels *labels)
{
    static const double along[] = {0.5, 0.43, 0.57, 0.36, 0.64, 0.29, 0.71, 0.22, 0.78};
    enum { ALONG = sizeof along / sizeof *along };
    double y0 = y + layout->places[link->from->vertex].y, at[ALONG][2];
    double y1 = y + layout->places[link->to->vertex].y, depth = side * arc_depth(layout, link);
    bool nvlink = link->type == PCI_LINK_NVL;
    unsigned links = nvlink ? pci_nvlinks_of_bandwidth(link->from->gpu.sm, link->bw) : 0;
    char text[64];

    if (!labelled) {
        fprintf(out,
                "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" "
                "stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
                x, y0, x + depth * 4 / 3, y0, x + depth * 4 / 3, y1, x, y1,
                nvlink ? SVG_GREEN : SVG_BLUE, 1.2 + 0.6 * (links < 6 ? links : 6));
        return 0;
    }
    svg_link_text(link, text, sizeof text);
    for (size_t i = 0; i < ALONG; i++) {
        double t = along[i];

        /* Keep the label clear of the boxes. */
        at[i][0] = x + side * fmax(4 * fabs(depth) * t * (1 - t), svg_text_width(text, 10) / 2 + 6);
        at[i][1] = y0 * (1 - t) * (1 - t) * (1 + 2 * t) + y1 * t * t * (3 - 2 * t);
    }
    return svg_label(out, labels, at, ALONG, text);
}

/* Draw all arcs before all labels, so that no line crosses a label. */
static int arcs_draw(FILE *out, const struct svg_layout *layout, enum pci_node_type type, double x,
                     double y, int side, size_t *omitted)
{
    struct svg_labels labels = {0};
    int rc = 0;

    for (int labelled = 0; labelled < 2; labelled++) {
        for (uint32_t id = 0; rc == 0 && id < pci_graph_links(layout->graph); id++) {
            const struct pci_link *link = pci_graph_link(layout->graph, id);

            if (is_arc(layout, link, type)) {
                rc = arc_draw(out, layout, link, x, y, side, labelled, &labels);
            }
        }
    }
    *omitted += labels.omitted;
    free(labels.placed);
    return rc;
}

/* Return the total bandwidth between a GPU and all NVLink switches. */
static double switch_bandwidth(const struct pci_node *gpu)
{
    double sum = 0;

    for (uint32_t i = 0; i < gpu->nlinks; i++) {
        sum += gpu->links[i]->to->type == PCI_NODE_NVS ? gpu->links[i]->bw : 0;
    }
    return sum;
}

/* Draw all NVLink switches as one bar at X, to the right of the GPUs, whose boxes end at FROM. */
static void switches_draw(FILE *out, const struct svg_layout *layout, double from, double x,
                          double y)
{
    uint32_t count = pci_graph_count(layout->graph, PCI_NODE_NVS);
    double top = INFINITY, bottom = 0, middle;

    for (uint32_t g = 0; g < pci_graph_count(layout->graph, PCI_NODE_GPU); g++) {
        const struct pci_node *gpu = pci_graph_node(layout->graph, PCI_NODE_GPU, g);
        const struct svg_place *place = &layout->places[gpu->vertex];
        double bw = switch_bandwidth(gpu);

        if (bw > 0 && place->level != SVG_NO_LEVEL) {
            fprintf(out,
                    "<path d=\"M%.1f %.1f H%.1f\" stroke=\"" SVG_GREEN "\" stroke-width=\"4\"/>\n",
                    from, y + place->y, x);
            svg_text(out, x - 4, y + place->y - 5, 10, "text-anchor=\"end\"", "NV%u %.4g",
                     pci_nvlinks_of_bandwidth(gpu->gpu.sm, bw), bw);
            top = fmin(top, place->y);
            bottom = fmax(bottom, place->y);
        }
    }
    if (bottom <= 0) {
        return;
    }
    top = y + fmin(top - SVG_BOX_HEIGHT / 2.0, (top + bottom) / 2 - 62);
    bottom = y + fmax(bottom + SVG_BOX_HEIGHT / 2.0, bottom);
    bottom = fmax(bottom, top + 124);
    middle = (top + bottom) / 2;
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"4\" fill=\"" SVG_GPU_FILL
            "\" stroke=\"#444\"/>\n<g transform=\"rotate(90 %.1f %.1f)\">",
            x, top, SWITCH_WIDTH, bottom - top, x + 8, middle);
    svg_text(out, x + 8, middle, 12, "font-weight=\"bold\"",
             count > 1 ? "%u NVLink switches" : "NVLink switch", count);
    fputs("</g>\n", out);
}

/* Return true if the graph has a link of this type. */
static bool has_link(const struct pci_graph *graph, enum pci_link_type type)
{
    for (uint32_t id = 0; id < pci_graph_links(graph); id++) {
        if (pci_graph_link(graph, id)->type == type) {
            return true;
        }
    }
    return false;
}

static bool any_assumed(const struct pci_graph *graph)
{
    for (uint32_t v = 0; v < pci_graph_vertices(graph); v++) {
        if (pci_graph_vertex(graph, v)->assumed) {
            return true;
        }
    }
    return false;
}

/* Draw the legend, or only count its lines if OUT is NULL. Return the number of lines. */
static unsigned machine_legend(FILE *out, const struct pci_graph *graph, double x, double y,
                               size_t omitted)
{
    char beyond[80];
    const struct {
        bool shown;
        const char *colour; /* NULL: no line */
        double width;
        const char *text;
    } lines[] = {
        {true, SVG_GREY, 1.4,
         has_link(graph, PCI_LINK_C2C)
             ? "PCI link (C2C: chip to chip) and its GB/s each way (down / up where they differ)"
             : "PCI link and its GB/s each way (down / up where they differ)"},
        {has_link(graph, PCI_LINK_NVL), SVG_GREEN, 3,
         "NV, the number of NVLinks, and the GB/s of all of them each way"},
        {has_link(graph, PCI_LINK_SYS), SVG_BLUE, 1.4, "SYS: between CPUs, and the GB/s each way"},
        {pci_graph_count(graph, PCI_NODE_NET) > 0, NULL, 0,
         "In the box of a port (NET): its speed on the network"},
        {any_assumed(graph), NULL, 0, "?: assumed, because the speed is not known"},
        {omitted > 0, NULL, 0, beyond},
    };
    unsigned count = 0;

    snprintf(beyond, sizeof beyond, "%zu lines without room for their bandwidth: see the matrix",
             omitted);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        double at = y + SVG_LINE * (count + 1);

        if (lines[i].shown && out && lines[i].colour) {
            fprintf(out, "<path d=\"M%.1f %.1f h24\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x,
                    at - 4, lines[i].colour, lines[i].width);
        }
        if (lines[i].shown && out) {
            svg_text(out, x + 32, at, 11, "text-anchor=\"start\" fill=\"#222\"", "%s",
                     lines[i].text);
        }
        count += lines[i].shown;
    }
    return count;
}

static int layout_draw(FILE *out, const struct svg_layout *layout, double x, double y, double right,
                       double bar)
{
    const struct pci_graph *graph = layout->graph;
    size_t omitted = 0;
    int rc = arcs_draw(out, layout, PCI_NODE_CPU, x, y, -1, &omitted);

    rc = rc ? rc : arcs_draw(out, layout, PCI_NODE_GPU, right, y, 1, &omitted);
    if (pci_graph_count(graph, PCI_NODE_NVS) > 0) {
        switches_draw(out, layout, right, bar, y);
    }
    for (uint32_t i = 0; i < layout->count; i++) {
        node_draw(out, layout, pci_graph_vertex(graph, layout->order[i]), x, y);
    }
    machine_legend(out, graph, x, y + layout->height, omitted);
    return rc;
}

int svg_machine(FILE *out, const struct pci_graph *graph, double x, double y, struct svg_size *size)
{
    struct svg_layout layout;
    double left, right, bar;
    int rc = svg_layout_make(graph, &layout);

    if (rc == 0) {
        left = fmax(1, arcs_width(&layout, PCI_NODE_CPU)); /* 1: width of a box's edge */
        right = left + layout.column[0] + layout.levels * layout.gap +
                (layout.levels - 1) * layout.column[1] + layout.column[2];
        bar = right + arcs_width(&layout, PCI_NODE_GPU);
        size->width = bar;
        if (pci_graph_count(graph, PCI_NODE_NVS) > 0) {
            bar += SWITCH_SPACE;
            size->width = bar + SWITCH_WIDTH + 2;
        }
        size->width = fmax(size->width, left + 560); /* width of the legend */
        /* One additional line: see the legend. */
        size->height =
            LABEL_ABOVE + layout.height + SVG_LINE * (machine_legend(NULL, graph, 0, 0, 0) + 1.5);
        if (out) {
            rc = layout_draw(out, &layout, x + left, y + LABEL_ABOVE, x + right, x + bar);
        }
    }
    svg_layout_free(&layout);
    return rc;
}
