/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Discovery on invented machines: a /proc and /sys that hwloc reads below a root (fake_sysfs),
 * hwloc XML made from it, synthetic topologies, a management library that is a stand-in
 * (fake_nvml), and the machine that runs the test.
 */

#include "test/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "fake_sysfs.h"
#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/discover/pci_discover.h"
#include "mca/topo_pci/discover/pci_driver.h"

#define BRIDGE 0x060400
#define GPU    0x030200
#define IB     0x020700
#define ETH    0x020000
#define GEN4   "16.0 GT/s PCIe"

/* Two sockets. On the first a switch with a GPU and an InfiniBand NIC, on the second a GPU with
 * half of its lanes, right below a root port, and an Ethernet NIC. */
static const struct fake_pci devices[] = {
    {"0000:16:02.0", BRIDGE, 0x8086, 0x347a, 0x17, 0x1a, 0, GEN4, 16},
    {"0000:16:02.0/0000:17:00.0", BRIDGE, 0x1000, 0xc030, 0x18, 0x1a, 0, GEN4, 16},
    {"0000:16:02.0/0000:17:00.0/0000:18:00.0", BRIDGE, 0x1000, 0xc030, 0x19, 0x19, 0, GEN4, 16},
    {"0000:16:02.0/0000:17:00.0/0000:18:01.0", BRIDGE, 0x1000, 0xc030, 0x1a, 0x1a, 0, GEN4, 16},
    {"0000:16:02.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", GPU, 0x10de, 0x20b5, 0, 0, 0, GEN4, 16},
    {"0000:16:02.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", IB, 0x15b3, 0x101b, 0, 0, 0, GEN4, 16},
    {"0000:64:02.0", BRIDGE, 0x8086, 0x347a, 0x65, 0x65, 1, GEN4, 8},
    {"0000:64:02.0/0000:65:00.0", GPU, 0x10de, 0x20b5, 0, 0, 1, GEN4, 16},
    {"0000:64:03.0", BRIDGE, 0x8086, 0x347a, 0x66, 0x66, 1, GEN4, 16},
    {"0000:64:03.0/0000:66:00.0", ETH, 0x8086, 0x1592, 0, 0, 1, GEN4, 16},
};
#define NIC_PATH    "0000:16:02.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0"
#define SECOND_PATH "0000:16:02.0/0000:17:00.0/0000:18:01.0/0000:1a:00.1"
#define ETH_PATH    "0000:64:03.0/0000:66:00.0"

static char messages[4096];

static void message_keep(void *context, const char *text)
{
    size_t used = strlen(messages);

    (void) context;
    snprintf(messages + used, sizeof(messages) - used, "%s\n", text);
}

static char *machine_new(const char *port_state)
{
    char *root = fake_root_new();

    fake_cpus(root, 2, 4);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        fake_pci_add(root, &devices[i]);
    }
    fake_verbs(root, NIC_PATH, "mlx5_0", port_state, "200 Gb/sec (4X HDR)", "b83f:d203:002a:a358");
    fake_interface(root, ETH_PATH, "ens1", 0x1003, 100000);
    fake_interface(root, NULL, "lo", 0x9, -1);
    fake_put(root, "/proc/sys/kernel/osrelease", "6.1.0-test\n");
    return root;
}

/* The CPUID of this processor must not become a part of the description of another machine. */
static void recorded_begin(const char *root)
{
    setenv("HWLOC_FSROOT", root, 1);
    setenv("HWLOC_COMPONENTS", "-x86,-pci", 1);
}

static void recorded_end(void)
{
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_COMPONENTS");
}

/* Discovers with OPTIONS below ROOT, keeping messages. */
static struct pci_doc *discover_at(const char *root, struct pci_discover_options options)
{
    struct pci_error error = {""};
    struct pci_doc *doc = NULL;

    messages[0] = '\0';
    options.message = message_keep;
    recorded_begin(root);
    assert_int_equal(pci_discover(&options, &doc, &error), 0);
    recorded_end();
    assert_string_equal(error.text, "");
    assert_non_null(doc);
    return doc;
}

static unsigned count_of(const struct pci_doc *doc, const char *name)
{
    struct pci_elem *elem = NULL;
    unsigned count = 0;

    while ((elem = pci_doc_next(doc, elem, name)) != NULL) {
        count++;
    }
    return count;
}

