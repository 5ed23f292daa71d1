/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * A panel: the GPUs on a circle, each ring or tree in its colour, and what the colours mean.  More
 * of them than can be distinguished on one circle get a small circle each.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render/svg.h"

static const char *const colours[] = {"#e41a1c", "#377eb8", "#4daf4a", "#984ea3",
                                      "#ff7f00", "#a65628", "#f781bf", "#17becf",
                                      "#999900", "#666666", "#1b9e77", "#7570b3"};

enum {
    COLOURS = sizeof(colours) / sizeof(colours[0]),
    DOT_RADIUS = 17,
    LINE_SPACE = 11, /* between lines that join the same two GPUs */
    LEGEND_LINE = 18,
    HEAD = 30,
    RADIUS_LEAST = 120,
    LEGEND_CHARACTER = 7, /* width of one, about */
    LINES_TOGETHER = 6,   /* on one circle */
    SMALL_RADIUS = 44,    /* of a circle of its own, for up to 10 GPUs */
    SMALL_DOT = 9,
    SMALL_LABEL = 30,
    SMALL_COLUMNS = 6,
};

static const double pi = 3.14159265358979323846;

/* A circle of GPUs. */
struct circle {
    double x, y;
    double radius;
    int dot;
    int font;
};

static double radius_of(uint32_t gpus)
{
    double radius = gpus * (2.0 * DOT_RADIUS + 22) / (2 * pi);

    return radius > RADIUS_LEAST ? radius : RADIUS_LEAST;
}

static double small_radius_of(uint32_t gpus)
{
    return gpus > 10 ? SMALL_RADIUS * gpus / 10.0 : SMALL_RADIUS;
}

/* How many lines join each two GPUs: counted[a * gpus + b] with a < b. */
static void pairs_count(const struct pci_drawing *drawing, uint32_t gpus, uint32_t *counted)
{
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        for (uint32_t e = 0; e < drawing->lines[l].nedges; e++) {
            uint32_t a = drawing->lines[l].edges[e][0], b = drawing->lines[l].edges[e][1];

            counted[(a < b ? a : b) * gpus + (a < b ? b : a)]++;
        }
    }
}

/* The arrow head half way, along (DX, DY). */
static void head_draw(FILE *out, double x, double y, double dx, double dy, const char *colour)
{
    double length = hypot(dx, dy);

    if (length < 1) {
        return;
    }
    dx *= 6 / length;
    dy *= 6 / length;
    fprintf(out, "<path d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f Z\" fill=\"%s\"/>\n", x + dx, y + dy,
            x - dx - dy * 0.8, y - dy + dx * 0.8, x - dx + dy * 0.8, y - dy - dx * 0.8, colour);
}

/* One edge, bent aside by OFFSET pixels so that parallel ones stay apart. */
static void edge_draw(FILE *out, const double from[2], const double to[2], double offset,
                      const char *colour)
{
    double dx = to[0] - from[0], dy = to[1] - from[1], length = hypot(dx, dy);
    double mx, my;

    if (length < 1) {
        return;
    }
    mx = (from[0] + to[0]) / 2 - dy / length * offset;
    my = (from[1] + to[1]) / 2 + dx / length * offset;
    /* The control point lies twice as far out as the curve's middle. */
    fprintf(out,
            "<path d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"2.2\"/>\n",
            from[0], from[1], 2 * mx - (from[0] + to[0]) / 2, 2 * my - (from[1] + to[1]) / 2, to[0],
            to[1], colour);
    head_draw(out, mx, my, dx, dy, colour);
}

static void gpu_place(uint32_t gpu, uint32_t gpus, const struct circle *circle, double at[2])
{
    double angle = 2 * pi * gpu / gpus - pi / 2;

    at[0] = circle->x + circle->radius * cos(angle);
    at[1] = circle->y + circle->radius * sin(angle);
}

/* USED counts, for each two GPUs, the lines that have been drawn between them. */
static void line_draw(FILE *out, const struct pci_drawing_line *line, const char *colour,
                      uint32_t gpus, const uint32_t *counted, uint32_t *used,
                      const struct circle *circle)
{
    for (uint32_t e = 0; e < line->nedges; e++) {
        uint32_t a = line->edges[e][0], b = line->edges[e][1];
        uint32_t pair = (a < b ? a : b) * gpus + (a < b ? b : a);
        double place = used[pair]++ - (counted[pair] - 1) / 2.0, from[2], to[2];

        gpu_place(a, gpus, circle, from);
        gpu_place(b, gpus, circle, to);
        edge_draw(out, from, to, place * LINE_SPACE * (a < b ? 1 : -1), colour);
    }
}

