/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The process's host memory for staging: pinned blocks that are kept for the next call, up to a
 * limit. Threads: any.
 */
#ifndef GPURING_STAGE_MEMORY_H
#define GPURING_STAGE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_device;

struct gpuring_stage_block {
    char *address;
    size_t bytes;
    struct gpuring_device *device; /* that it is pinned for */
    enum { GPURING_BLOCK_PINNED, GPURING_BLOCK_PAGEABLE, GPURING_BLOCK_SINK } kind;
    struct gpuring_stage_block *next, **link; /* in the list of all, or of the free ones */
};

/*
 * A block of at least `bytes` bytes, aligned to 64, of which at most `touched` are used. Pageable
 * if pinned memory runs out (one warning), or if it is far larger than what is used of it (its
 * other pages cost nothing then), or while no GPU is attached. Without memory a sink
 * (stage/sink.h), with an error that is logged; NULL if there are not even addresses for that
 * (logged, too). written: the previous module will write there.
 */
struct gpuring_stage_block *gpuring_stage_block_get(size_t bytes, size_t touched, bool written);
/* The same, but NULL without memory; nothing is logged then. */
struct gpuring_stage_block *gpuring_stage_block_try(size_t bytes, size_t touched);
void gpuring_stage_block_put(struct gpuring_stage_block *block); /* NULL is allowed */

/* Give everything back, in use or not. Before the device is closed; from one thread. */
void gpuring_stage_memory_close(void);

#endif
