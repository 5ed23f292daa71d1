/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Reading /sys below a root, which may be a recorded tree; RDMA support of the system; messages. */

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/xml/pci_file.h"

void disc_message(const struct disc *disc, const char *format, ...)
{
    char text[512];
    va_list args;

    if (!disc->options->message) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    disc->options->message(disc->options->message_context, text);
}

/* Append a name to the root. Return -1 if the result does not fit. */
__attribute__((format(printf, 4, 0))) static int path_make(const char *fsroot, char *path,
                                                           size_t size, const char *format,
                                                           va_list args)
{
    int used, more;

    if (!fsroot) {
        return -1;
    }
    used = snprintf(path, size, "%s", fsroot);
    if (used < 0 || (size_t) used >= size) {
        return -1;
    }
    more = vsnprintf(path + used, size - (size_t) used, format, args);
    return more < 0 || (size_t) more >= size - (size_t) used ? -1 : 0;
}

__attribute__((format(printf, 4, 0))) static int line_read(const struct disc *disc, char *line,
                                                           size_t size, const char *format,
                                                           va_list args)
{
    char path[PATH_MAX];

    return path_make(disc->fsroot, path, sizeof path, format, args) == 0
               ? pci_file_line(path, line, size)
               : -1;
}

int disc_sys_line(const struct disc *disc, char *line, size_t size, const char *format, ...)
{
    va_list args;
    int rc;

    va_start(args, format);
    rc = line_read(disc, line, size, format, args);
    va_end(args);
    return rc;
}

long disc_sys_number(const struct disc *disc, long otherwise, const char *format, ...)
{
    char line[DISC_LINE], *end = line;
    va_list args;
    long value = 0;

    va_start(args, format);
    if (line_read(disc, line, sizeof line, format, args) == 0) {
        value = strtol(line, &end, 0);
    }
    va_end(args);
    return end == line ? otherwise : value;
}

int disc_sys_busid(const struct disc *disc, char *busid, const char *format, ...)
{
    char path[PATH_MAX], target[PATH_MAX], *name;
    va_list args;
    ssize_t length;
    int rc;

    va_start(args, format);
    rc = path_make(disc->fsroot, path, sizeof path, format, args);
    va_end(args);
    if (rc != 0) {
        return -1;
    }
    length = readlink(path, target, sizeof target - 1);
    if (length <= 0) {
        return -1;
    }
    target[length] = '\0';
    while ((name = strrchr(target, '/')) != NULL) {
        if (disc_busid_normalise(name + 1, busid) == 0) {
            return 0;
        }
        *name = '\0';
    }
    return disc_busid_normalise(target, busid);
}

int disc_busid_normalise(const char *text, char *busid)
{
    unsigned domain, bus, device, function;
    int used = 0, written;

    if (!isxdigit((unsigned char) text[0]) ||
        sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 ||
        text[used] != '\0' || device > 0x1f || function > 7) {
        return -1;
    }
    written = snprintf(busid, PCI_BUSID_SIZE, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return written > 0 && written < PCI_BUSID_SIZE ? 0 : -1;
}

static int file_exists(const char *fsroot, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", fsroot, name);

    return length > 0 && (size_t) length < sizeof path && access(path, F_OK) == 0;
}

/* Return true if "major.minor..." is at least 5.12, which added dma-buf registration for RDMA. */
static int kernel_registers_dmabuf(const char *release)
{
    int major = 0, minor = 0;

    return sscanf(release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 12));
}

void pci_gdr_facts_read(const char *fsroot, struct pci_gdr_facts *facts)
{
    struct disc disc = {.fsroot = fsroot};
    char release[DISC_LINE];

    facts->peermem = facts->kernel_dmabuf = 0;
    if (!fsroot) {
        return;
    }
    facts->peermem = file_exists(fsroot, "/sys/module/nvidia_peermem") ||
                     file_exists(fsroot, "/sys/kernel/mm/memory_peers/nv_mem/version") ||
                     file_exists(fsroot, "/sys/kernel/mm/memory_peers/nv_mem_nc/version");
    if (disc_sys_line(&disc, release, sizeof release, "/proc/sys/kernel/osrelease") == 0) {
        facts->kernel_dmabuf = kernel_registers_dmabuf(release);
    }
}

/* Use the driver's answer first. If it is unknown, a loaded peer memory module counts as yes. */
int pci_gdr_possible(const struct pci_gdr_facts *system, const struct pci_gpu_facts *gpu)
{
    if (gpu->gdr == 0) {
        return 0;
    }
    if (system->peermem) {
        return 1;
    }
    return gpu->gdr == 1 && gpu->dmabuf == 1 && system->kernel_dmabuf;
}
