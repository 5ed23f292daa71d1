/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data phase of LL in a block of threads, and single-batch lanes: a part of block.h. */
#ifndef GPURING_BLOCK_LL_H
#define GPURING_BLOCK_LL_H

/* Data of one thread in a batch of LL: 8 bytes (2 lines), or one element of 16 (4 lines). */
struct block_unit {
    uint64_t lines[4];
};

EXEC_FN uint32_t block_unit_words(const EXEC *x)
{
    return x->line_bytes < 120 ? 2 : 1; /* lines of elements of 16 bytes are shorter */
}

EXEC_FN void block_unit_load(const EXEC *x, const uint8_t *lines, struct block_unit *unit)
{
    BLOCK_UNROLL
    for (uint32_t word = 0; word < 2; word++) {
        if (word < block_unit_words(x)) {
            block_load_lines((const uint64_t *) (const void *) lines + 2 * word,
                             &unit->lines[2 * word]);
        }
    }
}

/* Return 1 if all lines that contain any of the `bytes` bytes have the flag. */
EXEC_FN int block_unit_ready(const EXEC *x, const struct block_unit *unit, uint32_t flag,
                             uint64_t bytes)
{
    int ready = 1;

    BLOCK_UNROLL
    for (uint32_t line = 0; line < 4; line++) {
        if (line < 2 * block_unit_words(x) && 4 * line < bytes) {
            ready &= (uint32_t) (unit->lines[line] >> 32) == flag;
        }
    }
    return ready;
}

BLOCK_FN struct exec_pack block_unit_data(const struct block_unit *unit)
{
    struct exec_pack pack;

    pack.w[0] = (uint32_t) unit->lines[0] | unit->lines[1] << 32;
    pack.w[1] = (uint32_t) unit->lines[2] | unit->lines[3] << 32;
    return pack;
}

EXEC_FN void block_unit_send(const EXEC *x, uint8_t *lines, struct exec_pack pack, uint32_t flag)
{
    BLOCK_UNROLL
    for (uint32_t word = 0; word < 2; word++) {
        if (word < block_unit_words(x)) {
            uint64_t pair[2] = {(uint64_t) flag << 32 | (uint32_t) pack.w[word],
                                (uint64_t) flag << 32 | pack.w[word] >> 32};

            block_store_lines((uint64_t *) (void *) lines + 2 * word, pair);
        }
    }
}

/* Begin to load this thread's unit of an operand that a peer sends. */
EXEC_FN void block_unit_fetch(EXEC *x, const struct exec_piece *piece, uint32_t i, uint64_t at,
                              struct block_unit *unit)
{
    if (!gpuring_ref_own(piece->operands[i])) {
        block_unit_load(x, exec_operand(x, piece, i) + 2 * at, unit);
    }
}

/* Load this thread's unit of an operand in a buffer of the user. */
EXEC_FN struct exec_pack block_unit_own(const EXEC *x, const struct exec_piece *piece, uint32_t i,
                                        uint64_t at)
{
    uint64_t left = piece->bytes - at, bytes = 8 * block_unit_words(x);

    return block_load(exec_operand(x, piece, i) + at, left < bytes ? left : bytes, 0);
}

/* Get the value of a unit after block_unit_fetch. Return 0 if it is missing when patience is
 * over. */
EXEC_FN int block_unit_take(EXEC *x, const struct exec_piece *piece, uint32_t i, uint64_t at,
                            struct block_unit *unit, struct exec_pack *value)
{
    uint32_t flag;

    if (gpuring_ref_own(piece->operands[i])) {
        *value = block_unit_own(x, piece, i, at);
        return 1;
    }
    flag = (uint32_t) (x->lane->recvs[piece->operands[i]].step + 1);
    while (!block_unit_ready(x, unit, flag, piece->bytes - at)) {
        if (!exec_poll(x)) {
            exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[i]);
            return 0;
        }
        block_unit_load(x, exec_operand(x, piece, i) + 2 * at, unit);
    }
    *value = block_unit_data(unit);
    return 1;
}

/* Fold this thread's unit of all operands, with a few loads in flight. Return 0 if an operand is
 * missing when patience is over. */
