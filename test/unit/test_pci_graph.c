/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Graphs: construction from documents, limits of size, contradictions, trimming. */
#include "test/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/pcigraph.h"
#include "pci_test.h"

static const char *const intel = "<cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' "
                                 "modelid='143'>";

/* Build the graph of one of our files. This must fail with a message that contains PART. */
static void refused(struct pci_doc *doc, int code, const char *part)
{
    struct pci_graph *graph = NULL;
    struct pci_error error = {""};
    assert_int_equal(pci_graph_build(doc, NULL, &graph, &error), code);
    assert_null(graph);
    if (!strstr(error.text, part)) {
        fail_msg("message \"%s\" lacks \"%s\"", error.text, part);
    }
    pci_doc_free(doc);
}

TEST(test_refused)
{
    refused(doc_of_file("bad-cycle.xml"), -EINVAL, "0000:01:00.0 is below itself");
    refused(doc_of_file("bad-twice.xml"), -EINVAL, "0000:01:00.0 belongs to two GPUs");
    refused(doc_of_file("bad-rank.xml"), -EINVAL, "same rank 0");
    refused(doc_of("<system><cpu numaid='0'><pci class='0x0302'><gpu rank='0'/></pci></cpu>"
                   "</system>"),
            -EINVAL, "no bus id");
    refused(doc_of("<system><cpu numaid='0'><pci busid='0000:01:00.0'><gpu rank='0'>"
                   "<nvlink target='f' count='100000' tclass='0x068000'/></gpu></pci></cpu>"
                   "</system>"),
            -EINVAL, "100000 NVLinks");
    refused(doc_of("<system><cpu numaid='0'><pci busid='0000:01:00.0'><gpu rank='0'>"
                   "<c2c bw='2000000000' count='100'/></gpu></pci></cpu></system>"),
            -EINVAL, "above what any link has");
}

TEST(test_none)
{
    struct pci_graph *graph = graph_of("<system/>", NULL);
    struct pci_error error = {""};
    assert_int_equal(pci_graph_vertices(graph), 0);
    assert_int_equal(pci_graph_links(graph), 0);
    assert_null(pci_graph_cpu(graph));
    assert_null(pci_graph_node(graph, PCI_NODE_GPU, 0));
    assert_int_equal(pci_graph_route(graph, PCI_NODE_GPU, 0, PCI_NODE_GPU, 0)->class, PCI_PATH_DIS);
    assert_int_equal(pci_graph_trim(graph, 0, NULL, &error), -EINVAL);
    assert_non_null(strstr(error.text, "0 GPUs"));
    assert_int_equal(pci_graph_local_cpu(graph, 0), -1);
    pci_graph_free(graph);
    pci_graph_free(NULL);
}

TEST(test_one)
{
    struct pci_graph *graph = graph_of("<system><cpu numaid='0' arch='x86_64' "
                                       "vendor='AuthenticAMD'><pci busid='0000:01:00.0'>"
                                       "<gpu dev='0' sm='70' rank='0'/></pci></cpu></system>",
                                       NULL);
    assert_path(graph, GPU, 0, GPU, 0, "LOC 5000 0");
    assert_path(graph, GPU, 0, CPU, 0, "PHB 12 1"); /* no speed, no width: 8 GT/s x16 */
    assert_int_equal(pci_graph_trim(graph, 0, NULL, NULL), 0);
    assert_path(graph, GPU, 0, GPU, 0, "LOC 5000 0");
    pci_graph_free(graph);
}

/* Doubtful content of a file leads to a remark. */
TEST(test_remarks)
{
    struct pci_graph *graph =
        graph_of("<system><cpu numaid='4' arch='X86_64' vendor='AuthenticAMD'>"
                 "<pci busid='0000:01:00.0'><gpu dev='0' sm='70' rank='0'/></pci>"
                 "<pci busid='0000:02:00.0'><gpu dev='1' sm='70'/></pci></cpu></system>",
                 NULL);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 1);
    assert_true(remarked(graph, "GPU 0000:02:00.0 has no rank"));
    assert_true(remarked(graph, "cpu numaid 4: architecture \"X86_64\""));
    pci_graph_free(graph);
    graph = graph_of("<system><cpu numaid='0' arch='arm64'/></system>", NULL);
    assert_false(remarked(graph, ""));
    pci_graph_free(graph);
}

/* If a file lists the functions of a card separately, each has a separate link, as in the
 * reference. */
