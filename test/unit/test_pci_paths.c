/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The rules of paths, on machines invented for this test. test_gpuring_topo.sh compares the paths
 * of real machines with recorded answers. */
#include "test/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/graph_internal.h"
#include "pci_test.h"

/* Every path is a chain of links from its start to its end, with its stated bandwidth unless it is
 * asymmetric. */
static void check_chains(const struct pci_graph *graph)
{
    for (uint32_t a = 0; a < pci_graph_vertices(graph); a++) {
        for (uint32_t b = 0; b < pci_graph_vertices(graph); b++) {
            const struct pci_node *at = pci_graph_vertex(graph, a);
            const struct pci_node *to = pci_graph_vertex(graph, b);
            const struct pci_path *path = pci_graph_path(graph, at, to);
            if (path->class == PCI_PATH_DIS) {
                assert_int_equal(path->hops, 0);
                continue;
            }
            double bw = 5000;
            for (uint32_t i = 0; i < path->hops; i++) {
                const struct pci_link *link = path->links[i];
                assert_ptr_equal(link->from, at);
                assert_ptr_equal(pci_graph_link(graph, link->id), link);
                bw = fmin(bw, link->reverse->bw);
                at = link->to;
            }
            assert_ptr_equal(at, to);
            assert_true(path->bw > 0 && path->bw <= 5000);
            if (fabs(path->bw - bw) > 1e-9 * bw) { /* a detour is two paths; all else is exact */
                assert_true(path->class >= PCI_PATH_P2C);
            }
        }
    }
}

/* ---- Invented machines, with figures computed by hand from the rules ---- */

TEST(test_two_sockets)
{
    struct pci_graph *graph = graph_of_file("two-sockets.xml", NULL);
    assert_path(graph, GPU, 0, GPU, 0, "LOC 5000 0");
    assert_path(graph, GPU, 0, GPU, 1, "PIX 12 2");
    assert_path(graph, GPU, 0, GPU, 2, "PXB 24 3");
    assert_path(graph, GPU, 0, GPU, 3, "SYS 10 4");
    assert_path(graph, GPU, 0, CPU, 0, "PHB 24 2");
    assert_path(graph, GPU, 0, CPU, 1, "SYS 10 3");
    assert_path(graph, GPU, 0, NET, 0, "PIX 12.5 3");
    assert_path(graph, GPU, 1, NET, 0, "PIX 12 3");
    assert_path(graph, NET, 0, GPU, 2, "PXB 12.5 4");
    assert_path(graph, GPU, 3, NET, 0, "SYS 10 5");
    assert_path(graph, NET, 1, GPU, 3, "PHB 3.125 3");
    assert_int_equal(pci_graph_local_cpu(graph, 2), 0);
    assert_int_equal(pci_graph_local_cpu(graph, 3), 1);
    assert_true(pci_graph_gdr(graph, 0, 0, true));
    assert_true(pci_graph_gdr(graph, 2, 0, true));
    assert_false(pci_graph_gdr(graph, 3, 0, false)); /* too far */
    assert_false(pci_graph_gdr(graph, 3, 1, false)); /* the NIC cannot */
    pci_graph_free(graph);
}

/* If the driver or a level forbids peer-to-peer, paths pass the CPU. */
TEST(test_p2p)
{
    struct pci_path_rules rules;
    struct pci_graph *graph;
    int relay;
    pci_path_rules_init(&rules);
    rules.all = PCI_PEER_NO_P2P;
    graph = graph_of_file("two-sockets.xml", &rules);
    assert_path(graph, GPU, 0, GPU, 1, "PHB 12 4");
    assert_path(graph, GPU, 0, GPU, 2, "PHB 24 5");
    assert_false(pci_graph_p2p(graph, 0, 1, NULL));
    rules.all = PCI_PEER_OK;
    rules.p2p_level = PCI_PATH_PIX;
    assert_int_equal(pci_graph_recompute(graph, &rules, NULL), 0);
    assert_path(graph, GPU, 0, GPU, 1, "PIX 12 2");
    assert_path(graph, GPU, 0, GPU, 2, "PHB 24 5");
    rules.p2p_level = PCI_PATH_SYS;
    assert_int_equal(pci_graph_recompute(graph, &rules, NULL), 0);
    assert_path(graph, GPU, 0, GPU, 3, "SYS 10 4");
    assert_true(pci_graph_p2p(graph, 0, 3, &relay));
    assert_int_equal(relay, -1);
    pci_graph_free(graph);
}

