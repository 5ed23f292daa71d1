/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * A panel: the GPUs on a circle, each ring or tree in its colour, and a legend of the colours. If
 * there are too many rings or trees for one circle, each of them has its own small circle.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render/svg.h"

enum {
    DOT_RADIUS = 17,
    ROOT_SPACE = 4,  /* between the circles around roots */
    LINE_SPACE = 11, /* between lines that connect the same two GPUs */
    TITLE_SIZE = 14,
    SMALL_TEXT = 10,
    TITLE_HEIGHT = 22,
    RADIUS_LEAST = 96,
    LABEL_SIZE = 12,
    LINES_TOGETHER = SVG_STYLES, /* maximum on one circle */
    SMALL_RADIUS = 44,           /* of a circle for one line, for up to 10 GPUs */
    SMALL_DOT = 9,
    SMALL_LABEL = 26,
};

static const double pi = 3.14159265358979323846;
#define HEAD_AT 0.62

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

/* Count the lines between each two GPUs: counted[a * gpus + b] with a < b. */
static void pairs_count(const struct pci_drawing *drawing, uint32_t gpus, uint32_t *counted)
{
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        for (uint32_t e = 0; e < drawing->lines[l].nedges; e++) {
            const struct pci_drawing_edge *edge = &drawing->lines[l].edges[e];
            uint32_t a = edge->from, b = edge->to;

            counted[(a < b ? a : b) * gpus + (a < b ? b : a)]++;
        }
    }
}

/* Draw an arrow head in the direction (DX, DY). */
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

/* Return a coordinate, and the slope, of the curve at its arrow head. The head is beyond the
 * middle, because lines cross there. */
static double point(double from, double control, double to)
{
    return (1 - HEAD_AT) * (1 - HEAD_AT) * from + 2 * HEAD_AT * (1 - HEAD_AT) * control +
           HEAD_AT * HEAD_AT * to;
}

static double slope(double from, double control, double to)
{
    return (1 - HEAD_AT) * (control - from) + HEAD_AT * (to - control);
}

/* Draw one edge, bent by OFFSET pixels so that parallel edges do not overlap. */
static void edge_draw(FILE *out, const double from[2], const double to[2], double offset,
                      const struct svg_style *style, bool plain)
{
    double dx = to[0] - from[0], dy = to[1] - from[1], length = hypot(dx, dy);
    double cx, cy;

    if (length < 1) {
        return;
    }
    /* The control point is twice as far from the straight line as the middle of the curve. */
    cx = (from[0] + to[0]) / 2 - 2 * dy / length * offset;
    cy = (from[1] + to[1]) / 2 + 2 * dx / length * offset;
    fprintf(out,
            "<path d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"2.2\" stroke-dasharray=\"%s\"/>\n",
            from[0], from[1], cx, cy, to[0], to[1], style->colour, style->dashes);
    if (!plain) {
        head_draw(out, point(from[0], cx, to[0]), point(from[1], cy, to[1]),
                  slope(from[0], cx, to[0]), slope(from[1], cy, to[1]), style->colour);
    }
}

static void gpu_place(uint32_t gpu, uint32_t gpus, const struct circle *circle, double at[2])
{
    double angle = 2 * pi * gpu / gpus - pi / 2;

    at[0] = circle->x + circle->radius * cos(angle);
    at[1] = circle->y + circle->radius * sin(angle);
}

/* Draw a ring or tree. USED counts the lines that have been drawn between each two GPUs. */
static void line_draw(FILE *out, const struct pci_drawing_line *line, const struct svg_style *style,
                      uint32_t gpus, const uint32_t *counted, uint32_t *used,
                      const struct circle *circle)
{
    for (uint32_t e = 0; e < line->nedges; e++) {
        uint32_t a = line->edges[e].from, b = line->edges[e].to;
        uint32_t pair = (a < b ? a : b) * gpus + (a < b ? b : a);
        double place = used[pair]++ - (counted[pair] - 1) / 2.0, from[2], to[2];

        gpu_place(a, gpus, circle, from);
        gpu_place(b, gpus, circle, to);
        edge_draw(out, from, to, place * LINE_SPACE * (a < b ? 1 : -1), style,
                  line->edges[e].plain);
    }
}

/* Return the number of lines before this one that have the GPU as a root. */
static double roots_before(const struct pci_drawing *drawing, uint32_t line, uint32_t gpu)
{
    double count = 0;

    for (uint32_t l = 0; l < line; l++) {
        for (uint32_t r = 0; r < drawing->lines[l].nroots; r++) {
            count += drawing->lines[l].roots[r] == gpu;
        }
    }
    return count;
}

/* Draw the GPUs. A root has an additional circle in the colour of its line. */
static void gpus_draw(FILE *out, uint32_t gpus, const struct pci_drawing *drawing,
                      const struct circle *circle)
{
    double at[2];

    for (uint32_t g = 0; g < gpus; g++) {
        gpu_place(g, gpus, circle, at);
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"" SVG_GPU_FILL
                "\" stroke=\"#444\"/>\n",
                at[0], at[1], circle->dot);
        svg_text(out, at[0], at[1] + circle->font * 0.38, circle->font, "font-weight=\"bold\"",
                 "%" PRIu32, g);
    }
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        for (uint32_t r = 0; r < drawing->lines[l].nroots; r++) {
            uint32_t gpu = drawing->lines[l].roots[r];

            gpu_place(gpu, gpus, circle, at);
            fprintf(out,
                    "<circle class=\"root\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"none\" "
                    "stroke=\"%s\" stroke-width=\"1.8\"/>\n",
                    at[0], at[1], circle->dot + ROOT_SPACE * (1 + roots_before(drawing, l, gpu)),
                    svg_styles[l % SVG_STYLES].colour);
        }
    }
}

