/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_INTERNAL_H
#define TOPO_PCI_DISCOVER_INTERNAL_H

/* Shared by the files of discovery (discover*.c, nvlink*.c); not for its users. */

#include <errno.h>
#include <stdio.h>

#include <hwloc.h>

#include "mca/topo_pci/discover/pci_discover.h"

/* hwloc 3 made the types of an operating system device a set. */
#if HWLOC_API_VERSION >= 0x00030000
#define DISC_OSDEV_IS(OBJ, TYPE) (((OBJ)->attr->osdev.types & HWLOC_OBJ_OSDEV_##TYPE) != 0)
#define DISC_PCI_PROG_IF(ATTR)   ((unsigned) (ATTR)->prog_if)
#else
#define DISC_OSDEV_IS(OBJ, TYPE) ((OBJ)->attr->osdev.type == HWLOC_OBJ_OSDEV_##TYPE)
#define DISC_PCI_PROG_IF(ATTR)   ((unsigned) (ATTR)->class_id * 0)
#endif

enum {
    DISC_LINE = 256, /* a line of /sys; longer lines are truncated */
};

/* One discovery. */
struct disc {
    const struct pci_discover_options *options;
    hwloc_topology_t topology;
    /* The root of the file system whose /sys describes the machine. NULL: do not read /sys, because
     * the topology is recorded or synthetic. */
    const char *fsroot;
    int live; /* this is the running system, so its addresses may be queried, too */
    struct pci_doc *doc;
    struct pci_error *error;
    struct pci_gdr_facts gdr;
    int nets; /* number of listed nets */
};

/* Report missing information to the caller. */
void disc_message(const struct disc *disc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Read the first line of a file below the root, without its newline. Return 0, or -1 on failure. */
int disc_sys_line(const struct disc *disc, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Return the integer in such a file, or OTHERWISE. */
long disc_sys_number(const struct disc *disc, long otherwise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Find the PCI device of a symbolic link below the root: the last part of its target that looks
 * like a bus ID. Return 0, or -1 if there is none. */
int disc_sys_busid(const struct disc *disc, char *busid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Convert a driver's bus ID ("00000000:3B:00.0") to "0000:3b:00.0" in lower case. Return 0, or -1
 * if the text is not a bus ID. */
int disc_busid_normalise(const char *text, char *busid);

/* Return the nearest NUMA node with processors to a hwloc object; the first one if unknown. */
hwloc_obj_t disc_numa_of(const struct disc *disc, hwloc_obj_t obj);
/* Add the cpu elements of all NUMA nodes. */
int disc_cpus(struct disc *disc);
int disc_cpu_element(struct disc *disc, hwloc_obj_t numa, struct pci_elem **cpu);

/* Find or add the element of the PCI device BUSID, with the switches above it. OBJ: its hwloc
 * object, or NULL. FACTS: the driver's information, or NULL. */
int disc_pci_element(struct disc *disc, const char *busid, hwloc_obj_t obj,
                     const struct pci_gpu_facts *facts, struct pci_elem **pci);
/* Return the document's element for this device, in any spelling of the bus ID, or NULL. */
struct pci_elem *disc_pci_find(const struct disc *disc, const char *busid);
hwloc_obj_t disc_pci_object(const struct disc *disc, const char *busid);
void disc_pci_busid(const struct hwloc_pcidev_attr_s *attr, char *busid);

int disc_gpus(struct disc *disc);
int disc_nets(struct disc *disc);
int disc_nvlinks(struct disc *disc);

#endif
