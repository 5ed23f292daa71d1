/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Text and pictures of an invented machine, compared with what they must say. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <expat.h>

#include "tools/render/pci_render.h"

/* Two sockets; a switch with two GPUs and a NIC of two ports; a third GPU on NVLink with the
 * others. */
static const char machine[] =
    "<system version='1'>"
    "<cpu numaid='0' affinity='0f' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='106'>"
    "<pci busid='0000:10:00.0' class='0x060400' link_speed='16.0 GT/s PCIe' link_width='16'>"
    "<pci busid='0000:11:00.0' class='0x030200' link_speed='16.0 GT/s PCIe' link_width='16'>"
    "<gpu dev='0' sm='80' rank='0' gdr='1'><nvlink target='0000:12:00.0' count='4' "
    "tclass='0x030200'/><nvlink target='0000:20:00.0' count='2' tclass='0x030200'/></gpu></pci>"
    "<pci busid='0000:12:00.0' class='0x030200' link_speed='16.0 GT/s PCIe' link_width='16'>"
    "<gpu dev='1' sm='80' rank='1' gdr='1'><nvlink target='0000:11:00.0' count='4' "
    "tclass='0x030200'/></gpu></pci>"
    "<pci busid='0000:13:00.0' class='0x020700' link_speed='16.0 GT/s PCIe' link_width='16'>"
    "<nic><net name='m&lt;0&gt;' dev='0' speed='100000' port='1' guid='0x1' gdr='1'/>"
    "<net name='m1' dev='1' speed='200000' port='2' guid='0x1' gdr='0'/></nic></pci>"
    "</pci></cpu>"
    "<cpu numaid='1' affinity='f0' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='106'>"
    "<pci busid='0000:20:00.0' class='0x030200' link_speed='16.0 GT/s PCIe' link_width='16'>"
    "<gpu dev='2' sm='80' rank='2' gdr='1'><nvlink target='0000:11:00.0' count='2' "
    "tclass='0x030200'/></gpu></pci></cpu></system>";

struct state {
    struct pci_doc *doc;
    struct pci_graph *graph;
    char *text;
};

static int setup(void **out)
{
    struct state *state = calloc(1, sizeof(*state));
    struct pci_error error = {""};

    assert_non_null(state);
    assert_int_equal(pci_doc_parse(machine, sizeof(machine) - 1, &state->doc, &error), 0);
    assert_int_equal(pci_graph_build(state->doc, NULL, &state->graph, &error), 0);
    *out = state;
    return 0;
}

static int teardown(void **in)
{
    struct state *state = *in;

    pci_graph_free(state->graph);
    pci_doc_free(state->doc);
    free(state->text);
    free(state);
    return 0;
}

typedef int (*graph_renderer)(FILE *out, const struct pci_graph *graph);

static void render(struct state *state, graph_renderer renderer)
{
    size_t size;
    FILE *out = open_memstream(&state->text, &size);

    assert_non_null(out);
    assert_int_equal(renderer(out, state->graph), 0);
    assert_int_equal(fclose(out), 0);
}