static void assert_attribute(const struct pci_elem *elem, const char *key, const char *value)
{
    assert_non_null(elem);
    assert_non_null(pci_elem_get(elem, key));
    assert_string_equal(pci_elem_get(elem, key), value);
}

/* The element is inside one of this name and attribute. */
static void assert_inside(const struct pci_elem *elem, const char *name, const char *key,
                          const char *value)
{
    const struct pci_elem *above = pci_elem_parent(elem);

    assert_non_null(above);
    assert_string_equal(pci_elem_name(above), name);
    assert_attribute(above, key, value);
}

TEST(test_recorded_machine)
{
    char *root = machine_new("4: ACTIVE");
    struct pci_doc *doc = discover_at(root, (struct pci_discover_options){0});
    struct pci_elem *elem;

    assert_int_equal(count_of(doc, "cpu"), 2);
    elem = pci_doc_find(doc, "cpu", "numaid", "1");
    assert_attribute(elem, "affinity", "000000f0");
    assert_attribute(elem, "arch", "x86_64");
    assert_attribute(elem, "vendor", "GenuineIntel");
    assert_attribute(elem, "familyid", "6");
    assert_attribute(elem, "modelid", "106");
    /* The upstream port represents the switch. Root ports and downstream ports are omitted. */
    assert_int_equal(count_of(doc, "pci"), 4);
    assert_inside(pci_doc_find(doc, "pci", "busid", "0000:17:00.0"), "cpu", "numaid", "0");
    elem = pci_doc_find(doc, "pci", "busid", "0000:19:00.0");
    assert_inside(elem, "pci", "busid", "0000:17:00.0");
    assert_attribute(elem, "class", "0x030200");
    assert_attribute(elem, "vendor", "0x10de");
    assert_attribute(elem, "link_speed", GEN4);
    assert_attribute(elem, "link_width", "16");
    assert_attribute(pci_elem_child(elem, "gpu"), "dev", "0");
    assert_attribute(pci_elem_child(elem, "gpu"), "sm", "80");
    elem = pci_doc_find(doc, "pci", "busid", "0000:65:00.0");
    assert_inside(elem, "cpu", "numaid", "1");
    assert_attribute(elem, "link_width", "8"); /* of the port above */
    elem = pci_doc_find(doc, "net", "name", "mlx5_0");
    assert_attribute(elem, "speed", "200000");
    assert_attribute(elem, "port", "1");
    assert_attribute(elem, "guid", "0x58a32a0003d23fb8");
    assert_inside(pci_elem_parent(elem), "pci", "busid", "0000:1a:00.0");
    assert_int_equal(count_of(doc, "net"), 1);
    pci_doc_free(doc);
    fake_root_remove(root);
}

/* Two functions of a card are one NIC with two ports, numbered as NCCL does. */
TEST(test_two_functions)
{
    static const struct fake_pci function = {SECOND_PATH, IB, 0x15b3, 0x101b, 0, 0, 0, GEN4, 16};
    char *root = machine_new("4: ACTIVE");
    struct pci_discover_options options = {0};
    struct pci_doc *doc;

    fake_pci_add(root, &function);
    fake_verbs(root, SECOND_PATH, "mlx5_1", "4: ACTIVE", "200 Gb/sec (4X HDR)",
               "b83f:d203:002a:a358");
    doc = discover_at(root, options);
    struct pci_elem *second = pci_doc_find(doc, "net", "name", "mlx5_1");
    assert_attribute(pci_doc_find(doc, "net", "name", "mlx5_0"), "port", "1");
    assert_attribute(second, "port", "2");
    assert_inside(pci_elem_parent(second), "pci", "busid", "0000:1a:00.0");
    pci_doc_free(doc);
    fake_root_remove(root);
}

/* A verbs device whose port is down does not count: the IP interface is used,
 * and a message reports it. */
TEST(test_port_down)
{
    char *root = machine_new("1: DOWN");
    struct pci_doc *doc = discover_at(root, (struct pci_discover_options){0});

    struct pci_elem *net = pci_doc_find(doc, "net", "name", "ens1");

    assert_int_equal(count_of(doc, "net"), 1);
    assert_attribute(net, "speed", "100000");
    assert_attribute(net, "gdr", "0");
    assert_inside(pci_elem_parent(net), "pci", "busid", "0000:66:00.0");
    assert_non_null(strstr(messages, "active port"));
    pci_doc_free(doc);
    fake_root_remove(root);
}

