/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The data phase of a lane that is a block of threads: Simple, LL and LL128. The CUDA kernels
 * include this after executor.h, and so does a test build in C in which a block consists of real
 * threads. In addition to the list in executor.h, the execution header defines:
 *
 *   BLOCK_FN                          prefix of functions that do not use EXEC
 *   BLOCK_SLOW                        prefix of functions that must not be inlined
 *   BLOCK_UNROLL, BLOCK_ROLLED        pragmas that unroll the next loop, or do not; or nothing
 *   BLOCK_PACKS, BLOCK_LINES          packs (Simple) and lines (LL128) in flight for each thread
 *   BLOCK_COPY_PACKS                  packs in flight for each thread if nothing is folded
 *   BLOCK_WIDE                        operands in flight for each thread if there are more than two
 *   BLOCK_STORES                      destinations whose addresses a thread loads together
 *   BLOCK_OPERANDS                    operands (LL) in flight for each thread
 *   BLOCK_LINE_THREADS                threads that share an LL128 line: 8, or 1
 *   BLOCK_ITEMS                       packs in each half of units (LL)
 *   exec_fold(x, a, b)                folds two packs element by element
 *   block_load_pack(p), block_store_pack(p, v)       16 aligned bytes, ordinary accesses
 *   block_load_lines(p, w), block_store_lines(p, w)  two LL lines, each whole, relaxed
 *   block_line_ready(x, line, flag)   0 if this thread reads the line's flag, and it is not `flag`
 *   block_line_load(x, line, v)       this thread's packs of an LL128 line whose flag was seen
 *   block_line_store(x, line, flag, v)
 *   block_warp_all(x, ok)             nonzero if ok on all threads of the warp
 *   BLOCK_ONES(word)                  number of bits that are set in 64 bits
 *   and the members of EXEC: uint32_t single_batch, turn; uint64_t used_recvs, used_sends;
 *   struct exec_pack *units (2 * BLOCK_ITEMS, which the threads of the block share)
 *
 * A lane that gives up must be able to start again, also in place. Simple waits before it moves any
 * data. LL and LL128 work in batches: all threads read their operands into registers, and a barrier
 * decides whether all operands have arrived. Only then is the batch written. x->bytes counts the
 * bytes of finished batches.
 */
#ifndef GPURING_BLOCK_H
#define GPURING_BLOCK_H

/* struct exec_pack, defined by the execution header: 16 bytes in two words, w[2]. */
#define BLOCK_LINE_PACKS (8 / BLOCK_LINE_THREADS)

/* Load 1 to 8 bytes, one by one. */
BLOCK_FN uint64_t block_load_bytes(const uint8_t *p, uint64_t bytes)
{
    uint64_t word = 0;

    BLOCK_ROLLED
    for (uint32_t i = 0; i < bytes && i < 8; i++) {
        word |= (uint64_t) p[i] << 8 * i;
    }
    return word;
}

BLOCK_FN void block_store_bytes(uint8_t *p, uint64_t word, uint64_t bytes)
{
    BLOCK_ROLLED
    for (uint32_t i = 0; i < bytes && i < 8; i++) {
        p[i] = (uint8_t) (word >> 8 * i);
    }
}

/* Load 16 bytes at any address from aligned words. This reads up to 3 bytes before and after
 * them. */
BLOCK_FN struct exec_pack block_load_shifted(const uint8_t *p)
{
    uint32_t shift = 8 * (uint32_t) ((uintptr_t) p & 3);
    const uint32_t *words = (const uint32_t *) (const void *) (p - shift / 8);
    uint64_t low = words[0] | (uint64_t) words[1] << 32;
    uint64_t high = words[2] | (uint64_t) words[3] << 32;
    struct exec_pack pack = {{low, high}};

    if (shift != 0) {
        pack.w[0] = low >> shift | high << (64 - shift);
        pack.w[1] = high >> shift | (uint64_t) words[4] << (64 - shift);
    }
    return pack;
}

