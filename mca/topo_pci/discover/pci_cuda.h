/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_CUDA_H
#define TOPO_PCI_DISCOVER_PCI_CUDA_H

/*
 * Whether GPUs support GPUDirect RDMA and dma-buf, from the CUDA driver, found at run time.
 *
 * Nothing is linked and no header of CUDA's is needed. No context is created on any GPU.
 *
 * Threads    One handle may be used by one thread at a time.
 * Returns    0, -ENOENT (no driver library here, or none loaded), -ELIBBAD (a library without the
 * functions needed), -EIO (the driver does not start, e.g. because all GPUs are hidden).
 */

#include <stdbool.h>

#include "mca/topo_pci/discover/pci_discover.h"

struct pci_cuda;

/*
 * Opens the library LIBRARY (NULL: libcuda.so.1) and starts the driver. LOADED: only a library that
 * the process has loaded already, so that a program without CUDA stays without. Close with
 * pci_cuda_close.
 */
int pci_cuda_open(const char *library, bool loaded, struct pci_cuda **cuda);
void pci_cuda_close(struct pci_cuda *cuda); /* NULL is allowed */

/* Lets the driver answer HOOKS->gdr; valid until CUDA is closed. */
void pci_cuda_hook(struct pci_cuda *cuda, struct pci_discover_hooks *hooks);

#endif
