/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Curves over sizes with two logarithmic axes. The curve of the best values has a pale band below
 * it.
 */

#include <inttypes.h>
#include <math.h>

#include "tools/render/svg.h"

enum {
    WIDTH = 640,
    HEIGHT = 380,
    LEFT = 70,
    RIGHT = 150, /* room for the legend */
    TOP = 34,
    BOTTOM = 44,
    SIZE_LABELS = 11, /* at most */
};

/* Ranges of a chart's axes, as logarithms. */
struct frame {
    double x0, x1; /* base 2 */
    double y0, y1; /* base 10 */
};

void pci_render_size(uint64_t bytes, char *text, size_t size)
{
    static const char units[] = "\0KMGT";
    int unit = 0;

    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, unit ? "%" PRIu64 "%c" : "%" PRIu64, bytes, units[unit]);
}

static double x_of(const struct frame *frame, uint64_t bytes)
{
    return LEFT +
           (WIDTH - LEFT - RIGHT) * (log2((double) bytes) - frame->x0) / (frame->x1 - frame->x0);
}

static double y_of(const struct frame *frame, double value)
{
    return HEIGHT - BOTTOM -
           (HEIGHT - TOP - BOTTOM) * (log10(value) - frame->y0) / (frame->y1 - frame->y0);
}

static struct frame frame_find(const struct pci_chart *curves)
{
    struct frame frame = {INFINITY, -INFINITY, INFINITY, -INFINITY};

    for (size_t i = 0; i < curves->nsizes; i++) {
        frame.x0 = fmin(frame.x0, log2((double) curves->sizes[i]));
        frame.x1 = fmax(frame.x1, log2((double) curves->sizes[i]));
        for (size_t c = 0; c < curves->ncurves; c++) {
            double value = curves->curves[c].values[i];

            if (isfinite(value) && value > 0) {
                frame.y0 = fmin(frame.y0, floor(log10(value)));
                frame.y1 = fmax(frame.y1, ceil(log10(value)));
            }
        }
    }
    if (frame.x1 <= frame.x0) { /* place a single size in the middle */
        frame.x0 -= 1;
        frame.x1 += 1;
    }
    if (frame.y1 <= frame.y0) {
        frame.y1 = frame.y0 + 1;
    }
    return frame;
}

static void axes_draw(FILE *out, const struct pci_chart *curves, const struct frame *frame)
{
    size_t step = (curves->nsizes + SIZE_LABELS - 1) / SIZE_LABELS;

    for (double decade = frame->y0; decade <= frame->y1; decade++) {
        double y = y_of(frame, pow(10, decade));

        fprintf(out, "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT);
        svg_text(out, LEFT - 6, y + 4, 11, "text-anchor=\"end\"", decade < 0 ? "%g" : "%.0f",
                 pow(10, decade));
    }
    for (size_t i = 0; i < curves->nsizes; i += step) {
        double x = x_of(frame, curves->sizes[i]);
        char text[32];

        pci_render_size(curves->sizes[i], text, sizeof text);
        fprintf(out, "<path d=\"M%.1f %d V%d\" stroke=\"#eee\"/>\n", x, TOP, HEIGHT - BOTTOM);
        svg_text(out, x, HEIGHT - BOTTOM + 16, 11, "", "%s", text);
    }
    fprintf(out, "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"#444\"/>\n", LEFT, TOP,
            HEIGHT - BOTTOM, WIDTH - RIGHT);
    svg_text(out, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 10, 12, "", "bytes");
    svg_text(out, 8, 18, 14, "text-anchor=\"start\" font-weight=\"bold\"", "%s", curves->title);
}

/* Draw one curve, with a point and its value at each size. */
static void curve_draw(FILE *out, const struct pci_chart *curves,
                       const struct pci_chart_line *curve, const struct frame *frame,
                       const char *stroke)
{
    const char *command = "M";

    fputs("<path d=\"", out);
    for (size_t i = 0; i < curves->nsizes; i++) {
        if (isfinite(curve->values[i]) && curve->values[i] > 0) {
            fprintf(out, "%s%.1f %.1f ", command, x_of(frame, curves->sizes[i]),
                    y_of(frame, curve->values[i]));
            command = "L";
        }
    }
    fprintf(out, "\" fill=\"none\" %s/>\n", stroke);
}

static void points_draw(FILE *out, const struct pci_chart *curves,
                        const struct pci_chart_line *curve, const struct frame *frame,
                        const char *colour)
{
    for (size_t i = 0; i < curves->nsizes; i++) {
        char text[32];

        if (isfinite(curve->values[i]) && curve->values[i] > 0) {
            pci_render_size(curves->sizes[i], text, sizeof text);
            fprintf(out,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\">"
                    "<title>%s, %s: %.4g %s</title></circle>\n",
                    x_of(frame, curves->sizes[i]), y_of(frame, curve->values[i]), colour,
                    curve->label, text, curve->values[i], curves->unit);
        }
    }
}

static void legend_line(FILE *out, size_t line, const char *label, const char *stroke)
{
    double y = TOP + 12 + SVG_LINE * (double) line;

    fprintf(out, "<path d=\"M%d %.1f h28\" %s/>\n", WIDTH - RIGHT + 14, y - 4, stroke);
    svg_text(out, WIDTH - RIGHT + 48, y, 11, "text-anchor=\"start\"", "%s", label);
}

static const char band[] = "stroke=\"#f0e442\" stroke-width=\"9\" stroke-linejoin=\"round\" "
                           "stroke-linecap=\"round\"";

void pci_render_svg_curves(FILE *out, const struct pci_chart *curves)
{
    const struct svg_size size = {WIDTH, HEIGHT};
    struct frame frame = frame_find(curves);

    svg_begin(out, &size);
    axes_draw(out, curves, &frame);
    curve_draw(out, curves, &curves->best, &frame, band);
    legend_line(out, 0, curves->best.label, band);
    for (size_t c = 0; c < curves->ncurves; c++) {
        const struct pci_chart_line *curve = &curves->curves[c];
        const char *colour = svg_styles[curve->colour % SVG_STYLES].colour;
        static const char *const dashes[] = {"none", "7 3", "2 3"};
        char stroke[96];

        snprintf(stroke, sizeof stroke,
                 "stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\"", colour,
                 dashes[curve->dashes % 3]);
        curve_draw(out, curves, curve, &frame, stroke);
        points_draw(out, curves, curve, &frame, colour);
        legend_line(out, c + 1, curve->label, stroke);
    }
    svg_end(out);
}
