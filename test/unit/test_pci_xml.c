/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Documents: reading, writing, walking, merging, and errors. */
#include "test/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/graph/pcigraph.h"
#include "pci_test.h"

/* Parse TEXT. This must fail with CODE and a message that contains PART. */
static void refused(const char *text, size_t size, int code, const char *part)
{
    struct pci_doc *doc = NULL;
    struct pci_error error = {""};
    assert_int_equal(pci_doc_parse(text, size, &doc, &error), code);
    assert_null(doc);
    if (!strstr(error.text, part)) {
        fail_msg("message \"%s\" lacks \"%s\"", error.text, part);
    }
}

static void refused_text(const char *text, const char *part)
{
    refused(text, strlen(text), -EINVAL, part);
}

static void refused_file(const char *name, int code, const char *part)
{
    char path[1024];
    struct pci_doc *doc = NULL;
    struct pci_error error = {""};
    snprintf(path, sizeof(path), "%s/test/data/topo/%s", source_folder(), name);
    assert_int_equal(pci_doc_read(path, &doc, &error), code);
    assert_null(doc);
    if (!strstr(error.text, part) || !strstr(error.text, name)) {
        fail_msg("message \"%s\" lacks \"%s\" or the file", error.text, part);
    }
}

static char *text_of(const struct pci_doc *doc)
{
    char *text;
    assert_int_equal(pci_doc_format(doc, &text, NULL, NULL), 0);
    return text;
}

TEST(test_refused)
{
    static const char zero[] = "<system version='1'>\0</system>";
    refused("", 0, -EINVAL, "empty");
    refused("nonsense", 8, -EINVAL, "line 1");
    refused_text("<topology/>", "not with <system>");
    refused_text("<system><cpu></system>", "line 1");
    refused_text("<system/><system/>", "line 1");
    refused_text("<system a='1' a='2'/>", "line 1");
    refused(zero, sizeof(zero) - 1, -EINVAL, "line 1");
    refused_text("<system>\xff\xfe</system>", "line 1");
    refused(zero, PCI_DOC_MAX_BYTES + 1, -E2BIG, "bytes"); /* refused before it is read */
    refused("\xff\xfe<\0s\0", 6, -EINVAL, "not XML in UTF-8");
    refused("\x4c\x6f\xa7\x94", 4, -EINVAL, "not XML in UTF-8");
    refused_file("bad-entity.xml", -EINVAL, "entity");
    refused_file("bad-version.xml", -EINVAL, "version 2; only version 1");
    refused_file("bad-open.xml", -EINVAL, "line 3: unclosed token");
    refused_file("none.xml", -ENOENT, "No such file");
    refused_file(".", -EISDIR, "a folder");
    refused_text("<!DOCTYPE system><system/>", "DOCTYPE");
    refused_text("<!DOCTYPE a SYSTEM 'b'>\n<system/>", "DOCTYPE");
    refused_text("<system>\n<cpu a='&b;'/></system>", "line 2: DOCTYPE and entities");
    refused_text("<system>\n&b;</system>", "line 2: DOCTYPE and entities");
    refused_text("<system>\n<cpu><pci/>", "line 2: the text ends inside of <cpu>");
    refused_text("<system/>\n<!-- a", "line 2");
    refused_text("<!-- a -->\n", "no element");
}

/* Nothing grows without bound: depth, attributes, elements. */
TEST(test_limits)
{
    size_t size = 16u << 20;
    char *text = malloc(size), *at = text;
    assert_non_null(text);
    at += sprintf(at, "<system>");
    for (unsigned i = 0; i < PCI_DOC_MAX_DEPTH + 1; i++) {
        at += sprintf(at, "<pci>");
    }
    refused(text, (size_t) (at - text), -E2BIG, "64 levels");
    at = text + sprintf(text, "<system");
    for (unsigned i = 0; i < PCI_DOC_MAX_ATTRIBUTES + 1; i++) {
        at += sprintf(at, " a%u='1'", i);
    }
    at += sprintf(at, "/>");
    refused(text, (size_t) (at - text), -E2BIG, "64 attributes");
    at = text + sprintf(text, "<system>");
    for (unsigned i = 0; i < PCI_DOC_MAX_ELEMENTS; i++) {
        at += sprintf(at, "<pci/>");
    }
    refused(text, (size_t) (at - text), -E2BIG, "1000000 elements");
    free(text);
}

