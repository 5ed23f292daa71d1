/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The list of memory blocks, and the contexts that can access them. The host cannot access device
 * memory except while something runs on the "GPU". Addresses are never reused, so a use after free
 * is a segmentation fault. Memory must not be freed while other processes map it, because this is
 * undefined behaviour in CUDA.
 */
#include "test/standin/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct block *blocks;
static unsigned int running; /* number of opens without a close */
static unsigned long long last_id;

static bool protects(void)
{
    const char *text = getenv("GPURING_STANDIN_PROTECT");

    return text == NULL || strcmp(text, "0") != 0;
}

int standin_count_mappings(int fd, size_t mapped, int change)
{
    int *count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) mapped);
    int now;

    if (count == MAP_FAILED) {
        return -1;
    }
    now = __atomic_add_fetch(count, change, __ATOMIC_SEQ_CST);
    munmap(count, PAGE);
    return now;
}

/* Set the access of the host to a block. The caller holds the lock. */
static void protect(const struct block *block)
{
    int access = running > 0 || !protects() ? PROT_READ | PROT_WRITE : PROT_NONE;

    if (standin_is_device(block->kind) &&
        mprotect(block->address - block->lead, block->mapped, access) != 0) {
        perror("stand-in driver: mprotect");
        abort();
    }
}

static void set_running(int change)
{
    pthread_mutex_lock(&memory_lock);
    running += (unsigned int) change;
    if (running == (change > 0 ? 1 : 0) && protects()) {
        for (const struct block *block = blocks; block != NULL; block = block->next) {
            protect(block);
        }
    }
    pthread_mutex_unlock(&memory_lock);
}

void standin_memory_open(void)
{
    set_running(1);
}

void standin_memory_close(void)
{
    set_running(-1);
}

/* Return the link to the block that contains the address, or the link to NULL at the end of the
 * list. The caller holds the lock. */
static struct block **find(const void *address)
{
    const uint8_t *wanted = address;
    struct block **link = &blocks;

    while (*link != NULL &&
           (wanted < (*link)->address || wanted >= (*link)->address + (*link)->bytes)) {
        link = &(*link)->next;
    }
    return link;
}

bool standin_block_find(const void *address, struct block *found)
{
    const struct block *block;

    pthread_mutex_lock(&memory_lock);
    block = *find(address);
    if (block != NULL) {
        *found = *block;
    }
    pthread_mutex_unlock(&memory_lock);
    return block != NULL;
}

void standin_block_synchronous(const void *address, bool synchronous)
{
    struct block *block;

    pthread_mutex_lock(&memory_lock);
    block = *find(address);
    if (block != NULL) {
        block->synchronous = synchronous;
    }
    pthread_mutex_unlock(&memory_lock);
}

bool standin_memory_synchronous(const void *address)
{
    struct block block;

    return (atomic_load(&standin_current()->flags) & GPURING_CUDA_SYNC_MEMOPS) != 0 ||
           (standin_block_find(address, &block) && block.synchronous);
}

bool standin_block_any(bool (*is)(const struct block *block, const void *context),
                       const void *context)
{
    bool any = false;

    pthread_mutex_lock(&memory_lock);
    for (const struct block *block = blocks; block != NULL && !any; block = block->next) {
        any = is(block, context);
    }
    pthread_mutex_unlock(&memory_lock);
    return any;
}

bool standin_memory_kind(const void *address, enum standin_kind *kind, int *gpu)
{
    struct block block;

    if (!standin_block_find(address, &block)) {
        return false;
    }
    *kind = block.kind;
    *gpu = block.gpu;
    return true;
}

/* Return true if the block, which contains `address`, also contains `bytes` bytes from there on. */
static bool holds(const struct block *block, const void *address, size_t bytes)
{
    return bytes <= (size_t) (block->address + block->bytes - (const uint8_t *) address);
}

/* Return true if these bytes are within the block and this context can access them. */
static bool reached_in(const struct block *block, const void *address, size_t bytes,
                       const struct CUctx_st *context)
{
    bool owned = block->owner.context == NULL || block->owner.context == context;

    return holds(block, address, bytes) &&
           (standin_is_device(block->kind) ? owned && block->gpu == context->gpu
                                           : owned || block->portable);
}

