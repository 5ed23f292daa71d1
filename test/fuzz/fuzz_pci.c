/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Fuzz target for the topology engine. Reads any bytes as a document. An accepted document passes
 * through all stages: it is written and read again, merged, made into a graph with paths, trimmed
 * and searched. No input may cause a crash, a leak or an endless loop, and all results must be
 * consistent.
 *
 * test/fuzz/run.sh builds it with libFuzzer; test_pci_corpus runs the kept inputs through it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "test/fuzz/fuzz_pci.h"
#include "test/unit/pci_proof.h"

#define SEARCH_GPUS \
    24u               /* no search above this: it would be slow and leave fewer inputs per second */
#define BOUND_GPUS 8u /* no bounds above this, because they are slow, too */

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fuzz_pci: %s\n", what);
        abort();
    }
}

/* Check that writing, reading and writing again gives the same text, and that merging a document
 * with itself changes nothing. */
static void check_text(struct pci_doc *doc)
{
    struct pci_doc *again = NULL;
    struct pci_error error = {""};
    char *first, *second;
    size_t n, m;
    require(!pci_doc_format(doc, &first, &n, &error), "a document cannot be written");
    if (n <= PCI_DOC_MAX_BYTES) {
        require(!pci_doc_parse(first, n, &again, &error), "own text is refused");
        require(!pci_doc_format(again, &second, &m, &error), "a document cannot be written");
        require(n == m && !memcmp(first, second, n), "text changes when read again");
        free(second);
        pci_doc_free(again);
    }
    free(first);
}

static void check_path(const struct pci_graph *graph, const struct pci_node *from,
                       const struct pci_node *to)
{
    const struct pci_path *path = pci_graph_path(graph, from, to);
    const struct pci_node *at = from;
    if (path->class == PCI_PATH_DIS) {
        require(!path->hops, "no path, but hops");
        return;
    }
    for (uint32_t i = 0; i < path->hops; i++) {
        require(path->links[i]->from == at, "a path is torn");
        require(path->links[i]->reverse->to == at, "a link's reverse is another");
        at = path->links[i]->to;
    }
    require(at == to, "a path leads elsewhere");
    require(path->bw > 0, "a path without bandwidth");
}

static void check_graph(const struct pci_graph *graph)
{
    for (uint32_t a = 0; a < pci_graph_vertices(graph); a++) {
        const struct pci_node *from = pci_graph_vertex(graph, a);
        for (uint32_t b = 0; b < pci_graph_vertices(graph); b++) {
            check_path(graph, from, pci_graph_vertex(graph, b));
        }
        for (uint32_t l = 0; l < from->nlinks; l++) {
            require(from->links[l]->from == from, "a link starts elsewhere");
        }
    }
    for (uint32_t g = 0; g < pci_graph_count(graph, PCI_NODE_GPU); g++) {
        require(pci_graph_route(graph, PCI_NODE_GPU, g, PCI_NODE_GPU, g)->class == PCI_PATH_LOC,
                "a GPU is not itself");
    }
}

/* Check the rings and trees of a job on `nodes` such machines. */
static void check_connect(uint32_t nodes, const struct pci_channels *ring,
                          const struct pci_channels *tree)
{
    struct pci_connect connect;
    struct pci_error error = {""};
    char why[256] = "";
    int rc = pci_connect_uniform(&connect, nodes, ring, tree, &error);
    require(!rc || error.text[0], "nodes are not connected, without a message");
    if (!rc) {
        require(!pci_connect_check(&connect, why, sizeof(why)), why);
        pci_connect_uniform_fini(&connect);
    }
}

static void check_search(const struct pci_graph *graph, uint32_t nodes)
{
    struct pci_fabric fabric = {0};
    struct pci_channels found[2] = {{0}};
    if (!pci_graph_count(graph, PCI_NODE_GPU) ||
        pci_graph_count(graph, PCI_NODE_GPU) > SEARCH_GPUS ||
        pci_fabric_from_graph(graph, &fabric)) {
        return;
    }
    for (unsigned p = 0; p < 2; p++) {
        struct pci_search search;
        char why[256] = "";
        pci_search_init(&search);
        search.nodes = nodes;
        search.pattern = p ? PCI_PATTERN_BALANCED_TREE : PCI_PATTERN_RING;
        require(!pci_channels_search(&fabric, &search, &found[p]), "there are no channels");
        require(!pci_channels_check(&fabric, &found[p], why, sizeof(why)), why);
    }
    check_connect(nodes, &found[0], &found[1]);
    pci_channels_fini(&found[0]);
    pci_channels_fini(&found[1]);
    pci_fabric_fini(&fabric);
}

/* Check that the bounds are consistent with each other. */
static void check_bounds(const struct pci_graph *graph)
{
    struct pci_bounds bounds;
    if (pci_graph_count(graph, PCI_NODE_GPU) >= 2 &&
        pci_graph_count(graph, PCI_NODE_GPU) <= BOUND_GPUS &&
        !pci_bounds_of_graph(graph, &bounds)) {
        require(bounds.all.ar.gbps >= bounds.nvlink.ar.gbps * (1 - 1e-6), "more links, less bound");
    }
}

static void check_all(struct pci_doc *doc, unsigned choice)
{
    struct pci_path_rules rules;
    struct pci_graph *graph = NULL;
    struct pci_error error = {""};
    pci_path_rules_init(&rules);
    rules.all = choice & 1 ? PCI_PEER_NO_P2P : PCI_PEER_OK;
    rules.pxn = !(choice & 2);
    rules.nvb = !(choice & 4);
    if (pci_graph_build(doc, &rules, &graph, &error)) {
        require(error.text[0], "refused without a message");
        return;
    }
    check_graph(graph);
    check_search(graph, 2);
    if (!pci_graph_trim(graph, 0, NULL, &error)) {
        check_graph(graph);
        check_search(graph, 1);
        check_bounds(graph);
    }
    pci_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pci_doc *doc = NULL, *twin = NULL;
    struct pci_error error = {""};
    unsigned zero = 0;
    if (pci_doc_parse(data, size, &doc, &error)) {
        require(error.text[0], "refused without a message");
        return 0;
    }
    check_text(doc);
    check_all(doc, (unsigned) size);
    if (!pci_doc_parse(data, size, &twin, &error)) {
        pci_doc_merge(twin, doc, &error);
        check_text(twin);
        check_all(twin, (unsigned) size);
        pci_doc_free(twin);
    }
    if (!pci_doc_keep_gpus(doc, &zero, 1, &error)) {
        check_all(doc, (unsigned) size);
    }
    check_text(doc);
    pci_doc_free(doc);
    return 0;
}
