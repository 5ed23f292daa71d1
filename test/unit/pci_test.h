/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Helpers of the topology engine's tests: documents and graphs from text, or from test/data/topo.
 */
#ifndef PCI_TEST_H
#define PCI_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* Return the document of TEXT. Fail the test if TEXT is refused. */
static inline struct pci_doc *doc_of(const char *text)
{
    struct pci_doc *doc = NULL;
    struct pci_error error = {""};
    if (pci_doc_parse(text, strlen(text), &doc, &error)) {
        fail_msg("%s", error.text);
    }
    return doc;
}

/* Return the graph of TEXT with RULES (NULL: defaults). */
static inline struct pci_graph *graph_of(const char *text, const struct pci_path_rules *rules)
{
    struct pci_graph *graph = NULL;
    struct pci_error error = {""};
    struct pci_doc *doc = doc_of(text);
    if (pci_graph_build(doc, rules, &graph, &error)) {
        fail_msg("%s", error.text);
    }
    pci_doc_free(doc);
    return graph;
}

static inline const char *source_folder(void)
{
    const char *folder = getenv("GPURING_SOURCE");
    return folder ? folder : ".";
}

/* Read one of the project's own topology files, from test/data/topo. */
static inline struct pci_doc *doc_of_file(const char *name)
{
    char path[1024];
    struct pci_doc *doc = NULL;
    struct pci_error error = {""};
    snprintf(path, sizeof(path), "%s/test/data/topo/%s", source_folder(), name);
    if (pci_doc_read(path, &doc, &error)) {
        fail_msg("%s", error.text);
    }
    return doc;
}

static inline struct pci_graph *graph_of_file(const char *name, const struct pci_path_rules *rules)
{
    struct pci_graph *graph = NULL;
    struct pci_error error = {""};
    struct pci_doc *doc = doc_of_file(name);
    if (pci_graph_build(doc, rules, &graph, &error)) {
        fail_msg("%s: %s", name, error.text);
    }
    pci_doc_free(doc);
    return graph;
}

/* Return true if PART is in a remark on the graph. */
static inline bool remarked(const struct pci_graph *graph, const char *part)
{
    const char *text;
    for (size_t i = 0; pci_graph_remark(graph, i, &text); i++) {
        if (strstr(text, part)) {
            return true;
        }
    }
    return false;
}

/* Return a path as text, "PXB 24 4": class, bandwidth in GB/s, hops. The fourth later call
 * overwrites it. */
static inline const char *path_text(const struct pci_graph *graph, enum pci_node_type from,
                                    uint32_t i, enum pci_node_type to, uint32_t j)
{
    static char text[4][64];
    static unsigned next;
    const struct pci_path *path = pci_graph_route(graph, from, i, to, j);
    char *into = text[next++ % 4];
    snprintf(into, sizeof(text[0]), "%s %g %u", pci_path_class_name(path->class), path->bw,
             path->hops);
    return into;
}

#define assert_path(graph, from, i, to, j, want) \
    assert_string_equal(path_text(graph, PCI_NODE_##from, i, PCI_NODE_##to, j), want)

#endif