TEST(test_functions)
{
    struct pci_graph *graph = graph_of(
        "<system><cpu numaid='0' arch='x86_64' vendor='AuthenticAMD'>"
        "<pci busid='0000:01:00.0' class='0x02' link_speed='16.0 GT/s PCIe' link_width='16'>"
        "<nic><net name='a' dev='0' speed='200000'/></nic></pci>"
        "<pci busid='0000:01:00.1' class='0x02' link_speed='16.0 GT/s PCIe' link_width='8'>"
        "<nic><net name='b' dev='1' speed='200000'/></nic></pci></cpu></system>",
        NULL);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_NIC), 2);
    assert_path(graph, NET, 0, CPU, 0, "PHB 24 2");
    assert_path(graph, NET, 1, CPU, 0, "PHB 12 2");
    pci_graph_free(graph);
}

/* GPUs of one kind, all on NVSwitch, each with a NIC below the same PCI switch. */
static char *many(unsigned n, const char *nvlinks)
{
    char *text = malloc((size_t) n * 1200 + 1000), *at = text;
    assert_non_null(text);
    at += sprintf(at, "<system version='1'>%s", intel);
    for (unsigned i = 0; i < n; i++) {
        at += sprintf(at,
                      "<pci busid='%04x:01:00.0' class='0x060400' link_speed='32.0 GT/s PCIe' "
                      "link_width='16'><pci busid='%04x:02:00.0' class='0x0302' "
                      "link_speed='32.0 GT/s PCIe' link_width='16'><gpu dev='%u' sm='90' rank='%u' "
                      "gdr='1'>%s</gpu></pci><pci busid='%04x:03:00.0' class='0x02' "
                      "link_speed='32.0 GT/s PCIe' link_width='16'><nic><net name='n%u' dev='%u' "
                      "speed='400000' gdr='1'/></nic></pci></pci>",
                      i + 1, i + 1, i, i, nvlinks, i + 1, i, i);
    }
    strcpy(at, "</cpu></system>");
    return text;
}

TEST(test_many)
{
    char *text = many(256, "<nvlink target='f' count='18' tclass='0x068000'/>");
    struct pci_graph *graph = graph_of(text, NULL);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 256);
    assert_path(graph, GPU, 0, GPU, 255, "NVL 370.8 2");
    assert_path(graph, GPU, 255, NET, 255, "PIX 48 3");
    assert_path(graph, GPU, 7, NET, 200, "PXN 48 5");
    assert_path(graph, NET, 200, GPU, 7, "PHB 48 5");
    pci_graph_free(graph);
    free(text);
    text = many(256, ""); /* all through the CPU */
    graph = graph_of(text, NULL);
    assert_path(graph, GPU, 0, GPU, 255, "PHB 48 4");
    pci_graph_free(graph);
    free(text);
}

TEST(test_too_many)
{
    char *text = many(PCI_GRAPH_MAX_GPUS + 1, "");
    refused(doc_of(text), -E2BIG, "more than 1024 nodes of kind GPU");
    free(text);
}

/* Every link has a reverse link, and an id refers to one link. */
TEST(test_links)
{
    static const char *const names[] = {"two-sockets.xml",  "square.xml", "nvswitch.xml",
                                        "chip-to-chip.xml", "power9.xml", "oddities.xml"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct pci_graph *graph = graph_of_file(names[n], NULL);
        for (uint32_t i = 0; i < pci_graph_links(graph); i++) {
            const struct pci_link *link = pci_graph_link(graph, i);
            assert_int_equal(link->id, i);
            assert_ptr_equal(link->reverse->reverse, link);
            assert_ptr_equal(link->reverse->from, link->to);
            assert_ptr_equal(link->reverse->to, link->from);
            assert_true(link->bw > 0);
        }
        for (uint32_t v = 0; v < pci_graph_vertices(graph); v++) {
            const struct pci_node *node = pci_graph_vertex(graph, v);
            assert_int_equal(node->vertex, v);
            assert_ptr_equal(pci_graph_node(graph, node->type, node->index), node);
        }
        pci_graph_free(graph);
    }
}

static double link_bw(const struct pci_graph *graph, const char *busid)
{
    for (uint32_t i = 0; i < pci_graph_links(graph); i++) {
        const struct pci_link *link = pci_graph_link(graph, i);
        if (!strcmp(link->from->busid, busid) && link->to->type == PCI_NODE_CPU) {
            return link->bw;
        }
    }
    return -1;
}

/* Speeds and widths as the kernel writes them if they are known or unknown. */
TEST(test_speeds)
{
    static const struct {
        const char *speed, *width;
        double bw;
    } cases[] = {
        {"2.5 GT/s PCIe", "1", 0.1875},
        {"2.5 GT/s", "16", 3},
        {"5 GT/s", "16", 6},
        {"5.0 GT/s PCIe", "8", 3},
        {"8 GT/s", "16", 12},
        {"8.0 GT/s PCIe", "4", 3},
        {"16 GT/s", "16", 24},
        {"32.0 GT/s PCIe", "16", 48},
        {"64.0 GT/s PCIe", "16", 96},
        {"Unknown", "0", 12},
        {"", "", 12},
        {"-1", "-8", 12},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "<system>%s<pci busid='0000:01:00.0' class='0x060400' link_speed='%s' "
                 "link_width='%s'/></cpu></system>",
                 intel, cases[i].speed, cases[i].width);
        struct pci_graph *graph = graph_of(text, NULL);
        assert_true(link_bw(graph, "0000:01:00.0") == cases[i].bw);
        pci_graph_free(graph);
    }
}

