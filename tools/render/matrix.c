/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The matrices of path classes and bandwidths. */

#include <stdio.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"
#include "tools/render/pci_render.h"

unsigned pci_nvlinks_of_bandwidth(int sm, double bw)
{
    return sm < 60 ? 0 : (unsigned) (bw / pci_bw_of_nvlink(sm) + 0.5);
}

/* Return the GPU or net of a row or column. */
static struct pci_node *endpoint(const struct pci_graph *graph, uint32_t i)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);

    return i < gpus ? pci_graph_node(graph, PCI_NODE_GPU, i)
                    : pci_graph_node(graph, PCI_NODE_NET, i - gpus);
}

static uint32_t endpoint_count(const struct pci_graph *graph)
{
    return pci_graph_count(graph, PCI_NODE_GPU) + pci_graph_count(graph, PCI_NODE_NET);
}

/* Return true if device numbers are unique. With several hosts, they begin at 0 on each host. */
static int devices_differ(const struct pci_graph *graph)
{
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);

    for (uint32_t i = 1; i < gpus; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (endpoint(graph, i)->gpu.dev == endpoint(graph, j)->gpu.dev) {
                return 0;
            }
        }
    }
    return 1;
}

static void name_of(const struct pci_node *node, int by_device, char *name, size_t size)
{
    if (node->type == PCI_NODE_GPU) {
        snprintf(name, size, "GPU%d", by_device ? node->gpu.dev : node->gpu.rank);
    } else {
        snprintf(name, size, "NET%d", node->net.dev);
    }
}

void pci_render_class(const struct pci_node *from, const struct pci_path *path, char *text,
                      size_t size)
{
    unsigned links = from->type == PCI_NODE_GPU && path->class == PCI_PATH_NVL
                         ? pci_nvlinks_of_bandwidth(from->gpu.sm, path->bw)
                         : 0;

    if (links > 0) {
        snprintf(text, size, "NV%u", links);
    } else {
        snprintf(text, size, "%s", pci_path_class_name(path->class));
    }
}

static void cell_of(const struct pci_graph *graph, uint32_t i, uint32_t j, int bandwidths,
                    char *cell, size_t size)
{
    struct pci_node *from = endpoint(graph, i), *to = endpoint(graph, j);
    const struct pci_path *path = pci_graph_path(graph, from, to);

    if (i == j) {
        snprintf(cell, size, "X");
    } else if (bandwidths) {
        snprintf(cell, size, "%.4g", path->bw);
    } else {
        pci_render_class(from, path, cell, size);
    }
}

static void matrix(FILE *out, const struct pci_graph *graph, int bandwidths)
{
    uint32_t count = endpoint_count(graph);
    int by_device = devices_differ(graph);
    char cell[32];

    fprintf(out, "%-8s", bandwidths ? "GB/s" : "");
    for (uint32_t j = 0; j < count; j++) {
        name_of(endpoint(graph, j), by_device, cell, sizeof cell);
        fprintf(out, "%-7s", cell);
    }
    fprintf(out, "%s\n", bandwidths ? "" : "NUMA node");
    for (uint32_t i = 0; i < count; i++) {
        struct pci_node *node = endpoint(graph, i);
        int cpu = node->type == PCI_NODE_GPU ? pci_graph_local_cpu(graph, node->index) : -1;

        name_of(node, by_device, cell, sizeof cell);
        fprintf(out, "%-8s", cell);
        for (uint32_t j = 0; j < count; j++) {
            cell_of(graph, i, j, bandwidths, cell, sizeof cell);
            fprintf(out, "%-7s", cell);
        }
        if (!bandwidths && cpu >= 0) {
            int numa = pci_graph_node(graph, PCI_NODE_CPU, (uint32_t) cpu)->cpu.numa;

            fprintf(out, numa < 0 ? "?" : "%d", numa);
        }
        fputc('\n', out);
    }
}

static void matrix_legend(FILE *out, const struct pci_graph *graph)
{
    fputs("\nLegend (row: from, column: to):\n"
          "  X    the device itself\n"
          "  NV#  NVLink, as wide as # links        NVB  NVLink through another GPU\n"
          "  C2C  chip to chip                      P2C  chip to chip, then PCI to a NIC\n"
          "  PIX  one PCI switch                    PXB  several PCI switches\n"
          "  PXN  a NIC through a relay GPU         PHB  through a CPU\n"
          "  SYS  between CPUs                      DIS  no path\n",
          out);
    for (uint32_t i = 0; i < pci_graph_count(graph, PCI_NODE_NET); i++) {
        const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, i);

        fprintf(out, "  NET%d: %s port %d, %.4g GB/s%s%s\n", net->net.dev,
                net->net.name[0] ? net->net.name : "without a name", net->net.port, net->net.bw,
                net->assumed ? " (assumed)" : "", net->net.gdr ? ", GPUDirect RDMA" : "");
    }
}

int pci_render_matrix(FILE *out, const struct pci_graph *graph)
{
    if (endpoint_count(graph) == 0) {
        fputs("No GPU and no NIC.\n", out);
        return 0;
    }
    matrix(out, graph, 0);
    fputc('\n', out);
    matrix(out, graph, 1);
    matrix_legend(out, graph);
    return 0;
}