/* An interface of a container has no PCI device: it belongs to the first NUMA node. */
TEST(test_virtual_interface)
{
    char *root = fake_root_new();
    struct pci_doc *doc;
    struct pci_elem *net;

    fake_cpus(root, 2, 2);
    fake_interface(root, NULL, "eth0", 0x1003, -1);
    fake_interface(root, NULL, "docker0", 0x1003, -1);
    fake_interface(root, NULL, "eth1", 0x1002, -1); /* not up */
    doc = discover_at(root, (struct pci_discover_options){0});
    net = pci_doc_find(doc, "net", "name", "eth0");
    assert_int_equal(count_of(doc, "net"), 1);
    assert_attribute(net, "speed", "10000");
    assert_inside(pci_elem_parent(net), "cpu", "numaid", "0");
    pci_doc_free(doc);
    fake_root_remove(root);
}

static struct pci_nvml *nvml_open(const char *mode)
{
    struct pci_nvml *nvml = NULL;
    char message[256];

    setenv("GPURING_FAKE_NVML", mode, 1);
    assert_int_equal(pci_nvml_open(FAKE_NVML_PATH, &nvml, message, sizeof(message)), 0);
    assert_string_equal(message, "");
    return nvml;
}

static void assert_links(struct pci_doc *doc, const char *gpu, const char *peer)
{
    struct pci_elem *elem = pci_elem_child(pci_doc_find(doc, "pci", "busid", gpu), "gpu");

    elem = pci_elem_child(elem, "nvlink");
    assert_attribute(elem, "target", peer);
    assert_attribute(elem, "count", "2");
    assert_attribute(elem, "tclass", "0x030200");
    elem = pci_elem_sibling(elem, "nvlink");
    assert_attribute(elem, "target", "0000:c0:00.0");
    assert_attribute(elem, "count", "1");
    assert_attribute(elem, "tclass", "0x068000");
    assert_null(pci_elem_sibling(elem, "nvlink"));
}

/* With the kinds of the far ends, and with a library that does not know them. */
TEST(test_nvlinks_of_driver)
{
    static const char *const modes[] = {"", "old"};
    char *root = machine_new("4: ACTIVE");

    for (size_t i = 0; i < 2; i++) {
        struct pci_nvml *nvml = nvml_open(modes[i]);
        struct pci_discover_options options = {.hooks = pci_nvml_hooks(nvml)};
        struct pci_doc *doc = discover_at(root, options);

        assert_int_equal(count_of(doc, "gpu"), 2);
        assert_links(doc, "0000:19:00.0", "0000:65:00.0");
        assert_links(doc, "0000:65:00.0", "0000:19:00.0");
        pci_doc_free(doc);
        pci_nvml_close(nvml);
    }
    fake_root_remove(root);
}

TEST(test_p2p_status)
{
    static const struct {
        const char *mode;
        int status;
    } cases[] = {{"", 1}, {"no-p2p", 0}};

    for (size_t i = 0; i < 2; i++) {
        struct pci_nvml *nvml = nvml_open(cases[i].mode);
        struct pci_discover_hooks hooks = pci_nvml_hooks(nvml);

        assert_int_equal(hooks.p2p(hooks.context, "0000:19:00.0", "0000:65:00.0"), cases[i].status);
        assert_int_equal(hooks.p2p(hooks.context, "0000:19:00.0", "0000:77:00.0"), -1);
        pci_nvml_close(nvml);
    }
}

TEST(test_nvml_missing)
{
    struct pci_nvml *nvml = NULL;
    char message[256];

    assert_int_equal(pci_nvml_open("libno-such-nvml.so.1", &nvml, message, sizeof(message)),
                     -ENOENT);
    assert_string_equal(message, "");
    assert_int_equal(pci_nvml_open("libm.so.6", &nvml, message, sizeof(message)), -ELIBBAD);
    assert_non_null(strstr(message, "nvmlInit_v2"));
    setenv("GPURING_FAKE_NVML", "no-driver", 1);
    assert_int_equal(pci_nvml_open(FAKE_NVML_PATH, &nvml, message, sizeof(message)), -EIO);
    assert_non_null(strstr(message, "Driver Not Loaded"));
    assert_null(nvml);
    unsetenv("GPURING_FAKE_NVML");
}

