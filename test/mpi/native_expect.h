/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Expected results of collectives, computed by each rank alone; see native.c. */
#ifndef GPURING_TEST_NATIVE_EXPECT_H
#define GPURING_TEST_NATIVE_EXPECT_H

#include <stddef.h>
#include <stdint.h>

#include "staged.h"

#define NATIVE_ORIGIN 64 /* bytes before and after the buffers */

/* The pieces of an element, in bytes. */
struct native_type {
    const char *name;
    MPI_Datatype handle;
    int pieces, at[3], length[3];
    size_t extent, packed; /* packed: sum of the pieces */
};

#define NATIVE_TYPES 5
extern struct native_type native_types[NATIVE_TYPES]; /* the first two can be reduced */

/* Sizes of blocks: all equal; empty for some ranks; only the last one is not empty. */
enum native_blocks { NATIVE_EQUAL, NATIVE_SOME, NATIVE_ONE, NATIVE_BLOCKS };

/* One call with the data of all ranks. */
struct native {
    const struct native_type *type;
    struct call calls[PEERS]; /* call of each rank */
    size_t bytes;             /* of a buffer, including the bytes before and after it */
    uint64_t sends[PEERS], receives[PEERS]; /* seeds of the ranks' data before the call */
    char *send, *receive;                   /* this rank's data before the call */
    char *expected;                         /* this rank's receive buffer after it */
};

/* Return the maximum size of a buffer in bytes, for blocks of at most `longest` bytes. */
size_t native_open(struct native *native, size_t longest);
void native_close(struct native *native);
void native_free_types(void);

bool native_knows(const struct collective *what);
bool native_reduces(const struct native_type *type);
bool native_has_lengths(const struct collective *what); /* blocks may differ */

/* Describe a call of `count` elements, or of blocks of this size, without its form, communicator
 * and buffers. */
void native_describe(struct native *native, const struct native_type *type, int count, int root,
                     enum native_blocks blocks, MPI_Op op);
/* Generate new data for all ranks. */
void native_fill(struct native *native, uint64_t seed);
/* Compute the expected content of this rank's receive buffer. `seen` is its real content, for bytes
 * that the call may change arbitrarily. */
void native_expect(struct native *native, const struct collective *what, const char *seen);

#endif