EXEC_FN int block_unit_gather(EXEC *x, const struct exec_piece *piece, uint64_t at,
                              struct exec_pack *sum)
{
    for (uint32_t group = 0; group < piece->step->noperands; group += BLOCK_OPERANDS) {
        struct block_unit units[BLOCK_OPERANDS];

        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            if (group + k < piece->step->noperands) {
                block_unit_fetch(x, piece, group + k, at, &units[k]);
            }
        }
        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            struct exec_pack value;

            if (group + k >= piece->step->noperands) {
                continue;
            }
            if (!block_unit_take(x, piece, group + k, at, &units[k], &value)) {
                return 0;
            }
            *sum = group + k == 0 ? value : exec_fold(x, *sum, value);
        }
    }
    return 1;
}

/* Write stale flags to the pairs of lines `from` to `to` of a slot. */
EXEC_FN void block_clean_lines(const EXEC *x, uint8_t *slot, uint64_t from, uint64_t to,
                               uint64_t step)
{
    uint64_t *lines = (uint64_t *) (void *) slot;
    uint64_t stale = (uint64_t) (uint32_t) (step + 1) << 32, pair[2] = {stale, stale};

    for (uint64_t i = from + exec_thread(x); i < to; i += exec_nthreads(x)) {
        block_store_lines(lines + 2 * i, pair);
    }
}

/* Clean unused lines of the slots. Lines that were not written for 2^32 steps would look valid, see
 * fifo.h. */
EXEC_FN void block_ll_clean(const EXEC *x, const struct exec_piece *piece)
{
    for (uint32_t i = 0; i < piece->step->nsends; i++) {
        const struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];

        if (gpuring_fifo_cleans(send)) {
            uint64_t bytes = exec_peer_bytes(x, piece, i), used = (bytes + 7) / 8;
            int is_short = gpuring_fifo_is_short(GPURING_PROTOCOL_LL, send, bytes);

            if (bytes == 0) {
                continue;
            }
            block_clean_lines(x, gpuring_fifo_slot(send), is_short ? 0 : used,
                              send->slot_bytes / 16, send->step);
            block_clean_lines(x, gpuring_fifo_short(send), is_short ? used : 0,
                              GPURING_FIFO_SHORT / 16, send->step);
        }
    }
}

/* Return the bytes of a batch, in which each thread has one unit. */
EXEC_FN uint64_t block_ll_batch(const EXEC *x)
{
    return 8 * block_unit_words(x) * exec_nthreads(x);
}

/* Store this thread's unit of a step's value, if the step stores. */
EXEC_FN void block_unit_store(const EXEC *x, const struct exec_piece *piece, uint64_t at,
                              struct exec_pack value)
{
    uint64_t left = piece->bytes - at, bytes = 8 * block_unit_words(x);
    uint8_t *output = exec_output(x, piece);

    if (output != NULL) {
        block_store(output + at, value, left < bytes ? left : bytes);
    }
}

/* Send this thread's unit of a step's value to destination i. */
EXEC_FN void block_unit_post(const EXEC *x, const struct exec_piece *piece, uint32_t i, uint64_t at,
                             struct exec_pack value)
{
    block_unit_send(x, exec_send_slot(x, piece, i) + 2 * at, value,
                    (uint32_t) (x->lane->sends[piece->sends[i]].step + 1));
}

/* Return true if a step only sends the input. Its threads need not meet at a barrier, because no
 * operand can be missing and nothing is overwritten that other threads read. */
BLOCK_FN int block_only_sends(const struct exec_piece *piece)
{
    return piece->step->noperands == 1 && piece->operands[0] == GPURING_REF_INPUT &&
           (piece->step->flags & GPURING_STEP_STORE) == 0;
}

/*
 * A short piece with several operands or destinations is spread over the threads, which poll all
 * operands and write to all destinations simultaneously. With u units, rounded up to a power of
 * two:
 *
 *   thread    0 .. u-1         u .. 2u-1        2u .. 3u-1       ..
 *   polls     operand 0        operand 1        operand 2        ..  and stores it for the block
 *                        barrier: have all operands arrived?
 *   folds     its unit of all operands, in their order
 *   sends to  destination 0    destination 1    destination 2    ..  the first u also store
 *
 * Successive steps use the two halves of x->units in turn. A thread writes to a half again only
 * after the barrier of the step in between, before which all threads have read it.
 */

