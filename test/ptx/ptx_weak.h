/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Modelled memory for the interpreter. It guarantees only the order of PTX, and the order that we
 * assume of the hardware (doc/hacking/device.md). Several machines and their hosts share it, in one
 * thread.
 *
 * An agent is a block of a kernel, or a host together with its network device. Each agent has a
 * vector clock: the progress of each warp of each other agent that is ordered before it. Clocks are
 * passed on by barriers within a block, by successive kernels of a stream, and by a release that is
 * read by an acquire, each with a scope that includes the other agent.
 *
 *   ordinary access         takes effect immediately. The clocks must order it after each
 *                           conflicting access of another agent; otherwise the run stops, because
 *                           PTX does not define the value of such a read.
 *   strong store            (volatile, relaxed, release) waits in a buffer and becomes visible to
 *                           other agents in any order, except that stores to a word stay in order.
 *                           A fence makes all stores that are ordered before it visible within
 *                           its scope. A line of 128 bytes that a warp stores in one instruction
 *                           becomes visible word by word, in ascending order if `ascending`.
 *   volatile load           samples its words at different times, in any order.
 *   relaxed, acquire load   the same; the relaxed one may return the value before the last store,
 *                           unless that store is ordered before it.
 *
 * Relaxed and volatile loads may be performed after later accesses of their thread that do not
 * depend on them (ptx_late.c). The model is stricter than PTX in two respects: only an acquire load
 * acquires (a fence after a relaxed load does not), and a volatile store depends on all earlier
 * loads of its warp.
 */
#ifndef GPURING_PTX_WEAK_H
#define GPURING_PTX_WEAK_H

#include "test/ptx/ptx.h"

#define PTX_AGENTS      256 /* maximum */
#define PTX_AGENT_WARPS 16

struct ptx_weak;

struct ptx_weak_options {
    const struct ptx_program *program; /* program of all machines, for messages */
    void *memory;                      /* all memory of kernels, 128-byte aligned */
    size_t bytes;                      /* a multiple of 8 */
    uint32_t agents;                   /* their number; clocks have an entry for each agent */
    uint64_t seed;
    bool ascending; /* lines of 128 bytes become visible in ascending order (NVLink) */
};

/* Create a memory, or return NULL if there is no host memory. */
struct ptx_weak *ptx_weak_create(const struct ptx_weak_options *options);
void ptx_weak_free(struct ptx_weak *weak);

/* Let agent `host` be the host of a rank. */
void ptx_weak_host(struct ptx_weak *weak, uint32_t host, uint32_t rank);

/* Let the host read a counter of 4 or 8 bytes, as an acquire of scope sys. Return false if the
 * counter was not written with strong stores of that scope. */
bool ptx_weak_host_acquire(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                           uint64_t *value, struct ptx_fault *fault);
/* Let the host store a counter, as a release of scope sys. */
void ptx_weak_host_release(struct ptx_weak *weak, uint32_t host, uint64_t *p, uint64_t value);
/* Let the host or its network device read or write ordinary data. Return false if this is not
 * ordered. */
bool ptx_weak_host_reads(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                         struct ptx_fault *fault);
bool ptx_weak_host_writes(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                          struct ptx_fault *fault);

/* Return a description of the last load that has returned a value from before a store that it could
 * have seen, or an empty text. This is a relaxed load, or a load of data of a 128-byte line whose
 * flag was visible. The text names both accesses, and helps if a result is wrong. */
const char *ptx_weak_suspect(const struct ptx_weak *weak);

#endif