/* The text is UTF-8, whatever encoding it declares. */
TEST(test_encoding)
{
    static const char *const texts[] = {
        "<?xml version='1.0' encoding='ISO-8859-1'?><system x='\xc3\xa4'/>",
        "<?xml version='1.0' encoding='UTF-16'?><system x='\xc3\xa4'/>",
        "<?xml version='1.0' encoding='none'?><system x='\xc3\xa4'/>",
        "\xef\xbb\xbf<system x='\xc3\xa4'/>",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct pci_doc *doc = doc_of(texts[i]);
        assert_string_equal(pci_elem_get(pci_doc_root(doc), "x"), "\xc3\xa4");
        pci_doc_free(doc);
    }
    refused_text("<?xml version='1.0' encoding='ISO-8859-1'?>\n<system x='\xe4'/>", "line 2");
}

/* Ten megabytes are read and written without a change. */
TEST(test_large)
{
    struct pci_doc *doc;
    struct pci_error error = {""};
    size_t size = 11u << 20, n, used;
    char *text = malloc(size), *again;
    assert_non_null(text);
    used = (size_t) sprintf(text, "<system version=\"1\">\n  <cpu numaid=\"0\">\n");
    for (unsigned i = 0; used < 10u << 20; i++) {
        used += (size_t) sprintf(text + used,
                                 "    <pci busid=\"%04x:%02x:00.0\" class=\"0x060400\" "
                                 "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"/>\n",
                                 i >> 8, i & 0xff);
    }
    used += (size_t) sprintf(text + used, "  </cpu>\n</system>\n");
    assert_int_equal(pci_doc_parse(text, used, &doc, &error), 0);
    assert_int_equal(pci_doc_format(doc, &again, &n, &error), 0);
    assert_int_equal(n, used);
    assert_memory_equal(text, again, n);
    pci_doc_free(doc);
    free(again);
    free(text);
}

/* Unknown content is kept, and escaped characters are restored. */
TEST(test_round_trip)
{
    static const char *const text =
        "<?xml version='1.0'?><!-- a --><system version='1' x='&lt;&amp;"
        "&quot;&gt;&#9;&#228;'>text<cpu numaid='0'><odd:one a='b'/>"
        "</cpu></system>";
    static const char *const want = "<system version=\"1\" x=\"&lt;&amp;&quot;&gt;&#9;\xc3\xa4\">\n"
                                    "  <cpu numaid=\"0\">\n    <odd:one a=\"b\"/>\n  </cpu>\n"
                                    "</system>\n";
    struct pci_doc *doc = doc_of(text), *again;
    char *first = text_of(doc), *second;
    assert_string_equal(first, want);
    assert_string_equal(pci_elem_get(pci_doc_root(doc), "x"), "<&\">\t\xc3\xa4");
    again = doc_of(first);
    second = text_of(again);
    assert_string_equal(second, want);
    free(first);
    free(second);
    pci_doc_free(doc);
    pci_doc_free(again);
}

