/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What ring, tree and packed trees reach on every set of GPUs of a machine, beside the bounds:
 * writes the table of doc/results/packed-trees.md. Usage: packed_table FILE.xml
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/bounds/pci_pack.h"
#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/search/pci_channels.h"

#define MAX_GPUS 10u /* 1013 sets; more would be no table to read */

/* GB/s of algorithm bandwidth of one set. */
struct row {
    bool nvlink; /* the set is connected by NVLink, and bounds and trees are over NVLink alone */
    double ring, tree, packed, ag, ar, ar_all;
    uint32_t trees, depth;
};

/* Products for geometric means, and extremes. */
struct summary {
    unsigned count;
    double log_sum, least, most;
};

static void die(const char *what, int rc, const struct pci_error *error)
{
    fprintf(stderr, "packed_table: %s: %s\n", what,
            NULL != error && '\0' != error->text[0] ? error->text : strerror(-rc));
    exit(EXIT_FAILURE);
}

static struct pci_graph *graph_of_set(const char *path, unsigned mask)
{
    struct pci_error error = {.text = ""};
    struct pci_doc *doc = NULL;
    struct pci_graph *graph = NULL;
    unsigned ranks[MAX_GPUS];
    size_t count = 0;
    int rc = pci_doc_read(path, &doc, &error);

    for (unsigned g = 0; g < MAX_GPUS; g++) {
        if (0 != (mask >> g & 1)) {
            ranks[count++] = g;
        }
    }
    if (0 == rc && mask > 0) {
        rc = pci_doc_keep_gpus(doc, ranks, count, &error);
    }
    if (0 == rc) {
        rc = pci_graph_build(doc, NULL, &graph, &error);
    }
    if (0 != rc) {
        die(path, rc, &error);
    }
    pci_doc_free(doc);
    return graph;
}

/* A ring carries the vector 2 (n-1)/n times over each link, a tree's inner GPUs twice. */
static void channels_of(const struct pci_graph *graph, struct row *row)
{
    struct pci_channels ring, tree;
    double n = pci_graph_count(graph, PCI_NODE_GPU);
    int rc = pci_channels_of_graph(graph, 1, &ring, &tree);

    if (0 != rc) {
        die("channels", rc, NULL);
    }
    row->ring = ring.nchannels * ring.bw_intra * n / (2 * (n - 1));
    row->tree = tree.nchannels * tree.bw_intra / 2;
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
}

static void packed_of(const struct pci_graph *graph, struct row *row)
{
    struct pci_pack pack;
    struct pci_flow flow;
    char why[200];
    int rc = pci_pack_of_graph(graph, PCI_PACK_TREES, &pack);

    if (0 != rc) {
        die("packed trees", rc, NULL);
    }
    rc = pci_flow_from_graph(graph, pack.nvlink ? PCI_FLOW_NVLINK : PCI_FLOW_ALL, &flow);
    if (0 != rc) {
        die("links", rc, NULL);
    }
    if (0 != pci_pack_check(&flow, &pack, why, sizeof(why))) {
        fprintf(stderr, "packed_table: %s\n", why);
        exit(EXIT_FAILURE);
    }
    pci_flow_fini(&flow);
    row->packed = pack.algbw;
    row->trees = pack.ntrees;
    for (uint32_t t = 0; t < pack.ntrees; t++) {
        row->depth = pack.trees[t].depth > row->depth ? pack.trees[t].depth : row->depth;
    }
}

static struct row measure(const char *path, unsigned mask)
{
    struct pci_graph *graph = graph_of_set(path, mask);
    struct row row = {.nvlink = false};
    struct pci_bounds bounds;
    int rc = pci_bounds_of_graph(graph, &bounds);
    const struct pci_bound *bound;

    if (0 != rc) {
        die("bounds", rc, NULL);
    }
    row.nvlink = bounds.nvlink.connected;
    bound = row.nvlink ? &bounds.nvlink : &bounds.all;
    row.ag = bound->ag.gbps;
    row.ar = bound->ar.gbps;
    row.ar_all = bounds.all.ar.gbps;
    channels_of(graph, &row);
    packed_of(graph, &row);
    pci_graph_free(graph);
    return row;
}

static void add(struct summary *summary, double ratio)
{
    summary->least = 0 == summary->count || ratio < summary->least ? ratio : summary->least;
    summary->most = 0 == summary->count || ratio > summary->most ? ratio : summary->most;
    summary->log_sum += log(ratio);
    summary->count++;
}

static void print_summary(const char *what, const struct summary *summary)
{
    if (summary->count > 0) {
        printf("| %s | %.3f | %.3f | %.3f |\n", what, summary->least,
               exp(summary->log_sum / summary->count), summary->most);
    }
}

