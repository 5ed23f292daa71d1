/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/sink.h"
#include "mca/coll_gpuring/util/log.h"

#define SMALLEST ((size_t) 64 << 10)
#define STEP     ((size_t) 2 << 20) /* sizes above it are multiples of it, smaller powers of two */
#define KEEP     ((size_t) 256 << 20) /* bytes of free blocks that are kept, at most */
#define SPARSE   8                    /* span to used bytes from which a span is not pinned */

static struct {
    pthread_mutex_t lock; /* guards all */
    struct gpuring_stage_block *used, *kept;
    size_t kept_bytes;
    size_t pinned_limit; /* so much could not be pinned; 0: no limit met */
    bool lacking;        /* atomic: no memory was found the last time, and that was told */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t rounded(size_t bytes)
{
    size_t size = SMALLEST;

    if (bytes > STEP) {
        return (bytes + STEP - 1) / STEP * STEP;
    }
    while (size < bytes) {
        size *= 2;
    }
    return size;
}

static void enlist(struct gpuring_stage_block **list, struct gpuring_stage_block *block)
{
    block->next = *list;
    block->link = list;
    if (block->next != NULL) {
        block->next->link = &block->next;
    }
    *list = block;
}

static void delist(struct gpuring_stage_block *block)
{
    *block->link = block->next;
    if (block->next != NULL) {
        block->next->link = block->link;
    }
}

static void destroy(struct gpuring_stage_block *block)
{
    if (block->kind == GPURING_BLOCK_PINNED) {
        gpuring_process.device_ops->free_pinned(block->device, block->address);
    } else {
        munmap(block->address, block->bytes);
    }
    free(block);
}

/* Called with the lock held. */
static bool may_pin(size_t bytes, size_t touched)
{
    return (pool.pinned_limit == 0 || bytes < pool.pinned_limit) &&
           (bytes <= STEP || bytes / SPARSE <= touched);
}

static void pinning_failed(size_t bytes)
{
    bool first;

    pthread_mutex_lock(&pool.lock);
    first = pool.pinned_limit == 0;
    pool.pinned_limit = first || bytes < pool.pinned_limit ? bytes : pool.pinned_limit;
    pthread_mutex_unlock(&pool.lock);
    if (first) {
        gpuring_warn("%zu bytes of host memory could not be pinned: collectives on GPU memory are "
                     "staged through pageable memory, which is slower; raise the limit on locked "
                     "memory (ulimit -l) or free host memory",
                     bytes);
    }
}

static struct gpuring_stage_block *create(size_t bytes, size_t touched)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_stage_block *block = malloc(sizeof *block);
    void *address = NULL;
    bool pin;

    if (block == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&pool.lock);
    pin = gpuring_process.gpu >= 0 && may_pin(bytes, touched);
    pthread_mutex_unlock(&pool.lock);
    block->bytes = bytes;
    block->device = gpuring_process.device;
    block->kind = GPURING_BLOCK_PINNED;
    if (pin && ops->alloc_pinned(block->device, bytes, &address) != 0) {
        pinning_failed(bytes);
        pin = false;
    }
    if (!pin) {
        block->kind = GPURING_BLOCK_PAGEABLE;
        address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (address == MAP_FAILED) {
            free(block);
            return NULL;
        }
    }
    block->address = address;
    return block;
}

/* The smallest kept block that is large enough, unless most of it would be wasted. */
static struct gpuring_stage_block *find_kept(size_t bytes)
{
    struct gpuring_stage_block *best = NULL;

    for (struct gpuring_stage_block *block = pool.kept; block != NULL; block = block->next) {
        if (block->device == gpuring_process.device && block->bytes >= bytes &&
            block->bytes / 4 <= bytes && (best == NULL || block->bytes < best->bytes)) {
            best = block;
        }
    }
    return best;
}

/* Addresses, at least: without them the other ranks of the call wait for this one. */
static struct gpuring_stage_block *without_memory(size_t bytes, bool written)
{
    struct gpuring_stage_block *block = gpuring_stage_sink_get(bytes, written);

    if (block == NULL) {
        gpuring_error("neither host memory nor addresses to stage a collective on GPU memory "
                      "through: %zu bytes; this rank cannot take part; other ranks get an error if "
                      "the call is a non-blocking or persistent one, or coll_gpuring_agree=always, "
                      "and wait for it for ever if it is a blocking one; free host memory, raise "
                      "its limits (ulimit -v, vm.overcommit_memory, vm.max_map_count) or use "
                      "smaller buffers",
                      bytes);
    } else if (!__atomic_exchange_n(&pool.lacking, true, __ATOMIC_RELAXED)) {
        gpuring_error("no host memory to stage a collective on GPU memory through: %zu bytes; this "
                      "rank takes part without its data, so that no other waits for it, and its "
                      "calls are errors until there is memory; results of other ranks are void "
                      "where its data goes into them (NaN); free host memory or raise its limits "
                      "(ulimit -v, vm.overcommit_memory)",
                      bytes);
    }
    return block;
}

struct gpuring_stage_block *gpuring_stage_block_try(size_t bytes, size_t touched)
{
    struct gpuring_stage_block *block;

    bytes = rounded(bytes);
    pthread_mutex_lock(&pool.lock);
    block = find_kept(bytes);
    if (block != NULL) {
        delist(block);
        pool.kept_bytes -= block->bytes;
        enlist(&pool.used, block);
    }
    pthread_mutex_unlock(&pool.lock);
    if (block != NULL) {
        return block;
    }
    block = create(bytes, touched);
    if (block == NULL) {
        return NULL;
    }
    __atomic_store_n(&pool.lacking, false, __ATOMIC_RELAXED);
    pthread_mutex_lock(&pool.lock);
    enlist(&pool.used, block);
    pthread_mutex_unlock(&pool.lock);
    return block;
}

struct gpuring_stage_block *gpuring_stage_block_get(size_t bytes, size_t touched, bool written)
{
    struct gpuring_stage_block *block = gpuring_stage_block_try(bytes, touched);

    return block != NULL ? block : without_memory(rounded(bytes), written);
}

void gpuring_stage_block_put(struct gpuring_stage_block *block)
{
    bool keep;

    if (block == NULL) {
        return;
    }
    if (block->kind == GPURING_BLOCK_SINK) {
        gpuring_stage_sink_put(block);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    delist(block);
    keep = block->kind == GPURING_BLOCK_PINNED && block->device == gpuring_process.device &&
           pool.kept_bytes + block->bytes <= KEEP;
    if (keep) {
        enlist(&pool.kept, block);
        pool.kept_bytes += block->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!keep) {
        destroy(block);
    }
}

static void destroy_all(struct gpuring_stage_block **list)
{
    while (*list != NULL) {
        struct gpuring_stage_block *block = *list;

        delist(block);
        destroy(block);
    }
}

void gpuring_stage_memory_close(void)
{
    destroy_all(&pool.used); /* of persistent requests that were never freed */
    destroy_all(&pool.kept);
    pool.kept_bytes = 0;
    pool.pinned_limit = 0;
    gpuring_stage_sink_close();
}