TEST(test_build)
{
    /* No first byte, no last byte, too long (twice), a surrogate, beyond Unicode, no character, a
     * control character. */
    static const char *const no_text[] = {"\xff",
                                          "\x80",
                                          "a\xc3",
                                          "\xc0\xaf",
                                          "\xe0\x80\xaf",
                                          "\xed\xa0\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xef\xbf\xbf",
                                          "a\x1f"};
    static const char all_lengths[] = "a\xc3\xa4\xe2\x82\xac\xef\xbf\xbd\xf0\x9f\x98\x80\n";
    struct pci_doc *doc;
    struct pci_elem *cpu, *pci, *gpu, *root;
    const char *key, *value;
    assert_int_equal(pci_doc_new(&doc, NULL), 0);
    root = pci_doc_root(doc);
    assert_int_equal(pci_elem_add(doc, root, "cpu", &cpu), 0);
    assert_int_equal(pci_elem_add(doc, cpu, "pci", &pci), 0);
    assert_int_equal(pci_elem_add(doc, pci, "gpu", &gpu), 0);
    assert_int_equal(pci_elem_set(gpu, "dev", "010"), 0);
    assert_int_equal(pci_elem_setf(gpu, "class", "0x%06x", 0x30200), 0);
    assert_int_equal(pci_elem_set(gpu, "dev", "\x01"), -EINVAL);
    assert_int_equal(pci_elem_long(gpu, "dev", -1), 10); /* not octal */
    assert_int_equal(pci_elem_long(gpu, "class", -1), 0x30200);
    assert_int_equal(pci_elem_long(gpu, "none", -7), -7);
    assert_true(pci_elem_attribute(gpu, 1, &key, &value));
    assert_string_equal(key, "class");
    assert_false(pci_elem_attribute(gpu, 2, &key, &value));
    assert_int_equal(pci_elem_set(gpu, "class", NULL), 0);
    assert_null(pci_elem_get(gpu, "class"));
    assert_ptr_equal(pci_elem_parent(gpu), pci);
    assert_ptr_equal(pci_doc_find(doc, "gpu", "dev", "010"), gpu);
    assert_null(pci_doc_find(doc, "gpu", "dev", "10"));
    assert_ptr_equal(pci_doc_next(doc, cpu, NULL), pci);
    assert_null(pci_doc_next(doc, gpu, NULL));
    for (size_t i = 0; i < sizeof(no_text) / sizeof(no_text[0]); i++) {
        assert_int_equal(pci_elem_set(gpu, "dev", no_text[i]), -EINVAL);
    }
    assert_int_equal(pci_elem_set(gpu, "dev", all_lengths), 0);
    assert_string_equal(pci_elem_get(gpu, "dev"), all_lengths);
    assert_int_equal(pci_elem_remove(doc, root), -EINVAL);
    assert_int_equal(pci_elem_remove(doc, pci), 0);
    assert_null(pci_elem_child(cpu, NULL));
    pci_doc_free(doc);
    pci_doc_free(NULL);
}

/* Two processes see one GPU each of the same machine. */
TEST(test_merge)
{
    struct pci_doc *a = doc_of(
        "<system version='1'><cpu numaid='0' arch='x86_64'>"
        "<pci busid='0000:01:00.0' class='0x060400'><pci busid='0000:02:00.0' class='0x0302'>"
        "<gpu dev='0' rank='0' sm='80' gdr='0'><nvlink target='0000:03:00.0' count='2'/></gpu>"
        "</pci></pci><pci busid='0000:09:00.0'><nic><net name='n' port='1' gdr='0'/></nic></pci>"
        "</cpu></system>");
    struct pci_doc *b = doc_of(
        "<system version='1'><cpu numaid='0' arch='' vendor='GenuineIntel'>"
        "<pci busid='0000:01:00.0' class='0x060400'><pci busid='0000:03:00.0' class='0x0302'>"
        "<gpu dev='1' rank='1' sm='80' gdr='1'><nvlink target='0000:02:00.0' count='2'/></gpu>"
        "</pci></pci><pci busid='0000:09:00.0'><nic><net name='n' port='1' gdr='1'/>"
        "<net name='n' port='2' gdr='1'/></nic></pci></cpu><cpu numaid='1'/></system>");
    static const char *const want = "<system version=\"1\">\n"
                                    "  <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n"
                                    "    <pci busid=\"0000:01:00.0\" class=\"0x060400\">\n"
                                    "      <pci busid=\"0000:02:00.0\" class=\"0x0302\">\n"
                                    "        <gpu dev=\"0\" rank=\"0\" sm=\"80\" gdr=\"0\">\n"
                                    "          <nvlink target=\"0000:03:00.0\" count=\"2\"/>\n"
                                    "        </gpu>\n"
                                    "      </pci>\n"
                                    "      <pci busid=\"0000:03:00.0\" class=\"0x0302\">\n"
                                    "        <gpu dev=\"1\" rank=\"1\" sm=\"80\" gdr=\"1\">\n"
                                    "          <nvlink target=\"0000:02:00.0\" count=\"2\"/>\n"
                                    "        </gpu>\n"
                                    "      </pci>\n"
                                    "    </pci>\n"
                                    "    <pci busid=\"0000:09:00.0\">\n"
                                    "      <nic>\n"
                                    "        <net name=\"n\" port=\"1\" gdr=\"1\"/>\n"
                                    "        <net name=\"n\" port=\"2\" gdr=\"1\"/>\n"
                                    "      </nic>\n"
                                    "    </pci>\n"
                                    "  </cpu>\n"
                                    "  <cpu numaid=\"1\"/>\n"
                                    "</system>\n";
    char *text;
    assert_int_equal(pci_doc_merge(a, b, NULL), 0);
    text = text_of(a);
    assert_string_equal(text, want);
    free(text);
    assert_int_equal(pci_doc_merge(a, b, NULL), 0); /* again: nothing new */
    text = text_of(a);
    assert_string_equal(text, want);
    free(text);
    pci_doc_free(a);
    pci_doc_free(b);
}