TEST(test_nvlink_mesh)
{
    struct pci_path_rules rules;
    struct pci_graph *graph = graph_of_file("square.xml", NULL);
    int relay;
    assert_path(graph, GPU, 0, GPU, 1, "NVL 40 1");
    assert_path(graph, GPU, 0, GPU, 2, "NVB 40 2"); /* not over GPU 3, which has 20 */
    assert_path(graph, GPU, 1, GPU, 3, "NVB 20 2");
    assert_true(pci_graph_p2p(graph, 0, 2, &relay));
    assert_int_equal(relay, 1);
    pci_path_rules_init(&rules);
    rules.nvb = false;
    assert_int_equal(pci_graph_recompute(graph, &rules, NULL), 0);
    assert_path(graph, GPU, 0, GPU, 2, "PHB 12 2");
    pci_graph_free(graph);
}

/* NVSwitch, flattened PCI switches of both generations, and a relay GPU for the far NIC. */
TEST(test_nvswitch)
{
    struct pci_graph *graph = graph_of_file("nvswitch.xml", NULL);
    struct pci_path_rules rules;
    assert_int_equal(pci_graph_count(graph, PCI_NODE_NVS), 1);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_PCI), 2);
    assert_path(graph, GPU, 0, GPU, 3, "NVL 185.4 2");
    assert_path(graph, GPU, 0, NET, 0, "PIX 24 3"); /* PXB but for the flattening */
    assert_path(graph, GPU, 2, NET, 0, "PXN 24 5");
    assert_path(graph, NET, 0, GPU, 2, "SYS 22 6");
    assert_int_equal(pci_graph_pxn(graph, 2, 0), 0); /* of GPUs 0 and 1, which are as near */
    assert_int_equal(pci_graph_pxn(graph, 0, 0), -1);
    assert_int_equal(pci_local_relay(graph, 0), pci_graph_pxn(graph, 2, 0));
    assert_true(pci_graph_gdr(graph, 2, 0, false));
    pci_path_rules_init(&rules);
    rules.pxn = false;
    assert_int_equal(pci_graph_recompute(graph, &rules, NULL), 0);
    assert_path(graph, GPU, 2, NET, 0, "SYS 22 6");
    rules.gdr_level = PCI_PATH_NVL; /* nothing is near enough */
    assert_int_equal(pci_graph_recompute(graph, &rules, NULL), 0);
    assert_path(graph, GPU, 0, NET, 0, "PHB 24 5");
    assert_path(graph, NET, 0, GPU, 0, "PHB 24 5");
    pci_graph_free(graph);
}

TEST(test_chip_to_chip)
{
    struct pci_graph *graph = graph_of_file("chip-to-chip.xml", NULL);
    assert_path(graph, GPU, 0, GPU, 1, "NVL 123.6 1");
    assert_path(graph, GPU, 0, CPU, 0, "C2C 360 1");
    assert_path(graph, GPU, 0, NET, 0, "P2C 48 3");
    assert_path(graph, NET, 0, GPU, 0, "P2C 48 3");
    assert_path(graph, GPU, 0, NET, 1, "PXN 48 4");
    assert_path(graph, NET, 1, GPU, 0, "SYS 6 4");
    assert_true(pci_graph_gdr(graph, 0, 0, true));
    pci_graph_free(graph);
}

/* Only the fastest NICs of a CPU are near to the GPU that it has a chip-to-chip link with. */
TEST(test_slow_nic)
{
    struct pci_graph *graph = graph_of_file("superchip-slow-nic.xml", NULL);
    assert_path(graph, GPU, 0, NET, 0, "P2C 48 3");
    assert_path(graph, NET, 0, GPU, 0, "P2C 48 3");
    assert_true(pci_graph_gdr(graph, 0, 0, true));
    assert_path(graph, GPU, 0, NET, 1, "PHB 3.125 3");
    assert_path(graph, NET, 1, GPU, 0, "PHB 3.125 3");
    assert_false(pci_graph_gdr(graph, 0, 1, false));
    pci_graph_free(graph);
}

TEST(test_power)
{
    struct pci_graph *graph = graph_of_file("power9.xml", NULL);
    assert_path(graph, GPU, 0, GPU, 1, "NVL 60 1");
    assert_path(graph, GPU, 0, CPU, 0, "NVL 60 1");
    assert_path(graph, GPU, 0, GPU, 2, "SYS 32 3");
    pci_graph_free(graph);
}

