/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test common kinds of machines, as documents written for this test. Paths must follow the rules,
 * and channels must reach the sum of the links or nearly the limit that the search proves, on all
 * GPUs and on parts of them.
 */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "pci_proof.h"
#include "pci_test.h"

/* Part of the proven limit that every search must reach (in practice it is 0.95 and more). */
#define LEAST_OF_LIMIT 0.85

/* With several nodes, only every n-th part of a machine is tested. */
#define PART_STRIDE 9u

static const struct {
    const char *file;
    uint32_t gpus;
    double one, two; /* GB/s of all ring channels at least: on one node, between two */
} machines[] = {
    {"eight-two-level.xml", 8, 12 * 20, 8 * 24},
    {"eight-sm103.xml", 8, 18 * 40.1, 8 * 96},
    {"four-two-superchips.xml", 4, 18 * 40.1, 4 * 48},
    {"four-superchips.xml", 4, 18 * 20.6, 4 * 25},
    {"eight-thirty-two-nics.xml", 8, 18 * 20.6, 18 * 20.6},
    {"cube-single-links.xml", 8, 4 * 18, 4 * 12},
    {"four-pcie.xml", 4, 0.9 * 24, 0.85 * 25},
    {"two-bridged-pairs.xml", 4, 16, 16},
    {"workstation.xml", 2, 24, PCI_CHANNELS_BW_NO_NIC},
};

static struct pci_graph *graph_of_part(const char *file, uint32_t mask)
{
    struct pci_doc *doc = doc_of_file(file);
    struct pci_graph *graph = NULL;
    struct pci_error error = {""};
    unsigned ranks[32];
    size_t count = 0;

    for (unsigned rank = 0; rank < 32; rank++) {
        if (0 != (mask >> rank & 1)) {
            ranks[count++] = rank;
        }
    }
    if (0 != pci_doc_keep_gpus(doc, ranks, count, &error) ||
        0 != pci_graph_build(doc, NULL, &graph, &error)) {
        fail_msg("%s: %s", file, error.text);
    }
    pci_doc_free(doc);
    return graph;
}

static double total(const struct pci_channels *channels)
{
    return channels->nchannels * channels->bw_inter;
}

static void assert_good(const char *file, uint32_t mask, const struct pci_fabric *fabric,
                        const struct pci_channels *channels)
{
    char why[256];

    if (0 != pci_channels_check(fabric, channels, why, sizeof(why))) {
        fail_msg("%s, GPUs %#x: %s", file, mask, why);
    }
    if (total(channels) < LEAST_OF_LIMIT * channels->limit && PCI_NO_NET != channels->nets[0][0]) {
        fail_msg("%s, GPUs %#x, %u nodes, %s: %g of %g GB/s", file, mask, channels->nodes,
                 pci_pattern_name(channels->pattern), total(channels), channels->limit);
    }
}

/* Rings and trees of a part, proven, also when the nodes are connected; the rings' bandwidth. */
static double search(const char *file, uint32_t mask, uint32_t nodes)
{
    struct pci_graph *graph = graph_of_part(file, mask);
    struct pci_channels ring, tree;
    struct pci_connect connect;
    struct pci_fabric fabric;
    struct pci_error error = {""};
    char why[256];
    double reached;

    assert_int_equal(pci_fabric_from_graph(graph, &fabric), 0);
    assert_int_equal(pci_channels_of_graph(graph, nodes, &ring, &tree), 0);
    assert_good(file, mask, &fabric, &ring);
    assert_good(file, mask, &fabric, &tree);
    assert_int_equal(pci_connect_uniform(&connect, nodes, &ring, &tree, &error), 0);
    if (0 != pci_connect_check(&connect, why, sizeof(why))) {
        fail_msg("%s, GPUs %#x, %u nodes: %s", file, mask, nodes, why);
    }
    reached = total(&ring);
    pci_connect_uniform_fini(&connect);
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_fabric_fini(&fabric);
    pci_graph_free(graph);
    return reached;
}

