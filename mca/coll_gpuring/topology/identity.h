/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The identity and the location of this process, which is the part of AllGather 1 that the
 * operating system provides. No MPI.
 */
#ifndef GPURING_TOPOLOGY_IDENTITY_H
#define GPURING_TOPOLOGY_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the identity of the node. Processes with equal identities can share memory. The identity
 * is a hash of `hostid`, or if that is empty, of the boot ID, the host name, the effective user,
 * and the PID, user and IPC namespaces.
 */
uint64_t gpuring_identity_node(const char *hostid);

/* Get the host name, truncated to `size`. */
void gpuring_identity_hostname(char *name, size_t size);

/* Get 128 random bits from the kernel or, if that fails, from clocks and process number. */
void gpuring_identity_unique(uint64_t id[2]);

/* Return the enum gpuring_capability bits of this build on this node. */
uint32_t gpuring_identity_capabilities(void);

#endif
