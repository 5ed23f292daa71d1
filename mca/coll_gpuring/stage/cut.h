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

#endif