bool standin_memory_reached(const void *address, size_t bytes, const struct CUctx_st *context)
{
    struct block block;

    return standin_block_find(address, &block) && reached_in(&block, address, bytes, context);
}

bool standin_memory_range(const void *address, const struct CUctx_st *context, uint64_t *begin,
                          uint64_t *end)
{
    struct block block;

    if (!standin_block_find(address, &block) || !reached_in(&block, address, 1, context)) {
        return false;
    }
    *begin = (uintptr_t) block.address;
    *end = *begin + block.bytes;
    return true;
}

bool standin_memory_copied(const void *address, size_t bytes, const struct CUctx_st *context)
{
    struct block block;

    return !standin_block_find(address, &block) || reached_in(&block, address, bytes, context) ||
           (block.kind == STANDIN_REGISTERED && holds(&block, address, bytes));
}

long standin_held_blocks(void)
{
    long count = 0;

    pthread_mutex_lock(&memory_lock);
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        count++;
    }
    pthread_mutex_unlock(&memory_lock);
    return count;
}

CUresult standin_block_add(struct block description)
{
    struct block *block = malloc(sizeof *block);

    if (block == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = description;
    pthread_mutex_lock(&memory_lock);
    block->id = ++last_id;
    block->next = blocks;
    blocks = block;
    protect(block);
    pthread_mutex_unlock(&memory_lock);
    return CUDA_SUCCESS;
}

/* Remove the block that starts at the address from the list if it is of this kind. */
static CUresult take(const void *address, enum standin_kind kind, struct block *taken)
{
    struct block **link, *block;

    pthread_mutex_lock(&memory_lock);
    link = find(address);
    block = *link;
    if (block == NULL || block->kind != kind || block->address != address) {
        pthread_mutex_unlock(&memory_lock);
        standin_report("pid %d misuses memory: %p is no block of this kind, or not any more\n",
                       (int) getpid(), address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *link = block->next;
    pthread_mutex_unlock(&memory_lock);
    *taken = *block;
    free(block);
    return CUDA_SUCCESS;
}

/* Unmap a block, and leave its address range reserved and inaccessible. With `tell`, report memory
 * that is freed while other processes have it mapped. A program that ends a context does this
 * unknowingly, so it is not reported there. */
static void unmap(const struct block *block, bool tell)
{
    if (block->mapped == 0) {
        return;
    }
    mmap(block->address - block->lead, block->mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (block->fd >= 0) {
        int left = standin_count_mappings(block->fd, block->mapped,
                                          block->kind == STANDIN_IMPORTED ? -1 : 0);

        if (tell && block->kind == STANDIN_DEVICE && left > 0) {
            standin_report("pid %d misuses memory: it is freed while %d others have it mapped\n",
                           (int) getpid(), left);
        }
        close(block->fd);
    }
}

CUresult standin_block_free(void *pointer, enum standin_kind kind)
{
    struct block block;
    CUresult result;

    standin_wait_for_streams(); /* because freeing waits for running work */
    result = take(pointer, kind, &block);
    if (result == CUDA_SUCCESS) {
        unmap(&block, true);
    }
    return result;
}

CUresult standin_block_release(void *pointer, enum standin_kind kind)
{
    STANDIN_NEED_CONTEXT();
    return standin_block_free(pointer, kind);
}

/* Remove the memory of a context that has ended. Memory that was registered for all contexts
 * remains registered, because the driver's documentation does not state otherwise. */
void standin_end_memory(struct standin_owner owner)
{
    struct block **link = &blocks;

    pthread_mutex_lock(&memory_lock);
    while (*link != NULL) {
        struct block *block = *link;

        if (standin_same(block->owner, owner)) {
            *link = block->next;
            unmap(block, false);
            free(block);
        } else {
            link = &block->next;
        }
    }
    pthread_mutex_unlock(&memory_lock);
}

void gpuring_standin_copy(void *to, const void *from, size_t bytes)
{
    standin_memory_open();
    memcpy(to, from, bytes);
    standin_memory_close();
}

__attribute__((destructor)) static void report_leaks(void)
{
    static const char *const names[] = {"device memory",  "an imported mapping", "a registration",
                                        "managed memory", "memory of a pool",    "mapped memory"};

    for (const struct block *block = blocks; block != NULL; block = block->next) {
        standin_report("pid %d leaks %s of %zu bytes\n", (int) getpid(), names[block->kind],
                       block->bytes);
    }
}
