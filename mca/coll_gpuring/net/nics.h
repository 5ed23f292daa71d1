/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The RDMA ports that a process may use, in the form in which it announces them to all ranks of a
 * communicator (AllGather 1): enough to decide, on every rank alike, which ports of two nodes can
 * reach each other. What the kernel says under /sys/class/infiniband; no verbs library is needed.
 */
#ifndef GPURING_NET_NICS_H
#define GPURING_NET_NICS_H

#include <stdbool.h>
#include <stdint.h>

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
 * an IPv4 address comes first, then a global IPv6 address, then a link-local one.
 */
int gpuring_nic_gid_rank(bool ethernet, bool version_2, const uint8_t gid[16]);

/*
 * Fill `nics` with the active ports below ROOT/class/infiniband that the list (net/list.h) selects;
 * root is "/sys" outside of tests. Returns their number, at most GPURING_NICS_MAX, or
 * GPURING_ERR_NOMEM. What is beyond is left out with a log line.
 */
int gpuring_nics_find(const char *root, const char *list, struct gpuring_nic *nics);

/* Can the two ports reach each other, as far as their addresses say? */
bool gpuring_nic_reaches(const struct gpuring_nic *a, const struct gpuring_nic *b);

#endif
