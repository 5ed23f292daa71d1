/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Text and pictures of an invented machine, compared with the expected content. */

#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <expat.h>

#include "pci_test.h"
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

TEST_WITH(setup, teardown, test_tree)
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
    struct state *t = *state;
    size_t size;
    FILE *out = open_memstream(&t->text, &size);

    assert_non_null(out);
    assert_int_equal(pci_render_tree(out, t->doc, t->graph), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(t->text, expected);
}

TEST_WITH(setup, teardown, test_matrix)
{
    struct state *t = *state;

    render(t, pci_render_matrix);
    assert_non_null(strstr(t->text, "GPU0    X      NV4    NV2    PIX    PHB    0\n"));
    assert_non_null(strstr(t->text, "GPU1    NV4    X      NVB    PIX    PHB    0\n"));
    assert_non_null(strstr(t->text, "GPU2    NV2    NVB    X      "));
    assert_non_null(strstr(t->text, "GPU0    X      80     40     12.5   24     \n"));
    assert_non_null(strstr(t->text, "NET1: m1 port 2, 25 GB/s\n"));
}

TEST_WITH(setup, teardown, test_matrix_of_nothing)
{
    static const char text[] = "<system version='1'><cpu numaid='0' affinity='1'/></system>";
    struct state *t = *state;
    struct pci_error error;

    pci_graph_free(t->graph);
    pci_doc_free(t->doc);
    t->graph = NULL;
    assert_int_equal(pci_doc_parse(text, sizeof(text) - 1, &t->doc, &error), 0);
    assert_int_equal(pci_graph_build(t->doc, NULL, &t->graph, &error), 0);
    render(t, pci_render_matrix);
    assert_string_equal(t->text, "No GPU and no NIC.\n");
}

