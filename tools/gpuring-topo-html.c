/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * The report for a browser: picture, matrix, channels and predicted curves on one page. The page
 * contains its styles and pictures and no script, so it needs no network. It is also well-formed
 * XML.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"
#include "gpuring_version.h"
#include "mca/topo_pci/xml/doc.h"
#include "tools/render/pci_render.h"

static const char style[] =
    "body{font:14px/1.4 'DejaVu Sans',Helvetica,Arial,sans-serif;margin:1.2em;color:#222;"
    "background:#fff}\n"
    "h1{font-size:1.5em;margin:0}h2{font-size:1.15em;margin:0 0 .5em}\n"
    ".note{white-space:pre-line;margin:.3em 0 1em}\n"
    ".page{columns:2 560px;column-gap:1em;margin:0 0 1em}\n"
    "section{border:1px solid #bbb;border-radius:6px;padding:.8em 1em;margin:0 0 1em;"
    "overflow-x:auto;scrollbar-color:#888 #eee;break-inside:avoid}\n"
    ".wide{column-span:all}\n"
    "svg{max-width:100%;height:auto;vertical-align:top}\n"
    "table{border-collapse:collapse;margin:.4em 0 1em}\n"
    "th,td{border:1px solid #ccc;padding:.15em .5em;text-align:center;font-size:12px;"
    "white-space:nowrap}\n"
    "td small{display:block;color:#444}td.n{text-align:right}\n"
    "pre{font-size:12px;max-height:34em;overflow:auto;margin:0}\n"
    ".NVL,.NVB,.C2C{background:#d9f0e6}.PIX,.PXB,.P2C,.PXN{background:#d6e8f5}"
    ".PHB{background:#fbf3c9}.SYS{background:#fbe0cf}.NET,.DIS{background:#ddd}\n"
    "@media "
    "print{section{overflow:visible;break-inside:auto}svg,tr{break-inside:avoid}pre{max-height:"
    "none}}\n";

static void text_put(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    pci_xml_put(out, text);
    fputs(after, out);
}

/* ---- The matrices ---- */

static void node_name(const struct pci_node *node, char *name, size_t size)
{
    if (node->type == PCI_NODE_GPU && node->gpu.dev != (int) node->index) {
        snprintf(name, size, "GPU %d, rank %" PRIu32, node->gpu.dev, node->index);
    } else if (node->type == PCI_NODE_GPU) {
        snprintf(name, size, "GPU %d", node->gpu.dev);
    } else {
        snprintf(name, size, "NET %d", node->net.dev);
    }
}

/* Write class and GB/s, with a second line if the opposite direction differs. */
static void cell_put(FILE *out, const struct pci_graph *graph, const struct pci_node *from,
                     const struct pci_node *to)
{
    const struct pci_path *path = pci_graph_path(graph, from, to);
    const struct pci_path *back = pci_graph_path(graph, to, from);
    char class[16], other[16];

    if (from == to) {
        fputs("<td>&#8211;</td>", out);
        return;
    }
    pci_render_class(from, path, class, sizeof class);
    pci_render_class(to, back, other, sizeof other);
    fprintf(out, "<td class=\"%s\">%s<small>%.4g", pci_path_class_name(path->class), class,
            path->bw);
    if (from->type != to->type &&
        (path->class != back->class || path->bw < back->bw || path->bw > back->bw)) {
        fprintf(out, " &#8592; %s %.4g", other, back->bw);
    }
    fputs("</small></td>", out);
}

