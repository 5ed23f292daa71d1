/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* NUMA nodes: processors, vendor, family and model. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "mca/topo_pci/discover/discover_internal.h"

/* Names of architectures in hwloc and the kernel, and in topology files. */
static const struct {
    const char *machine;
    const char *arch;
} architectures[] = {
    {"x86_64", "x86_64"}, {"amd64", "x86_64"},  {"aarch64", "arm64"},
    {"arm64", "arm64"},   {"ppc64le", "ppc64"}, {"ppc64", "ppc64"},
};

static const char *arch_of(const char *machine)
{
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (strcmp(architectures[i].machine, machine) == 0) {
            return architectures[i].arch;
        }
    }
    return machine;
}

/* Find an info of the object, of its ancestors, or of the whole topology (hwloc 3 stores some
 * there). */
static const char *info_find(const struct disc *disc, hwloc_obj_t obj, const char *name)
{
    for (; obj; obj = obj->parent) {
        const char *value = hwloc_obj_get_info_by_name(obj, name);

        if (value) {
            return value;
        }
    }
#if HWLOC_API_VERSION >= 0x00030000
    return hwloc_get_info_by_name(hwloc_topology_get_infos(disc->topology), name);
#else
    (void) disc;
    return NULL;
#endif
}

/* Return the package of a NUMA node: above it, or the first one below it. */
static hwloc_obj_t package_of(const struct disc *disc, hwloc_obj_t numa)
{
    hwloc_obj_t package = NULL;

    while ((package = hwloc_get_next_obj_by_type(disc->topology, HWLOC_OBJ_PACKAGE, package))) {
        if (hwloc_bitmap_intersects(package->cpuset, numa->cpuset)) {
            return package;
        }
    }
    return numa;
}

/* Write a set of processors in the form of the kernel: groups of 32 bits, the highest first. */
static char *affinity_text(const struct disc *disc, hwloc_const_cpuset_t set)
{
    int last = hwloc_bitmap_last(hwloc_get_root_obj(disc->topology)->complete_cpuset);
    unsigned groups = (last < 0 ? 0u : (unsigned) last) / 32 + 1;
    size_t size = groups * (size_t) 9 + 1, used = 0;
    char *text = malloc(size);

    for (unsigned g = groups; text && g-- > 0;) {
        unsigned bits = 0;

        for (unsigned b = 0; b < 32; b++) {
            bits |= hwloc_bitmap_isset(set, g * 32 + b) ? 1u << b : 0;
        }
        used += (size_t) snprintf(text + used, size - used, "%08x%s", bits, g ? "," : "");
    }
    return text;
}

static int number_set(struct pci_elem *cpu, const char *key, const char *text)
{
    return text ? pci_elem_setf(cpu, key, "%ld", strtol(text, NULL, 0)) : 0;
}

/* Set the known attributes of the processor's kind. */
static int cpu_kind_set(struct disc *disc, hwloc_obj_t numa, struct pci_elem *cpu)
{
    hwloc_obj_t package = package_of(disc, numa);
    const char *arch = info_find(disc, package, "Architecture");
    const char *vendor = info_find(disc, package, "CPUVendor");
    const char *model = info_find(disc, package, "CPUModel");
    struct utsname system;
    int rc;

    if (!arch && disc->live && uname(&system) == 0) {
        arch = system.machine;
    }
    rc = arch ? pci_elem_set(cpu, "arch", arch_of(arch)) : 0;
    if (!vendor && model && strncmp(model, "POWER", 5) == 0) {
        vendor = model; /* POWER has no vendor, but its model ("POWER9 ...") identifies it */
    }
    rc = rc || !vendor ? rc : pci_elem_set(cpu, "vendor", vendor);
    rc = rc ? rc : number_set(cpu, "familyid", info_find(disc, package, "CPUFamilyNumber"));
    return rc ? rc : number_set(cpu, "modelid", info_find(disc, package, "CPUModelNumber"));
}

int disc_cpu_element(struct disc *disc, hwloc_obj_t numa, struct pci_elem **cpu)
{
    struct pci_elem *elem = NULL;
    char *affinity;
    int rc;

    while ((elem = pci_doc_next(disc->doc, elem, "cpu")) != NULL) {
        if (pci_elem_long(elem, "numaid", -1) == (long) numa->os_index) {
            *cpu = elem;
            return 0;
        }
    }
    affinity = affinity_text(disc, numa->cpuset);
    rc = affinity ? pci_elem_add(disc->doc, pci_doc_root(disc->doc), "cpu", &elem) : -ENOMEM;
    rc = rc ? rc : pci_elem_setf(elem, "numaid", "%u", numa->os_index);
    rc = rc ? rc : pci_elem_set(elem, "affinity", affinity);
    rc = rc ? rc : cpu_kind_set(disc, numa, elem);
    free(affinity);
    *cpu = elem;
    return rc;
}

/* Return the next NUMA node with processors, which memory of accelerators and far memory lack. */
static hwloc_obj_t numa_next(const struct disc *disc, hwloc_obj_t numa)
{
    do {
        numa = hwloc_get_next_obj_by_type(disc->topology, HWLOC_OBJ_NUMANODE, numa);
    } while (numa && hwloc_bitmap_iszero(numa->cpuset));
    return numa;
}

hwloc_obj_t disc_numa_of(const struct disc *disc, hwloc_obj_t obj)
{
    hwloc_obj_t first = numa_next(disc, NULL), numa;

    while (obj && !obj->cpuset) {
        obj = obj->parent;
    }
    for (numa = first; obj && numa; numa = numa_next(disc, numa)) {
        if (hwloc_bitmap_intersects(numa->cpuset, obj->cpuset)) {
            return numa;
        }
    }
    return first;
}

int disc_cpus(struct disc *disc)
{
    hwloc_obj_t numa = NULL;
    struct pci_elem *cpu;
    int rc = 0;

    while (rc == 0 && (numa = numa_next(disc, numa)) != NULL) {
        rc = disc_cpu_element(disc, numa, &cpu);
    }
    return rc;
}
