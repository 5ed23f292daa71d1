/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Lists of network devices, what the operating system says of each, and of RDMA ports what other
 * ranks need to know. Pure but for the reading of files below a root folder, which tests replace.
 */
#ifndef GPURING_NET_LIST_H
#define GPURING_NET_LIST_H

#include <stdbool.h>
#include <stdint.h>

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

/* Are there RDMA devices with an active port, and all of them made by software? */
bool gpuring_net_only_software(const char *root);

/* PCI bus id of ROOT/class/CLASS/NAME ("" if it is not a PCI device); room for 16 characters. */
void gpuring_net_pci_bus_id(const char *root, const char *class, const char *name, char *bus_id);

/*
 * The RDMA ports that a process may use, in the form in which it announces them to all ranks of a
 * communicator (AllGather 1): enough to decide, on every rank alike, which ports of two nodes can
 * reach each other. What the kernel says under /sys/class/infiniband; no verbs library is needed.
 */
#define GPURING_NICS_MAX 16 /* that a process announces; the first ones in the order of names */

enum gpuring_nic_link {
    GPURING_NIC_INFINIBAND = 1, /* reaches ports of the same subnet: the first 8 bytes of the GID */
    GPURING_NIC_ETHERNET = 2,   /* RoCE version 2: reaches by IP */
};

/*
 *  0     16     17     18
 *  | gid | port | link | name |
 */
struct gpuring_nic {
    uint8_t gid[16]; /* that links use: the best of the port (see gpuring_nic_gid_rank) */
    uint8_t port;    /* from 1 */
    uint8_t link;    /* enum gpuring_nic_link */
    char name[14];   /* "mlx5_0"; cut, and ended by 0 */
};
_Static_assert(sizeof(struct gpuring_nic) == 32, "travels between ranks");

/*
 * Which GID of a port links should use: the greater the better, 0 not at all. RoCE version 2 with
 * an IPv4 address comes first, then a global IPv6 address, then a link-local one. given: it was
 * asked for, and may be of any kind.
 */
int gpuring_nic_gid_rank(bool given, bool ethernet, bool version_2, const uint8_t gid[16]);

/*
 * Fill `nics` with the active ports below ROOT/class/infiniband that the list (net/list.h) selects;
 * root is "/sys" outside of tests. gid: 0: choose; n + 1: GID n of each port. Returns their number,
 * at most GPURING_NICS_MAX, or GPURING_ERR_NOMEM. Ports beyond that are not used, with a log line.
 */
int gpuring_nics_find(const char *root, const char *list, int gid, struct gpuring_nic *nics);

/* Can the two ports reach each other, as far as their addresses say? */
bool gpuring_nic_reaches(const struct gpuring_nic *a, const struct gpuring_nic *b);

#endif