/* Between two sockets, by processor. */
TEST(test_sockets)
{
    static const struct {
        const char *cpu;
        double bw;
    } cases[] = {
        {"arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='79'", 6},
        {"arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='0x55'", 10},
        {"arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'", 22},
        {"arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='207'", 40},
        {"arch='x86_64' vendor='AuthenticAMD' familyid='175' modelid='1'", 16},
        {"arch='x86_64' vendor='  Shanghai  ' familyid='7' modelid='91'", 9},
        {"arch='x86_64' vendor='CentaurHauls' familyid='7' modelid='59'", 6},
        {"arch='arm64'", 6},
        {"arch='ppc64'", 32},
        {"arch='riscv64'", 5000},
        {"", 5000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "<system><cpu numaid='0' %s/><cpu numaid='1' %s/></system>",
                 cases[i].cpu, cases[i].cpu);
        struct pci_graph *graph = graph_of(text, NULL);
        assert_int_equal(pci_graph_links(graph), 2);
        assert_true(pci_graph_link(graph, 0)->bw == cases[i].bw);
        pci_graph_free(graph);
    }
}

/* NVLink by generation. */
TEST(test_nvlinks)
{
    static const struct {
        int sm;
        const char *want;
    } cases[] = {{60, "NVL 54 1"},   {70, "NVL 60 1"},     {80, "NVL 60 1"}, {86, "NVL 36 1"},
                 {90, "NVL 61.8 1"}, {100, "NVL 120.3 1"}, {0, "NVL 60 1"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "<system>%s<pci busid='0000:01:00.0'><gpu rank='0' sm='%d'>"
                 "<nvlink target='0000:02:00.0' count='1' tclass='0x030200'/>"
                 "<nvlink target='0000:02:00.0' count='2' tclass='0x030200'/></gpu></pci>"
                 "<pci busid='0000:02:00.0'><gpu rank='1' sm='%d'>"
                 "<nvlink target='0000:01:00.0' count='3' tclass='0x030200'/></gpu></pci></cpu>"
                 "</system>",
                 intel, cases[i].sm, cases[i].sm);
        struct pci_graph *graph = graph_of(text, NULL);
        assert_path(graph, GPU, 0, GPU, 1, cases[i].want);
        assert_path(graph, GPU, 1, GPU, 0, cases[i].want);
        pci_graph_free(graph);
    }
}

/* A path over a PCI link between switches (a fabric) does not pass the CPU. */
TEST(test_pci_links)
{
    static const char *const text =
        "<system><cpu numaid='0' arch='x86_64'>"
        "<pci busid='0000:10:00.0' class='0x060400'><pcilink target='0000:20:00.0'/>"
        "<pci busid='0000:11:00.0'><gpu rank='0'/></pci></pci>"
        "<pci busid='0000:20:00.0' class='0x060400'><pcilink target='0000:10:00.0'/>"
        "<pcilink target='0000:99:00.0'/>"
        "<pci busid='0000:21:00.0'><gpu rank='1'/></pci></pci></cpu></system>";
    struct pci_graph *graph = graph_of(text, NULL);
    assert_path(graph, GPU, 0, GPU, 1, "PXB 12 3");
    pci_graph_free(graph);
}

TEST(test_names)
{
    assert_int_equal(pci_path_class_parse("PXN"), PCI_PATH_PXN);
    assert_int_equal(pci_path_class_parse("loc"), PCI_PATH_LOC);
    assert_int_equal(pci_path_class_parse("far"), -EINVAL);
    assert_int_equal(pci_path_class_parse(NULL), -EINVAL);
    assert_string_equal(pci_path_class_name(PCI_PATH_DIS), "DIS");
    assert_string_equal(pci_node_type_name(PCI_NODE_NET), "NET");
    assert_string_equal(pci_link_type_name(PCI_LINK_C2C), "C2C");
    assert_true(pci_busid_parse("0000:3B:00.0") == 0x3b000);
    assert_true(pci_busid_parse("10000:00:1f.3") == 0x10000001f3);
    assert_true(pci_busid_parse("fffffff:ffff:ff") == 0xfffffffffffff);
    assert_true(pci_busid_parse("") == 0);
    assert_true(pci_busid_parse(NULL) == 0);
}
