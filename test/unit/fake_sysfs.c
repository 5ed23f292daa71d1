/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

#ifndef _GNU_SOURCE
#endif
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_sysfs.h"

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "fake_sysfs: %s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void path_join(char *full, const char *root, const char *path)
{
    int length = snprintf(full, PATH_MAX, "%s%s", root, path);

    if (length < 0 || length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        fail("path", path);
    }
}

static void folders_make(char *full)
{
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(full, 0777) != 0 && errno != EEXIST) {
            fail("mkdir", full);
        }
        *slash = '/';
    }
}

static void bytes_put(const char *root, const char *path, const void *bytes, size_t length)
{
    char full[PATH_MAX];
    FILE *file;

    path_join(full, root, path);
    folders_make(full);
    file = fopen(full, "we");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
        fail("write", full);
    }
}

void fake_put(const char *root, const char *path, const char *format, ...)
{
    char *text;
    va_list args;
    int length;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        fail("text of", path);
    }
    bytes_put(root, path, text, (size_t) length);
    free(text);
}

void fake_link(const char *root, const char *path, const char *target)
{
    char full[PATH_MAX];

    path_join(full, root, path);
    folders_make(full);
    if (symlink(target, full) != 0) {
        fail("link", full);
    }
}

static void file_of(const char *root, const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];

    path_join(path, folder, name);
    fake_put(root, path, "%s\n", text);
}

static void cpu_add(const char *root, int cpu, int node, int cores)
{
    char folder[128], text[64];

    snprintf(folder, sizeof(folder), "/sys/devices/system/cpu/cpu%d/topology/", cpu);
    snprintf(text, sizeof(text), "%d", node);
    file_of(root, folder, "physical_package_id", text);
    snprintf(text, sizeof(text), "%d", cpu % cores);
    file_of(root, folder, "core_id", text);
    snprintf(text, sizeof(text), "%x", ((1u << cores) - 1) << (node * cores));
    file_of(root, folder, "package_cpus", text);
    file_of(root, folder, "core_siblings", text);
    snprintf(text, sizeof(text), "%x", 1u << cpu);
    file_of(root, folder, "core_cpus", text);
    file_of(root, folder, "thread_siblings", text);
}

void fake_cpus(const char *root, int nodes, int cores)
{
    char info[8192] = "", path[128];
    size_t used = 0;

    for (int cpu = 0; cpu < nodes * cores; cpu++) {
        cpu_add(root, cpu, cpu / cores, cores);
        used += (size_t) snprintf(info + used, sizeof(info) - used,
                                  "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
                                  "model\t\t: 106\nmodel name\t: Invented\nphysical id\t: %d\n"
                                  "core id\t: %d\n\n",
                                  cpu, cpu / cores, cpu % cores);
    }
    fake_put(root, "/proc/cpuinfo", "%s", info);
    /* hwloc reads this file instead of calling uname on a recorded machine. */
    fake_put(root, "/proc/hwloc-nofile-info", "OSName: Linux\nArchitecture: x86_64\n");
    fake_put(root, "/sys/devices/system/cpu/possible", "0-%d\n", nodes * cores - 1);
    fake_put(root, "/sys/devices/system/cpu/online", "0-%d\n", nodes * cores - 1);
    fake_put(root, "/sys/devices/system/node/possible", "0-%d\n", nodes - 1);
    fake_put(root, "/sys/devices/system/node/online", "0-%d\n", nodes - 1);
    for (int node = 0; node < nodes; node++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpumap", node);
        fake_put(root, path, "%x\n", ((1u << cores) - 1) << (node * cores));
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
        fake_put(root, path, "Node %d MemTotal: 1000000 kB\n", node);
    }
}

/* "/sys/devices/pci0000:16/" and the path below it. */
static void device_folder(char *folder, const char *path)
{
    snprintf(folder, PATH_MAX, "/sys/devices/pci%.7s/%s/", path, path);
}

/* The head of a PCI configuration space: identity, class, header type, and the buses of a bridge.
 */
