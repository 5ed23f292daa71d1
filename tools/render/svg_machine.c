/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * The machine: CPUs on top, switches below them, GPUs and NICs in one row; arcs between CPUs above,
 * NVLinks below.
 *
 *        CPU --- SYS --- CPU
 *         |               |
 *        PCI             PCI
 *       /   \           /   \
 *     GPU   NIC       GPU   NIC
 *       \_______NV_____/
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render/svg.h"

enum {
    LEVEL_HEIGHT = 84,
    ARC_STEP = 26, /* how much deeper an arc hangs for each place that it spans */
    NO_PLACE = -1,
};

/* Where a node stands; indexed by its vertex. */
struct place {
    int level; /* 0: CPUs; NO_PLACE: not drawn by itself */
    double x;  /* centre */
    uint32_t parent;
};

struct layout {
    const struct pci_graph *graph;
    struct place *places;
    uint32_t *order; /* vertices from the root down, children after their parents */
    uint32_t count;
    uint32_t leaves;
    int levels; /* below the CPUs, at least 1 */
};

static int is_leaf(const struct pci_node *node)
{
    return node->type == PCI_NODE_GPU || node->type == PCI_NODE_NIC;
}

/* Links along which the tree goes down. */
static int goes_down(const struct pci_link *link)
{
    return link->type != PCI_LINK_NVL && link->type != PCI_LINK_SYS && link->type != PCI_LINK_NET &&
           link->to->type != PCI_NODE_CPU && link->to->type != PCI_NODE_NVS;
}

/* Depth first from every CPU with a stack of vertices; a node is drawn below the first that reaches
 * it. */
static int order_find(struct layout *layout)
{
    uint32_t vertices = pci_graph_vertices(layout->graph), depth = 0;
    uint32_t *stack = malloc((vertices + pci_graph_links(layout->graph) + 1) * sizeof(*stack));

    if (!stack) {
        return -ENOMEM;
    }
    for (uint32_t c = pci_graph_count(layout->graph, PCI_NODE_CPU); c-- > 0;) {
        uint32_t v = pci_graph_node(layout->graph, PCI_NODE_CPU, c)->vertex;

        layout->places[v].parent = v;
        stack[depth++] = v;
    }
    while (depth > 0) {
        uint32_t v = stack[--depth];
        struct pci_node *node = pci_graph_vertex(layout->graph, v);
        struct place *place = &layout->places[v];

        if (place->level != NO_PLACE) {
            continue;
        }
        place->level = place->parent == v ? 0 : layout->places[place->parent].level + 1;
        layout->levels = place->level > layout->levels ? place->level : layout->levels;
        layout->order[layout->count++] = v;
        for (uint32_t i = node->nlinks; !is_leaf(node) && i-- > 0;) {
            uint32_t to = node->links[i]->to->vertex;

            if (goes_down(node->links[i]) && layout->places[to].level == NO_PLACE) {
                layout->places[to].parent = v;
                stack[depth++] = to;
            }
        }
    }
    free(stack);
    return 0;
}

/* Leaves (and childless nodes) side by side; a parent over the middle of its children. */
static void x_find(struct layout *layout)
{
    uint32_t vertices = pci_graph_vertices(layout->graph);
    double *low = calloc(vertices + 1u, sizeof(*low)), *high = calloc(vertices + 1u, sizeof(*high));

    for (uint32_t i = layout->count; low && high && i-- > 0;) {
        uint32_t v = layout->order[i], parent = layout->places[v].parent;

        if (high[v] > 0) {
            layout->places[v].x = (low[v] + high[v]) / 2;
        }
        if (parent != v) {
            low[parent] = layout->places[v].x;
            high[parent] = high[parent] > 0 ? high[parent] : layout->places[v].x;
        }
    }
    free(low);
    free(high);
}

static void leaves_place(struct layout *layout)
{
    for (uint32_t i = 0; i < layout->count; i++) {
        uint32_t v = layout->order[i];
        int childless = i + 1 == layout->count || layout->places[layout->order[i + 1]].parent != v;

        if (childless) {
            layout->places[v].x =
                (SVG_BOX_WIDTH + SVG_GAP) * layout->leaves++ + SVG_BOX_WIDTH / 2.0;
        }
    }
}

static int layout_make(const struct pci_graph *graph, struct layout *layout)
{
    uint32_t vertices = pci_graph_vertices(graph);
    int rc;

    memset(layout, 0, sizeof(*layout));
    layout->graph = graph;
    layout->levels = 1;
    layout->places = calloc(vertices + 1u, sizeof(*layout->places));
    layout->order = calloc(vertices + 1u, sizeof(*layout->order));
    if (!layout->places || !layout->order) {
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < vertices; v++) {
        layout->places[v].level = NO_PLACE;
    }
    rc = order_find(layout);
    if (rc == 0) {
        leaves_place(layout);
        x_find(layout);
    }
    return rc;
}

static void layout_free(struct layout *layout)
{
    free(layout->places);
    free(layout->order);
}

