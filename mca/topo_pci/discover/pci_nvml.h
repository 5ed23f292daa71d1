/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_NVML_H
#define TOPO_PCI_DISCOVER_PCI_NVML_H

/*
 * GPUs, NVLinks and peer-to-peer status from NVIDIA's management library, loaded at run time.
 *
 * Nothing is linked and no header of NVIDIA's is needed: machines without the driver simply have no
 * such library.  No context is created on any GPU.
 *
 * Threads    One handle may be used by one thread at a time.
 * Returns    0, -ENOENT (no library: no NVIDIA driver here), -ELIBBAD (a library without the
 * functions needed: a driver older than 2016), -EIO (the library does not work; MESSAGE says why).
 */

#include <stddef.h>

#include "mca/topo_pci/discover/pci_discover.h"

struct pci_nvml;

/*
 * Opens the library LIBRARY (NULL: libnvidia-ml.so.1).  On failure with a reason worth telling,
 * MESSAGE (SIZE bytes) holds one line.  Close with pci_nvml_close.
 */
int pci_nvml_open(const char *library, struct pci_nvml **nvml, char *message, size_t size);
void pci_nvml_close(struct pci_nvml *nvml);

/* The hooks that answer from NVML; they stay valid until NVML is closed. */
struct pci_discover_hooks pci_nvml_hooks(struct pci_nvml *nvml);

#endif
