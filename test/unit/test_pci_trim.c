/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Trimming: subsets of GPUs, and unreachable GPUs. */
#include "test/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/pcigraph.h"
#include "pci_test.h"

static size_t count(const struct pci_doc *doc, const char *name)
{
    struct pci_elem *elem = NULL;
    size_t n = 0;
    while ((elem = pci_doc_next(doc, elem, name))) {
        n++;
    }
    return n;
}

TEST(test_subset)
{
    static const unsigned ranks[] = {3, 0};
    struct pci_doc *doc = doc_of_file("two-sockets.xml");
    struct pci_graph *graph;
    assert_int_equal(pci_doc_keep_gpus(doc, ranks, 2, NULL), 0);
    assert_int_equal(count(doc, "gpu"), 2);
    assert_int_equal(count(doc, "net"), 2);
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 1)->gpu.rank, 1);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 1)->gpu.dev, 3);
    assert_path(graph, GPU, 0, GPU, 1, "SYS 10 4");
    assert_path(graph, GPU, 0, NET, 0, "PIX 12.5 3");
    pci_graph_free(graph);
    pci_doc_free(doc);
}

/* Branches without GPUs and nets are removed: here the switch with another GPU, and a CPU. */
TEST(test_subset_branches)
{
    static const unsigned first[] = {0};
    struct pci_doc *doc = doc_of(
        "<system><cpu numaid='0'><pci busid='0000:01:00.0'><gpu dev='0' keep='1'/></pci>"
        "<pci busid='0000:02:00.0'><pci busid='0000:03:00.0'><gpu dev='1'/></pci></pci></cpu>"
        "<cpu numaid='1'><pci busid='0000:04:00.0'/><nic/></cpu>"
        "<cpu numaid='2'><nic><net name='a'/></nic></cpu></system>");
    assert_int_equal(pci_doc_keep_gpus(doc, first, 1, NULL), 0);
    assert_int_equal(count(doc, "cpu"), 2);
    assert_int_equal(count(doc, "pci"), 1);
    assert_int_equal(count(doc, "gpu"), 1);
    assert_int_equal(count(doc, "nic"), 1);
    assert_null(pci_elem_get(pci_doc_find(doc, "gpu", NULL, NULL), "keep"));
    pci_doc_free(doc);
}

TEST(test_subset_refused)
{
    static const unsigned twice[] = {1, 1}, missing[] = {0, 9};
    struct pci_doc *doc = doc_of_file("two-sockets.xml");
    struct pci_error error = {""};
    assert_int_equal(pci_doc_keep_gpus(doc, twice, 2, &error), -EINVAL);
    assert_non_null(strstr(error.text, "GPU 1 is given twice"));
    assert_int_equal(pci_doc_keep_gpus(doc, missing, 2, &error), -ENOENT);
    assert_non_null(strstr(error.text, "no GPU 9: the topology has 4 GPUs"));
    assert_int_equal(pci_doc_keep_gpus(doc, missing, 0, &error), -EINVAL);
    assert_int_equal(count(doc, "gpu"), 4); /* as it was */
    pci_doc_free(doc);
}

/* Without ranks, positions in the document replace them. */
TEST(test_subset_unranked)
{
    static const unsigned second[] = {1};
    struct pci_doc *doc = doc_of("<system><cpu numaid='0'><pci busid='0000:01:00.0'><gpu dev='5'/>"
                                 "</pci><pci busid='0000:02:00.0'><gpu dev='4'/></pci></cpu>"
                                 "</system>");
    struct pci_graph *graph;
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 2);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.dev, 5);
    pci_graph_free(graph);
    assert_int_equal(pci_doc_keep_gpus(doc, second, 1, NULL), 0);
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 1);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.dev, 4);
    pci_graph_free(graph);
    pci_doc_free(doc);
}

/* If all GPUs reach each other, paths do not change. */
TEST(test_nothing)
{
    struct pci_graph *graph = graph_of_file("nvswitch.xml", NULL);
    uint32_t removed = 9;
    assert_int_equal(pci_graph_trim(graph, 0, &removed, NULL), 0);
    assert_int_equal(removed, 0);
    assert_path(graph, GPU, 2, NET, 0, "PXN 24 5");
    assert_path(graph, GPU, 0, GPU, 3, "NVL 185.4 2");
    for (uint32_t i = 0; i < pci_graph_links(graph); i++) {
        assert_int_equal(pci_graph_link(graph, i)->id, i);
    }
    pci_graph_free(graph);
}

/* Ranks 0 and 2 share no memory with 1 and 3: two containers on one machine. */
static enum pci_peer odd_apart(void *context, uint32_t a, uint32_t b)
{
    (void) context;
    return (a ^ b) & 1 ? PCI_PEER_ISOLATED : PCI_PEER_OK;
}

TEST(test_isolated)
{
    struct pci_path_rules rules;
    struct pci_graph *graph;
    uint32_t removed = 0;
    pci_path_rules_init(&rules);
    rules.peer = odd_apart;
    graph = graph_of_file("nvswitch.xml", &rules);
    assert_int_equal(pci_graph_route(graph, PCI_NODE_GPU, 0, PCI_NODE_GPU, 1)->class, PCI_PATH_NET);
    assert_int_equal(pci_graph_route(graph, PCI_NODE_GPU, 0, PCI_NODE_GPU, 2)->class, PCI_PATH_NVL);
    assert_int_equal(pci_graph_trim(graph, 1, &removed, NULL), 0);
    assert_int_equal(removed, 2);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.rank, 1);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 1)->gpu.rank, 3);
    assert_path(graph, GPU, 0, GPU, 1, "NVL 185.4 2");
    assert_path(graph, GPU, 1, NET, 0, "PXN 24 5");
    pci_graph_free(graph);
}

/* Several hosts in one document: only NVLink leads from one to the other. */
TEST(test_hosts)
{
    static const char *const text =
        "<system><cpu host_hash='0x1' numaid='0' arch='arm64'><pci busid='0000:01:00.0'>"
        "<gpu dev='0' rank='0'/></pci></cpu>"
        "<cpu host_hash='0x2' numaid='0' arch='arm64'><pci busid='0000:01:00.0'>"
        "<gpu dev='0' rank='1'/></pci></cpu></system>";
    struct pci_graph *graph = graph_of(text, NULL);
    uint32_t removed;
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 2);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 1)->host, 2);
    assert_path(graph, GPU, 0, GPU, 1, "DIS 0 0");
    assert_int_equal(pci_graph_trim(graph, 1, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.rank, 1);
    pci_graph_free(graph);
}