/* The top of a node's box: leaves stand together in the lowest row. */
static double top_of(const struct layout *layout, const struct pci_node *node, double y)
{
    int level = is_leaf(node) ? layout->levels : layout->places[node->vertex].level;

    return y + level * LEVEL_HEIGHT;
}

static int is_linked(const struct pci_node *a, const struct pci_node *b)
{
    for (uint32_t i = 0; i < a->nlinks; i++) {
        if (a->links[i]->to == b) {
            return 1;
        }
    }
    return 0;
}

/* The ports of a NIC: their numbers in one line, their names in the other. */
static void nic_text(const struct pci_graph *graph, const struct pci_node *nic, char *first,
                     size_t first_size, char *second, size_t second_size)
{
    size_t numbers = (size_t) snprintf(first, first_size, "NET "), names = 0, count = 0;

    second[0] = '\0';
    for (uint32_t n = 0; n < pci_graph_count(graph, PCI_NODE_NET); n++) {
        const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, n);

        if (is_linked(net, nic) && names < second_size && numbers < first_size) {
            numbers += (size_t) snprintf(first + numbers, first_size - numbers, "%s%d",
                                         count ? "," : "", net->net.dev);
            names += (size_t) snprintf(second + names, second_size - names, "%s%s",
                                       count ? " " : "", net->net.name);
            count++;
        }
    }
    if (count == 0) {
        snprintf(first, first_size, "NIC");
    }
    if (strlen(second) > 15) {
        memcpy(second + 12, "...", 4);
    }
    if (strlen(first) > 12) {
        memcpy(first + 9, "...", 4);
    }
}

static void node_draw(FILE *out, const struct layout *layout, const struct pci_node *node, double x,
                      double y)
{
    static const char *const fills[PCI_NODE_TYPE_COUNT] = {
        [PCI_NODE_GPU] = "#c7e9c0", [PCI_NODE_PCI] = "#eeeeee", [PCI_NODE_NVS] = "#a1d99b",
        [PCI_NODE_CPU] = "#c6dbef", [PCI_NODE_NIC] = "#fdd0a2", [PCI_NODE_NET] = "#fdd0a2"};
    char first[64] = "", second[64] = "";

    if (node->type == PCI_NODE_GPU) {
        snprintf(first, sizeof(first), "GPU %d", node->gpu.dev);
        snprintf(second, sizeof(second), "%s", node->busid);
    } else if (node->type == PCI_NODE_CPU) {
        snprintf(first, sizeof(first), "CPU %d", node->cpu.numa);
    } else if (node->type == PCI_NODE_NIC) {
        nic_text(layout->graph, node, first, sizeof(first), second, sizeof(second));
    } else {
        snprintf(first, sizeof(first), "%s", pci_node_type_name(node->type));
        snprintf(second, sizeof(second), "%s", node->busid);
    }
    svg_box(out, x + layout->places[node->vertex].x - SVG_BOX_WIDTH / 2.0, top_of(layout, node, y),
            SVG_BOX_WIDTH, fills[node->type], first, second);
}

/* The link from a node's parent: down, across, down; the bandwidth stands beside the last part. */
static void down_draw(FILE *out, const struct layout *layout, const struct pci_node *node, double x,
                      double y)
{
    const struct place *place = &layout->places[node->vertex];
    const struct pci_node *parent = pci_graph_vertex(layout->graph, place->parent);
    double from = top_of(layout, parent, y) + SVG_BOX_HEIGHT, to = top_of(layout, node, y);
    double px = x + layout->places[parent->vertex].x, cx = x + place->x, bend = from + 16;

    for (uint32_t i = 0; parent != node && i < parent->nlinks; i++) {
        const struct pci_link *link = parent->links[i];

        if (link->to == node) {
            fprintf(out,
                    "<path d=\"M%.1f %.1f V%.1f H%.1f V%.1f\" fill=\"none\" stroke=\"#555\" "
                    "stroke-width=\"1.5\"/>\n",
                    px, from, bend, cx, to);
            if (link->type != PCI_LINK_LOC) {
                svg_text(out, cx + 4, to - 5, 10, "text-anchor=\"start\" fill=\"#555\"", "%.4g",
                         link->bw);
            }
            return;
        }
    }
}

/* An arc between two places, hanging down (SIDE 1) or standing up (-1), with its label. */
static void arc_draw(FILE *out, double x0, double x1, double y, double depth, int side,
                     double width, const char *colour, const char *label)
{
    double control = y + side * depth * 4 / 3, middle = (x0 + x1) / 2;
    double label_width = (double) strlen(label) * 6.2 + 4;

    fprintf(out,
            "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"%.1f\" stroke-opacity=\"0.8\"/>\n",
            x0, y, x0, control, x1, control, x1, y, colour, width);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" fill=\"white\"/>\n",
            middle - label_width / 2, y + side * depth - 6, label_width);
    svg_text(out, middle, y + side * depth + 4, 10, "fill=\"#222\"", "%s", label);
}

/* How deep the arc between two nodes hangs. */
static double arc_depth(const struct layout *layout, const struct pci_link *link)
{
    double span = fabs(layout->places[link->from->vertex].x - layout->places[link->to->vertex].x);

    return 22 + ARC_STEP * span / (SVG_BOX_WIDTH + SVG_GAP) / 1.6;
}