/* Load misaligned bytes for block_load. This is a separate function because it is long and rarely
 * needed. */
BLOCK_SLOW struct exec_pack block_load_slow(const uint8_t *p, uint64_t bytes, int interior)
{
    struct exec_pack pack = {{0, 0}};

    if (bytes >= 16 && (((uintptr_t) p & 3) == 0 || interior)) {
        return block_load_shifted(p);
    }
    pack.w[0] = block_load_bytes(p, bytes);
    pack.w[1] = bytes > 8 ? block_load_bytes(p + 8, bytes - 8) : 0;
    return pack;
}

/* Load up to 16 bytes, which need not be aligned. If `interior`, 4 bytes before and after them may
 * be read. */
BLOCK_FN struct exec_pack block_load(const uint8_t *p, uint64_t bytes, int interior)
{
    struct exec_pack pack = {{0, 0}};

    if (((uintptr_t) p & 7) == 0 && (bytes == 8 || bytes >= 16)) {
        pack.w[0] = *(const uint64_t *) (const void *) p;
        if (bytes >= 16) {
            pack.w[1] = *(const uint64_t *) (const void *) (p + 8);
        }
        return pack;
    }
    return block_load_slow(p, bytes, interior);
}

BLOCK_SLOW void block_store_slow(uint8_t *p, struct exec_pack pack, uint64_t bytes)
{
    if (bytes >= 16 && ((uintptr_t) p & 3) == 0) {
        uint32_t *words = (uint32_t *) (void *) p;

        words[0] = (uint32_t) pack.w[0];
        words[1] = (uint32_t) (pack.w[0] >> 32);
        words[2] = (uint32_t) pack.w[1];
        words[3] = (uint32_t) (pack.w[1] >> 32);
        return;
    }
    block_store_bytes(p, pack.w[0], bytes);
    if (bytes > 8) {
        block_store_bytes(p + 8, pack.w[1], bytes - 8);
    }
}

BLOCK_FN void block_store(uint8_t *p, struct exec_pack pack, uint64_t bytes)
{
    if (((uintptr_t) p & 7) == 0 && (bytes == 8 || bytes >= 16)) {
        *(uint64_t *) (void *) p = pack.w[0];
        if (bytes >= 16) {
            *(uint64_t *) (void *) (p + 8) = pack.w[1];
        }
    } else if (bytes > 0) {
        block_store_slow(p, pack, bytes);
    }
}

/* Return true if the step does not store within 4 bytes of its input. */
EXEC_FN int block_apart(const EXEC *x, const struct exec_piece *piece)
{
    uint64_t input = (uintptr_t) x->work->input + piece->input;
    uint64_t output = (uintptr_t) x->work->output + piece->output;

    return exec_output(x, piece) == NULL || input + piece->bytes + 4 <= output ||
           output + piece->bytes + 4 <= input;
}

/* Return pack `at / 16` of an operand. Slots have room for whole packs. */
EXEC_FN struct exec_pack block_operand_pack(const EXEC *x, const struct exec_piece *piece,
                                            uint32_t index, uint64_t at)
{
    const uint8_t *p = exec_operand(x, piece, index) + at;
    uint32_t ref = piece->operands[index];
    /* If the operand is the output, or in place, other threads store the adjacent bytes. */
    int interior =
        ref == GPURING_REF_INPUT && block_apart(x, piece) && at >= 4 && piece->bytes - at >= 20;

    return gpuring_ref_own(ref) ? block_load(p, piece->bytes - at, interior) : block_load_pack(p);
}