/* Write the paths from the nodes of one type (rows) to the GPUs. */
static void matrix_put(FILE *out, const struct pci_graph *graph, enum pci_node_type type)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    char name[32];

    fputs("<table>\n<tr><th></th>", out);
    for (uint32_t g = 0; g < gpus; g++) {
        node_name(pci_graph_node(graph, PCI_NODE_GPU, g), name, sizeof name);
        text_put(out, "<th>", name, "</th>");
    }
    fputs("</tr>\n", out);
    for (uint32_t i = 0; i < pci_graph_count(graph, type); i++) {
        const struct pci_node *from = pci_graph_node(graph, type, i);

        node_name(from, name, sizeof name);
        text_put(out, "<tr><th>", name, "</th>");
        for (uint32_t g = 0; g < gpus; g++) {
            cell_put(out, graph, from, pci_graph_node(graph, PCI_NODE_GPU, g));
        }
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

static void matrices_put(FILE *out, const struct topo_machine *machine)
{
    fputs("<section class=\"wide\"><h2>Paths</h2>\n<p>Class, and GB/s from the row to the "
          "column.</p>\n",
          out);
    matrix_put(out, machine->graph, PCI_NODE_GPU);
    if (pci_graph_count(machine->graph, PCI_NODE_NET) > 0) {
        fputs("<p>From NICs to GPUs; &#8592; from the GPU, where that differs.</p>\n", out);
        matrix_put(out, machine->graph, PCI_NODE_NET);
    }
    fputs("<table>\n"
          "<tr><td class=\"NVL\">NV#: NVLink, as wide as # links; NVB: through another GPU; "
          "C2C: chip to chip</td></tr>\n"
          "<tr><td class=\"PIX\">PIX: one PCI switch; PXB: several; P2C: chip to chip, then PCI; "
          "PXN: through a relay GPU</td></tr>\n"
          "<tr><td class=\"PHB\">PHB: through a CPU</td></tr>\n"
          "<tr><td class=\"SYS\">SYS: between CPUs</td></tr>\n"
          "<tr><td class=\"DIS\">NET: the network alone; DIS: no path</td></tr>\n"
          "</table></section>\n",
          out);
}

/* ---- Predictions ---- */

/* Convert microseconds to GB/s, in rows of COUNT values, one for each size. */
static void bandwidths_fill(const struct topo_machine *machine, const uint64_t *sizes, size_t count,
                            size_t rows, double *values)
{
    double bus = pci_collective_bus(machine->job.collective, machine->job.ranks);

    for (size_t i = 0; i < rows * count; i++) {
        values[i] = (double) sizes[i % count] / values[i] / 1e3 * bus;
    }
}

static void best_put(FILE *out, const struct topo_machine *machine, const uint64_t *sizes,
                     size_t count)
{
    fputs("<table>\n<tr><th>bytes</th><th>best</th><th>channels</th><th>&#181;s</th>"
          "<th>GB/s</th><th>bus GB/s</th></tr>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        struct topo_best best;
        char size[32];

        if (topo_best_find(machine, sizes[i], &best)) {
            pci_render_size(sizes[i], size, sizeof size);
            fprintf(out,
                    "<tr><td class=\"n\">%s</td><td>%s</td><td class=\"n\">%" PRIu32
                    "</td><td class=\"n\">%.1f</td><td class=\"n\">%.4g</td>"
                    "<td class=\"n\">%.4g</td></tr>\n",
                    size, best.label, best.choice.channels, best.choice.us, best.gbps,
                    best.bus_gbps);
        }
    }
    fputs("</table>\n", out);
}

/* Draw both charts of the job. ROWS: room for the figures of all curves and the best. */
static void charts_put(FILE *out, const struct topo_machine *machine, const uint64_t *sizes,
                       size_t count, double *rows)
{
    struct topo_way ways[TOPO_WAYS_MAX];
    struct pci_chart_line curves[TOPO_WAYS_MAX];
    struct pci_chart chart = {.title = "Time of an allreduce, \u00b5s (model)",
                              .unit = "\u00b5s",
                              .sizes = sizes,
                              .nsizes = count,
                              .ncurves = topo_ways(machine, ways),
                              .curves = curves};

    chart.best.values = rows;
    snprintf(chart.best.label, sizeof(chart.best.label), "best");
    for (size_t i = 0; i < count; i++) {
        rows[i] = INFINITY;
    }
    for (size_t w = 0; w < chart.ncurves; w++) {
        double *us = rows + (w + 1) * count; /* after those of the best */

        curves[w].colour = (unsigned) ways[w].algorithm;
        curves[w].dashes = (unsigned) ways[w].protocol;
        curves[w].values = us;
        memcpy(curves[w].label, ways[w].label, sizeof curves[w].label);
        for (size_t i = 0; i < count; i++) {
            us[i] = topo_way_us(machine, &ways[w], sizes[i]);
            rows[i] = fmin(rows[i], us[i]);
        }
    }
    pci_render_svg_curves(out, &chart);
    bandwidths_fill(machine, sizes, count, chart.ncurves + 1, rows);
    chart.title = "Bus bandwidth, GB/s (model)";
    chart.unit = "GB/s";
    pci_render_svg_curves(out, &chart);
}

static int predictions_put(FILE *out, const struct topo_machine *machine)
{
    uint64_t *sizes;
    size_t count;
    double *rows;
    int status = topo_sizes_read(machine->options, &sizes, &count);

    if (status != TOPO_EXIT_OK) {
        return status;
    }
    rows = calloc(count * (TOPO_WAYS_MAX + 1), sizeof *rows);
    if (rows) {
        fprintf(out,
                "<section><h2>Predicted allreduce on %" PRIu32 " GPUs of %" PRIu32 " node%s</h2>\n",
                machine->job.ranks, machine->job.nodes, machine->job.nodes == 1 ? "" : "s");
        charts_put(out, machine, sizes, count, rows);
        best_put(out, machine, sizes, count);
        fputs("</section>\n", out);
    } else {
        topo_message("%s", strerror(ENOMEM));
        status = TOPO_EXIT_FAILURE;
    }
    free(rows);
    free(sizes);
    return status;
}

/* ---- Channels ---- */

static int drawings_put(FILE *out, const struct topo_machine *machine)
{
    struct pci_drawing *drawings;
    size_t count;
    int rc = topo_drawings_make(machine, &drawings, &count);

    fputs("<section><h2>Rings and trees</h2>\n", out);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = pci_render_svg_drawing(out, machine->graph, &drawings[i]);
    }
    fputs("</section>\n", out);
    topo_drawings_free(drawings, count);
    return rc;
}

