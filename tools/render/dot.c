/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The graph for Graphviz. */

#include <inttypes.h>

#include "tools/render/pci_render.h"

static void node_name(const struct pci_node *node, char *name, size_t size)
{
    switch (node->type) {
    case PCI_NODE_GPU:
        snprintf(name, size, "GPU %d", node->gpu.dev);
        break;
    case PCI_NODE_NET:
        snprintf(name, size, "NET %d", node->net.dev);
        break;
    case PCI_NODE_CPU:
        snprintf(name, size, "CPU %d", node->cpu.numa);
        break;
    default:
        snprintf(name, size, "%s %" PRIu32, pci_node_type_name(node->type), node->index);
        break;
    }
}

static const char *shape_of(enum pci_node_type type)
{
    return type == PCI_NODE_GPU   ? "box, style=filled, fillcolor=\"#c7e9c0\""
           : type == PCI_NODE_NET ? "box, style=filled, fillcolor=\"#fdd0a2\""
           : type == PCI_NODE_CPU ? "box, style=\"filled,rounded\", fillcolor=\"#c6dbef\""
                                  : "ellipse";
}

/* Write text inside a string of the dot language. */
static void text_put(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n') {
            fputs("\\l", out); /* a line end, aligned to the left */
        } else {
            fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
        }
    }
}

static void node_write(FILE *out, const struct pci_node *node)
{
    char name[64];

    node_name(node, name, sizeof(name));
    fprintf(out, "    v%" PRIu32 " [label=\"%s", node->vertex, name);
    if (node->busid[0] != '\0') {
        fputs("\\n", out);
        text_put(out, node->busid);
    }
    fprintf(out, "\", shape=%s];\n", shape_of(node->type));
}

/* Write both directions of a link as one line, with both bandwidths if they differ. */
static void link_write(FILE *out, const struct pci_link *link)
{
    if (link->type == PCI_LINK_LOC || link->from->vertex > link->to->vertex) {
        return;
    }
    fprintf(out, "    v%" PRIu32 " -- v%" PRIu32 " [label=\"%s %.4g", link->from->vertex,
            link->to->vertex, pci_link_type_name(link->type), link->bw);
    if (link->reverse->bw < link->bw || link->reverse->bw > link->bw) {
        fprintf(out, " / %.4g", link->reverse->bw);
    }
    fprintf(out, "\"%s];\n", link->type == PCI_LINK_NVL ? ", color=\"#238b45\"" : "");
}

int pci_render_dot(FILE *out, const struct pci_graph *graph, const char *notes)
{
    fputs("graph machine {\n    node [fontname=\"sans-serif\"];\n    edge [fontsize=10];\n", out);
    if (notes[0]) {
        fputs("    fontname=\"sans-serif\"; label=\"", out);
        text_put(out, notes);
        fputs("\";\n", out);
    }
    for (uint32_t v = 0; v < pci_graph_vertices(graph); v++) {
        node_write(out, pci_graph_vertex(graph, v));
    }
    for (uint32_t id = 0; id < pci_graph_links(graph); id++) {
        link_write(out, pci_graph_link(graph, id));
    }
    fputs("}\n", out);
    return 0;
}
