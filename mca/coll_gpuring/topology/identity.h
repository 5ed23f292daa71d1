/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Who this process is and where it runs: the part of AllGather 1 that comes from the system.
 * No MPI.
 */
#ifndef GPURING_TOPOLOGY_IDENTITY_H
#define GPURING_TOPOLOGY_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Identity of the node: processes with equal ones can share memory. A hash of boot id, host name,
 * PID, user and IPC namespaces and user, or of `hostid` if that is not empty.
 */
uint64_t gpuring_identity_node(const char *hostid);

/* Host name, cut to size. */
void gpuring_identity_hostname(char *name, size_t size);

/* 128 random bits: of the kernel, or of clocks and process number where it gives none. */
void gpuring_identity_unique(uint64_t id[2]);

/* enum gpuring_capability bits of this build on this node. */
uint32_t gpuring_identity_capabilities(void);

#endif
