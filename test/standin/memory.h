/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Inside of the stand-in driver: its memory: memory.c has the
 * blocks, allocate.c, ipc.c and pointer.c the entry points. */
#ifndef GPURING_STANDIN_MEMORY_H
#define GPURING_STANDIN_MEMORY_H

#include "test/standin/standin.h"

#define PAGE UINT64_C(4096)

struct block {
    uint8_t *address;
    size_t bytes;  /* as asked for */
    size_t lead;   /* bytes mapped before the address */
    size_t mapped; /* whole pages, from there; 0: not mapped by us */
    enum standin_kind kind;
    int gpu;
    struct standin_owner owner; /* of no context: those of its GPU reach it; the host's: all do */
    bool portable;              /* of the host: registered in one context for all */
    bool synchronous;           /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    unsigned long long id;      /* of no other block, before or after */
    int fd;                     /* -1: none */
    struct block *next;
};

/* Out of a host's reach. */
static inline bool standin_is_device(enum standin_kind kind)
{
    return kind != STANDIN_REGISTERED && kind != STANDIN_MANAGED;
}

/* The block that holds the address, as it is now; false: none. */
bool standin_block_find(const void *address, struct block *found);
/* Marks the block that holds the address: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. */
void standin_block_synchronous(const void *address, bool synchronous);
/* Is any block so? Asked while the list is locked. */
bool standin_block_any(bool (*is)(const struct block *block, const void *context),
                       const void *context);
CUresult standin_block_add(struct block description);
/* Unmap and forget the block of this kind that begins there, when all that was queued has run; the
 * second one as an entry point, which needs a context. */
CUresult standin_block_free(void *pointer, enum standin_kind kind);
CUresult standin_block_release(void *pointer, enum standin_kind kind);

/* Change the number of mappings in other processes; the number after it. -1: cannot be told. */
int standin_count_mappings(int fd, size_t mapped, int change);

#endif
