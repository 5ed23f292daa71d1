/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Memory inside the stand-in driver. memory.c has the list of blocks; allocate.c, ipc.c and
 * pointer.c have the entry points. */
#ifndef GPURING_STANDIN_MEMORY_H
#define GPURING_STANDIN_MEMORY_H

#include "test/standin/standin.h"

#define PAGE UINT64_C(4096)

struct block {
    uint8_t *address;
    size_t bytes;  /* requested size */
    size_t lead;   /* bytes mapped before the address */
    size_t mapped; /* bytes of whole pages, including `lead`; 0: not mapped by us */
    enum standin_kind kind;
    int gpu;
    struct standin_owner
        owner;        /* NULL: all contexts of its GPU can access it; host memory: all contexts */
    bool portable;    /* host memory that is registered for all contexts */
    bool synchronous; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    unsigned long long id; /* unique, also over time */
    int fd;                /* -1: none */
    struct block *next;
};

/* Return true if the host cannot access this kind of memory. */
static inline bool standin_is_device(enum standin_kind kind)
{
    return kind != STANDIN_REGISTERED && kind != STANDIN_MANAGED;
}

/* Copy the block that contains the address. Return false if there is none. */
bool standin_block_find(const void *address, struct block *found);
/* Set CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the block that contains the address. */
void standin_block_synchronous(const void *address, bool synchronous);
/* Return true if `is` returns true for any block. The list is locked during the calls. */
bool standin_block_any(bool (*is)(const struct block *block, const void *context),
                       const void *context);
CUresult standin_block_add(struct block description);
/* Wait for all queued work, and then unmap and remove the block of this kind that begins at
 * `pointer`. The second function is for entry points, which need a current context. */
CUresult standin_block_free(void *pointer, enum standin_kind kind);
CUresult standin_block_release(void *pointer, enum standin_kind kind);

/* Add `change` to the number of mappings in other processes, and return the sum, or -1 on
 * failure. */
int standin_count_mappings(int fd, size_t mapped, int change);

#endif