/* Write the list and the bounds in the form of the command channels. */
static int list_put(FILE *out, const struct topo_machine *machine)
{
    char *text = NULL;
    size_t length;
    FILE *list = open_memstream(&text, &length);

    if (list) {
        (void) topo_channels_print(list, machine);
    }
    if (!list || fclose(list) != 0) {
        free(text);
        return -ENOMEM;
    }
    text_put(out, "<section><h2>Channels and bounds</h2>\n<pre>", text, "</pre></section>\n");
    free(text);
    return 0;
}

/* ---- The page ---- */

int topo_html_print(FILE *out, const struct topo_machine *machine)
{
    bool several = machine->searched && machine->job.ranks > 1;
    int status = TOPO_EXIT_OK, rc;
    char title[320];

    topo_title(machine, title, sizeof title);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width\"/>\n",
          out);
    text_put(out, "<title>", title, "</title>\n<style>\n");
    fprintf(out, "%s</style></head>\n<body>", style);
    text_put(out, "<h1>", title, "</h1>\n");
    text_put(out, "<p class=\"note\">", machine->notes, "</p>\n");
    fputs("<div class=\"page\">\n<section class=\"wide\"><h2>Machine</h2>\n", out);
    rc = pci_render_svg_machine(out, machine->graph);
    fputs("</section>\n", out);
    if (machine->gpus > 0) {
        matrices_put(out, machine);
    }
    if (rc == 0 && several) {
        rc = list_put(out, machine);
        status = predictions_put(out, machine);
    }
    fputs("</div>\n", out);
    if (rc == 0 && several) {
        rc = drawings_put(out, machine);
    }
    fputs("<p>gpuring-topo " GPURING_VERSION
          ". Times and bandwidths of channels are those of a model.</p>\n</body></html>\n",
          out);
    if (rc != 0) {
        topo_message("%s", strerror(-rc));
    }
    return rc != 0 ? TOPO_EXIT_FAILURE : status;
}