static void gpus_draw(FILE *out, const struct pci_graph *graph, uint32_t gpus,
                      const struct circle *circle)
{
    for (uint32_t g = 0; g < gpus; g++) {
        double at[2];

        gpu_place(g, gpus, circle, at);
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"#c7e9c0\" stroke=\"#444\"/>\n",
                at[0], at[1], circle->dot);
        svg_text(out, at[0], at[1] + circle->font * 0.38, circle->font, "font-weight=\"bold\"",
                 "%d", pci_graph_node(graph, PCI_NODE_GPU, g)->gpu.dev);
    }
}

static void legend_draw(FILE *out, const struct pci_drawing *drawing, double x, double y)
{
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        const struct pci_drawing_line *line = &drawing->lines[l];
        double at = y + LEGEND_LINE * l;

        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"8\" rx=\"2\" fill=\"%s\"/>\n", x,
                at - 8, colours[l % COLOURS]);
        svg_text(out, x + 26, at, 12, "text-anchor=\"start\" font-family=\"monospace\"",
                 line->copies > 1 ? "%s  x%u" : "%s", line->label, line->copies);
    }
}

static double legend_width(const struct pci_drawing *drawing)
{
    size_t longest = 0;

    for (uint32_t l = 0; l < drawing->nlines; l++) {
        size_t length = strlen(drawing->lines[l].label) + 5;

        longest = length > longest ? length : longest;
    }
    return 26.0 + (double) longest * LEGEND_CHARACTER;
}

/* All lines on one circle, the legend below. */
static int together(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing,
                    double x, double y, struct svg_size *size)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    double radius = radius_of(gpus), width = 2 * (radius + DOT_RADIUS) + 2 * SVG_GAP;
    struct circle circle = {x + width / 2, y + width / 2, radius, DOT_RADIUS, 13};
    uint32_t *counted;

    size->width = fmax(width, legend_width(drawing));
    size->height = width + LEGEND_LINE * (drawing->nlines + 1.0);
    if (!out) {
        return 0;
    }
    counted = calloc(2 * (size_t) gpus * gpus + 1, sizeof(*counted));
    if (!counted) {
        return -ENOMEM;
    }
    pairs_count(drawing, gpus, counted);
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        line_draw(out, &drawing->lines[l], colours[l % COLOURS], gpus, counted,
                  counted + (size_t) gpus * gpus, &circle);
    }
    gpus_draw(out, graph, gpus, &circle);
    legend_draw(out, drawing, x, y + width + LEGEND_LINE);
    free(counted);
    return 0;
}

/* One line with its label on a circle of its own, in a cell of WIDTH at (X, Y). */
static int alone(FILE *out, const struct pci_graph *graph, const struct pci_drawing_line *line,
                 const char *colour, double x, double y, double width)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    double radius = small_radius_of(gpus);
    struct circle circle = {x + width / 2, y + radius + 2 * SMALL_DOT, radius, SMALL_DOT, 10};
    struct pci_drawing_line copy = *line;
    struct pci_drawing drawing = {"", 1, &copy};
    uint32_t *counted = calloc(2 * (size_t) gpus * gpus + 1, sizeof(*counted));

    if (!counted) {
        return -ENOMEM;
    }
    pairs_count(&drawing, gpus, counted);
    line_draw(out, line, colour, gpus, counted, counted + (size_t) gpus * gpus, &circle);
    gpus_draw(out, graph, gpus, &circle);
    svg_text(out, x + width / 2, y + 2 * radius + 4 * SMALL_DOT + 8, 10,
             "font-family=\"monospace\"", line->copies > 1 ? "%s  x%u" : "%s", line->label,
             line->copies);
    free(counted);
    return 0;
}

/* A grid of small circles. */
static int apart(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing,
                 double x, double y, struct svg_size *size)
{
    double radius = small_radius_of(pci_graph_count(graph, PCI_NODE_GPU));
    double width = fmax(2 * radius + 4 * SMALL_DOT, legend_width(drawing) * 0.85) + SVG_GAP;
    double height = 2 * radius + 4 * SMALL_DOT + SMALL_LABEL;
    uint32_t columns = drawing->nlines < SMALL_COLUMNS ? drawing->nlines : SMALL_COLUMNS;
    int rc = 0;

    size->width = columns * width;
    size->height = (drawing->nlines + columns - 1) / columns * height;
    for (uint32_t l = 0; out && rc == 0 && l < drawing->nlines; l++) {
        rc = alone(out, graph, &drawing->lines[l], colours[l % COLOURS], x + l % columns * width,
                   y + l / columns * height, width);
    }
    return rc;
}

int svg_panel(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing, double x,
              double y, struct svg_size *size)
{
    double title = (double) strlen(drawing->title) * 9;
    int rc;

    if (out) {
        svg_text(out, x, y + 16, 14, "text-anchor=\"start\" font-weight=\"bold\"", "%s",
                 drawing->title);
    }
    rc = drawing->nlines > LINES_TOGETHER ? apart(out, graph, drawing, x, y + HEAD, size)
                                          : together(out, graph, drawing, x, y + HEAD, size);
    size->width = fmax(size->width, title) + SVG_GAP;
    size->height += HEAD;
    return rc;
}