static void config_put(const char *root, const char *folder, const struct fake_pci *pci,
                       const char *busid)
{
    unsigned char config[64] = {0};
    char path[PATH_MAX];

    config[0] = (unsigned char) (pci->vendor & 0xff);
    config[1] = (unsigned char) (pci->vendor >> 8);
    config[2] = (unsigned char) (pci->device & 0xff);
    config[3] = (unsigned char) (pci->device >> 8);
    config[9] = (unsigned char) (pci->class & 0xff);
    config[10] = (unsigned char) (pci->class >> 8 & 0xff);
    config[11] = (unsigned char) (pci->class >> 16);
    if (pci->secondary) {
        config[14] = 1;
        config[0x18] = (unsigned char) strtoul(busid + 5, NULL, 16);
        config[0x19] = (unsigned char) pci->secondary;
        config[0x1a] = (unsigned char) pci->subordinate;
    }
    path_join(path, folder, "config");
    bytes_put(root, path, config, sizeof(config));
}

void fake_pci_add(const char *root, const struct fake_pci *pci)
{
    const char *slash = strrchr(pci->path, '/'), *busid = slash ? slash + 1 : pci->path;
    char folder[PATH_MAX], text[PATH_MAX], target[PATH_MAX];

    device_folder(folder, pci->path);
    config_put(root, folder, pci, busid);
    snprintf(text, sizeof(text), "0x%06x", pci->class);
    file_of(root, folder, "class", text);
    snprintf(text, sizeof(text), "0x%04x", pci->vendor);
    file_of(root, folder, "vendor", text);
    file_of(root, folder, "subsystem_vendor", text);
    snprintf(text, sizeof(text), "0x%04x", pci->device);
    file_of(root, folder, "device", text);
    file_of(root, folder, "subsystem_device", text);
    snprintf(text, sizeof(text), "%d", pci->numa);
    file_of(root, folder, "numa_node", text);
    file_of(root, folder, "max_link_speed", pci->speed);
    file_of(root, folder, "current_link_speed", pci->speed);
    snprintf(text, sizeof(text), "%d", pci->width);
    file_of(root, folder, "max_link_width", text);
    file_of(root, folder, "current_link_width", text);
    snprintf(target, sizeof(target), "../../../devices/pci%.7s/%s", pci->path, pci->path);
    snprintf(text, sizeof(text), "/sys/bus/pci/devices/%s", busid);
    fake_link(root, text, target);
}

void fake_verbs(const char *root, const char *path, const char *name, const char *state,
                const char *rate, const char *guid)
{
    char folder[PATH_MAX], device[PATH_MAX + 64], text[PATH_MAX + 96];

    device_folder(folder, path);
    snprintf(device, sizeof(device), "%sinfiniband/%s", folder, name);
    snprintf(text, sizeof(text), "%s/ports/1/state", device);
    fake_put(root, text, "%s\n", state);
    snprintf(text, sizeof(text), "%s/ports/1/rate", device);
    fake_put(root, text, "%s\n", rate);
    snprintf(text, sizeof(text), "%s/sys_image_guid", device);
    fake_put(root, text, "%s\n", guid);
    snprintf(text, sizeof(text), "%s/device", device);
    fake_link(root, text, "../..");
    snprintf(text, sizeof(text), "../..%s", device + strlen("/sys"));
    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s", name);
    fake_link(root, folder, text);
}

void fake_interface(const char *root, const char *path, const char *name, unsigned flags, int speed)
{
    char folder[PATH_MAX], device[PATH_MAX + 64], text[PATH_MAX + 96];

    if (path) {
        device_folder(folder, path);
    } else {
        snprintf(folder, sizeof(folder), "/sys/devices/virtual/");
    }
    snprintf(device, sizeof(device), "%snet/%s", folder, name);
    snprintf(text, sizeof(text), "%s/flags", device);
    fake_put(root, text, "0x%x\n", flags);
    snprintf(text, sizeof(text), "%s/speed", device);
    fake_put(root, text, "%d\n", speed);
    snprintf(text, sizeof(text), "%s/address", device);
    fake_put(root, text, "02:00:00:00:00:01\n");
    if (path) {
        snprintf(text, sizeof(text), "%s/device", device);
        fake_link(root, text, "../..");
    }
    snprintf(text, sizeof(text), "../..%s", device + strlen("/sys"));
    snprintf(folder, sizeof(folder), "/sys/class/net/%s", name);
    fake_link(root, folder, text);
}

char *fake_root_new(void)
{
    const char *base = getenv("TMPDIR");
    char *root;

    if (asprintf(&root, "%s/gpuring-sysfs.XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(root)) {
        fail("mkdtemp", base ? base : "/tmp");
    }
    return root;
}

static int entry_remove(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void) status;
    (void) type;
    (void) position;
    return remove(path);
}

void fake_root_remove(char *root)
{
    if (nftw(root, entry_remove, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        fail("remove", root);
    }
    free(root);
}