/* Return true if the piece is spread, and set the binary logarithm of u. */
EXEC_FN int block_spreads(const EXEC *x, const struct exec_piece *piece, uint32_t *log)
{
    uint32_t noperands = piece->step->noperands, nsends = piece->step->nsends;
    uint32_t most = noperands > nsends ? noperands : nsends;
    uint64_t unit = 8 * block_unit_words(x);

    /* If the output is an operand, a thread may read only what it has stored itself, see
     * single-batch lanes. */
    if ((noperands <= 2 && nsends <= 1) || most * piece->bytes > BLOCK_ITEMS * unit ||
        (noperands > 1 && (piece->step->flags & GPURING_STEP_INPUT) == 0)) {
        return 0;
    }
    for (*log = 0; unit << *log < piece->bytes; ++*log) {
    }
    return most << *log <= BLOCK_ITEMS && most << *log <= exec_nthreads(x);
}

/* Let each thread store its unit of its operand in `values`. Return 0 if an operand is missing when
 * patience is over. */
EXEC_FN int block_spread_gather(EXEC *x, const struct exec_piece *piece, uint32_t log, uint64_t at,
                                struct exec_pack *values)
{
    uint32_t peer = exec_thread(x) >> log;
    struct block_unit lines = {{0, 0, 0, 0}};
    int ready = 1;

    if (peer < piece->step->noperands && at < piece->bytes) {
        block_unit_fetch(x, piece, peer, at, &lines);
        ready = block_unit_take(x, piece, peer, at, &lines, &values[exec_thread(x)]);
    }
    return exec_all(x, ready);
}

EXEC_FN struct exec_pack block_spread_fold(const EXEC *x, const struct exec_piece *piece,
                                           uint32_t log, const struct exec_pack *values)
{
    const struct exec_pack *own = values + (exec_thread(x) & ((1u << log) - 1));
    struct exec_pack sum = *own;

    BLOCK_ROLLED
    for (uint32_t i = 1; i < piece->step->noperands; i++) {
        sum = exec_fold(x, sum, own[i << log]);
    }
    return sum;
}

EXEC_FN int block_ll_spread(EXEC *x, const struct exec_piece *piece, uint32_t log)
{
    uint32_t peer = exec_thread(x) >> log;
    uint64_t at = 8 * block_unit_words(x) * (exec_thread(x) - (peer << log));
    struct exec_pack *values = x->units + x->turn % 2 * BLOCK_ITEMS, sum;
    int only_sends = block_only_sends(piece);

    exec_progress(x);
    x->turn += !only_sends;
    if (!only_sends && !block_spread_gather(x, piece, log, at, values)) {
        return EXEC_WAIT;
    }
    if (at < piece->bytes && (peer == 0 || peer < piece->step->nsends)) {
        sum =
            only_sends ? block_unit_own(x, piece, 0, at) : block_spread_fold(x, piece, log, values);
        if (peer == 0) {
            block_unit_store(x, piece, at, sum);
        }
        if (peer < piece->step->nsends) {
            block_unit_post(x, piece, peer, at, sum);
        }
    }
    return EXEC_OK;
}

EXEC_FN int block_ll_batches(EXEC *x, const struct exec_piece *piece)
{
    uint64_t unit = 8 * block_unit_words(x), batch = block_ll_batch(x);

    for (; x->bytes < piece->bytes; x->bytes += batch) {
        uint64_t at = x->bytes + unit * exec_thread(x);
        int active = at < piece->bytes;
        struct exec_pack sum = {{0, 0}};

        exec_progress(x);
        if (!block_only_sends(piece)) {
            if (!exec_all(x, !active || block_unit_gather(x, piece, at, &sum))) {
                return EXEC_WAIT;
            }
        } else if (active) {
            sum = block_unit_own(x, piece, 0, at);
        }
        if (active) {
            block_unit_store(x, piece, at, sum);
        }
        for (uint32_t i = 0; active && i < piece->step->nsends; i++) {
            block_unit_post(x, piece, i, at, sum);
        }
    }
    return EXEC_OK;
}