/* Links to the processor that are up are found, and the graph has them. */
TEST(test_chip_to_chip)
{
    char *root = machine_new("4: ACTIVE");
    struct pci_nvml *nvml = nvml_open("c2c");
    struct pci_discover_options options = {.hooks = pci_nvml_hooks(nvml)};
    struct pci_doc *doc = discover_at(root, options);
    struct pci_elem *elem = pci_doc_find(doc, "c2c", NULL, NULL);
    struct pci_error error = {""};
    struct pci_graph *graph = NULL;

    assert_int_equal(count_of(doc, "c2c"), 1);
    assert_inside(elem, "gpu", "dev", "0");
    assert_attribute(elem, "count", "2");
    assert_attribute(elem, "bw", "22500");
    assert_int_equal(pci_graph_build(doc, NULL, &graph, &error), 0);
    assert_int_equal(pci_graph_route(graph, PCI_NODE_GPU, 0, PCI_NODE_CPU, 0)->class, PCI_PATH_C2C);
    pci_graph_free(graph);
    pci_doc_free(doc);
    pci_nvml_close(nvml);
    fake_root_remove(root);
}

/* GPUDirect RDMA by dma-buf, where the driver offers it; no module is loaded. */
TEST(test_gdr_of_driver)
{
    char *root = machine_new("4: ACTIVE");
    struct pci_nvml *nvml = nvml_open("");
    struct pci_discover_options options = {.hooks = pci_nvml_hooks(nvml)};
    struct pci_cuda *cuda = NULL;
    struct pci_doc *doc;

    assert_int_equal(pci_cuda_open(FAKE_NVML_PATH, false, &cuda), 0);
    pci_cuda_hook(cuda, &options.hooks);
    doc = discover_at(root, options);
    assert_attribute(pci_doc_find(doc, "gpu", "dev", "0"), "gdr", "1");
    assert_attribute(pci_doc_find(doc, "gpu", "dev", "1"), "gdr", "0");
    pci_doc_free(doc);
    pci_cuda_close(cuda);
    pci_nvml_close(nvml);
    fake_root_remove(root);
}

/* If /sys hides the PCI devices, the driver's GPUs are still listed, with a message. */
TEST(test_hidden_pci)
{
    char *root = fake_root_new();
    struct pci_nvml *nvml = nvml_open("");
    struct pci_discover_options options = {.hooks = pci_nvml_hooks(nvml)};
    struct pci_doc *doc;
    struct pci_elem *pci;

    fake_cpus(root, 2, 2);
    doc = discover_at(root, options);
    assert_int_equal(count_of(doc, "gpu"), 2);
    pci = pci_doc_find(doc, "pci", "busid", "0000:65:00.0");
    assert_inside(pci, "cpu", "numaid", "0");
    assert_attribute(pci, "link_speed", GEN4);
    assert_attribute(pci, "link_width", "8");
    assert_attribute(pci, "class", "0x030200");
    assert_links(doc, "0000:65:00.0", "0000:19:00.0");
    assert_non_null(strstr(messages, "NUMA node of PCI device 0000:65:00.0 is not visible"));
    pci_doc_free(doc);
    pci_nvml_close(nvml);
    fake_root_remove(root);
}

static hwloc_obj_t pci_object(hwloc_topology_t topology, const char *busid)
{
    hwloc_obj_t obj = hwloc_get_pcidev_by_busidstring(topology, busid);

    assert_non_null(obj);
    return obj;
}

/* hwloc's matrix of NVLinks between the two GPUs: six links of 25 GB/s each way. */
static void matrix_add(hwloc_topology_t topology)
{
    hwloc_obj_t objs[2] = {pci_object(topology, "0000:19:00.0"),
                           pci_object(topology, "0000:65:00.0")};
    hwloc_uint64_t values[4] = {1000000, 150000, 150000, 1000000};
    hwloc_distances_add_handle_t handle = hwloc_distances_add_create(
        topology, "NVLinkBandwidth",
        HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH, 0);

    assert_non_null(handle);
    assert_int_equal(hwloc_distances_add_values(topology, handle, 2, objs, values, 0), 0);
    assert_int_equal(hwloc_distances_add_commit(topology, handle, 0), 0);
}

