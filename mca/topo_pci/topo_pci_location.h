/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_TOPO_PCI_LOCATION_H
#define TOPO_PCI_TOPO_PCI_LOCATION_H

/* Where this process runs.  No Open MPI in here; every answer is local and cheap (a few small
 * files). */

#include "mca/topo_pci/map/pci_map.h"

/*
 * Fills *LOCATION.  HOSTID (not empty) replaces the identity of the host, DOMAIN (>= 0) that of the
 * domain. Without them the host is the running kernel (its boot id, or the host name where that is
 * hidden), and the domain the NUMA node of the GPU whose context is current in this process, else
 * the NUMA node that holds all processors the process may run on, else 0.
 */
void topo_pci_location_find(const char *hostid, int domain, struct pci_map_location *location);

#endif