EXEC_FN int block_ll(EXEC *x, const struct exec_piece *piece)
{
    uint32_t log;

    if (x->bytes == 0 && !x->single_batch) {
        block_ll_clean(x, piece);
    }
    return block_spreads(x, piece, &log) ? block_ll_spread(x, piece, log)
                                         : block_ll_batches(x, piece);
}

/*
 * Single-batch lanes: short calls over LL whose chunks are single batches, with plans that use each
 * connection once. The usual work between steps takes longer than the data of such a call, so it is
 * moved out of the steps. Before the first step, all destinations must have room, and no proxy may
 * carry a slot. After the last step, slots are given back and steps are counted. Until then the
 * threads record in bit sets which connections they have to count (bit 1 << number).
 *
 * No barrier is needed between the steps. A step stores data after its exec_all, and therefore
 * after all reads of this step and of earlier ones. A step reads stored data only in its own chunk
 * (GPURING_REF_OUTPUT), and each thread reads only bytes that it has stored itself, because such
 * a step is not spread over the threads.
 */

/* Return true if this thread's connections permit a single-batch lane. */
EXEC_FN int block_single_batch_ready(const EXEC *x)
{
    const struct gpuring_lane *lane = x->lane;
    int ready = 1;

    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < lane->nrecvs; i += exec_nthreads(x)) {
        ready &= !lane->recvs[i].local;
    }
    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < lane->nsends; i += exec_nthreads(x)) {
        struct gpuring_fifo_end *send = &lane->sends[i];

        if (send->seen + send->nslots <= send->step) {
            /* Acquire: see exec_wait_send. */
            send->seen = exec_load_acquire(&send->head->head);
        }
        ready &=
            !send->local && !gpuring_fifo_cleans(send) && send->seen + send->nslots > send->step;
    }
    return ready;
}

EXEC_FN void block_single_batch_begin(EXEC *x)
{
    const struct gpuring_lane *lane = x->lane;
    uint64_t chunk;

    if (lane->nstored > 0 && (lane->steps[0].flags & GPURING_STEP_SINGLE_USE) != 0 &&
        x->step + x->bytes == 0 && exec_next_window(x, &chunk) >= x->rest &&
        chunk * x->type_size <= block_ll_batch(x)) {
        x->single_batch = (uint32_t) exec_all(x, block_single_batch_ready(x));
    }
}

/* Record the connections of a step, which are distributed over the threads. */
EXEC_FN void exec_note_single_batch(EXEC *x, const struct exec_piece *piece)
{
    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < piece->step->noperands; i += exec_nthreads(x)) {
        int used = !gpuring_ref_own(piece->operands[i]) && exec_has_data(x, piece, i);

        x->used_recvs |= used ? UINT64_C(1) << piece->operands[i] : 0;
    }
    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < piece->step->nsends; i += exec_nthreads(x)) {
        x->used_sends |= exec_has_data(x, piece, i) ? UINT64_C(1) << piece->sends[i] : 0;
    }
}

/* Remove the lowest bit from the set, and return its number. */
BLOCK_FN uint32_t block_take_bit(uint64_t *set)
{
    uint64_t lowest = *set & -*set;

    *set -= lowest;
    return BLOCK_ONES(lowest - 1);
}

EXEC_FN void block_single_batch_end(EXEC *x)
{
    exec_barrier(x); /* other threads may read the steps until here */
    BLOCK_ROLLED
    while (x->used_recvs != 0) {
        struct gpuring_fifo_end *recv = &x->lane->recvs[block_take_bit(&x->used_recvs)];

        recv->step = ++recv->posted;
        /* All loads of the slot have returned; pairs with exec_wait_send. */
        exec_store_counter(&recv->head->head, recv->posted);
    }
    BLOCK_ROLLED
    while (x->used_sends != 0) {
        struct gpuring_fifo_end *send = &x->lane->sends[block_take_bit(&x->used_sends)];

        send->step = ++send->posted;
    }
    exec_barrier(x);
}

#endif