TEST(test_nvlinks)
{
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

static int svg_render(FILE *out, const struct pci_graph *graph)
{
    struct pci_drawing_edge ring[3] = {{0, 1, false}, {1, 2, false}, {2, 0, false}};
    struct pci_drawing_edge tree[2] = {{0, 1, false}, {1, 2, true}};
    uint32_t roots[2] = {1, 2};
    struct pci_drawing_line rings[2] = {{"0 1 2", 4, 3, 0, ring, NULL},
                                        {"0 1 2", 1, 3, 0, ring, NULL}};
    struct pci_drawing_line trees[1] = {{"0 1 2", 1, 2, 2, tree, roots}};
    struct pci_drawing drawings[2] = {{"Rings & <such>", "Arrows\n", 2, rings},
                                      {"Trees", "Arrows\nRoots\n", 1, trees}};

    return pci_render_svg(out, "a <machine>", "Omitted: <b>\n", graph, drawings, 2);
}

/* Find the texts of a picture and their places. The width of a character is about 0.6 of the font's
 * size.
 */
struct text {
    double left, right, top, bottom;
    char said[80];
};

struct picture {
    double width, height;
    struct text texts[2000];
    size_t count;
    int turned, inside; /* in a turned group; in a text */
    double x, size;
    char anchor;
};

static const char *attribute(const char **attributes, const char *name)
{
    for (; attributes[0]; attributes += 2) {
        if (strcmp(attributes[0], name) == 0) {
            return attributes[1];
        }
    }
    return NULL;
}

static void element_begins(void *context, const char *name, const char **attributes)
{
    struct picture *picture = context;
    struct text *text = &picture->texts[picture->count];

    if (strcmp(name, "svg") == 0) {
        picture->width = atof(attribute(attributes, "width"));
        picture->height = atof(attribute(attributes, "height"));
    }
    picture->turned += strcmp(name, "g") == 0;
    if (strcmp(name, "text") == 0 && !picture->turned) {
        const char *anchor = attribute(attributes, "text-anchor");

        assert_true(picture->count < sizeof(picture->texts) / sizeof(picture->texts[0]));
        picture->inside = 1;
        picture->x = atof(attribute(attributes, "x"));
        picture->size = atof(attribute(attributes, "font-size"));
        picture->anchor = anchor ? anchor[0] : 'm';
        text->bottom = atof(attribute(attributes, "y"));
        text->top = text->bottom - 0.75 * picture->size;
    }
}

static void text_goes_on(void *context, const char *said, int length)
{
    struct picture *picture = context;

    if (picture->inside) {
        struct text *text = &picture->texts[picture->count];
        size_t used = strlen(text->said);

        snprintf(text->said + used, sizeof(text->said) - used, "%.*s", length, said);
    }
}

static void element_ends(void *context, const char *name)
{
    struct picture *picture = context;
    struct text *text = &picture->texts[picture->count];

    picture->turned -= strcmp(name, "g") == 0;
    if (picture->inside) {
        double width = 0.6 * picture->size * (double) strlen(text->said);

        text->left = picture->x - (picture->anchor == 's'   ? 0
                                   : picture->anchor == 'e' ? width
                                                            : width / 2);
        text->right = text->left + width;
        picture->inside = 0;
        picture->count++;
    }
}

/* A picture is well-formed, and none of its texts covers another one or leaves the page. */
static void picture_check(const char *svg, struct picture *picture)
{
    XML_Parser parser = XML_ParserCreate(NULL);

    assert_non_null(parser);
    memset(picture, 0, sizeof(*picture));
    XML_SetUserData(parser, picture);
    XML_SetElementHandler(parser, element_begins, element_ends);
    XML_SetCharacterDataHandler(parser, text_goes_on);
    assert_int_equal(XML_Parse(parser, svg, (int) strlen(svg), XML_TRUE), XML_STATUS_OK);
    XML_ParserFree(parser);
    for (size_t i = 0; i < picture->count; i++) {
        const struct text *a = &picture->texts[i];

        if (a->left < 0 || a->right > picture->width || a->top < 0 || a->bottom > picture->height) {
            fail_msg("\"%s\" is outside of the page", a->said);
        }
        for (size_t j = 0; j < i; j++) {
            const struct text *b = &picture->texts[j];

            if (a->left < b->right && b->left < a->right && a->top < b->bottom &&
                b->top < a->bottom) {
                fail_msg("\"%s\" covers \"%s\"", a->said, b->said);
            }
        }
    }
}

/* The picture is well-formed with any names, and contains all devices. */
TEST_WITH(setup, teardown, test_svg)
{
    struct state *t = *state;
    struct picture *picture = malloc(sizeof(*picture));

    assert_non_null(picture);
    render(t, svg_render);
    picture_check(t->text, picture);
    assert_non_null(strstr(t->text, ">a &lt;machine&gt;</text>"));
    assert_non_null(strstr(t->text, ">Omitted: &lt;b&gt;</text>"));
    assert_non_null(strstr(t->text, ">Rings &amp; &lt;such&gt;</text>"));
    assert_non_null(strstr(t->text, ">GPU 2</text>"));
    assert_non_null(strstr(t->text, ">NET 1</text>"));
    assert_non_null(strstr(t->text, ">12.5 GB/s  m&lt;0&gt;</text>"));
    assert_non_null(strstr(t->text, "0 1 2  x4"));
    /* The NVLinks of the two pairs. */
    assert_non_null(strstr(t->text, ">NV4 80</text>"));
    assert_non_null(strstr(t->text, ">NV2 40</text>"));
    /* There is a circle for each GPU and panel, two circles for roots, and a head for each edge
     * except the plain one. */
    assert_int_equal(count_of(t->text, "<circle "), 8);
    assert_int_equal(count_of(t->text, "class=\"root\""), 2);
    assert_int_equal(count_of(t->text, " Q"), 8);
    assert_int_equal(count_of(t->text, " Z\""), 7);
    assert_int_equal(count_of(t->text, "nan"), 0);
    free(picture);
}

/* Every machine with up to 8 GPUs fits a page: A4 across is 1123 pixels wide. */
TEST_WITH(setup, teardown, test_svg_machines)
{
    static const char *const names[] = {
        "chip-to-chip",    "cube-single-links", "eight-sm103", "eight-thirty-two-nics",
        "eight-two-level", "four-superchips",   "nvswitch",    "oddities",
        "power9",          "sixteen-torus",     "sixteen-pcie"};
    struct state *t = *state;
    struct picture *picture = malloc(sizeof(*picture));

    assert_non_null(picture);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char file[64];

        free(t->text);
        pci_graph_free(t->graph);
        snprintf(file, sizeof(file), "%s.xml", names[i]);
        t->graph = graph_of_file(file, NULL);
        render(t, pci_render_svg_machine);
        picture_check(t->text, picture);
        assert_true(pci_graph_count(t->graph, PCI_NODE_GPU) > 8 || picture->width <= 1123);
        assert_true(picture->count >= pci_graph_count(t->graph, PCI_NODE_GPU));
    }
    free(picture);
}