/* Process one pack at a time: for misaligned buffers, and for the rest of aligned ones. */
EXEC_FN void block_simple_any(EXEC *x, const struct exec_piece *piece, uint64_t from)
{
    uint8_t *output = exec_output(x, piece);

    for (uint64_t at = from + 16 * exec_thread(x); at < piece->bytes; at += 16 * exec_nthreads(x)) {
        struct exec_pack sum = block_operand_pack(x, piece, 0, at);

        BLOCK_ROLLED
        for (uint32_t i = 1; i < piece->step->noperands; i++) {
            sum = exec_fold(x, sum, block_operand_pack(x, piece, i, at));
        }
        if (output != NULL) {
            block_store(output + at, sum, piece->bytes - at);
        }
        for (uint32_t i = 0; i < piece->step->nsends; i++) {
            block_store_pack(exec_send_slot(x, piece, i) + at, sum);
        }
    }
}

/*
 * Load the packs of an operand that this thread has in flight: n packs, `stride` bytes apart. Packs
 * at or after `end` are zero. With Simple, a thread has twice BLOCK_PACKS or BLOCK_COPY_PACKS packs
 * in flight. Slots and slices are much smaller than 4 GiB, so 32-bit offsets are enough and save
 * registers.
 */
BLOCK_FN void block_round_load(const uint8_t *from, uint32_t at, uint32_t end, uint32_t stride,
                               struct exec_pack *packs, int n)
{
    BLOCK_UNROLL
    for (int k = 0; k < n; k++) {
        const struct exec_pack zero = {{0, 0}};

        packs[k] = at + k * stride < end ? block_load_pack(from + at + k * stride) : zero;
    }
}

BLOCK_FN void block_round_store(uint8_t *to, uint32_t at, uint32_t end, uint32_t stride,
                                const struct exec_pack *packs, int n)
{
    BLOCK_UNROLL
    for (int k = 0; k < n; k++) {
        if (at + k * stride < end) {
            block_store_pack(to + at + k * stride, packs[k]);
        }
    }
}

/* Store packs to the output, if there is one, and to all destinations. */
EXEC_FN void block_round_send(const EXEC *x, const struct exec_piece *piece, uint32_t at,
                              const struct exec_pack *packs, int n)
{
    uint8_t *output = exec_output(x, piece);
    uint32_t nsends = piece->step->nsends;

    BLOCK_ROLLED
    for (uint32_t i = output != NULL ? 0 : 1; i <= nsends; i++) {
        block_round_store(i == 0 ? output : exec_send_slot(x, piece, i - 1), at,
                          (uint32_t) piece->bytes / 16 * 16, 16 * exec_nthreads(x), packs, n);
    }
}

/* Copy all whole packs. While one half is stored, the loads of the other half are in flight. */
EXEC_FN void block_simple_copy(EXEC *x, const struct exec_piece *piece)
{
    const uint32_t stride = 16 * exec_nthreads(x), half = BLOCK_COPY_PACKS * stride;
    const uint32_t end = (uint32_t) piece->bytes / 16 * 16;
    const uint8_t *from = exec_operand(x, piece, 0);
    struct exec_pack packs[2][BLOCK_COPY_PACKS];

    block_round_load(from, 16 * exec_thread(x), end, stride, packs[0], BLOCK_COPY_PACKS);
    BLOCK_ROLLED
    for (uint32_t base = 0; base < end; base += 2 * half) {
        uint32_t at = base + 16 * exec_thread(x);

        block_round_load(from, at + half, end, stride, packs[1], BLOCK_COPY_PACKS);
        block_round_send(x, piece, at, packs[0], BLOCK_COPY_PACKS);
        block_round_load(from, at + 2 * half, end, stride, packs[0], BLOCK_COPY_PACKS);
        block_round_send(x, piece, at + half, packs[1], BLOCK_COPY_PACKS);
    }
}

/* Fold all whole packs of two operands. The loads of the next round are issued before the stores of
 * this round. */