static void test_tree(void **in)
{
    static const char expected[] =
        "2 CPUs, 3 GPUs, 2 network ports, 0 NVLink switches\n"
        "|- CPU 0  x86_64 GenuineIntel family 6 model 106  processors 0f\n"
        "|  `- PCI 0000:10:00.0  16.0 GT/s x16  switch\n"
        "|     |- PCI 0000:11:00.0  16.0 GT/s x16\n"
        "|     |  `- GPU 0  rank 0  sm 80  GPUDirect RDMA\n"
        "|     |     |- NVLink x4 to GPU 1\n"
        "|     |     `- NVLink x2 to GPU 2\n"
        "|     |- PCI 0000:12:00.0  16.0 GT/s x16\n"
        "|     |  `- GPU 1  rank 1  sm 80  GPUDirect RDMA\n"
        "|     |     `- NVLink x4 to GPU 0\n"
        "|     `- PCI 0000:13:00.0  16.0 GT/s x16\n"
        "|        |- NET 0  m<0> port 1  100 Gb/s  GPUDirect RDMA\n"
        "|        `- NET 1  m1 port 2  200 Gb/s\n"
        "`- CPU 1  x86_64 GenuineIntel family 6 model 106  processors f0\n"
        "   `- PCI 0000:20:00.0  16.0 GT/s x16\n"
        "      `- GPU 2  rank 2  sm 80  GPUDirect RDMA\n"
        "         `- NVLink x2 to GPU 0\n";
    struct state *state = *in;
    size_t size;
    FILE *out = open_memstream(&state->text, &size);

    assert_non_null(out);
    assert_int_equal(pci_render_tree(out, state->doc, state->graph), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(state->text, expected);
}

static void test_matrix(void **in)
{
    struct state *state = *in;

    render(state, pci_render_matrix);
    assert_non_null(strstr(state->text, "GPU0    X      NV4    NV2    PIX    PHB    0\n"));
    assert_non_null(strstr(state->text, "GPU1    NV4    X      NVB    PIX    PHB    0\n"));
    assert_non_null(strstr(state->text, "GPU2    NV2    NVB    X      "));
    assert_non_null(strstr(state->text, "GPU0    X      80     40     12.5   24     \n"));
    assert_non_null(strstr(state->text, "NET1: m1 port 2, 25 GB/s\n"));
}

static void test_matrix_of_nothing(void **in)
{
    static const char text[] = "<system version='1'><cpu numaid='0' affinity='1'/></system>";
    struct state *state = *in;
    struct pci_error error;

    pci_graph_free(state->graph);
    pci_doc_free(state->doc);
    state->graph = NULL;
    assert_int_equal(pci_doc_parse(text, sizeof(text) - 1, &state->doc, &error), 0);
    assert_int_equal(pci_graph_build(state->doc, NULL, &state->graph, &error), 0);
    render(state, pci_render_matrix);
    assert_string_equal(state->text, "No GPU and no NIC.\n");
}

static void test_nvlinks(void **in)
{
    (void) in;
    assert_int_equal(pci_nvlinks_of_bandwidth(70, 40), 2);
    assert_int_equal(pci_nvlinks_of_bandwidth(80, 240), 12);
    assert_int_equal(pci_nvlinks_of_bandwidth(86, 48), 4);
    assert_int_equal(pci_nvlinks_of_bandwidth(90, 370.8), 18);
    assert_int_equal(pci_nvlinks_of_bandwidth(100, 721.8), 18);
    assert_int_equal(pci_nvlinks_of_bandwidth(120, 40.1), 1);
    assert_int_equal(pci_nvlinks_of_bandwidth(50, 20), 0);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        count++;
    }
    return count;
}

static int dot_render(FILE *out, const struct pci_graph *graph)
{
    return pci_render_dot(out, graph, "one \"GPU\"\nomitted\n");
}

static void test_dot(void **in)
{
    struct state *state = *in;

    render(state, dot_render);
    assert_int_equal(strncmp(state->text, "graph machine {", 15), 0);
    assert_int_equal(count_of(state->text, "label=\"one \\\"GPU\\\"\\lomitted\\l\";\n"), 1);
    assert_int_equal(count_of(state->text, "label=\"GPU "), 3);
    assert_int_equal(count_of(state->text, "label=\"NVL "), 2);
    assert_int_equal(count_of(state->text, "label=\"SYS 10\""), 1);
    assert_string_equal(state->text + strlen(state->text) - 2, "}\n");
}

static int svg_render(FILE *out, const struct pci_graph *graph)
{
    uint32_t ring[3][2] = {{0, 1}, {1, 2}, {2, 0}}, tree[2][2] = {{0, 1}, {1, 2}};
    struct pci_drawing_line rings[2] = {{"0 1 2", 4, 3, ring}, {"0 1 2", 1, 3, ring}};
    struct pci_drawing_line trees[1] = {{"0 1 2", 1, 2, tree}};
    struct pci_drawing drawings[2] = {{"Rings & <such>", 2, rings}, {"Trees", 1, trees}};

    return pci_render_svg(out, "a <machine>", graph, drawings, 2);
}

/* Well-formed whatever the names are; everything is in it. */
static void test_svg(void **in)
{
    struct state *state = *in;
    XML_Parser parser = XML_ParserCreate(NULL);

    render(state, svg_render);
    assert_non_null(parser);
    assert_int_equal(XML_Parse(parser, state->text, (int) strlen(state->text), XML_TRUE),
                     XML_STATUS_OK);
    XML_ParserFree(parser);
    assert_non_null(strstr(state->text, ">a &lt;machine&gt;</text>"));
    assert_non_null(strstr(state->text, ">Rings &amp; &lt;such&gt;</text>"));
    assert_non_null(strstr(state->text, ">GPU 2</text>"));
    assert_non_null(strstr(state->text, ">NET 0,1</text>"));
    assert_non_null(strstr(state->text, "m&lt;0&gt; m1"));
    assert_non_null(strstr(state->text, "0 1 2  x4"));
    /* One circle a GPU and panel; one arrow an edge. */
    assert_int_equal(count_of(state->text, "<circle "), 6);
    assert_int_equal(count_of(state->text, " Q"), 8);
    assert_int_equal(count_of(state->text, "nan"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_matrix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_matrix_of_nothing, setup, teardown),
        cmocka_unit_test(test_nvlinks),
        cmocka_unit_test_setup_teardown(test_dot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_svg, setup, teardown),
    };

    return cmocka_run_group_tests_name("pci_render", tests, NULL, NULL);
}
