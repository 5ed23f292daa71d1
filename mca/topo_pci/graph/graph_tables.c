/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Names and constants of the topology engine. The bandwidths of links are those of NCCL 2.30.7's
 * graph code, so that both find the same paths.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mca/topo_pci/graph/graph_internal.h"

#define PCI_NAME(id, name) name,
static const char *const node_names[] = {PCI_NODE_TYPES(PCI_NAME)};
static const char *const link_names[] = {PCI_LINK_TYPES(PCI_NAME)};
static const char *const class_names[] = {PCI_PATH_CLASSES(PCI_NAME)};
#undef PCI_NAME

const char *pci_node_type_name(enum pci_node_type type)
{
    return (unsigned) type < PCI_NODE_TYPE_COUNT ? node_names[type] : "?";
}

const char *pci_link_type_name(enum pci_link_type type)
{
    return (unsigned) type < PCI_LINK_TYPE_COUNT ? link_names[type] : "?";
}

const char *pci_path_class_name(enum pci_path_class class)
{
    return (unsigned) class < PCI_PATH_CLASS_COUNT ? class_names[class] : "?";
}

int pci_path_class_parse(const char *name)
{
    for (int i = 0; name && i < PCI_PATH_CLASS_COUNT; i++) {
        if (!strcasecmp(name, class_names[i])) {
            return i;
        }
    }
    return -EINVAL;
}

/* PCI Express: transfer rate in GT/s -> bandwidth of a lane in 100 Mb/s, after coding and headers.
 */
static const struct {
    double rate;
    unsigned lane;
} pci_rates[] = {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}};

#define PCI_LANE_UNKNOWN  60 /* as 8 GT/s */
#define PCI_WIDTH_UNKNOWN 16
#define PCI_WIDTH_MAX \
    256 /* the kernel reports 63 or 255 for unknown, which the reference accepts */

bool pci_link_known(long width, const char *speed)
{
    char *end;
    double rate = speed ? strtod(speed, &end) : 0;
    bool known = false;
    for (size_t i = 0; i < sizeof pci_rates / sizeof pci_rates[0]; i++) {
        known = known || rate == pci_rates[i].rate;
    }
    return known && width > 0 && width <= PCI_WIDTH_MAX;
}

double pci_bw_of_pci(long width, const char *speed)
{
    unsigned lane = PCI_LANE_UNKNOWN;
    char *end;
    double rate = speed ? strtod(speed, &end) : 0;
    if (speed && end != speed) {
        for (size_t i = 0; i < sizeof pci_rates / sizeof pci_rates[0]; i++) {
            lane = rate == pci_rates[i].rate ? pci_rates[i].lane : lane;
        }
    }
    if (width <= 0 || width > PCI_WIDTH_MAX) {
        width = PCI_WIDTH_UNKNOWN;
    }
    return (double) width * lane / 80.0;
}

double pci_bw_of_nvlink(int sm)
{
    if (sm >= 100) {
        return 40.1;
    }
    if (sm >= 90) {
        return 20.6;
    }
    if (sm == 86) {
        return 12.0;
    }
    if (sm >= 60 && sm < 70) {
        return 18.0;
    }
    return 20.0; /* sm70, sm80, unknown */
}

double pci_bw_between_cpus(const struct pci_cpu *cpu)
{
    switch (cpu->arch) {
    case PCI_ARCH_POWER:
        return 32;
    case PCI_ARCH_ARM:
        return 6;
    case PCI_ARCH_X86:
        break;
    default:
        return PCI_BW_LOC;
    }
    switch (cpu->vendor) {
    case PCI_VENDOR_AMD:
        return 16;
    case PCI_VENDOR_ZHAOXIN:
        return cpu->model == PCI_MODEL_ZHAOXIN_YONGFENG ? 9 : 6;
    case PCI_VENDOR_INTEL:
        return cpu->model == PCI_MODEL_INTEL_ERP   ? 40
               : cpu->model == PCI_MODEL_INTEL_SRP ? 22
               : cpu->model == PCI_MODEL_INTEL_SKL ? 10
                                                   : 6;
    default:
        return PCI_BW_LOC;
    }
}

double pci_bw_of_net(long mbps)
{
    if (mbps <= 0 || (double) mbps / 8000.0 > PCI_BW_MAX) {
        mbps = 10000; /* drivers report -1 or nothing for unknown */
    }
    return (double) mbps / 8000.0;
}

enum pci_node_type pci_type_of_class(const char *class)
{
    static const struct {
        const char *prefix;
        enum pci_node_type type;
    } classes[] = {
        {"0x060400", PCI_NODE_PCI}, {"0x068000", PCI_NODE_NVS}, {"0x068001", PCI_NODE_CPU},
        {"0x03", PCI_NODE_GPU},     {"0x02", PCI_NODE_NIC},
    };
    for (size_t i = 0; class && i < sizeof classes / sizeof classes[0]; i++) {
        if (!strncmp(class, classes[i].prefix, strlen(classes[i].prefix))) {
            return classes[i].type;
        }
    }
    return PCI_NODE_PCI;
}

static enum pci_cpu_model intel_model(long family, long model)
{
    if (family != 6 || model < 0x55) {
        return PCI_MODEL_INTEL_BDW;
    }
    return model >= 0xcf   ? PCI_MODEL_INTEL_ERP
           : model >= 0x8f ? PCI_MODEL_INTEL_SRP
                           : PCI_MODEL_INTEL_SKL;
}

void pci_cpu_read(struct pci_cpu *cpu, const struct pci_elem *elem)
{
    const char *arch = pci_elem_get(elem, "arch");
    const char *vendor = pci_elem_get(elem, "vendor");
    arch = arch ? arch : "";
    vendor = vendor ? vendor : "";
    cpu->numa = (int) pci_elem_long(elem, "numaid", -1);
    cpu->arch = !strcmp(arch, "x86_64")  ? PCI_ARCH_X86
                : !strcmp(arch, "arm64") ? PCI_ARCH_ARM
                : !strcmp(arch, "ppc64") ? PCI_ARCH_POWER
                                         : PCI_ARCH_OTHER;
    if (cpu->arch != PCI_ARCH_X86) {
        return;
    }
    if (!strcmp(vendor, "GenuineIntel")) {
        cpu->vendor = PCI_VENDOR_INTEL;
        cpu->model =
            intel_model(pci_elem_long(elem, "familyid", 0), pci_elem_long(elem, "modelid", 0));
    } else if (!strcmp(vendor, "AuthenticAMD")) {
        cpu->vendor = PCI_VENDOR_AMD;
    } else if (!strcmp(vendor, "CentaurHauls") || !strcmp(vendor, "  Shanghai  ")) {
        cpu->vendor = PCI_VENDOR_ZHAOXIN;
        cpu->model =
            pci_elem_long(elem, "familyid", 0) == 7 && pci_elem_long(elem, "modelid", 0) == 0x5b
                ? PCI_MODEL_ZHAOXIN_YONGFENG
                : PCI_MODEL_OTHER;
    }
}
