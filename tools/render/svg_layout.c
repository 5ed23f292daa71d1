/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "tools/render/svg_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW = 26,
    GROUP_SPACE = 6, /* between leaves of different parents */
    LABEL_SIZE = 10,
    GAP_LEAST = 30,    /* in addition to a link's label */
    WITHIN_CPU = 5000, /* GB/s of a connection inside a CPU, which is not a link */
    REST_MAX = 30,     /* characters of a box after its first word */
};

static bool is_leaf(const struct pci_node *node)
{
    return node->type == PCI_NODE_GPU || node->type == PCI_NODE_NET;
}

/* Return true for links from a parent of the tree to a child. */
static bool goes_down(const struct pci_link *link)
{
    return link->type != PCI_LINK_NVL && link->type != PCI_LINK_SYS &&
           link->to->type != PCI_NODE_CPU && link->to->type != PCI_NODE_NVS;
}

/* Return the only port of a NIC, which is drawn instead of it. NULL: it has none, or several. */
static struct pci_node *only_port(const struct pci_node *node)
{
    struct pci_node *port = NULL;

    for (uint32_t i = 0; node->type == PCI_NODE_NIC && i < node->nlinks; i++) {
        if (node->links[i]->to->type == PCI_NODE_NET) {
            if (port) {
                return NULL;
            }
            port = node->links[i]->to;
        }
    }
    return port;
}

/* Push the nodes that NODE is connected to on the stack, except those that have a place already. */
static void children_push(struct svg_layout *layout, const struct pci_node *node, uint32_t *stack,
                          uint32_t *depth)
{
    for (uint32_t i = node->nlinks; i-- > 0;) {
        struct pci_node *to = node->links[i]->to, *port = only_port(to);
        struct svg_place *place = &layout->places[port ? port->vertex : to->vertex];

        if (goes_down(node->links[i]) && place->level == SVG_NO_LEVEL) {
            place->parent = node->vertex;
            place->link = node->links[i];
            stack[(*depth)++] = port ? port->vertex : to->vertex;
        }
    }
}

/* Order the nodes depth first from every CPU. The first node that reaches a node is its parent. */
static int order_find(struct svg_layout *layout)
{
    uint32_t vertices = pci_graph_vertices(layout->graph), depth = 0;
    uint32_t *stack = malloc((vertices + pci_graph_links(layout->graph) + 1) * sizeof *stack);

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
        const struct pci_node *node = pci_graph_vertex(layout->graph, v);
        struct svg_place *place = &layout->places[v];

        if (place->level != SVG_NO_LEVEL) {
            continue;
        }
        place->level = place->parent == v ? 0 : layout->places[place->parent].level + 1;
        place->number = layout->numbers[node->type]++;
        layout->order[layout->count++] = v;
        if (!is_leaf(node)) {
            layout->levels = place->level >= layout->levels ? place->level + 1 : layout->levels;
            children_push(layout, node, stack, &depth);
        }
    }
    free(stack);
    return 0;
}

/* Give each node without children a row, and place parents in the middle of their children. */
static int y_find(struct svg_layout *layout)
{
    uint32_t vertices = pci_graph_vertices(layout->graph), last = UINT32_MAX;
    double *low = calloc(vertices + 1u, sizeof *low), *high = calloc(vertices + 1u, sizeof *high);

    for (uint32_t i = 0; low && high && i < layout->count; i++) {
        uint32_t v = layout->order[i], parent = layout->places[v].parent;

        if (i + 1 == layout->count || layout->places[layout->order[i + 1]].parent != v) {
            layout->height += last == UINT32_MAX || last == parent ? 0 : GROUP_SPACE;
            layout->places[v].y = layout->height + ROW / 2.0;
            layout->height += ROW;
            last = parent;
        }
    }
    for (uint32_t i = layout->count; low && high && i-- > 0;) {
        uint32_t v = layout->order[i], parent = layout->places[v].parent;

        if (high[v] > 0) {
            layout->places[v].y = (low[v] + high[v]) / 2;
        }
        low[parent] = layout->places[v].y;
        high[parent] = high[parent] > 0 ? high[parent] : layout->places[v].y;
    }
    free(low);
    free(high);
    return low && high ? 0 : -ENOMEM;
}

static void bandwidth_text(const struct pci_link *link, char *text, size_t size)
{
    const struct pci_node *gpu = link->from->type == PCI_NODE_GPU ? link->from : link->to;
    unsigned links = link->type == PCI_LINK_NVL && gpu->type == PCI_NODE_GPU
                         ? pci_nvlinks_of_bandwidth(gpu->gpu.sm, link->bw)
                         : 0;

    if (links > 0) {
        snprintf(text, size, "NV%u %.4g", links, link->bw);
    } else {
        snprintf(text, size, "%s %.4g", pci_link_type_name(link->type), link->bw);
    }
}