TEST(test_channels)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        uint32_t all = (1u << machines[i].gpus) - 1;
        double one = search(machines[i].file, all, 1), two = search(machines[i].file, all, 2);

        if (one < machines[i].one * (1 - 1e-9) || two < machines[i].two * (1 - 1e-9)) {
            fail_msg("%s: rings of %g and %g GB/s on one node and between two, not %g and %g",
                     machines[i].file, one, two, machines[i].one, machines[i].two);
        }
    }
}

TEST(test_parts)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        for (uint32_t mask = 1; mask < 1u << machines[i].gpus; mask++) {
            search(machines[i].file, mask, 1);
            if (0 == mask % PART_STRIDE) {
                search(machines[i].file, mask, 2);
            }
        }
    }
}

/* With more GPUs than the exact search supports, channels are still near a proven limit. */
static const struct {
    const char *file;
    double ring[2], tree[2]; /* GB/s at least: on one node, between two */
} large[] = {
    {"sixteen-torus.xml", {216, 180}, {216, 180}},
    {"sixteen-pcie.xml", {16, 23}, {24, 22}},
};

static void assert_large(size_t i, uint32_t nodes)
{
    const double least[2] = {large[i].ring[nodes - 1], large[i].tree[nodes - 1]};
    struct pci_graph *graph = graph_of_file(large[i].file, NULL);
    struct pci_channels sets[2];
    struct pci_fabric fabric;
    char why[256];

    assert_int_equal(pci_fabric_from_graph(graph, &fabric), 0);
    assert_int_equal(pci_channels_of_graph(graph, nodes, &sets[0], &sets[1]), 0);
    for (uint32_t k = 0; k < 2; k++) {
        if (0 != pci_channels_check(&fabric, &sets[k], why, sizeof(why))) {
            fail_msg("%s, %u nodes: %s", large[i].file, nodes, why);
        }
        if (total(&sets[k]) < least[k] || !(sets[k].limit >= total(&sets[k]) * (1 - 1e-6))) {
            fail_msg("%s, %u nodes, %s: %g GB/s, not %g; limit %g", large[i].file, nodes,
                     pci_pattern_name(sets[k].pattern), total(&sets[k]), least[k], sets[k].limit);
        }
        pci_channels_fini(&sets[k]);
    }
    pci_fabric_fini(&fabric);
    pci_graph_free(graph);
}

TEST(test_large)
{
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        assert_large(i, 1);
        assert_large(i, 2);
    }
}

/* Two levels of one switch are one; its NICs are near to both of its GPUs. */
TEST(test_two_level)
{
    struct pci_graph *graph = graph_of_file("eight-two-level.xml", NULL);

    assert_int_equal(pci_graph_count(graph, PCI_NODE_PCI), 4);
    assert_path(graph, GPU, 0, NET, 1, "PIX 24 3");
    assert_path(graph, GPU, 0, GPU, 7, "NVL 240 2");
    assert_path(graph, GPU, 0, NET, 7, "PXN 24 5");
    assert_path(graph, NET, 7, GPU, 0, "SYS 16 6");
    pci_graph_free(graph);
}

/* The newest links: NVLink of compute capability 10, PCI Express 6, 800 Gb/s. */
TEST(test_newest)
{
    struct pci_graph *graph = graph_of_file("eight-sm103.xml", NULL);

    assert_path(graph, GPU, 0, GPU, 1, "NVL 721.8 2");
    assert_path(graph, GPU, 2, NET, 2, "PIX 96 3");
    assert_path(graph, NET, 0, GPU, 4, "SYS 40 6");
    pci_graph_free(graph);
}

/* Chip to chip, then PCI: a NIC of the same CPU is near, and GPUDirect works. */
TEST(test_superchips)
{
    struct pci_graph *graph = graph_of_file("four-two-superchips.xml", NULL);

    assert_path(graph, GPU, 0, CPU, 0, "C2C 313.068 1");
    assert_path(graph, GPU, 1, NET, 0, "P2C 48 3");
    assert_path(graph, NET, 3, GPU, 2, "P2C 48 3");
    assert_true(pci_graph_gdr(graph, 0, 1, true));
    assert_path(graph, NET, 3, GPU, 0, "SYS 6 4");
    pci_graph_free(graph);
    graph = graph_of_file("four-superchips.xml", NULL);
    assert_path(graph, GPU, 0, GPU, 3, "NVL 123.6 1");
    assert_path(graph, GPU, 3, NET, 3, "P2C 25 3");
    assert_path(graph, GPU, 3, NET, 0, "PXN 25 4");
    pci_graph_free(graph);
}

