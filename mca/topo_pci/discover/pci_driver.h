/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_DRIVER_H
#define TOPO_PCI_DISCOVER_PCI_DRIVER_H

/*
 * Information from NVIDIA's libraries at run time: GPUs, NVLinks and peer-to-peer status from the
 * management library (NVML), and support of GPUDirect RDMA and dma-buf from the CUDA driver.
 *
 * The libraries are not linked, because a machine without the driver does not have them, and none
 * of NVIDIA's headers is needed. No context is created on any GPU. Only one thread at a time may
 * use a handle. Returns 0, -ENOENT (no such library, or it is not loaded), -ELIBBAD (the library
 * lacks required functions) or -EIO (it does not initialise, e.g. because all GPUs are hidden).
 */

#include "mca/topo_pci/discover/pci_discover.h"

struct pci_nvml;
struct pci_cuda;

/* Open LIBRARY (NULL: libnvidia-ml.so.1). After a failure that the user can correct, MESSAGE (SIZE
 * bytes) contains one line. */
int pci_nvml_open(const char *library, struct pci_nvml **nvml, char *message, size_t size);
void pci_nvml_close(struct pci_nvml *nvml); /* NULL is allowed */

/* Return hooks that query NVML. They are valid until NVML is closed. */
struct pci_discover_hooks pci_nvml_hooks(struct pci_nvml *nvml);

/* Open LIBRARY (NULL: libcuda.so.1) and initialise the driver. LOADED: only use a library that the
 * process has already loaded, so that a program without CUDA does not load it. */
int pci_cuda_open(const char *library, bool loaded, struct pci_cuda **cuda);
void pci_cuda_close(struct pci_cuda *cuda); /* NULL is allowed */

/* Set HOOKS->gdr to query the driver; valid until CUDA is closed. */
void pci_cuda_hook(struct pci_cuda *cuda, struct pci_discover_hooks *hooks);

#endif