EXEC_FN void block_simple_fold(EXEC *x, const struct exec_piece *piece)
{
    const uint32_t stride = 16 * exec_nthreads(x), round = BLOCK_PACKS * stride;
    const uint32_t end = (uint32_t) piece->bytes / 16 * 16;
    struct exec_pack sum[BLOCK_PACKS], next[2][BLOCK_PACKS];

    block_round_load(exec_operand(x, piece, 0), 16 * exec_thread(x), end, stride, next[0],
                     BLOCK_PACKS);
    block_round_load(exec_operand(x, piece, 1), 16 * exec_thread(x), end, stride, next[1],
                     BLOCK_PACKS);
    BLOCK_ROLLED
    for (uint32_t base = 0; base < end; base += round) {
        uint32_t at = base + 16 * exec_thread(x);

        BLOCK_UNROLL
        for (int k = 0; k < BLOCK_PACKS; k++) {
            sum[k] = exec_fold(x, next[0][k], next[1][k]);
        }
        /* Compute the addresses of operands again in each round, so that they occupy no registers.
         * Otherwise kernels for sm_120 would spill. */
        block_round_load(exec_operand(x, piece, 0), at + round, end, stride, next[0], BLOCK_PACKS);
        block_round_load(exec_operand(x, piece, 1), at + round, end, stride, next[1], BLOCK_PACKS);
        block_round_send(x, piece, at, sum, BLOCK_PACKS);
    }
}

/* Fold one pack of each of `n` operands, at most BLOCK_WIDE, into `sum` unless `first`. */
EXEC_FN struct exec_pack block_wide_sum(const EXEC *x, void *const *from, uint32_t n, uint32_t at,
                                        int first, struct exec_pack sum)
{
    struct exec_pack packs[BLOCK_WIDE];

    BLOCK_UNROLL
    for (uint32_t k = 0; k < BLOCK_WIDE; k++) {
        packs[k] = k < n ? block_load_pack((const uint8_t *) from[k] + at) : sum;
    }
    sum = first ? packs[0] : exec_fold(x, sum, packs[0]);
    BLOCK_UNROLL
    for (uint32_t k = 1; k < BLOCK_WIDE; k++) {
        if (k < n) {
            sum = exec_fold(x, sum, packs[k]);
        }
    }
    return sum;
}

/* Fold all whole packs of `n` operands, one pack of each at a time, and store them at `nstores`
 * addresses. This is faster than the functions above if there are several operands, or only one
 * pack for each thread. */
EXEC_FN void block_simple_wide(EXEC *x, uint32_t end, uint32_t n, uint32_t nstores)
{
    void *const *from = exec_list(x, x->slices)->at, *const *stop = from + n + nstores;

    BLOCK_ROLLED
    for (uint32_t at = 16 * exec_thread(x); at < end; at += 16 * exec_nthreads(x)) {
        struct exec_pack sum = {{0, 0}};
        void *const *to = from + n;
        uint32_t first = 0;

        BLOCK_ROLLED
        for (; n - first >= BLOCK_WIDE; first += BLOCK_WIDE) {
            sum = block_wide_sum(x, from + first, BLOCK_WIDE, at, first == 0, sum);
        }
        if (first < n) {
            sum = block_wide_sum(x, from + first, n - first, at, first == 0, sum);
        }
        BLOCK_ROLLED
        for (; BLOCK_STORES > 1 && stop - to >= BLOCK_STORES; to += BLOCK_STORES) {
            BLOCK_UNROLL
            for (int k = 0; k < BLOCK_STORES; k++) {
                block_store_pack((uint8_t *) to[k] + at, sum);
            }
        }
        BLOCK_ROLLED
        for (; to < stop; to++) {
            block_store_pack((uint8_t *) *to + at, sum);
        }
    }
}

/* Return the last `bytes` bytes of a buffer, less than a pack. */
BLOCK_FN struct exec_pack block_load_rest(const uint8_t *p, uint64_t bytes)
{
    struct exec_pack pack;

    pack.w[0] = block_load_bytes(p, bytes);
    pack.w[1] = bytes > 8 ? block_load_bytes(p + 8, bytes - 8) : 0;
    return pack;
}