/* A NIC that a GPU only reaches through its CPU, and that adds little bandwidth, is not used. */
TEST(test_slow_nic)
{
    struct pci_graph *graph = graph_of_file("superchip-slow-nic.xml", NULL);
    struct pci_channels ring, tree;

    assert_int_equal(pci_channels_of_graph(graph, 2, &ring, &tree), 0);
    assert_int_equal(ring.type_inter, PCI_PATH_P2C);
    assert_int_equal(tree.type_inter, PCI_PATH_P2C);
    assert_true(total(&ring) >= 48 * (1 - 1e-9) && ring.nchannels <= 2);
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_graph_free(graph);
}

/* Without NVLink: peer-to-peer below one switch, or on an AMD processor with two GPUs. */
TEST(test_pcie)
{
    struct pci_graph *graph = graph_of_file("four-pcie.xml", NULL);

    assert_path(graph, GPU, 0, GPU, 1, "PIX 24 2");
    assert_true(pci_graph_p2p(graph, 0, 1, NULL));
    assert_path(graph, GPU, 2, GPU, 3, "PHB 24 2");
    assert_false(pci_graph_p2p(graph, 2, 3, NULL));
    assert_path(graph, GPU, 0, GPU, 2, "SYS 22 4");
    pci_graph_free(graph);
    graph = graph_of_file("workstation.xml", NULL);
    assert_path(graph, GPU, 0, GPU, 1, "PHB 24 2");
    assert_true(pci_graph_p2p(graph, 0, 1, NULL));
    pci_graph_free(graph);
    graph = graph_of_file("two-bridged-pairs.xml", NULL);
    assert_path(graph, GPU, 2, GPU, 3, "NVL 247.2 1");
    assert_path(graph, GPU, 0, GPU, 3, "SYS 16 3");
    assert_false(pci_graph_p2p(graph, 0, 3, NULL));
    pci_graph_free(graph);
}

/* 128-byte stores stay whole between equal GPUs from compute capability 7.0. */
TEST(test_whole_stores)
{
    static const struct {
        int sm[2];
        bool ll128;
    } pairs[] = {{{80, 80}, true}, {{80, 90}, false}, {{60, 60}, false}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct pci_channels ring, tree;
        struct pci_graph *graph;
        struct pci_costs costs;
        struct pci_job job;
        char text[1024];

        snprintf(text, sizeof(text),
                 "<system><cpu numaid='0' arch='arm64'>"
                 "<pci busid='1:0'><gpu dev='0' rank='0' sm='%d'>"
                 "<nvlink target='2:0' count='4' tclass='0x030200'/></gpu></pci>"
                 "<pci busid='2:0'><gpu dev='1' rank='1' sm='%d'>"
                 "<nvlink target='1:0' count='4' tclass='0x030200'/></gpu></pci></cpu></system>",
                 pairs[i].sm[0], pairs[i].sm[1]);
        graph = graph_of(text, NULL);
        assert_int_equal(pci_channels_of_graph(graph, 1, &ring, &tree), 0);
        assert_int_equal(pci_job_of_graph(graph, 1, &ring, &tree, ring.nchannels, &job), 0);
        assert_int_equal(pci_costs_gpu(&costs), 0);
        for (int a = PCI_ALGORITHM_RING; a <= PCI_ALGORITHM_DIRECT; a++) {
            assert_int_equal(isfinite(pci_predict_us(&costs, &job, (enum pci_algorithm) a,
                                                     PCI_PROTOCOL_LL128, 65536)) != 0,
                             pairs[i].ll128);
        }
        pci_channels_fini(&ring);
        pci_channels_fini(&tree);
        pci_graph_free(graph);
    }
}
