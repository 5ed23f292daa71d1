/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The block of a kernel that copies a message; see move.h. Included by kernels.cu after block.h. */
#ifndef GPURING_BLOCK_MOVE_H
#define GPURING_BLOCK_MOVE_H

#include "kernels/move.h"

/* Packs that a thread has in flight. Up to 1 MiB, a block then loads its whole part before it waits
 * for memory. */
#define MOVE_PACKS 8

/* Wait until the sender's block has signaled. Return false if the patience is over. Called by one
 * thread. A later barrier extends the order of the acquire to the other threads. */
BLOCK_FN bool move_wait(const struct gpuring_move *move)
{
    uint32_t patience = static_cast<uint32_t>(move->patience >> 10) + 1;
    uint32_t end = block_clock() + patience, last = block_cycles() + BLOCK_CYCLES * patience;

    while (exec_load_acquire(&move->awaited[blockIdx.x]) != move->number) {
        if (block_over(block_clock(), end) || block_over(block_cycles(), last)) {
            return false;
        }
    }
    return true;
}

/* Copy whole packs between two aligned addresses. */
BLOCK_FN void move_packs(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    const uint32_t stride = GPURING_MOVE_PACK * GPURING_MOVE_THREADS;
    struct exec_pack packs[MOVE_PACKS];

    BLOCK_ROLLED
    for (uint32_t at = GPURING_MOVE_PACK * threadIdx.x; at < bytes; at += MOVE_PACKS * stride) {
        block_round_load(from, at, bytes, stride, packs, MOVE_PACKS);
        block_round_store(to, at, bytes, stride, packs, MOVE_PACKS);
    }
}

/* Copy whole packs to an aligned address. */
BLOCK_FN void move_shifted(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    BLOCK_ROLLED
    for (uint32_t at = GPURING_MOVE_PACK * threadIdx.x; at < bytes;
         at += GPURING_MOVE_PACK * GPURING_MOVE_THREADS) {
        int interior = at >= GPURING_MOVE_PACK && bytes - at >= 2 * GPURING_MOVE_PACK;

        block_store_pack(to + at, block_load(from + at, GPURING_MOVE_PACK, interior));
    }
}

/* Copy a part of the message. Two threads copy the bytes before and after the whole packs. */
BLOCK_FN void move_part(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t head = (GPURING_MOVE_PACK - reinterpret_cast<uintptr_t>(to)) % GPURING_MOVE_PACK;
    uint64_t packs, tail;

    head = head < bytes ? head : bytes;
    packs = (bytes - head) / GPURING_MOVE_PACK * GPURING_MOVE_PACK;
    tail = bytes - head - packs;
    if (reinterpret_cast<uintptr_t>(from + head) % GPURING_MOVE_PACK == 0) {
        move_packs(to + head, from + head, static_cast<uint32_t>(packs));
    } else {
        move_shifted(to + head, from + head, static_cast<uint32_t>(packs));
    }
    if (threadIdx.x == 32 && head > 0) {
        block_store(to, block_load(from, head, 0), head);
    }
    if (threadIdx.x == 64 && tail > 0) {
        block_store(to + head + packs, block_load(from + head + packs, tail, 0), tail);
    }
}

BLOCK_FN void move_run(const struct gpuring_move *move)
{
    uint64_t first, bytes = gpuring_move_part(move, blockIdx.x, &first);
    bool there = true;

    if (move->awaited != nullptr) {
        there = __syncthreads_and(threadIdx.x != 0 || move_wait(move));
    }
    if (there) {
        move_part(move->to + first, move->from + first, bytes);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        /* Order the copies of all threads before both words. */
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        if (there && move->signals != nullptr) {
            exec_store_counter(&move->signals[blockIdx.x], move->number);
        }
        exec_store_counter(&move->ends[blockIdx.x], gpuring_move_end(move->number, there));
    }
}

#endif
