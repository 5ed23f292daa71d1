/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_TOPO_PCI_LOCATION_H
#define TOPO_PCI_TOPO_PCI_LOCATION_H

/* The location of this process. This file does not use Open MPI. All functions are local and only
 * read a few small files. */

#include "mca/topo_pci/map/pci_map.h"

/*
 * Fill *LOCATION. HOSTID (if not empty) replaces the identity of the host, and DOMAIN (if >= 0)
 * that of the domain. Otherwise the host is the running kernel (its boot ID, or the host name if
 * that is hidden). The domain is the NUMA node of the GPU whose context is current in this process,
 * or the NUMA node that contains all allowed processors of the process, or 0.
 */
void topo_pci_location_find(const char *hostid, int domain, struct pci_map_location *location);

#endif