static void print_row(unsigned mask, const struct row *row)
{
    bool first = true;

    printf("| ");
    for (unsigned g = 0; g < MAX_GPUS; g++) {
        if (0 != (mask >> g & 1)) {
            printf("%s%u", first ? "" : ",", g);
            first = false;
        }
    }
    printf(" | %s | %.2f | %.2f | %.2f (%u, %u) | %.2f | %.2f | %.2f | %.3f | %.2f |\n",
           row->nvlink ? "NVLink" : "all", row->ring, row->tree, row->packed, row->trees,
           row->depth, row->ag, row->ar, row->ar_all, row->packed / row->ar,
           row->packed / fmax(row->ring, row->tree));
}

/* The ratios of all sets of one kind. */
static void print_part(const char *title, const struct row *rows, unsigned sets, bool nvlink)
{
    struct summary ring = {0}, tree = {0}, packed = {0}, gain = {0}, best = {0}, room = {0};

    for (unsigned mask = 0; mask < sets; mask++) {
        const struct row *row = &rows[mask];
        double old = fmax(row->ring, row->tree);

        if (__builtin_popcount(mask) >= 2 && row->nvlink == nvlink) {
            add(&ring, row->ring / row->ar);
            add(&tree, row->tree / row->ar);
            add(&packed, row->packed / row->ar);
            add(&best, fmax(old, row->packed) / row->ar);
            add(&gain, row->packed / old);
            add(&room, row->ar / old);
        }
    }
    printf(
        "\n## %s: %u sets\n\n| ratio | minimum | geometric mean | maximum |\n|---|---|---|---|\n",
        title, ring.count);
    print_summary("ring / AR", &ring);
    print_summary("tree / AR", &tree);
    print_summary("packed / AR", &packed);
    print_summary("best of the three / AR", &best);
    print_summary("packed / better of ring and tree", &gain);
    print_summary("AR / better of ring and tree", &room);
}

static void print_preface(const char *path)
{
    const char *name = strrchr(path, '/');

    printf(
        "# Rings, trees and packed trees on every set of GPUs of %s\n\n"
        "Written by\n\n"
        "    make packed_table && test/bench/packed_table %s > packed-trees.md\n\n"
        "Algorithm bandwidth in GB/s (bytes of the vector / time, large vectors), from the links'\n"
        "bandwidths alone: ring and tree are what the channel search finds (channels x speed x\n"
        "n / (2(n-1)), and channels x speed / 2), packed is the sum of the packed trees' rates, "
        "each\n"
        "packing proven by pci_pack_check(); in brackets the number of trees and their depth. AG "
        "and AR\n"
        "are the bounds of mca/topo_pci/bounds/pci_bound.h: over NVLink where that connects the "
        "set, and "
        "then\n"
        "packed uses NVLink alone; over all links elsewhere. Rings and trees may add PCI links to\n"
        "NVLink, which is how trees exceed AR over NVLink on some sets; AR over all links bounds\n"
        "them.\n",
        NULL == name ? path : name + 1, path);
}

int main(int argc, char **argv)
{
    struct pci_graph *graph;
    struct row *rows;
    unsigned sets;

    if (2 != argc) {
        fputs("Usage: packed_table FILE.xml\n", stderr);
        return 2;
    }
    graph = graph_of_set(argv[1], 0);
    if (pci_graph_count(graph, PCI_NODE_GPU) > MAX_GPUS) {
        fprintf(stderr, "packed_table: more than %u GPUs\n", MAX_GPUS);
        return EXIT_FAILURE;
    }
    sets = 1u << pci_graph_count(graph, PCI_NODE_GPU);
    pci_graph_free(graph);
    rows = calloc(sets, sizeof(*rows));
    if (NULL == rows) {
        die("table", -ENOMEM, NULL);
    }
    for (unsigned mask = 0; mask < sets; mask++) {
        if (__builtin_popcount(mask) >= 2) {
            rows[mask] = measure(argv[1], mask);
        }
    }
    print_preface(argv[1]);
    print_part("Sets that NVLink connects", rows, sets, true);
    print_part("Sets that it does not connect (all links)", rows, sets, false);
    puts("\n## All sets\n\n| GPUs | links | ring | tree | packed (trees, depth) | AG | AR |"
         " AR, all links | packed / AR | packed / better of ring and tree |\n"
         "|---|---|---|---|---|---|---|---|---|---|");
    for (int size = 2; 1 << size <= (int) sets; size++) {
        for (unsigned mask = 0; mask < sets; mask++) {
            if (__builtin_popcount(mask) == size) {
                print_row(mask, &rows[mask]);
            }
        }
    }
    free(rows);
    return EXIT_SUCCESS;
}
