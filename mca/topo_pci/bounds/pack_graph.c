/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Packed trees of a machine. */
#include "mca/topo_pci/bounds/pci_pack.h"

static int pack_scope(const struct pci_graph *graph, enum pci_flow_scope scope, uint32_t max_trees,
                      struct pci_pack *pack)
{
    struct pci_flow flow;
    int rc = pci_flow_from_graph(graph, scope, &flow);

    if (0 == rc) {
        rc = pci_pack_compute(&flow, max_trees, pack);
        pci_flow_fini(&flow);
    }
    return rc;
}

int pci_pack_of_graph(const struct pci_graph *graph, uint32_t max_trees, struct pci_pack *pack)
{
    struct pci_pack result = {.ngpus = pci_graph_count(graph, PCI_NODE_GPU), .nvlink = true};
    int rc = 0;

    if (result.ngpus >= 2) {
        rc = pack_scope(graph, PCI_FLOW_NVLINK, max_trees, &result);
        result.nvlink = true;
        if (0 == rc && 0 == result.ntrees) {
            rc = pack_scope(graph, PCI_FLOW_ALL, max_trees, &result);
            result.nvlink = false;
        }
    }
    if (0 == rc) {
        *pack = result;
    }
    return rc;
}