static int is_arc(const struct pci_link *link, enum pci_node_type type)
{
    return link->from->type == type && link->to->type == type &&
           link->from->vertex < link->to->vertex;
}

/* The deepest arc between nodes of a kind; 0: none. */
static double arcs_depth(const struct layout *layout, enum pci_node_type type)
{
    double deepest = 0;

    for (uint32_t id = 0; id < pci_graph_links(layout->graph); id++) {
        const struct pci_link *link = pci_graph_link(layout->graph, id);

        if (is_arc(link, type) && arc_depth(layout, link) > deepest) {
            deepest = arc_depth(layout, link);
        }
    }
    return deepest;
}

static void arcs_draw(FILE *out, const struct layout *layout, enum pci_node_type type, double x,
                      double y)
{
    for (uint32_t id = 0; id < pci_graph_links(layout->graph); id++) {
        const struct pci_link *link = pci_graph_link(layout->graph, id);
        double x0, x1, top;
        char label[48];

        if (!is_arc(link, type)) {
            continue;
        }
        x0 = x + layout->places[link->from->vertex].x;
        x1 = x + layout->places[link->to->vertex].x;
        top = top_of(layout, link->from, y);
        if (type == PCI_NODE_CPU) {
            snprintf(label, sizeof(label), "SYS %.4g", link->bw);
            arc_draw(out, x0, x1, top, arc_depth(layout, link), -1, 1.5, "#3182bd", label);
        } else {
            unsigned links = pci_nvlinks_of_bandwidth(link->from->gpu.sm, link->bw);

            snprintf(label, sizeof(label), "%.4g", link->bw);
            arc_draw(out, x0, x1, top + SVG_BOX_HEIGHT, arc_depth(layout, link), 1,
                     1.5 + (links < 6 ? links : 6), links > 1 ? "#238b45" : "#74c476", label);
        }
    }
}

/* What a GPU has to all NVLink switches together. */
static double switch_bandwidth(const struct pci_node *gpu)
{
    double sum = 0;

    for (uint32_t i = 0; i < gpu->nlinks; i++) {
        sum += gpu->links[i]->to->type == PCI_NODE_NVS ? gpu->links[i]->bw : 0;
    }
    return sum;
}

/* All NVLink switches are one bar below the GPUs. */
static void switches_draw(FILE *out, const struct layout *layout, double x, double y, double width)
{
    const struct pci_graph *graph = layout->graph;
    double bar = y + layout->levels * LEVEL_HEIGHT + SVG_BOX_HEIGHT + 46;
    char text[64];

    for (uint32_t g = 0; g < pci_graph_count(graph, PCI_NODE_GPU); g++) {
        const struct pci_node *gpu = pci_graph_node(graph, PCI_NODE_GPU, g);
        double cx = x + layout->places[gpu->vertex].x, bw = switch_bandwidth(gpu);

        if (bw > 0 && layout->places[gpu->vertex].level != NO_PLACE) {
            fprintf(out,
                    "<path d=\"M%.1f %.1f V%.1f\" stroke=\"#238b45\" stroke-width=\"5\" "
                    "stroke-opacity=\"0.8\"/>\n",
                    cx, top_of(layout, gpu, y) + SVG_BOX_HEIGHT, bar);
            svg_text(out, cx + 6, bar - 16, 10, "text-anchor=\"start\" fill=\"#222\"", "%.4g", bw);
        }
    }
    snprintf(text, sizeof(text), "NVLink switch (%u)", pci_graph_count(graph, PCI_NODE_NVS));
    svg_box(out, x, bar, width, "#a1d99b", text, "");
}

int svg_machine(FILE *out, const struct pci_graph *graph, double x, double y, struct svg_size *size)
{
    struct layout layout;
    double above, below, top;
    int rc = layout_make(graph, &layout);

    if (rc == 0) {
        above = arcs_depth(&layout, PCI_NODE_CPU) + 12;
        below = arcs_depth(&layout, PCI_NODE_GPU) + 12;
        if (pci_graph_count(graph, PCI_NODE_NVS) > 0) {
            below += SVG_BOX_HEIGHT + 46;
        }
        top = y + above;
        size->width = layout.leaves * (SVG_BOX_WIDTH + SVG_GAP) - SVG_GAP;
        size->height = above + layout.levels * LEVEL_HEIGHT + SVG_BOX_HEIGHT + below;
        for (uint32_t i = 0; out && i < layout.count; i++) {
            down_draw(out, &layout, pci_graph_vertex(graph, layout.order[i]), x, top);
        }
        for (uint32_t i = 0; out && i < layout.count; i++) {
            node_draw(out, &layout, pci_graph_vertex(graph, layout.order[i]), x, top);
        }
        if (out) {
            arcs_draw(out, &layout, PCI_NODE_CPU, x, top);
            arcs_draw(out, &layout, PCI_NODE_GPU, x, top);
        }
        if (out && pci_graph_count(graph, PCI_NODE_NVS) > 0) {
            switches_draw(out, &layout, x, top, size->width);
        }
    }
    layout_free(&layout);
    return rc;
}
