/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* PCI Express links, and GPU families by PCI device number: tables and pure functions. */

#include <math.h>
#include <stddef.h>

#include "mca/topo_pci/discover/pci_discover.h"

/* Generation, the kernel's text, GB/s of a lane after line coding (PCI Express base specification:
 * 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, 242B/256B flits from 64 GT/s on). */
#define PCIE_GENERATIONS(X)                      \
    X(1, "2.5 GT/s PCIe", 2.5 * 8 / 10 / 8)      \
    X(2, "5.0 GT/s PCIe", 5.0 * 8 / 10 / 8)      \
    X(3, "8.0 GT/s PCIe", 8.0 * 128 / 130 / 8)   \
    X(4, "16.0 GT/s PCIe", 16.0 * 128 / 130 / 8) \
    X(5, "32.0 GT/s PCIe", 32.0 * 128 / 130 / 8) \
    X(6, "64.0 GT/s PCIe", 64.0 * 242 / 256 / 8)

static const struct {
    int generation;
    const char *speed;
    double lane;
} generations[] = {
#define ENTRY(GENERATION, SPEED, LANE) {GENERATION, SPEED, LANE},
    PCIE_GENERATIONS(ENTRY)
#undef ENTRY
};

static const int widths[] = {16, 8, 4, 2, 1, 32, 12};

#define COUNT(ARRAY) (sizeof ARRAY / sizeof((ARRAY)[0]))

/* If several links have this product (x16 at 8 GT/s, x8 at 16 GT/s), return the widest common one,
 * which GPUs and switches have. A tolerance of 1 % covers the different rounding of hwloc's
 * versions. */
int pci_link_of_bandwidth(double gbytes_per_second, struct pci_link_facts *link)
{
    for (size_t w = 0; w < COUNT(widths); w++) {
        for (size_t g = 0; g < COUNT(generations); g++) {
            double bandwidth = generations[g].lane * widths[w];

            if (fabs(bandwidth - gbytes_per_second) < 0.01 * bandwidth) {
                link->speed = generations[g].speed;
                link->width = widths[w];
                return 0;
            }
        }
    }
    return -1;
}

const char *pci_link_speed_of_generation(int generation)
{
    for (size_t g = 0; g < COUNT(generations); g++) {
        if (generations[g].generation == generation) {
            return generations[g].speed;
        }
    }
    return "";
}

/* First and last PCI device number, compute capability x 10, chips.  Numbers: the public PCI ID
 * repository (pci-ids.ucw.cz), vendor 10de; capabilities: NVIDIA's CUDA GPU list. */
#define PCI_GPU_FAMILIES(X)                \
    X(0x1340, 0x13bf, 50, "GM107, GM108")  \
    X(0x13c0, 0x143f, 52, "GM204, GM206")  \
    X(0x15f0, 0x15ff, 60, "GP100")         \
    X(0x1700, 0x17ff, 52, "GM200")         \
    X(0x1b00, 0x1d7f, 61, "GP102..GP108")  \
    X(0x1d80, 0x1dff, 70, "GV100")         \
    X(0x1e00, 0x1fff, 75, "TU102..TU117")  \
    X(0x2080, 0x20ff, 80, "GA100")         \
    X(0x2180, 0x21ff, 75, "TU116")         \
    X(0x2200, 0x22ff, 86, "GA102")         \
    X(0x2300, 0x23ff, 90, "GH100")         \
    X(0x2400, 0x25ff, 86, "GA103..GA107")  \
    X(0x2680, 0x28ff, 89, "AD102..AD107")  \
    X(0x2900, 0x297f, 100, "GB100")        \
    X(0x2b80, 0x2fff, 120, "GB202..GB207") \
    X(0x3180, 0x31ff, 103, "GB300")

int pci_gpu_sm_of_device(unsigned device_id)
{
#define FAMILY(FIRST, LAST, SM, CHIPS)                 \
    if (device_id >= (FIRST) && device_id <= (LAST)) { \
        return (SM);                                   \
    }
    PCI_GPU_FAMILIES(FAMILY)
#undef FAMILY
    return -1;
}