/* Detected devices are merged into the template of a virtual machine, whose switches and speeds
 * stay. */
TEST(test_template)
{
    struct pci_doc *doc = doc_of_file("vm-template.xml"), *seen = doc_of_file("vm-detected.xml");
    struct pci_graph *graph;
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 0);
    pci_graph_free(graph);
    assert_int_equal(pci_doc_merge(doc, seen, NULL), 0);
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_path(graph, GPU, 0, NET, 0, "PIX 24 3");
    assert_path(graph, GPU, 0, GPU, 1, "SYS 16 5");
    pci_graph_free(graph);
    pci_doc_free(doc);
    pci_doc_free(seen);
}

/* The same the other way round: devices move below the switches that are new. */
TEST(test_template_last)
{
    struct pci_doc *doc = doc_of_file("vm-detected.xml"), *tree = doc_of_file("vm-template.xml");
    struct pci_graph *graph;
    assert_int_equal(pci_doc_merge(doc, tree, NULL), 0);
    assert_int_equal(pci_graph_build(doc, NULL, &graph, NULL), 0);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_PCI), 2);
    assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), 2);
    assert_int_equal(pci_graph_route(graph, PCI_NODE_GPU, 0, PCI_NODE_NET, 0)->class, PCI_PATH_PIX);
    pci_graph_free(graph);
    pci_doc_free(doc);
    pci_doc_free(tree);
}

/* The processes of a host merge into the same document in any order of their parts. */
TEST(test_merge_many)
{
    struct pci_doc *whole = doc_of_file("nvswitch.xml"), *merged = NULL;
    struct pci_graph *a, *b;
    for (unsigned i = 4; i > 0; i--) {
        struct pci_doc *part = doc_of_file("nvswitch.xml");
        unsigned rank = i - 1;
        assert_int_equal(pci_doc_keep_gpus(part, &rank, 1, NULL), 0);
        assert_int_equal(pci_elem_setf(pci_doc_find(part, "gpu", NULL, NULL), "rank", "%u", rank),
                         0);
        if (merged) {
            assert_int_equal(pci_doc_merge(merged, part, NULL), 0);
            pci_doc_free(part);
        } else {
            merged = part;
        }
    }
    assert_int_equal(pci_graph_build(whole, NULL, &a, NULL), 0);
    assert_int_equal(pci_graph_build(merged, NULL, &b, NULL), 0);
    assert_int_equal(pci_graph_count(b, PCI_NODE_GPU), 4);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            assert_path(b, GPU, i, GPU, j, path_text(a, PCI_NODE_GPU, i, PCI_NODE_GPU, j));
        }
    }
    pci_graph_free(a);
    pci_graph_free(b);
    pci_doc_free(whole);
    pci_doc_free(merged);
}
