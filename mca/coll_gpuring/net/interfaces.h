/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * IP interfaces of this host, and which of them may lead to other nodes. Bridges of containers and
 * of virtual machines exist on every host, often with the same address, and lead nowhere.
 * Thread-safe, without state.
 */
#ifndef GPURING_NET_INTERFACES_H
#define GPURING_NET_INTERFACES_H

#include <stdbool.h>
#include <stdint.h>

#define GPURING_INTERFACES_MAX 64 /* interfaces of a host that are considered */

struct gpuring_interface {
    char name[16];
    uint32_t ipv4; /* its first IPv4 address in network byte order; 0: it has IPv6 addresses only */
};

/*
 * Fill `interfaces` with those that are up, running and have an address, except the loopback.
 * Returns their number, 0 if the kernel does not list them.
 */
int gpuring_interfaces_find(struct gpuring_interface interfaces[GPURING_INTERFACES_MAX]);

/* Return false for a name that is left out unless nothing else exists: docker* (as NCCL does) and
 * virbr*. */
bool gpuring_interface_leads_out(const char *name);

/*
 * Keep, in their order, the interfaces that may lead to other nodes: those whose name leads out and
 * whose address is none of the `nshared` in `shared`. If that leaves none, keep those whose name
 * leads out; if that leaves none, keep all. Returns the number of interfaces kept.
 */
int gpuring_interfaces_choose(struct gpuring_interface *interfaces, int count,
                              const uint32_t *shared, int nshared);

#endif
