/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef FAKE_SYSFS_H
#define FAKE_SYSFS_H

/*
 * Build /proc and /sys of an invented machine below a folder, for hwloc (HWLOC_FSROOT) and for
 * discovery. Failures end the test program with a message.
 */

struct fake_pci {
    const char *path; /* bus ids from the root port down, with '/' between */
    unsigned class;   /* 24 bits */
    unsigned vendor;
    unsigned device;
    unsigned secondary; /* of a bridge: the bus below it and the highest one; 0 for a device */
    unsigned subordinate;
    int numa;
    const char *speed;
    int width;
};

/* Write a file below ROOT, and create its folders. */
void fake_put(const char *root, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fake_link(const char *root, const char *path, const char *target);

/* Add NODES NUMA nodes of CORES processors each (at most 32 in total), all of Intel family 6 model
 * 106. */
void fake_cpus(const char *root, int nodes, int cores);
void fake_pci_add(const char *root, const struct fake_pci *pci);
/* Add a verbs device with one port below the PCI device at PATH (as in fake_pci). */
void fake_verbs(const char *root, const char *path, const char *name, const char *state,
                const char *rate, const char *guid);
/* An IP interface; PATH NULL: a virtual one. */
void fake_interface(const char *root, const char *path, const char *name, unsigned flags,
                    int speed);

/* Create a new folder below TMPDIR, and remove it with its content. */
char *fake_root_new(void);
void fake_root_remove(char *root);

#endif