TEST(test_oddities)
{
    struct pci_graph *graph = graph_of_file("oddities.xml", NULL);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 3);
    assert_string_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->busid, "0000:02:00.0");
    assert_int_equal(pci_graph_node(graph, PCI_NODE_GPU, 0)->gpu.dev, 1);
    assert_int_equal(pci_graph_listed(graph, PCI_NODE_GPU, 0), 1);
    assert_path(graph, GPU, 0, GPU, 1, "NVL 80 1"); /* each direction has its own count, and a */
    assert_path(graph, GPU, 1, GPU, 0, "NVL 40 1"); /* path takes that of the opposite one */
    assert_path(graph, GPU, 2, GPU, 0, "NVL 20 1");
    assert_path(graph, GPU, 0, NET, 0, "PHB 1.25 3");
    assert_path(graph, NET, 0, GPU, 2, "SYS 1.25 4");
    assert_path(graph, GPU, 0, NET, 1, "DIS 0 0"); /* the same net once more */
    assert_path(graph, NET, 1, GPU, 0, "PHB 1.25 3");
    assert_true(remarked(graph, "the GPU itself"));
    assert_true(remarked(graph, "0000:77:00.0: no GPU that takes part"));
    assert_true(remarked(graph, "one direction only"));
    pci_graph_free(graph);
}

static enum pci_peer refuse_zero(void *context, uint32_t a, uint32_t b)
{
    (void) context;
    return a == 0 || b == 0 ? PCI_PEER_NO_P2P : PCI_PEER_OK;
}

/* One GPU whose peer-to-peer is refused: its pairs, and the pairs that would pass through it. */
TEST(test_peer_hook)
{
    struct pci_path_rules rules;
    struct pci_graph *graph;
    pci_path_rules_init(&rules);
    rules.peer = refuse_zero;
    graph = graph_of_file("square.xml", &rules);
    assert_path(graph, GPU, 0, GPU, 1, "PHB 12 2");
    assert_path(graph, GPU, 1, GPU, 2, "NVL 40 1");
    assert_path(graph, GPU, 1, GPU, 3, "PHB 12 2"); /* was over GPU 0 */
    assert_true(remarked(graph, "peer-to-peer is refused between GPUs that NVLink connects"));
    pci_graph_free(graph);
}

/* NICs are divided among GPUs. GPUs that are near several of them use them in turn. */
TEST(test_local_nets)
{
    static const char *const text =
        "<system version='1'><cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' "
        "modelid='143'>"
        "<pci busid='0000:01:00.0' class='0x060400' link_speed='32.0 GT/s PCIe' link_width='16'>"
        "<pci busid='0000:02:00.0' class='0x0302' link_speed='32.0 GT/s PCIe' link_width='16'>"
        "<gpu dev='0' sm='90' rank='0' gdr='1'/></pci>"
        "<pci busid='0000:03:00.0' class='0x0302' link_speed='32.0 GT/s PCIe' link_width='16'>"
        "<gpu dev='1' sm='90' rank='1' gdr='1'/></pci>"
        "<pci busid='0000:04:00.0' class='0x02' link_speed='32.0 GT/s PCIe' link_width='16'>"
        "<nic><net name='a' dev='0' speed='100000' gdr='1'/>"
        "<net name='b' dev='1' speed='100000' gdr='1'/>"
        "<net name='c' dev='2' speed='100000' gdr='1'/>"
        "<net name='d' dev='3' speed='100000' gdr='1'/></nic></pci></pci></cpu></system>";
    struct pci_graph *graph = graph_of(text, NULL);
    uint32_t list[4];
    assert_int_equal(pci_graph_local_nets(graph, 0, list), 4);
    /* Starts at the device number with its bits reversed, then two nets each in turn. */
    for (uint32_t net = 0; net < 4; net++) {
        assert_int_equal(pci_local_relay(graph, net), net / 2);
    }
    pci_graph_free(graph);
}

/* All chains hold on every machine of ours. */
TEST(test_chains)
{
    static const char *const names[] = {"two-sockets.xml",  "square.xml", "nvswitch.xml",
                                        "chip-to-chip.xml", "power9.xml", "oddities.xml"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct pci_graph *graph = graph_of_file(names[i], NULL);
        check_chains(graph);
        pci_graph_free(graph);
    }
}
