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
    DISC_LINE = 256, /* a line of /sys; longer ones are cut */
};

/* One discovery. */
struct disc {
    const struct pci_discover_options *options;
    hwloc_topology_t topology;
    /* The root of the file system whose /sys describes the machine, or NULL: /sys must not be asked
     * (the topology is a recorded or an invented one). */
    const char *fsroot;
    int live; /* the running system itself: its addresses may be asked too */
    struct pci_doc *doc;
    struct pci_error *error;
    struct pci_gdr_facts gdr;
    int nets; /* how many have been listed */
};

/* Reports to the caller one thing that is missing. */
void disc_message(const struct disc *disc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The first line of a file below the root, without its end.  Returns 0, or -1: not to be had. */
int disc_sys_line(const struct disc *disc, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The integer in such a file, or OTHERWISE. */
long disc_sys_number(const struct disc *disc, long otherwise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The PCI device that a link below the root leads to (the last name in its target that looks like a
 * bus id).  Returns 0, or -1: none. */
int disc_sys_busid(const struct disc *disc, char *busid, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "0000:3b:00.0" in lower case from what drivers write ("00000000:3B:00.0").  Returns 0, or -1: no
 * bus id. */
int disc_busid_normalise(const char *text, char *busid);

/* The NUMA node, with processors, nearest to a hwloc object; the first one when it is unknown. */
hwloc_obj_t disc_numa_of(const struct disc *disc, hwloc_obj_t obj);
/* The cpu elements of all NUMA nodes. */
int disc_cpus(struct disc *disc);
int disc_cpu_element(struct disc *disc, hwloc_obj_t numa, struct pci_elem **cpu);

/* The element of the PCI device BUSID, with the switches above it.  OBJ is its hwloc object or
 * NULL; FACTS is what a driver knows or NULL. */
int disc_pci_element(struct disc *disc, const char *busid, hwloc_obj_t obj,
                     const struct pci_gpu_facts *facts, struct pci_elem **pci);
/* The element that the document has for this device, however the bus id is written; NULL: none. */
struct pci_elem *disc_pci_find(const struct disc *disc, const char *busid);
hwloc_obj_t disc_pci_object(const struct disc *disc, const char *busid);
void disc_pci_busid(const struct hwloc_pcidev_attr_s *attr, char *busid);

int disc_gpus(struct disc *disc);
int disc_nets(struct disc *disc);
int disc_nvlinks(struct disc *disc);

#endif