static void label_of(const struct pci_drawing_line *line, char *text, size_t size)
{
    snprintf(text, size, line->copies > 1 ? "%s  x%u" : "%s", line->label, line->copies);
}

/* Draw the legend of the colours. */
static void lines_list(FILE *out, const struct pci_drawing *drawing, double x, double y)
{
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        const struct svg_style *style = &svg_styles[l % SVG_STYLES];
        double at = y + SVG_LINE * l;
        char label[128];

        label_of(&drawing->lines[l], label, sizeof label);
        fprintf(out,
                "<path d=\"M%.1f %.1f h32\" stroke=\"%s\" stroke-width=\"3\" "
                "stroke-dasharray=\"%s\"/>\n",
                x, at - 4, style->colour, style->dashes);
        svg_text(out, x + 40, at, LABEL_SIZE, "text-anchor=\"start\"", "%s", label);
    }
}

static double labels_width(const struct pci_drawing *drawing, int size)
{
    double longest = 0;

    for (uint32_t l = 0; l < drawing->nlines; l++) {
        char label[128];

        label_of(&drawing->lines[l], label, sizeof label);
        longest = fmax(longest, svg_text_width(label, size));
    }
    return longest;
}

/* Draw all lines on one circle, with the legend below it. */
static int together(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing,
                    double x, double y, struct svg_size *size)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    double radius = radius_of(gpus), width = 2 * (radius + DOT_RADIUS) + 2 * SVG_GAP;
    struct circle circle = {x + width / 2, y + width / 2, radius, DOT_RADIUS, 13};
    uint32_t *counted;

    size->width = fmax(width, 40 + labels_width(drawing, LABEL_SIZE));
    size->height = width + SVG_LINE * (drawing->nlines + 1.0);
    if (!out) {
        return 0;
    }
    counted = calloc(2 * (size_t) gpus * gpus + 1, sizeof *counted);
    if (!counted) {
        return -ENOMEM;
    }
    pairs_count(drawing, gpus, counted);
    for (uint32_t l = 0; l < drawing->nlines; l++) {
        line_draw(out, &drawing->lines[l], &svg_styles[l % SVG_STYLES], gpus, counted,
                  counted + (size_t) gpus * gpus, &circle);
    }
    gpus_draw(out, gpus, drawing, &circle);
    lines_list(out, drawing, x, y + width + SVG_LINE);
    free(counted);
    return 0;
}

/* Draw one line with its label on a separate circle, in a cell of WIDTH at (X, Y). */
static int alone(FILE *out, const struct pci_graph *graph, const struct pci_drawing_line *line,
                 double x, double y, double width)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    double radius = small_radius_of(gpus);
    struct circle circle = {x + width / 2, y + radius + 2 * SMALL_DOT, radius, SMALL_DOT, 10};
    struct pci_drawing_line copy = *line;
    struct pci_drawing drawing = {.nlines = 1, .lines = &copy};
    uint32_t *counted = calloc(2 * (size_t) gpus * gpus + 1, sizeof *counted);
    char label[128];

    if (!counted) {
        return -ENOMEM;
    }
    pairs_count(&drawing, gpus, counted);
    line_draw(out, line, &svg_styles[0], gpus, counted, counted + (size_t) gpus * gpus, &circle);
    gpus_draw(out, gpus, &drawing, &circle);
    label_of(line, label, sizeof label);
    svg_text(out, x + width / 2, y + 2 * radius + 4 * SMALL_DOT + 10, SMALL_TEXT, "", "%s", label);
    free(counted);
    return 0;
}

/* Draw a grid of small circles, with as many in a row as the width of the page allows. */
static int draw_apart(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing,
                      double x, double y, struct svg_size *size)
{
    double radius = small_radius_of(pci_graph_count(graph, PCI_NODE_GPU));
    double width = fmax(2 * radius + 4 * SMALL_DOT, labels_width(drawing, SMALL_TEXT)) + SVG_GAP;
    double height = 2 * radius + 4 * SMALL_DOT + SMALL_LABEL;
    uint32_t columns = width < SVG_PAGE ? (uint32_t) (SVG_PAGE / width) : 1;
    int rc = 0;

    columns = drawing->nlines < columns ? drawing->nlines : columns;
    size->width = columns * width;
    size->height = (drawing->nlines + columns - 1) / columns * height;
    for (uint32_t l = 0; out && rc == 0 && l < drawing->nlines; l++) {
        rc = alone(out, graph, &drawing->lines[l], x + l % columns * width,
                   y + l / columns * height, width);
    }
    return rc;
}

int svg_panel(FILE *out, const struct pci_graph *graph, const struct pci_drawing *drawing, double x,
              double y, struct svg_size *size)
{
    double head = TITLE_HEIGHT + SVG_LINE * svg_lines(NULL, 0, 0, drawing->legend) + SVG_GAP;
    double width =
        fmax(1.1 * svg_text_width(drawing->title, TITLE_SIZE), svg_lines_width(drawing->legend));
    int rc;

    if (out) {
        svg_text(out, x, y + TITLE_SIZE, TITLE_SIZE, "text-anchor=\"start\" font-weight=\"bold\"",
                 "%s", drawing->title);
        svg_lines(out, x, y + TITLE_HEIGHT, drawing->legend);
    }
    rc = drawing->nlines > LINES_TOGETHER ? draw_apart(out, graph, drawing, x, y + head, size)
                                          : together(out, graph, drawing, x, y + head, size);
    size->width = fmax(size->width, width) + SVG_GAP;
    size->height += head;
    return rc;
}