/* Process the bytes after the last whole pack of mapped buffers, which end there. */
EXEC_FN void block_mapped_rest(EXEC *x, const struct exec_piece *piece)
{
    uint64_t done = piece->bytes / 16 * 16, bytes = piece->bytes - done;
    void *const *at = exec_list(x, x->slices)->at;
    uint32_t n = piece->step->noperands;
    struct exec_pack sum;

    if (bytes == 0 || exec_thread(x) != 0) {
        return;
    }
    sum = block_load_rest((const uint8_t *) at[0] + done, bytes);
    BLOCK_ROLLED
    for (uint32_t i = 1; i < n; i++) {
        sum = exec_fold(x, sum, block_load_rest((const uint8_t *) at[i] + done, bytes));
    }
    BLOCK_ROLLED
    for (uint32_t i = n; i <= n + piece->step->nsends; i++) { /* the output is the last one */
        block_store_bytes((uint8_t *) at[i] + done, sum.w[0], bytes);
        if (bytes > 8) {
            block_store_bytes((uint8_t *) at[i] + done + 8, sum.w[1], bytes - 8);
        }
    }
}

EXEC_FN int block_simple(EXEC *x, const struct exec_piece *piece)
{
    const uint32_t n = piece->step->noperands, flags = piece->step->flags;
    const uint32_t nstores = piece->step->nsends + (flags & GPURING_STEP_STORE);
    uint64_t input = (uintptr_t) x->work->input + piece->input;
    int reads = !x->work->has_blocks || (flags & GPURING_STEP_INPUT) != 0;
    int aligned = ((reads ? input : 0) | (uintptr_t) exec_output(x, piece)) % 16 == 0;
    int wide = n > 2 || piece->bytes <= 16 * exec_nthreads(x), result;
    uint64_t whole = piece->bytes / 16 * 16;

    result = exec_ready(x);
    if (result != EXEC_OK) {
        return result;
    }
    if (aligned && wide) {
        block_simple_wide(x, (uint32_t) whole, n, nstores);
    } else if (aligned && n == 1) {
        block_simple_copy(x, piece);
    } else if (aligned) {
        block_simple_fold(x, piece);
    }
    if (exec_mapped(x)) {
        block_mapped_rest(x, piece);
    } else if (!aligned || whole < piece->bytes) {
        block_simple_any(x, piece, aligned ? whole : 0);
    }
    return EXEC_OK;
}

#include "kernels/block_ll.h"
#include "kernels/block_ll128.h"
#include "kernels/block_each.h"

EXEC_FN int exec_run(EXEC *x, const struct exec_piece *piece)
{
    return exec_overlaps(x) ? exec_overlapped(x, piece) : exec_in_turn(x, piece);
}

EXEC_FN void exec_begin(EXEC *x)
{
    if (exec_overlaps(x)) {
        exec_overlap_begin(x);
    } else if (exec_protocol(x) == GPURING_PROTOCOL_LL) {
        block_single_batch_begin(x);
    }
}

EXEC_FN void exec_end(EXEC *x)
{
    if (exec_overlaps(x)) {
        exec_overlap_end(x);
    } else if (exec_single_batch(x)) {
        block_single_batch_end(x);
    }
}

EXEC_FN int exec_data(EXEC *x, const struct exec_piece *piece)
{
    if (piece->each) {
        return exec_protocol(x) == GPURING_PROTOCOL_SIMPLE ? block_simple_each(x, piece)
                                                           : block_lines_each(x, piece);
    }
    switch (exec_protocol(x)) {
    case GPURING_PROTOCOL_LL:
        return block_ll(x, piece);
    case GPURING_PROTOCOL_LL128:
        return block_ll128(x, piece);
    default:
        return block_simple(x, piece);
    }
}

#endif
