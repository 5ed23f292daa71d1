/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * NVLink elements of the GPUs, from the driver's hook or from the bandwidth matrix that hwloc
 * recorded in an XML file. Chip-to-chip elements, from the driver's hook.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/discover/discover_internal.h"

/* Return the PCI class of the far end. In a virtual machine, switches are not visible as PCI
 * devices, so a far end that neither the driver nor the system knows is a switch. */
static const char *target_class(const struct disc *disc, const struct pci_nvlink_facts *link,
                                char *line)
{
    hwloc_obj_t obj = disc_pci_object(disc, link->target);

    if (link->class) {
        return link->class;
    }
    if (obj) {
        snprintf(line, DISC_LINE, "0x%04x%02x", obj->attr->pcidev.class_id,
                 DISC_PCI_PROG_IF(&obj->attr->pcidev));
        return line;
    }
    if (disc_pci_find(disc, link->target)) {
        return PCI_NVLINK_GPU;
    }
    if (disc_sys_line(disc, line, DISC_LINE, "/sys/bus/pci/devices/%s/class", link->target) == 0) {
        return line;
    }
    return PCI_NVLINK_SWITCH;
}

/* Return the nvlink element of GPU with this target, or NULL. */
static struct pci_elem *link_to(const struct pci_elem *gpu, const char *target)
{
    struct pci_elem *elem = pci_elem_child(gpu, "nvlink");

    for (; elem; elem = pci_elem_sibling(elem, "nvlink")) {
        const char *name = pci_elem_get(elem, "target");

        if (name && strcmp(name, target) == 0) {
            return elem;
        }
    }
    return NULL;
}

/* Add COUNT links from GPU to the target, with one element per target. */
static int links_add(struct disc *disc, struct pci_elem *gpu, const struct pci_nvlink_facts *link,
                     long count)
{
    struct pci_elem *elem = link_to(gpu, link->target);
    long before = elem ? pci_elem_long(elem, "count", 0) : 0;
    char line[DISC_LINE];
    int rc = 0;

    if (!elem) {
        rc = pci_elem_add(disc->doc, gpu, "nvlink", &elem);
        rc = rc ? rc : pci_elem_setf(elem, "target", "%s", link->target);
        rc = rc ? rc : pci_elem_setf(elem, "tclass", "%s", target_class(disc, link, line));
    }
    return rc ? rc : pci_elem_setf(elem, "count", "%ld", before + count);
}

static int links_of_driver(struct disc *disc, struct pci_elem *gpu, const char *busid)
{
    const struct pci_discover_hooks *hooks = &disc->options->hooks;

    for (unsigned index = 0;; index++) {
        struct pci_nvlink_facts link = {"", NULL};
        int rc = hooks->nvlink(hooks->context, busid, index, &link);

        if (rc <= 0) {
            return 0;
        }
        if (disc_busid_normalise(link.target, link.target) != 0) {
            /* A switch that is hidden from a virtual machine has no visible bus ID. */
            snprintf(link.target, sizeof link.target, "fffffff:ffff:ff");
            link.class = PCI_NVLINK_SWITCH;
        }
        rc = links_add(disc, gpu, &link, 1);
        if (rc != 0) {
            return rc;
        }
    }
}

/* Return the bandwidth of a link in MB/s according to hwloc's NVML backend: 20 GB/s for NVLink 1,
 * 25 GB/s for 2 to 4, 50 GB/s for 5. */
static long mbytes_of_link(int sm)
{
    return sm < 70 ? 20000 : sm < 100 ? 25000 : 50000;
}

static void object_busid(hwloc_obj_t obj, char *busid)
{
    busid[0] = '\0';
    while (obj && obj->type != HWLOC_OBJ_PCI_DEVICE) {
        obj = obj->parent;
    }
    if (obj) {
        disc_pci_busid(&obj->attr->pcidev, busid);
    }
}

/* Add the links of a row of hwloc's matrix, from the GPU at BUSID to all others. */
static int links_of_row(struct disc *disc, struct pci_elem *gpu, const char *busid,
                        const struct hwloc_distances_s *matrix)
{
    long unit = mbytes_of_link((int) pci_elem_long(gpu, "sm", 80));
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < matrix->nbobjs; i++) {
        char name[PCI_BUSID_SIZE];

        object_busid(matrix->objs[i], name);
        for (unsigned j = 0; rc == 0 && strcmp(name, busid) == 0 && j < matrix->nbobjs; j++) {
            struct pci_nvlink_facts link = {"", NULL};
            uint64_t mbytes = matrix->values[(size_t) i * matrix->nbobjs + j];
            long count = (long) ((mbytes + (uint64_t) unit / 2) / (uint64_t) unit);

            object_busid(matrix->objs[j], link.target);
            if (i != j && link.target[0] && count > 0) {
                rc = links_add(disc, gpu, &link, count);
            }
        }
    }
    return rc;
}

/* Add the links of a GPU, from the matrix if there is one. */
static int links_of_gpu(struct disc *disc, struct pci_elem *gpu, const char *busid,
                        const struct hwloc_distances_s *matrix)
{
    if (disc->options->hooks.nvlink) {
        return links_of_driver(disc, gpu, busid);
    }
    return matrix ? links_of_row(disc, gpu, busid, matrix) : 0;
}

/* Add the links to the processor as one element. */
static int c2c_of_gpu(struct disc *disc, struct pci_elem *gpu, const char *busid)
{
    const struct pci_discover_hooks *hooks = &disc->options->hooks;
    struct pci_c2c_facts facts = {0, 0};
    struct pci_elem *elem;
    int rc;

    if (!hooks->c2c || hooks->c2c(hooks->context, busid, &facts) <= 0 || facts.count == 0) {
        return 0;
    }
    rc = pci_elem_add(disc->doc, gpu, "c2c", &elem);
    rc = rc ? rc : pci_elem_setf(elem, "bw", "%u", facts.mbytes);
    return rc ? rc : pci_elem_setf(elem, "count", "%u", facts.count);
}

int disc_nvlinks(struct disc *disc)
{
    struct hwloc_distances_s *matrix = NULL;
    struct pci_elem *gpu = NULL;
    unsigned count = 1;
    int rc = 0;

    if (hwloc_distances_get_by_name(disc->topology, "NVLinkBandwidth", &count, &matrix, 0) != 0 ||
        count == 0) {
        matrix = NULL;
    }
    while (rc == 0 && (gpu = pci_doc_next(disc->doc, gpu, "gpu")) != NULL) {
        const char *busid = pci_elem_get(pci_elem_parent(gpu), "busid");

        if (busid) {
            rc = links_of_gpu(disc, gpu, busid, matrix);
            rc = rc ? rc : c2c_of_gpu(disc, gpu, busid);
        }
    }
    if (matrix) {
        hwloc_distances_release(disc->topology, matrix);
    }
    return rc;
}
