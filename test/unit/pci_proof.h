/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Prove channels, and the rings and trees of a job, without sharing code with the search. */
#ifndef PCI_PROOF_H
#define PCI_PROOF_H

#include "mca/topo_pci/search/pci_channels.h"
#include "mca/topo_pci/search/pci_connect.h"

/* Fill WHY (SIZE bytes) with the reason why a proof fails, and return -EINVAL. */
int pci_proof_refuse(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Prove channels against their fabric: every channel contains each GPU once, NICs exist where they
 * are needed, classes are as stated, pairs are swapped with cross_nic 2, and no link carries more
 * than its capacity according to the rules above (within 1e-6). -EINVAL with a sentence in WHY
 * (always terminated); -ENOMEM.
 */
int pci_channels_check(const struct pci_fabric *fabric, const struct pci_channels *channels,
                       char *why, size_t size);

/*
 * Create a job of NODES equal nodes with one rank for each GPU, in order.
 * pci_connect_uniform_fini() frees it. -EINVAL, -E2BIG: as pci_wire_fill(), or more than INT32_MAX
 * ranks; -ENOMEM.
 */
int pci_connect_uniform(struct pci_connect *connect, uint32_t nodes,
                        const struct pci_channels *ring, const struct pci_channels *tree,
                        struct pci_error *error);
void pci_connect_uniform_fini(struct pci_connect *connect);

/*
 * Prove all rings and trees. Each ring visits every rank once, and prev, next and index agree. Each
 * tree connects all ranks with one root, up and down agree, and between nodes its depth is at most
 * 2 + 1.5 log2(nodes). No node is an inner node of both trees. O(ranks x channels x ranks of a
 * node). -EINVAL with a sentence in WHY (always terminated); -ENOMEM.
 */
int pci_connect_check(const struct pci_connect *connect, char *why, size_t size);

#endif
