/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data phase of LL in a block of threads, and brief lanes: a part of block.h. */
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

/* Fold this thread's unit of all operands, with a few loads in flight. Return 0 if an operand is
 * missing when patience is over. */
EXEC_FN int block_unit_gather(EXEC *x, const struct exec_piece *piece, uint64_t at,
                              struct exec_pack *sum)
{
    uint64_t left = piece->bytes - at;

    for (uint32_t group = 0; group < piece->step->noperands; group += BLOCK_OPERANDS) {
        struct block_unit units[BLOCK_OPERANDS];

        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            uint32_t i = group + k;

            if (i < piece->step->noperands && !gpuring_ref_own(piece->operands[i])) {
                block_unit_load(x, exec_operand(x, piece, i) + 2 * at, &units[k]);
            }
        }
        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            uint32_t i = group + k;
            struct exec_pack value;

            if (i >= piece->step->noperands) {
                continue;
            }
            if (gpuring_ref_own(piece->operands[i])) {
                value =
                    block_load(exec_operand(x, piece, i) + at,
                               left < 8 * block_unit_words(x) ? left : 8 * block_unit_words(x), 0);
            } else {
                uint32_t flag = (uint32_t) (x->lane->recvs[piece->operands[i]].step + 1);

                while (!block_unit_ready(x, &units[k], flag, left)) {
                    if (!exec_poll(x)) {
                        exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[i]);
                        return 0;
                    }
                    block_unit_load(x, exec_operand(x, piece, i) + 2 * at, &units[k]);
                }
                value = block_unit_data(&units[k]);
            }
            *sum = i == 0 ? value : exec_fold(x, *sum, value);
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
    uint64_t used = (piece->bytes + 7) / 8;

    for (uint32_t i = 0; i < piece->step->nsends; i++) {
        const struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];
        int is_short = gpuring_fifo_is_short(GPURING_PROTOCOL_LL, send, piece->bytes);

        if (gpuring_fifo_cleans(send)) {
            block_clean_lines(x, gpuring_fifo_slot(send), is_short ? 0 : used,
                              send->slot_bytes / 16, send->step);
            block_clean_lines(x, gpuring_fifo_short(send), is_short ? used : 0,
                              GPURING_FIFO_SHORT / 16, send->step);
        }
    }
}

/* Bytes of a unit for each thread. */
EXEC_FN uint64_t block_ll_batch(const EXEC *x)
{
    return 8 * block_unit_words(x) * exec_nthreads(x);
}

EXEC_FN int block_ll(EXEC *x, const struct exec_piece *piece)
{
    uint64_t unit = 8 * block_unit_words(x), batch = block_ll_batch(x);
    uint8_t *output = exec_output(x, piece);

    if (x->bytes == 0 && !x->brief) {
        block_ll_clean(x, piece);
    }
    for (; x->bytes < piece->bytes; x->bytes += batch) {
        uint64_t at = x->bytes + unit * exec_thread(x);
        int active = at < piece->bytes;
        struct exec_pack sum = {{0, 0}};

        exec_progress(x);
        if (!exec_all(x, !active || block_unit_gather(x, piece, at, &sum))) {
            return EXEC_WAIT;
        }
        if (active && output != NULL) {
            block_store(output + at, sum, piece->bytes - at < unit ? piece->bytes - at : unit);
        }
        for (uint32_t i = 0; active && i < piece->step->nsends; i++) {
            block_unit_send(x, exec_send_slot(x, piece, i) + 2 * at, sum,
                            (uint32_t) (x->lane->sends[piece->sends[i]].step + 1));
        }
    }
    return EXEC_OK;
}

/*
 * Brief lanes: short calls over LL whose chunks are single batches, with plans that use each
 * connection once. The usual work between steps takes longer than the data of such a call, so it is
 * moved out of the steps. Before the first step, all destinations must have room, and no proxy may
 * carry a slot. After the last step, slots are given back and steps are counted. Until then the
 * threads record in bit sets which connections they have to count (bit 1 << number).
 *
 * No barrier is needed between the steps. A step stores data after its exec_all, and therefore
 * after all reads of this step and of earlier ones. A step reads stored data only in its own chunk
 * (GPURING_REF_OUTPUT), and each thread reads only bytes that it has stored itself.
 */

/* Return true if this thread's connections permit a brief lane. */
EXEC_FN int block_brief_ready(const EXEC *x)
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

EXEC_FN void block_brief_begin(EXEC *x)
{
    const struct gpuring_lane *lane = x->lane;
    uint64_t chunk;

    if (lane->nstored > 0 && (lane->steps[0].flags & GPURING_STEP_SINGLE_USE) != 0 &&
        x->done + x->step + x->bytes == 0 && exec_next_window(x, &chunk) >= lane->count &&
        chunk * x->type_size <= block_ll_batch(x)) {
        x->brief = (uint32_t) exec_all(x, block_brief_ready(x));
    }
}

/* Record the connections of a step, which are distributed over the threads. */
EXEC_FN void exec_note_brief(EXEC *x, const struct exec_piece *piece)
{
    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < piece->step->noperands; i += exec_nthreads(x)) {
        x->used_recvs |=
            !gpuring_ref_own(piece->operands[i]) ? UINT64_C(1) << piece->operands[i] : 0;
    }
    BLOCK_ROLLED
    for (uint32_t i = exec_thread(x); i < piece->step->nsends; i += exec_nthreads(x)) {
        x->used_sends |= UINT64_C(1) << piece->sends[i];
    }
}

/* Remove the lowest bit from the set, and return its number. */
BLOCK_FN uint32_t block_take_bit(uint64_t *set)
{
    uint64_t lowest = *set & -*set;

    *set -= lowest;
    return BLOCK_ONES(lowest - 1);
}

EXEC_FN void block_brief_end(EXEC *x)
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
