/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How a large call is cut into chunks. A call is of blocks, one for each rank, or of a vector,
 * which is a single block. Chunk k is of units k * step to (k + 1) * step - 1 of every block; its
 * pieces follow one another in host memory:
 *
 *     user's buffer    +--a0--+--a1--+-a2-+   +--b0--+--b1--+-b2-+   +--c0--+--c1--+-c2-+
 *     bounce, chunk 1                     +--a1--+--b1--+--c1--+
 *
 * The same on all ranks that know the same units. Free of Open MPI.
 */
#ifndef GPURING_STAGE_CUT_H
#define GPURING_STAGE_CUT_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_cut {
    int blocks;
    const size_t *units; /* of each block */
    size_t size;         /* bytes of a unit */
    size_t step;         /* units of a block in a chunk, at most */
    size_t chunks;
};

/* Bytes of a chunk of a call of so many blocks, at most. */
size_t gpuring_cut_limit(int blocks, size_t stage_size);

/* Find step and chunks: pieces as long as chunks of `limit` bytes allow for all blocks together. */
void gpuring_cut_find(struct gpuring_cut *cut, size_t limit);

/* Units of a block that are in a chunk. */
size_t gpuring_cut_units(const struct gpuring_cut *cut, int block, size_t chunk);

/* Bytes of the first chunk, which is the largest. */
size_t gpuring_cut_bytes(const struct gpuring_cut *cut);

/* Pieces of blocks that one copy can take: `count` rows of `bytes` bytes. */
struct gpuring_rows {
    size_t bytes, count;
    ptrdiff_t user;    /* from the buffer; */
    size_t user_pitch; /* .. from row to row */
    size_t bounce, bounce_pitch;
};

/* To go through a chunk's pieces of blocks first to end - 1. */
struct gpuring_cut_walk {
    const struct gpuring_cut *cut;
    size_t chunk;
    const ptrdiff_t *offsets; /* of all blocks in the user's buffer */
    int first, end;
    int block;     /* the next one */
    size_t bounce; /* where its piece is; both begin with 0 */
};

/* The next rows; false: there are none. */
bool gpuring_cut_next(struct gpuring_cut_walk *walk, struct gpuring_rows *rows);

#endif
