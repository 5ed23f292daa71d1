/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* PCI devices and the switches above them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/xml/doc.h"

enum {
    /* Maximum switches above a device. A PCI domain has 256 buses; a switch uses two of them. */
    SWITCHES_MAX = 128,
};

void disc_pci_busid(const struct hwloc_pcidev_attr_s *attr, char *busid)
{
    snprintf(busid, PCI_BUSID_SIZE, "%04x:%02x:%02x.%x", (unsigned) attr->domain & 0xffffffffu,
             (unsigned) attr->bus, (unsigned) attr->dev & 0x1fu, (unsigned) attr->func & 7u);
}

struct pci_elem *disc_pci_find(const struct disc *disc, const char *busid)
{
    struct pci_elem *elem = NULL;

    while ((elem = pci_doc_next(disc->doc, elem, "pci")) != NULL) {
        const char *name = pci_elem_get(elem, "busid");

        if (name && pci_busid_parse(name) == pci_busid_parse(busid)) {
            return elem;
        }
    }
    return NULL;
}

hwloc_obj_t disc_pci_object(const struct disc *disc, const char *busid)
{
    unsigned domain, bus, device, function;

    if (sscanf(busid, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
        return NULL;
    }
    return hwloc_get_pcidev_by_busid(disc->topology, domain, bus, device, function);
}

static const struct hwloc_pcidev_attr_s *attr_of(hwloc_obj_t obj)
{
    return obj->type == HWLOC_OBJ_BRIDGE ? &obj->attr->bridge.upstream.pci : &obj->attr->pcidev;
}

/* Return the PCI bridge directly above OBJ, or NULL at a host bridge. */
static hwloc_obj_t bridge_above(hwloc_obj_t obj)
{
    hwloc_obj_t above = obj ? obj->parent : NULL;

    if (!above || above->type != HWLOC_OBJ_BRIDGE ||
        above->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) {
        return NULL;
    }
    return above;
}

/*
 * Return the switch above a device or above a switch's upstream port: every other bridge going up.
 *
 *     root port - [upstream port - downstream port] - [upstream port - downstream port] - device
 *                  named                               named
 */
static hwloc_obj_t switch_above(hwloc_obj_t obj)
{
    return bridge_above(bridge_above(obj));
}

/* Find the maximum speed (a text that begins with the number of GT/s) and width of the link, which
 * is the minimum of both ends. If /sys hides them, use hwloc (its current state) or the driver. */
static void link_find(const struct disc *disc, const char *busid, hwloc_obj_t obj,
                      const struct pci_gpu_facts *facts, char *speed, int *width)
{
    static const char device[] = "/sys/bus/pci/devices";
    struct pci_link_facts link;
    char port[DISC_LINE];
    long port_width;

    *width = (int) disc_sys_number(disc, 0, "%s/%s/max_link_width", device, busid);
    if (disc_sys_line(disc, speed, DISC_LINE, "%s/%s/max_link_speed", device, busid) == 0 &&
        strtod(speed, NULL) > 0) {
        if (disc_sys_line(disc, port, sizeof port, "%s/%s/../max_link_speed", device, busid) == 0 &&
            strtod(port, NULL) > 0 && strtod(port, NULL) < strtod(speed, NULL)) {
            memcpy(speed, port, sizeof port);
        }
        port_width = disc_sys_number(disc, *width, "%s/%s/../max_link_width", device, busid);
        *width = port_width > 0 && port_width < *width ? (int) port_width : *width;
        return;
    }
    speed[0] = '\0';
    *width = 0;
    if (facts && facts->link_gen > 0) {
        snprintf(speed, DISC_LINE, "%s", pci_link_speed_of_generation(facts->link_gen));
        *width = facts->link_width > 0 ? facts->link_width : 0;
    } else if (obj && pci_link_of_bandwidth(attr_of(obj)->linkspeed, &link) == 0) {
        snprintf(speed, DISC_LINE, "%s", link.speed);
        *width = link.width;
    }
}

/* Set the IDs of a device that hwloc reports. */
static int ids_set(struct pci_elem *pci, const struct hwloc_pcidev_attr_s *attr)
{
    int rc = pci_elem_setf(pci, "class", "0x%04x%02x", attr->class_id, DISC_PCI_PROG_IF(attr));

    rc = rc ? rc : pci_elem_setf(pci, "vendor", "0x%04x", attr->vendor_id);
    rc = rc ? rc : pci_elem_setf(pci, "device", "0x%04x", attr->device_id);
    rc = rc ? rc : pci_elem_setf(pci, "subsystem_vendor", "0x%04x", attr->subvendor_id);
    return rc ? rc : pci_elem_setf(pci, "subsystem_device", "0x%04x", attr->subdevice_id);
}

static int pci_add(struct disc *disc, struct pci_elem *parent, const char *busid, hwloc_obj_t obj,
                   const struct pci_gpu_facts *facts, struct pci_elem **pci)
{
    char speed[DISC_LINE];
    int width, rc = pci_elem_add(disc->doc, parent, "pci", pci);

    rc = rc ? rc : pci_elem_setf(*pci, "busid", "%s", busid);
    if (rc == 0 && obj) {
        rc = ids_set(*pci, attr_of(obj));
    } else if (rc == 0 && facts) {
        /* Only the driver reports this device, so it is a GPU. */
        rc = pci_elem_setf(*pci, "class", "0x030200");
    }
    link_find(disc, busid, obj, facts, speed, &width);
    rc = rc ? rc : pci_elem_setf(*pci, "link_speed", "%s", speed);
    return rc ? rc : pci_elem_setf(*pci, "link_width", "%d", width);
}

/* Return the NUMA node of a device that hwloc does not report, or reports without a location. */
static hwloc_obj_t numa_find(const struct disc *disc, const char *busid, hwloc_obj_t obj,
                             const struct pci_gpu_facts *facts)
{
    long node = disc_sys_number(disc, -1, "/sys/bus/pci/devices/%s/numa_node", busid);
    hwloc_obj_t numa = NULL;

    if (node < 0 && facts) {
        node = facts->numa;
    }
    if (node >= 0) {
        numa = hwloc_get_numanode_obj_by_os_index(disc->topology, (unsigned) node);
    }
    if (numa && !hwloc_bitmap_iszero(numa->cpuset)) {
        return numa;
    }
    numa = disc_numa_of(disc, obj);
    if (!obj && numa && hwloc_get_nbobjs_by_type(disc->topology, HWLOC_OBJ_NUMANODE) > 1) {
        disc_message(disc,
                     "the NUMA node of PCI device %s is not visible; taken as node %u (a topology "
                     "file can state it)",
                     busid, numa->os_index);
    }
    return numa;
}

int disc_pci_element(struct disc *disc, const char *busid, hwloc_obj_t obj,
                     const struct pci_gpu_facts *facts, struct pci_elem **pci)
{
    hwloc_obj_t chain[SWITCHES_MAX], at, numa;
    struct pci_elem *parent = NULL;
    int depth = 0, rc = 0;

    *pci = disc_pci_find(disc, busid);
    if (*pci) {
        return 0;
    }
    for (at = switch_above(obj); at && !parent && depth < SWITCHES_MAX; at = switch_above(at)) {
        char name[PCI_BUSID_SIZE];

        disc_pci_busid(attr_of(at), name);
        parent = disc_pci_find(disc, name);
        if (!parent) {
            chain[depth++] = at;
        }
    }
    if (!parent) {
        numa = numa_find(disc, busid, obj, facts);
        rc = numa ? disc_cpu_element(disc, numa, &parent)
                  : pci_error_set(disc->error, -EINVAL, "hwloc shows no NUMA node with processors");
    }
    while (rc == 0 && depth > 0) {
        char name[PCI_BUSID_SIZE];

        at = chain[--depth];
        disc_pci_busid(attr_of(at), name);
        rc = pci_add(disc, parent, name, at, NULL, &parent);
    }
    return rc ? rc : pci_add(disc, parent, busid, obj, facts, pci);
}
