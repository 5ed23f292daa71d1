/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_DRIVER_H
#define TOPO_PCI_DISCOVER_PCI_DRIVER_H

/*
 * What NVIDIA's libraries know, found at run time: GPUs, NVLinks and peer-to-peer status from the
 * management library (NVML); support of GPUDirect RDMA and dma-buf from the CUDA driver.
 *
 * Nothing is linked and no header of NVIDIA's is needed: a machine without the driver has no such
 * library. No context is created on any GPU. One handle may be used by one thread at a time.
 * Returns 0, -ENOENT (no such library here, or none loaded), -ELIBBAD (a library without the
 * functions needed), -EIO (the library does not start, e.g. because all GPUs are hidden).
 */

#include "mca/topo_pci/discover/pci_discover.h"

struct pci_nvml;
struct pci_cuda;

/* Opens LIBRARY (NULL: libnvidia-ml.so.1). On a failure that the user can do something about,
 * MESSAGE (SIZE bytes) holds one line. */
int pci_nvml_open(const char *library, struct pci_nvml **nvml, char *message, size_t size);
void pci_nvml_close(struct pci_nvml *nvml); /* NULL is allowed */

/* The hooks that answer from NVML; they are valid until NVML is closed. */
struct pci_discover_hooks pci_nvml_hooks(struct pci_nvml *nvml);

/* Opens LIBRARY (NULL: libcuda.so.1) and starts the driver. LOADED: only a library that the process
 * has loaded already, so that a program without CUDA stays without. */
int pci_cuda_open(const char *library, bool loaded, struct pci_cuda **cuda);
void pci_cuda_close(struct pci_cuda *cuda); /* NULL is allowed */

/* Lets the driver answer HOOKS->gdr; valid until CUDA is closed. */
void pci_cuda_hook(struct pci_cuda *cuda, struct pci_discover_hooks *hooks);

#endif
