/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory for the interpreter in which order is only what PTX guarantees, and what is assumed of the
 * hardware (doc/hacking/device.md). Several machines and their hosts share it, in one thread.
 *
 * An agent is a block of a kernel, or a host together with its network device. For each agent the
 * memory keeps a clock of what the agent knows: how far each warp of each other agent had come
 * before. Clocks are passed on by barriers within a block, by kernels of a stream that follow each
 * other, and by a release that is read by an acquire, each with a scope that includes the other.
 *
 *   ordinary access         takes effect at once. It must be ordered, by the clocks, after each
 *                           conflicting access of another agent; otherwise the run stops, because
 *                           PTX does not define what is read.
 *   strong store            (volatile, relaxed, release) waits in a buffer and becomes visible to
 *                           other agents in any order, except that stores to a word stay in order,
 *                           and that a fence makes all that its thread knows visible within its
 *                           scope. A line of 128 bytes that a warp stores in one instruction
 *                           becomes visible word by word, in ascending order if `ascending`.
 *   volatile load           samples its words at different times, in any order.
 *   relaxed, acquire load   the same; the relaxed one may return the value before the last store,
 *                           unless that store is ordered before it.
 *
 * A load is never later than its instruction, and an acquire is a load: a fence after a relaxed
 * load acquires nothing. Both make the model stricter than PTX.
 */
#ifndef GPURING_PTX_WEAK_H
#define GPURING_PTX_WEAK_H

#include "test/ptx/ptx.h"

#define PTX_AGENTS      96
#define PTX_AGENT_WARPS 16

struct ptx_weak;

struct ptx_weak_options {
    const struct ptx_program *program; /* that all machines run, for messages */
    void *memory;                      /* all that kernels reach; 128-byte aligned */
    size_t bytes;                      /* a multiple of 8 */
    uint64_t seed;
    bool ascending; /* lines of 128 bytes become visible in ascending order (NVLink) */
};

/* NULL: no memory. */
struct ptx_weak *ptx_weak_create(const struct ptx_weak_options *options);
void ptx_weak_free(struct ptx_weak *weak);

/* Agent `host` is the host of a rank. */
void ptx_weak_host(struct ptx_weak *weak, uint32_t host, uint32_t rank);

/* The host reads a counter of 4 or 8 bytes, as an acquire of scope sys; false: it was not written
 * by strong stores of that scope. */
bool ptx_weak_host_acquire(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                           uint64_t *value, struct ptx_fault *fault);
/* It stores one, as a release of scope sys. */
void ptx_weak_host_release(struct ptx_weak *weak, uint32_t host, uint64_t *p, uint64_t value);
/* It, or its network device, reads or writes ordinary data; false: that is not ordered. */
bool ptx_weak_host_reads(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                         struct ptx_fault *fault);
bool ptx_weak_host_writes(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                          struct ptx_fault *fault);

/* The last load that has returned a value from before a store that it might have seen: a relaxed
 * load, or one of data of a line of 128 bytes whose flag is there. An empty text: none. It names
 * both accesses, for when a result is wrong. */
const char *ptx_weak_suspect(const struct ptx_weak *weak);

#endif
