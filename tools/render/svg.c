/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Text, boxes and labels. */

#include "tools/render/svg.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

enum {
    TEXT_MAX = 512,
    BOX_WORD = 12,
    BOX_REST = 10,
    LABEL_SIZE = 10,
    LINE_SIZE = 11,
    LABEL_HEIGHT = 12,
};

const struct svg_style svg_styles[SVG_STYLES] = {
    {"#0072b2", "none"}, {"#d55e00", "8 3"},      {"#009e73", "2 3"},
    {"#000000", "none"}, {"#cc79a7", "10 3 2 3"}, {"#e69f00", "5 2"},
};

void svg_begin(FILE *out, const struct svg_size *size)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" "
            "text-anchor=\"middle\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            size->width, size->height, size->width, size->height);
}

void svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

void svg_text(FILE *out, double x, double y, int size, const char *style, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" %s>", x, y, size, style);
    pci_xml_put(out, text);
    fputs("</text>\n", out);
}

/* Return the width in a font of size 1. */
static double characters_width(const char *text, size_t length)
{
    double width = 0;

    for (size_t i = 0; i < length; i++) {
        width += strchr(" .,:/", text[i]) ? 0.34 : 0.65;
    }
    return width;
}

double svg_text_width(const char *text, int size)
{
    return characters_width(text, strlen(text)) * size;
}

double svg_box_width(const char *word, const char *rest)
{
    double width = 1.1 * svg_text_width(word, BOX_WORD) + 14; /* bold */

    return rest[0] ? width + svg_text_width(rest, BOX_REST) + 8 : width;
}

void svg_box(FILE *out, double x, double y, double width, const char *fill, const char *word,
             const char *rest)
{
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"4\" fill=\"%s\" "
            "stroke=\"#444\"/>\n",
            x, y, width, SVG_BOX_HEIGHT, fill);
    svg_text(out, x + 7, y + 14, BOX_WORD, "text-anchor=\"start\" font-weight=\"bold\"", "%s",
             word);
    if (rest[0]) {
        svg_text(out, x + 15 + 1.1 * svg_text_width(word, BOX_WORD), y + 14, BOX_REST,
                 "text-anchor=\"start\"", "%s", rest);
    }
}

unsigned svg_lines(FILE *out, double x, double y, const char *text)
{
    unsigned count = 0;

    for (const char *end; text[0]; text = end[0] ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        if (out) {
            svg_text(out, x, y + 12 + SVG_LINE * count, LINE_SIZE,
                     "text-anchor=\"start\" fill=\"#222\"", "%.*s", (int) (end - text), text);
        }
        count++;
    }
    return count;
}

double svg_lines_width(const char *text)
{
    double longest = 0;

    for (size_t length; text[0]; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        longest = fmax(longest, characters_width(text, length) * LINE_SIZE);
    }
    return longest;
}

static bool is_free(const struct svg_labels *labels, const double at[2], double width)
{
    for (size_t i = 0; i < labels->count; i++) {
        if (fabs(labels->placed[i].y - at[1]) < LABEL_HEIGHT &&
            fabs(labels->placed[i].x - at[0]) < (labels->placed[i].width + width) / 2) {
            return false;
        }
    }
    return true;
}

int svg_label(FILE *out, struct svg_labels *labels, const double (*at)[2], size_t count,
              const char *text)
{
    double width = svg_text_width(text, LABEL_SIZE) + 4;
    size_t i = 0;

    if (labels->count == labels->room) {
        size_t room = 2 * labels->room + 16;
        void *more = reallocarray(labels->placed, room, sizeof *labels->placed);

        if (!more) {
            return -ENOMEM;
        }
        labels->placed = more;
        labels->room = room;
    }
    while (i < count && !is_free(labels, at[i], width)) {
        i++;
    }
    if (i == count) {
        labels->omitted++;
        return 0;
    }
    labels->placed[labels->count].x = at[i][0];
    labels->placed[labels->count].y = at[i][1];
    labels->placed[labels->count++].width = width;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"white\"/>\n",
            at[i][0] - width / 2, at[i][1] - LABEL_HEIGHT / 2.0, width, LABEL_HEIGHT);
    svg_text(out, at[i][0], at[i][1] + 4, LABEL_SIZE, "", "%s", text);
    return 0;
}
