/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Lists of network devices with the properties that the operating system reports, and of RDMA ports
 * in the form that other ranks need. The functions are pure, except that they read files below a
 * root folder, which tests replace.
 */
#ifndef GPURING_NET_LIST_H
#define GPURING_NET_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/net.h"

/*
 * Return true if an include/exclude list selects a device's port.
 *   list := "" | "all" | item{,item} | ^item{,item}     item := [^]NAME[:PORT]
 * A name matches exactly, or as a prefix if it ends in '*'. Excluding items win; a list of
 * excluding items alone selects everything else; ^ before the first item of a list excludes all
 * items ("^a,b" is "^a,^b"). NULL is "".
 */
bool gpuring_net_list_selects(const char *list, const char *name, int port);

/* Return true if the list has the form above. Otherwise return false and point *bad to the error.
 */
bool gpuring_net_list_valid(const char *list, const char **bad);

int gpuring_net_devices_add(struct gpuring_net_devices *devices,
                            const struct gpuring_net_device *device);

/*
 * Append the devices below ROOT/class/net (interfaces that are up; the loopback interface only if
 * there is no other) or ROOT/class/infiniband (active ports) that the list selects. root is "/sys"
 * outside of tests. A missing folder counts as empty. Returns 0 or GPURING_ERR_NOMEM.
 */
int gpuring_net_devices_ip(const char *root, const char *list, struct gpuring_net_devices *devices);
int gpuring_net_devices_rdma(const char *root, const char *list,
                             struct gpuring_net_devices *devices);

/* Read the first line of a file in /sys, without the newline; "" if there is none. The format and
 * its arguments form the path. */
void gpuring_net_line(char *line, int size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return true if there are RDMA devices with an active port and all of them are emulated by
 * software. */
bool gpuring_net_only_software(const char *root);

/* Store the PCI bus id of ROOT/class/CLASS/NAME, or "" if it is not a PCI device. bus_id has room
 * for 16 characters. */
void gpuring_net_pci_bus_id(const char *root, const char *class, const char *name, char *bus_id);

/*
 * The RDMA ports that a process may use, in the form in which it announces them to all ranks of a
 * communicator (AllGather 1). This is enough for every rank to decide in the same way which ports
 * of two nodes can reach each other. The source is /sys/class/infiniband, so no verbs library is
 * needed.
 */
#define GPURING_NICS_MAX 16 /* ports that a process announces: the first ones in name order */

enum gpuring_nic_link {
    GPURING_NIC_INFINIBAND = 1, /* reaches ports of the same subnet: the first 8 bytes of the GID */
    GPURING_NIC_ETHERNET = 2,   /* RoCE version 2: reaches ports through IP */
};

/*
 *  0     16     17     18     19
 *  | gid | port | link | bits | name |
 */
struct gpuring_nic {
    uint8_t gid[16]; /* for links: the best of the port (see gpuring_nic_gid_rank) */
    uint8_t port;    /* from 1 */
    uint8_t link;    /* enum gpuring_nic_link */
    uint8_t bits;    /* length of the IP network's prefix in the GID of RoCE; 0: unknown */
    char name[13];   /* "mlx5_0"; truncated, with a final 0 */
};
_Static_assert(sizeof(struct gpuring_nic) == 32, "travels between ranks");

/*
 * Rank a GID of a port for use by links. Greater is better; 0 means unusable. The order is RoCE
 * version 2 with an IPv4 address, then with a global IPv6 address, then with a link-local one. A
 * GID that the user has chosen (given) may be of any kind.
 */
int gpuring_nic_gid_rank(bool given, bool ethernet, bool version_2, const uint8_t gid[16]);

/*
 * Fill `nics` with the active ports below ROOT/class/infiniband that the list (net/net_list.h)
 * selects. root is "/sys" outside of tests. gid is 0 to choose a GID, or n + 1 for GID n of each
 * port. Returns the number of ports, at most GPURING_NICS_MAX, or GPURING_ERR_NOMEM. Further ports
 * are not used, and a log line reports them.
 */
int gpuring_nics_find(const char *root, const char *list, int gid, struct gpuring_nic *nics);

/* Return the length of the IP network's prefix in a GID of RoCE, from the interface of this host
 * that has the address; 0 if there is none. */
uint8_t gpuring_nic_network_bits(const uint8_t gid[16]);

/* Return true if the addresses of the two ports allow them to reach each other. */
bool gpuring_nic_reaches(const struct gpuring_nic *a, const struct gpuring_nic *b);

/* Return true if the ports reach each other without a router, as far as is known. */
bool gpuring_nic_same_network(const struct gpuring_nic *a, const struct gpuring_nic *b);

#endif
