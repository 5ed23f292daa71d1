/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The pure parts of discovery: links, GPU families, GPUDirect RDMA, bus ids. */

#include "test/unit/unit.h"

#include <stdlib.h>

#include <errno.h>

#include "fake_sysfs.h"
#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/discover/pci_driver.h"
#include "mca/topo_pci/discover/pci_discover.h"

static void assert_link(double bandwidth, const char *speed, int width)
{
    struct pci_link_facts link;

    assert_int_equal(pci_link_of_bandwidth(bandwidth, &link), 0);
    assert_string_equal(link.speed, speed);
    assert_int_equal(link.width, width);
}

TEST(test_links)
{
    struct pci_link_facts link;

    assert_link(0.25, "2.5 GT/s PCIe", 1);
    assert_link(4.0, "2.5 GT/s PCIe", 16);
    assert_link(15.7538, "8.0 GT/s PCIe", 16);
    assert_link(31.5077, "16.0 GT/s PCIe", 16);
    assert_link(63.0154, "32.0 GT/s PCIe", 16);
    assert_link(1.9692, "8.0 GT/s PCIe", 2);
    assert_int_equal(pci_link_of_bandwidth(0, &link), -1);
    assert_int_equal(pci_link_of_bandwidth(1000, &link), -1);
    assert_string_equal(pci_link_speed_of_generation(5), "32.0 GT/s PCIe");
    assert_string_equal(pci_link_speed_of_generation(7), "");
}

TEST(test_gpu_families)
{
    assert_int_equal(pci_gpu_sm_of_device(0x1db8), 70);  /* V100 */
    assert_int_equal(pci_gpu_sm_of_device(0x20b5), 80);  /* A100 */
    assert_int_equal(pci_gpu_sm_of_device(0x2204), 86);  /* RTX 3090 */
    assert_int_equal(pci_gpu_sm_of_device(0x2335), 90);  /* H200 */
    assert_int_equal(pci_gpu_sm_of_device(0x2901), 100); /* B200 */
    assert_int_equal(pci_gpu_sm_of_device(0x0042), -1);
}

TEST(test_gdr)
{
    static const struct {
        struct pci_gdr_facts system;
        int gdr, dmabuf, possible;
    } cases[] = {
        {{0, 0}, 1, 1, 0}, {{1, 0}, 1, 0, 1}, {{1, 0}, -1, -1, 1}, {{1, 1}, 0, 1, 0},
        {{0, 1}, 1, 1, 1}, {{0, 1}, 1, 0, 0}, {{0, 1}, -1, -1, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pci_gpu_facts gpu = {.gdr = cases[i].gdr, .dmabuf = cases[i].dmabuf};

        assert_int_equal(pci_gdr_possible(&cases[i].system, &gpu), cases[i].possible);
    }
}

TEST(test_gdr_facts)
{
    char *root = fake_root_new();
    struct pci_gdr_facts facts;

    fake_put(root, "/proc/sys/kernel/osrelease", "5.11.22\n");
    pci_gdr_facts_read(root, &facts);
    assert_int_equal(facts.peermem, 0);
    assert_int_equal(facts.kernel_dmabuf, 0);
    fake_put(root, "/proc/sys/kernel/osrelease", "5.12.0\n");
    fake_put(root, "/sys/module/nvidia_peermem/version", "1\n");
    pci_gdr_facts_read(root, &facts);
    assert_int_equal(facts.peermem, 1);
    assert_int_equal(facts.kernel_dmabuf, 1);
    pci_gdr_facts_read(NULL, &facts);
    assert_int_equal(facts.peermem, 0);
    fake_root_remove(root);
}

TEST(test_busids)
{
    static const struct {
        const char *text, *busid;
    } cases[] = {
        {"0000:3b:00.0", "0000:3b:00.0"},
        {"00000000:3B:00.0", "0000:3b:00.0"},
        {"00010000:02:1f.7", "10000:02:1f.7"},
        {"3b:00.0", NULL},
        {"0000:3b:00.8", NULL},
        {"0000:3b:20.0", NULL},
        {"0000:3b:00.0x", NULL},
        {"", NULL},
        {"fffffff:ffff:ff", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char busid[PCI_BUSID_SIZE] = "";

        assert_int_equal(disc_busid_normalise(cases[i].text, busid), cases[i].busid ? 0 : -1);
        if (cases[i].busid) {
            assert_string_equal(busid, cases[i].busid);
        }
    }
}

TEST(test_cuda_missing)
{
    struct pci_cuda *cuda = NULL;

    assert_int_equal(pci_cuda_open("libno-such-cuda.so.1", false, &cuda), -ENOENT);
    assert_int_equal(pci_cuda_open("libno-such-cuda.so.1", true, &cuda), -ENOENT);
    assert_int_equal(pci_cuda_open("libm.so.6", false, &cuda), -ELIBBAD);
    setenv("GPURING_FAKE_NVML", "no-driver", 1);
    assert_int_equal(pci_cuda_open(FAKE_NVML_PATH, false, &cuda), -EIO);
    unsetenv("GPURING_FAKE_NVML");
    assert_null(cuda);
    pci_cuda_close(cuda);
}
