/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * parts_table NODES FILE.xml...: run the channel search on parts of machines. Prints rows for a
 * table of doc/results/search.md: the bandwidth as a fraction of the proven limit, and the CPU
 * time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "test/unit/pci_proof.h"

#define MAX_GPUS  16u
#define MAX_PARTS 260u /* of a machine; if there are more, take every n-th */

struct table_row {
    unsigned parts;
    double least[2], sum[2]; /* rings, trees: reached / limit */
    double most_ms;          /* maximum time of graph, paths and both searches */
};

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static void die(const char *path, const char *why)
{
    fprintf(stderr, "parts_table: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

/* Return the document of a machine with only the GPUs in `mask`, or all GPUs if it is 0. */
static struct pci_doc *doc_of_part(const char *path, unsigned mask)
{
    struct pci_error error = {""};
    struct pci_doc *doc = NULL;
    unsigned ranks[MAX_GPUS];
    size_t count = 0;

    for (unsigned g = 0; g < MAX_GPUS; g++) {
        if (0 != (mask >> g & 1)) {
            ranks[count++] = g;
        }
    }
    if (0 != pci_doc_read(path, &doc, &error) ||
        (count > 0 && 0 != pci_doc_keep_gpus(doc, ranks, count, &error))) {
        die(path, error.text);
    }
    return doc;
}

static struct pci_graph *graph_of_doc(const char *path, const struct pci_doc *doc)
{
    struct pci_error error = {""};
    struct pci_graph *graph = NULL;

    if (0 != pci_graph_build(doc, NULL, &graph, &error)) {
        die(path, error.text);
    }
    return graph;
}

static void add(struct table_row *row, int kind, const struct pci_channels *channels)
{
    double reached = channels->nchannels * channels->bw_inter;
    double ratio = channels->limit > 0 ? reached / channels->limit : 1;

    row->least[kind] = ratio < row->least[kind] ? ratio : row->least[kind];
    row->sum[kind] += ratio;
}

static void search(const char *path, unsigned mask, uint32_t nodes, struct table_row *row)
{
    struct pci_doc *doc = doc_of_part(path, mask);
    double begin = cpu_ms(), spent;
    struct pci_graph *graph = graph_of_doc(path, doc);
    struct pci_channels ring, tree;
    struct pci_fabric fabric;
    char why[256] = "";

    if (0 != pci_channels_of_graph(graph, nodes, &ring, &tree)) {
        die(path, "no channels");
    }
    spent = cpu_ms() - begin;
    if (0 != pci_fabric_from_graph(graph, &fabric) ||
        0 != pci_channels_check(&fabric, &ring, why, sizeof(why)) ||
        0 != pci_channels_check(&fabric, &tree, why, sizeof(why))) {
        die(path, why);
    }
    row->most_ms = spent > row->most_ms ? spent : row->most_ms;
    row->parts++;
    add(row, 0, &ring);
    add(row, 1, &tree);
    pci_fabric_fini(&fabric);
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_graph_free(graph);
    pci_doc_free(doc);
}

static void print_machine(const char *path, uint32_t nodes)
{
    struct pci_doc *doc = doc_of_part(path, 0);
    struct pci_graph *graph = graph_of_doc(path, doc);
    uint32_t gpus = pci_graph_count(graph, PCI_NODE_GPU);
    struct table_row row = {.least = {1, 1}};
    const char *name = strrchr(path, '/');
    unsigned all, stride;

    pci_graph_free(graph);
    pci_doc_free(doc);
    if (gpus < 2 || gpus > MAX_GPUS) {
        die(path, "not 2 to 16 GPUs");
    }
    all = (1u << gpus) - 1;
    stride = all / MAX_PARTS + 1;
    for (unsigned mask = all; mask > 0; mask = mask > stride ? mask - stride : 0) {
        if (__builtin_popcount(mask) >= 2) {
            search(path, mask, nodes, &row);
        }
    }
    name = NULL == name ? path : name + 1;
    printf("| %.*s | %u | %u | %.3f | %.3f | %.3f | %.3f | %.1f |\n", (int) strcspn(name, "."),
           name, nodes, row.parts, row.least[0], row.sum[0] / row.parts, row.least[1],
           row.sum[1] / row.parts, row.most_ms);
}

int main(int argc, char **argv)
{
    int nodes = argc > 2 ? atoi(argv[1]) : 0;

    if (nodes < 1) {
        fputs("Usage: parts_table NODES FILE.xml...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        print_machine(argv[i], (uint32_t) nodes);
    }
    return EXIT_SUCCESS;
}