void svg_link_text(const struct pci_link *link, char *text, size_t size)
{
    char there[24], back[24];

    bandwidth_text(link, there, sizeof there);
    bandwidth_text(link->reverse, back, sizeof back);
    if (strcmp(there, back) == 0) {
        snprintf(text, size, "%s", there);
    } else {
        snprintf(text, size, "%s / %s", there, back);
    }
}

/* Write the label for all links between a node and its parent: only the bandwidth for PCI. */
static void label_find(const struct pci_node *parent, struct svg_place *place)
{
    size_t used = 0;

    for (uint32_t i = 0; i < parent->nlinks; i++) {
        const struct pci_link *link = parent->links[i];
        char text[48];

        if (link->to != place->link->to || link->bw >= WITHIN_CPU) {
            continue;
        }
        svg_link_text(link, text, sizeof text);
        used += (size_t) snprintf(
            place->label + used, sizeof place->label - used, "%s%s", used ? " + " : "",
            text + (strncmp(text, "PCI ", 4) == 0 || strncmp(text, "NET ", 4) == 0 ? 4 : 0));
        if (used >= sizeof place->label) {
            return;
        }
    }
    if (place->link->type == PCI_LINK_PCI && place->link->to->assumed) {
        snprintf(place->label + used, sizeof place->label - used, "?");
    }
}

/* Return true if the device number of each GPU is its rank, so that boxes show only one number. */
static bool ranks_are_devices(const struct pci_graph *graph)
{
    for (uint32_t g = 0; g < pci_graph_count(graph, PCI_NODE_GPU); g++) {
        if (pci_graph_node(graph, PCI_NODE_GPU, g)->gpu.dev != (int) g) {
            return false;
        }
    }
    return true;
}

static void text_find(const struct pci_node *node, bool ranked, struct svg_place *place)
{
    size_t rest = sizeof place->rest;

    snprintf(place->word, sizeof place->word, "%s", pci_node_type_name(node->type));
    if (node->type == PCI_NODE_GPU) {
        snprintf(place->word, sizeof place->word, "GPU %d", node->gpu.dev);
        if (ranked) {
            snprintf(place->rest, rest, "rank %" PRIu32 "  %s", node->index, node->busid);
        } else {
            snprintf(place->rest, rest, "%s", node->busid);
        }
    } else if (node->type == PCI_NODE_CPU) {
        snprintf(place->word, sizeof place->word, "CPU %d", node->cpu.numa);
    } else if (node->type == PCI_NODE_NET) {
        snprintf(place->word, sizeof place->word, "NET %d", node->net.dev);
        snprintf(place->rest, rest, "%.4g GB/s%s  %s", node->net.bw, node->assumed ? "?" : "",
                 node->net.name);
    } else {
        snprintf(place->rest, rest, "%s", node->busid);
    }
    if (strlen(place->rest) > REST_MAX) {
        memcpy(place->rest + REST_MAX - 3, "...", 4);
    }
}

static int column_of(const struct pci_node *node)
{
    return is_leaf(node) ? 2 : node->type == PCI_NODE_CPU ? 0 : 1;
}

static void texts_find(struct svg_layout *layout)
{
    bool ranked = !ranks_are_devices(layout->graph);

    layout->gap = 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct pci_node *node = pci_graph_vertex(layout->graph, layout->order[i]);
        struct svg_place *place = &layout->places[node->vertex];
        double *column = &layout->column[column_of(node)];

        text_find(node, ranked, place);
        *column = fmax(*column, svg_box_width(place->word, place->rest));
        if (place->link) {
            label_find(pci_graph_vertex(layout->graph, place->parent), place);
            layout->gap = fmax(layout->gap, svg_text_width(place->label, LABEL_SIZE));
        }
    }
    layout->gap += GAP_LEAST;
}

int svg_layout_make(const struct pci_graph *graph, struct svg_layout *layout)
{
    uint32_t vertices = pci_graph_vertices(graph);
    int rc;

    memset(layout, 0, sizeof *layout);
    layout->graph = graph;
    layout->levels = 1;
    layout->places = calloc(vertices + 1u, sizeof *layout->places);
    layout->order = calloc(vertices + 1u, sizeof *layout->order);
    if (!layout->places || !layout->order) {
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < vertices; v++) {
        layout->places[v].level = SVG_NO_LEVEL;
    }
    rc = order_find(layout);
    rc = rc ? rc : y_find(layout);
    if (rc == 0) {
        texts_find(layout);
    }
    return rc;
}

void svg_layout_free(struct svg_layout *layout)
{
    free(layout->places);
    free(layout->order);
}

double svg_layout_x(const struct svg_layout *layout, const struct pci_node *node, double *width)
{
    int column = column_of(node);
    int level = column == 2 ? layout->levels : layout->places[node->vertex].level;

    *width = layout->column[column];
    return level == 0
               ? 0
               : layout->column[0] + layout->gap + (level - 1) * (layout->column[1] + layout->gap);
}