static void topology_export(const char *root, const char *path)
{
    hwloc_topology_t topology;

    recorded_begin(root);
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    recorded_end();
    matrix_add(topology);
    assert_int_equal(hwloc_topology_export_xml(topology, path, 0), 0);
    hwloc_topology_destroy(topology);
}

/* Read a file of hwloc on another machine, without /sys and driver. */
TEST(test_hwloc_xml)
{
    char *root = machine_new("4: ACTIVE"), path[256];
    struct pci_error error = {""};
    struct pci_discover_options options = {.message = message_keep};
    struct pci_doc *doc;
    struct pci_elem *elem;

    snprintf(path, sizeof(path), "%s/machine.xml", root);
    topology_export(root, path);
    messages[0] = '\0';
    setenv("HWLOC_XMLFILE", path, 1);
    assert_int_equal(pci_discover(&options, &doc, &error), 0);
    unsetenv("HWLOC_XMLFILE");
    assert_int_equal(count_of(doc, "cpu"), 2);
    assert_int_equal(count_of(doc, "gpu"), 2);
    elem = pci_doc_find(doc, "pci", "busid", "0000:19:00.0");
    assert_inside(elem, "pci", "busid", "0000:17:00.0");
    assert_attribute(elem, "link_speed", GEN4);
    elem = pci_elem_child(pci_elem_child(elem, "gpu"), "nvlink");
    assert_attribute(elem, "target", "0000:65:00.0");
    assert_attribute(elem, "count", "6");
    assert_attribute(elem, "tclass", "0x030200");
    elem = pci_doc_find(doc, "net", "name", "mlx5_0");
    assert_attribute(elem, "guid", "0x58a32a0003d23fb8");
    assert_inside(pci_elem_parent(elem), "pci", "busid", "0000:1a:00.0");
    assert_non_null(strstr(messages, "rate of port 1 of mlx5_0 is not visible"));
    pci_doc_free(doc);
    fake_root_remove(root);
}

TEST(test_synthetic)
{
    struct pci_error error = {""};
    struct pci_doc *doc;

    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:4 pu:1", 1);
    assert_int_equal(pci_discover(NULL, &doc, &error), 0);
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(count_of(doc, "cpu"), 2);
    assert_int_equal(count_of(doc, "pci"), 0);
    assert_attribute(pci_doc_find(doc, "cpu", "numaid", "1"), "affinity", "000000f0");
    pci_doc_free(doc);
}

/* hwloc falls back to this machine silently, so we log it. */
TEST(test_unreadable_input)
{
    struct pci_discover_options options = {.message = message_keep};
    struct pci_error error = {""};
    struct pci_doc *doc;

    messages[0] = '\0';
    setenv("HWLOC_XMLFILE", "/no/such/file.xml", 1);
    assert_int_equal(pci_discover(&options, &doc, &error), 0);
    pci_doc_free(doc);
    options.strict = true;
    assert_int_equal(pci_discover(&options, &doc, &error), -EINVAL);
    unsetenv("HWLOC_XMLFILE");
    assert_non_null(strstr(messages, "HWLOC_XMLFILE=/no/such/file.xml"));
    assert_non_null(strstr(error.text, "HWLOC_XMLFILE=/no/such/file.xml"));
}

/* The machine that runs the test, whatever it is. */
TEST(test_this_machine)
{
    struct pci_error error = {""};
    struct pci_elem *elem = NULL;
    struct pci_doc *doc;

    assert_int_equal(pci_discover(NULL, &doc, &error), 0);
    assert_true(count_of(doc, "cpu") >= 1);
    while ((elem = pci_doc_next(doc, elem, "cpu")) != NULL) {
        assert_non_null(pci_elem_get(elem, "numaid"));
        assert_non_null(pci_elem_get(elem, "affinity"));
        assert_non_null(pci_elem_get(elem, "arch"));
    }
    while ((elem = pci_doc_next(doc, elem, "net")) != NULL) {
        assert_non_null(pci_elem_get(elem, "name"));
        assert_true(pci_elem_long(elem, "speed", -1) > 0);
    }
    pci_doc_free(doc);
}

static int forget_variables(void **state)
{
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_THISSYSTEM");
    return 0;
}

TEST_GROUP(forget_variables, NULL)
