/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The hybrid cube mesh of eight V100 as a flow network, for tests: 24 NVLinks of 20 GB/s, four GPUs
 * on each socket, every GPU with six links.
 */
#ifndef TEST_PCI_CUBE_H
#define TEST_PCI_CUBE_H

#include "mca/topo_pci/bounds/pci_bound.h"

#define CUBE_GPUS      8u
#define CUBE_LINK_GBPS 20.0

/* A link in both directions. */
static inline int flow_add_duplex(struct pci_flow *flow, uint32_t a, uint32_t b, double gbps)
{
    int rc = pci_flow_add_link(flow, a, b, gbps);

    return 0 != rc ? rc : pci_flow_add_link(flow, b, a, gbps);
}

static const struct {
    uint32_t a, b, links;
} cube_links[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
    {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
};

/* Build the network of the GPUs in the bit mask, renumbered from 0. Return 0 or the error of
 * pci_flow_*.
 */
static inline int cube_flow(struct pci_flow *flow, unsigned mask)
{
    uint32_t number[CUBE_GPUS], count = 0;
    int rc;

    for (uint32_t g = 0; g < CUBE_GPUS; g++) {
        number[g] = 0 != (mask & (1u << g)) ? count++ : UINT32_MAX;
    }
    rc = pci_flow_init(flow, count);
    for (size_t i = 0; 0 == rc && i < sizeof(cube_links) / sizeof(cube_links[0]); i++) {
        uint32_t a = number[cube_links[i].a], b = number[cube_links[i].b];

        if (UINT32_MAX != a && UINT32_MAX != b) {
            rc = flow_add_duplex(flow, a, b, CUBE_LINK_GBPS * cube_links[i].links);
        }
    }
    return rc;
}

#endif /* TEST_PCI_CUBE_H */
