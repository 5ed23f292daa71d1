/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap */
#endif
#include "mca/coll_gpuring/stage/sink.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "mca/coll_gpuring/stage/memory.h"

#define UNIT ((size_t) 2 << 20)

/* A process may have vm.max_map_count mappings, 65530 by default: so many for a range at most. */
#define MOST_UNITS ((size_t) 16384)

/* What is kept of addresses is little, and little of what there is under a limit. */
#define KEPT_UNITS ((size_t) 128)
#define KEPT_SHARE 64

enum { READ, WRITTEN, UNITS };

static struct {
    pthread_mutex_t lock; /* of prepare */
    bool prepared;        /* atomic: set when all is there */
    char *units;          /* memory; NULL: none yet */
    struct gpuring_stage_block kept[UNITS];
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t whole_units(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* Fresh addresses at which the unit lies again and again; NULL: there are not so many. */
static char *range_map(int unit, size_t bytes)
{
    char *range;

    if (bytes / UNIT > MOST_UNITS) {
        return NULL;
    }
    range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return NULL;
    }
    for (size_t at = 0; at < bytes; at += UNIT) {
        /* Of no bytes: one more mapping of the same pages. No file, for which there are limits
         * whose excess is a signal. */
        if (mremap(sink.units + unit * UNIT, 0, UNIT, MREMAP_MAYMOVE | MREMAP_FIXED, range + at) ==
            MAP_FAILED) {
            /* If these addresses are free now, another thread may have got them: leave them. */
            munmap(range, at);
            munmap(range + at + UNIT, bytes - at - UNIT);
            return NULL;
        }
    }
    madvise(range, bytes, MADV_DONTDUMP); /* the same pages over and over */
    return range;
}

static void keep_units(void)
{
    char *units = mmap(NULL, UNITS * UNIT, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    sink.units = units == MAP_FAILED ? NULL : units;
}

/* The size of a kept range for places of `bytes` bytes. */
static size_t kept_bytes(size_t bytes)
{
    struct rlimit limit;

    bytes = bytes < (KEPT_UNITS - 1) * UNIT ? bytes + UNIT : KEPT_UNITS * UNIT;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        bytes > limit.rlim_cur / KEPT_SHARE) {
        bytes = (size_t) limit.rlim_cur / KEPT_SHARE;
    }
    return whole_units(bytes);
}

static void keep_range(int unit, size_t bytes)
{
    struct gpuring_stage_block *block = &sink.kept[unit];

    if (block->address != NULL) {
        return;
    }
    block->kind = GPURING_BLOCK_SINK;
    for (bytes = kept_bytes(bytes); block->address == NULL && bytes > 0;
         bytes = bytes > UNIT ? whole_units(bytes / 2) : 0) {
        block->address = range_map(unit, bytes);
        block->bytes = bytes;
    }
}

void gpuring_stage_sink_prepare(size_t bytes)
{
    if (__atomic_load_n(&sink.prepared, __ATOMIC_ACQUIRE)) {
        return;
    }
    pthread_mutex_lock(&sink.lock);
    if (sink.units == NULL) {
        keep_units();
    }
    if (sink.units != NULL) {
        keep_range(READ, bytes);
        keep_range(WRITTEN, bytes);
    }
    if (sink.kept[READ].address != NULL && sink.kept[WRITTEN].address != NULL) {
        __atomic_store_n(&sink.prepared, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&sink.lock);
}

struct gpuring_stage_block *gpuring_stage_sink_get(size_t bytes, bool written)
{
    int unit = written ? WRITTEN : READ;
    struct gpuring_stage_block *block = &sink.kept[unit];

    if (!__atomic_load_n(&sink.prepared, __ATOMIC_ACQUIRE)) {
        return NULL;
    }
    if (bytes <= block->bytes) {
        return block;
    }
    block = malloc(sizeof *block);
    if (block == NULL) {
        return NULL;
    }
    block->kind = GPURING_BLOCK_SINK;
    block->bytes = whole_units(bytes);
    block->address = range_map(unit, block->bytes);
    if (block->address == NULL) {
        free(block);
        return NULL;
    }
    return block;
}

void gpuring_stage_sink_put(struct gpuring_stage_block *block)
{
    if (block != &sink.kept[READ] && block != &sink.kept[WRITTEN]) {
        munmap(block->address, block->bytes);
        free(block);
    }
}

void gpuring_stage_sink_fill(const struct gpuring_stage_block *block, int byte)
{
    memset(block->address, byte, UNIT);
}

void gpuring_stage_sink_close(void)
{
    for (int unit = 0; unit < UNITS; unit++) {
        if (sink.kept[unit].address != NULL) {
            munmap(sink.kept[unit].address, sink.kept[unit].bytes);
            sink.kept[unit].address = NULL;
        }
    }
    if (sink.units != NULL) {
        munmap(sink.units, UNITS * UNIT);
        sink.units = NULL;
    }
    sink.prepared = false;
}
