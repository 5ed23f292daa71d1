/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Bounds of real machines, from their topology files. */
#include "test/unit/unit.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/graph/pcigraph.h"
#include "pci_cube.h"

static const char *folder(void)
{
    const char *topologies = getenv("GPURING_TOPOLOGIES");

    return NULL == topologies ? "../shared/topologies" : topologies;
}

/* Return the graph of the file's GPUs in the mask (0: all), or NULL after a message if the file
 * does not exist. */
static struct pci_graph *machine(const char *file, unsigned mask, enum pci_peer peer)
{
    struct pci_path_rules rules;
    struct pci_error error;
    struct pci_doc *doc;
    struct pci_graph *graph;
    char path[PATH_MAX];
    unsigned ranks[32];
    size_t count = 0;

    assert_true((size_t) snprintf(path, sizeof(path), "%s/%s", folder(), file) < sizeof(path));
    if (0 != access(path, R_OK)) {
        print_message("no %s; set GPURING_TOPOLOGIES\n", path);
        return NULL;
    }
    pci_path_rules_init(&rules);
    rules.all = peer;
    if (0 != pci_doc_read(path, &doc, &error)) {
        fail_msg("%s", error.text);
    }
    for (unsigned g = 0; g < 32; g++) {
        if (0 != (mask >> g & 1)) {
            ranks[count++] = g;
        }
    }
    if (count > 0) {
        assert_int_equal(pci_doc_keep_gpus(doc, ranks, count, &error), 0);
    }
    assert_int_equal(pci_graph_build(doc, &rules, &graph, &error), 0);
    pci_doc_free(doc);
    return graph;
}

static void assert_near(const char *what, double got, double want)
{
    if (fabs(got - want) > 1e-4 * (1 + want)) {
        fail_msg("%s: got %.6g, want %.6g", what, got, want);
    }
}

/* The bounds of these machines follow from their links: bandwidth of a port x N / (N-1) / 2 on an
 * NVSwitch, 480 / 7 on a cube mesh, and 10 between two sockets with half of the GPUs each. */
TEST(test_bounds)
{
    static const struct {
        const char *file;
        enum pci_peer peer;
        double nvlink, all_ag, all_ar; /* nvlink 0: not connected */
    } known[] = {
        {"azure-ndv2.xml", PCI_PEER_OK, 480.0 / 7, 576.0 / 7, 576.0 / 7},
        {"azure-ndv4.xml", PCI_PEER_OK, 960.0 / 7, 1056.0 / 7, 1056.0 / 7},
        {"perlmutter-4xa100.xml", PCI_PEER_OK, 160, 176, 176},
        {"hwloc-dgx2-16xv100.xml", PCI_PEER_OK, 64, 70.4, 70.4},
        {"a100pcie-2gpu-nvbridge.xml", PCI_PEER_OK, 240, 264, 264},
        {"a100pcie-2gpu-nvbridge.xml", PCI_PEER_NO_P2P, 0, 24, 24},
        {"rtx3090-8gpu-pcie.xml", PCI_PEER_OK, 0, 10, 10},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct pci_graph *graph = machine(known[i].file, 0, known[i].peer);
        struct pci_bounds bounds;

        if (NULL == graph) {
            skip();
        }
        assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
        assert_int_equal(bounds.nvlink.connected, known[i].nvlink > 0);
        assert_near(known[i].file, bounds.nvlink.ag.gbps, known[i].nvlink);
        assert_near(known[i].file, bounds.nvlink.ar.gbps, known[i].nvlink);
        assert_near(known[i].file, bounds.all.ag.gbps, known[i].all_ag);
        assert_near(known[i].file, bounds.all.ar.gbps, known[i].all_ar);
        pci_graph_free(graph);
    }
}

/* Parts of the cube mesh in the file have the same bounds as the mesh that was written by hand. */
TEST(test_parts)
{
    for (unsigned mask = 3; mask < 256; mask += 5) {
        struct pci_graph *graph;
        struct pci_flow flow;
        struct pci_bound by_hand;
        struct pci_bounds bounds;

        if (__builtin_popcount(mask) < 2) {
            continue;
        }
        graph = machine("azure-ndv2.xml", mask, PCI_PEER_OK);
        if (NULL == graph) {
            skip();
        }
        assert_int_equal(cube_flow(&flow, mask), 0);
        assert_int_equal(pci_bound_compute(&flow, &by_hand), 0);
        assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
        assert_int_equal(bounds.nvlink.connected, by_hand.connected);
        assert_near("AG", bounds.nvlink.ag.gbps, by_hand.ag.gbps);
        assert_near("AR", bounds.nvlink.ar.gbps, by_hand.ar.gbps);
        assert_true(bounds.all.ar.gbps >= bounds.nvlink.ar.gbps);
        pci_flow_fini(&flow);
        pci_graph_free(graph);
    }
}

/* One GPU: nothing to exchange, no bound. */
TEST(test_one_gpu)
{
    struct pci_graph *graph = machine("azure-ndv2.xml", 1, PCI_PEER_OK);
    struct pci_bounds bounds;

    if (NULL == graph) {
        skip();
    }
    assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
    assert_false(bounds.all.connected);
    pci_graph_free(graph);
}
