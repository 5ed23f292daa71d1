/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Host identity and NUMA node of this process. */

#include <dlfcn.h>
#include <glob.h>
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/hash.h"
#include "mca/topo_pci/topo_pci_location.h"
#include "mca/topo_pci/xml/pci_file.h"

static uint64_t text_hash(const char *text)
{
    return gpuring_hash_bytes(GPURING_HASH_START, text, strlen(text));
}

/* Read the first line of PATH without its newline. Return 0 if there is none or it is empty. */
static int line_read(const char *path, char *line, size_t size)
{
    return pci_file_line(path, line, size) == 0 && line[0] != '\0';
}

static uint64_t host_find(const char *hostid)
{
    char text[256] = "";

    if (hostid && hostid[0] != '\0') {
        return text_hash(hostid);
    }
    if (!line_read("/proc/sys/kernel/random/boot_id", text, sizeof text) &&
        gethostname(text, sizeof text - 1) != 0) {
        return 0;
    }
    return text_hash(text);
}

/* Return the NUMA node that contains all processors of this process, or -1. */
static int cpu_node_find(void)
{
    static const char prefix[] = "/sys/devices/system/node/node";
    hwloc_bitmap_t mine = hwloc_bitmap_alloc(), node = hwloc_bitmap_alloc();
    glob_t nodes = {.gl_pathc = 0};
    cpu_set_t allowed;
    int found = -1;

    if (mine && node && sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
        glob("/sys/devices/system/node/node[0-9]*/cpulist", 0, NULL, &nodes) == 0) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &allowed)) {
                hwloc_bitmap_set(mine, cpu);
            }
        }
        for (size_t i = 0; i < nodes.gl_pathc && found < 0; i++) {
            char list[4096];

            if (line_read(nodes.gl_pathv[i], list, sizeof list) &&
                hwloc_bitmap_list_sscanf(node, list) == 0 && hwloc_bitmap_isincluded(mine, node)) {
                found = atoi(nodes.gl_pathv[i] + sizeof prefix - 1);
            }
        }
    }
    globfree(&nodes);
    hwloc_bitmap_free(mine);
    hwloc_bitmap_free(node);
    return found;
}

/* Return the NUMA node of PCI device BUSID (in any case), or -1. */
static int pci_node_find(const char *busid)
{
    char path[128], line[32], name[32];
    size_t i = 0;

    for (; busid[i] && i + 1 < sizeof name; i++) {
        name[i] = busid[i] >= 'A' && busid[i] <= 'F' ? (char) (busid[i] + 32) : busid[i];
    }
    name[i] = '\0';
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", name);
    return line_read(path, line, sizeof line) ? atoi(line) : -1;
}

/*
 * Return the NUMA node of the current context's GPU, or -1. Only uses a driver library that the
 * process has already loaded, and creates no context. The prototypes follow the CUDA driver API's
 * documentation.
 */
static int gpu_node_find(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*context_device)(int *), (*device_busid)(char *, int, int);
    char busid[32] = "";
    int device, node = -1;

    if (!driver) {
        return -1;
    }
    *(void **) &context_device = dlsym(driver, "cuCtxGetDevice");
    *(void **) &device_busid = dlsym(driver, "cuDeviceGetPCIBusId");
    if (context_device && device_busid && context_device(&device) == 0 &&
        device_busid(busid, sizeof busid, device) == 0) {
        node = pci_node_find(busid);
    }
    dlclose(driver);
    return node;
}

void topo_pci_location_find(const char *hostid, int domain, struct pci_map_location *location)
{
    int node = domain >= 0 ? domain : gpu_node_find();

    if (node < 0) {
        node = cpu_node_find();
    }
    location->host = host_find(hostid);
    location->domain = node < 0 ? 0 : (uint64_t) node;
}
