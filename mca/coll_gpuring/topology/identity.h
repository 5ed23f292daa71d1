/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Identity and location of this process: the part of AllGather 1 that the system provides. No MPI.
 */
#ifndef GPURING_TOPOLOGY_IDENTITY_H
#define GPURING_TOPOLOGY_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the identity of the node. Processes with equal identities can share memory. It is a hash
 * of boot ID, host name, PID, user and IPC namespaces and user, or of `hostid` if that is not
 * empty.
 */
uint64_t gpuring_identity_node(const char *hostid);

/* Get the host name, truncated to `size`. */
void gpuring_identity_hostname(char *name, size_t size);

/* Get 128 random bits from the kernel or, if that fails, from clocks and process number. */
void gpuring_identity_unique(uint64_t id[2]);

/* Return the enum gpuring_capability bits of this build on this node. */
uint32_t gpuring_identity_capabilities(void);

#endif
