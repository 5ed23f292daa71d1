/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A copy by a kernel, for messages between GPUs (p2p/shared.h). The sender's kernel copies the
 * user's buffer to a slot and signals this next to the slot. The receiver's kernel, which may start
 * earlier, waits for the signals and copies the slot to the user's buffer:
 *
 *     extern "C" __global__ void gpuring_move(struct gpuring_move move)
 *
 * Both kernels divide the bytes between their blocks in the same way, and block i of the receiver
 * only waits for block i of the sender. No block waits for another one of its kernel, so blocks
 * need not be co-resident. A block that has waited for its patience copies nothing and reports
 * that.
 *
 * Offsets of parts are counted in the slot, where the first byte has the offset `lead`. It is the
 * offset of the sender's buffer in 16 bytes, so that the sender copies aligned packs.
 */
#ifndef GPURING_MOVE_H
#define GPURING_MOVE_H

#include "kernels/work.h"

#define GPURING_MOVE_KERNEL  "gpuring_move"
#define GPURING_MOVE_BLOCKS  16u  /* maximum number; each has a word of the signals and the ends */
#define GPURING_MOVE_THREADS 512u /* of each block */
#define GPURING_MOVE_PACK    16u  /* bytes that a thread loads or stores at a time */

/* A block has at least this many bytes: one pack for each thread. */
#define GPURING_MOVE_LEAST ((uint64_t) GPURING_MOVE_THREADS * GPURING_MOVE_PACK)

struct gpuring_move {
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes, lead;    /* at most 2 GiB */
    const uint64_t *awaited; /* signals that have this number when the slot is filled; NULL: none */
    uint64_t *signals;       /* these get the number; NULL: none */
    uint64_t *ends;          /* pinned host memory: gpuring_move_end of each block, which ends */
    uint64_t number;         /* of this use of the slot, never used before for these words */
    uint64_t patience;       /* maximum wait, nanoseconds */
};

/* Return the number of blocks for this many bytes from the beginning of the slot on. */
GPURING_INLINE uint32_t gpuring_move_blocks(const struct gpuring_move *move)
{
    uint64_t blocks = (move->lead + move->bytes + GPURING_MOVE_LEAST - 1) / GPURING_MOVE_LEAST;

    return blocks < GPURING_MOVE_BLOCKS ? (uint32_t) blocks : GPURING_MOVE_BLOCKS;
}

/* Return the number of bytes of a block's part, and set *first to its offset in the buffers. Parts
 * begin at whole cache lines of the slot. */
GPURING_INLINE uint64_t gpuring_move_part(const struct gpuring_move *move, uint32_t block,
                                          uint64_t *first)
{
    uint32_t lead = (uint32_t) move->lead, whole = lead + (uint32_t) move->bytes;
    uint32_t blocks = gpuring_move_blocks(move); /* 32 bits, because divisions of 64 take long */
    uint32_t part = ((whole + blocks - 1) / blocks + 127) / 128 * 128;
    uint32_t begin = block * part, end = begin + part < whole ? begin + part : whole;

    begin = begin > lead ? begin : lead;
    *first = begin - lead;
    return end > begin ? end - begin : 0;
}

/* Return the word that a block stores when it ends. */
GPURING_INLINE uint64_t gpuring_move_end(uint64_t number, int copied)
{
    return number << 1 | (copied ? 1 : 0);
}

/* Return true if all blocks have copied their parts. The kernel has ended. */
GPURING_INLINE int gpuring_move_copied(const struct gpuring_move *move)
{
    uint32_t i = 0;

    while (i < gpuring_move_blocks(move) && move->ends[i] == gpuring_move_end(move->number, 1)) {
        i++;
    }
    return i == gpuring_move_blocks(move);
}

#endif
