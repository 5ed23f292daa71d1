/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Lists of network devices, and what the operating system says of each. Pure but for the reading
 * of files below a root folder, which tests replace.
 */
#ifndef GPURING_NET_LIST_H
#define GPURING_NET_LIST_H

#include <stdbool.h>

#include "mca/coll_gpuring/net/net.h"

/*
 * Does an include/exclude list select a device's port?
 *   list := "" | "all" | item{,item} | ^item{,item}     item := [^]NAME[:PORT]
 * A name matches exactly, or as a prefix if it ends in '*'. Excluding items win; a list of
 * excluding items alone selects everything else; ^ before the first item of a list excludes all
 * items ("^a,b" is "^a,^b"). NULL is "".
 */
bool gpuring_net_list_selects(const char *list, const char *name, int port);

/* True if the list has the form above; else false, and *bad points into the list. */
bool gpuring_net_list_valid(const char *list, const char **bad);

int gpuring_net_devices_add(struct gpuring_net_devices *devices,
                            const struct gpuring_net_device *device);

/*
 * Append what is below ROOT/class/net (interfaces that are up; the loopback only if there is
 * nothing else) or ROOT/class/infiniband (active ports) and is selected by the list. root is "/sys"
 * outside tests. A missing folder is an empty one. 0 or GPURING_ERR_NOMEM.
 */
int gpuring_net_devices_ip(const char *root, const char *list, struct gpuring_net_devices *devices);
int gpuring_net_devices_rdma(const char *root, const char *list,
                             struct gpuring_net_devices *devices);

/* The first line of the file of /sys whose path the format makes, without its end; "" if none. */
void gpuring_net_line(char *line, int size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Is this RDMA device made by software, with no hardware of its own (rxe, siw)? */
bool gpuring_net_is_software(const char *root, const char *name);

/* Are there RDMA devices with an active port, and all of them made by software? */
bool gpuring_net_only_software(const char *root);

/* PCI bus id of ROOT/class/CLASS/NAME ("" if it is not a PCI device); room for 16 characters. */
void gpuring_net_pci_bus_id(const char *root, const char *class, const char *name, char *bus_id);

#endif
