/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data phase of LL in a block of threads: a part of block.h. */
#ifndef GPURING_BLOCK_LL_H
#define GPURING_BLOCK_LL_H

/* A unit of data of LL: 8 bytes (2 lines), or one element of 16 (4 lines). */
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

/* The place of unit u of a thread whose first unit is at `at`. Neighbouring threads have
 * neighbouring units. */
EXEC_FN uint64_t block_unit_at(const EXEC *x, uint64_t at, uint32_t u)
{
    return at + u * 8 * block_unit_words(x) * exec_nthreads(x);
}

/* Return nonzero if the unit lies beyond the chunk's end, which a thread's first one never does. */
EXEC_FN int block_unit_beyond(const EXEC *x, const struct exec_piece *piece, uint64_t at,
                              uint32_t u)
{
    return u > 0 && block_unit_at(x, at, u) >= piece->bytes;
}

/* Bytes of data in the unit that begins at `at`. */
EXEC_FN uint64_t block_unit_bytes(const EXEC *x, const struct exec_piece *piece, uint64_t at)
{
    uint64_t unit = 8 * block_unit_words(x), left = piece->bytes - at;

    return left < unit ? left : unit;
}

EXEC_FN void block_units_load(const EXEC *x, const struct exec_piece *piece, uint32_t index,
                              uint64_t at, struct block_unit *units)
{
    BLOCK_UNROLL
    for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
        if (!block_unit_beyond(x, piece, at, u)) {
            block_unit_load(x, exec_operand(x, piece, index) + 2 * block_unit_at(x, at, u),
                            &units[u]);
        }
    }
}

EXEC_FN int block_units_ready(const EXEC *x, const struct exec_piece *piece, uint32_t flag,
                              uint64_t at, const struct block_unit *units)
{
    int ready = 1;

    BLOCK_UNROLL
    for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
        if (!block_unit_beyond(x, piece, at, u)) {
            ready &= block_unit_ready(x, &units[u], flag, piece->bytes - block_unit_at(x, at, u));
        }
    }
    return ready;
}

/* Receive this thread's units of an operand, which were loaded once. Return 0 if they are missing
 * when patience is over. */
EXEC_FN int block_units_receive(EXEC *x, const struct exec_piece *piece, uint32_t index,
                                uint64_t at, struct block_unit *units, struct exec_pack *values)
{
    uint32_t flag = (uint32_t) (x->lane->recvs[piece->operands[index]].step + 1);

    while (!block_units_ready(x, piece, flag, at, units)) {
        if (!exec_poll(x)) {
            exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[index]);
            return 0;
        }
        block_units_load(x, piece, index, at, units);
    }
    BLOCK_UNROLL
    for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
        values[u] = block_unit_data(&units[u]);
    }
    return 1;
}

/* Load this thread's units of an operand in this rank's own memory. */
EXEC_FN void block_units_input(const EXEC *x, const struct exec_piece *piece, uint32_t index,
                               uint64_t at, struct exec_pack *values)
{
    BLOCK_UNROLL
    for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
        uint64_t place = block_unit_at(x, at, u);
        const struct exec_pack zero = {{0, 0}};

        values[u] = block_unit_beyond(x, piece, at, u)
                        ? zero
                        : block_load(exec_operand(x, piece, index) + place,
                                     block_unit_bytes(x, piece, place), 0);
    }
}

/* Fold this thread's units of all operands, with a few loads in flight. Return 0 if an operand is
 * missing when patience is over. */
EXEC_FN int block_units_gather(EXEC *x, const struct exec_piece *piece, uint64_t at,
                               struct exec_pack *sums)
{
    for (uint32_t group = 0; group < piece->step->noperands; group += BLOCK_OPERANDS) {
        struct block_unit units[BLOCK_OPERANDS][BLOCK_UNITS] = {0};

        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            uint32_t i = group + k;

            if (i < piece->step->noperands && !gpuring_ref_own(piece->operands[i])) {
                block_units_load(x, piece, i, at, units[k]);
            }
        }
        BLOCK_UNROLL
        for (uint32_t k = 0; k < BLOCK_OPERANDS; k++) {
            uint32_t i = group + k;
            struct exec_pack values[BLOCK_UNITS];

            if (i >= piece->step->noperands) {
                continue;
            }
            if (gpuring_ref_own(piece->operands[i])) {
                block_units_input(x, piece, i, at, values);
            } else if (!block_units_receive(x, piece, i, at, units[k], values)) {
                return 0;
            }
            BLOCK_UNROLL
            for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
                if (!block_unit_beyond(x, piece, at, u)) {
                    sums[u] = i == 0 ? values[u] : exec_fold(x, sums[u], values[u]);
                }
            }
        }
    }
    return 1;
}

/* Store this thread's units in the output and in all destinations. */
EXEC_FN void block_units_put(const EXEC *x, const struct exec_piece *piece, uint64_t at,
                             const struct exec_pack *sums)
{
    uint8_t *output = exec_output(x, piece);

    BLOCK_UNROLL
    for (uint32_t u = 0; output != NULL && u < BLOCK_UNITS; u++) {
        uint64_t place = block_unit_at(x, at, u);

        if (!block_unit_beyond(x, piece, at, u)) {
            block_store(output + place, sums[u], block_unit_bytes(x, piece, place));
        }
    }
    for (uint32_t i = 0; i < piece->step->nsends; i++) {
        uint8_t *slot = exec_send_slot(x, piece, i);
        uint32_t flag = (uint32_t) (x->lane->sends[piece->sends[i]].step + 1);

        BLOCK_UNROLL
        for (uint32_t u = 0; u < BLOCK_UNITS; u++) {
            if (!block_unit_beyond(x, piece, at, u)) {
                block_unit_send(x, slot + 2 * block_unit_at(x, at, u), sums[u], flag);
            }
        }
    }
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

/* Bytes of the units of all threads. */
EXEC_FN uint64_t block_ll_batch(const EXEC *x)
{
    return block_unit_at(x, 0, BLOCK_UNITS);
}

EXEC_FN int block_ll(EXEC *x, const struct exec_piece *piece)
{
    if (x->bytes == 0 && !x->brief) {
        block_ll_clean(x, piece);
    }
    for (; x->bytes < piece->bytes; x->bytes += block_ll_batch(x)) {
        uint64_t at = x->bytes + 8 * block_unit_words(x) * exec_thread(x);
        int active = at < piece->bytes;
        struct exec_pack sums[BLOCK_UNITS] = {{{0, 0}}};

        exec_progress(x);
        if (!exec_all(x, !active || block_units_gather(x, piece, at, sums))) {
            return EXEC_WAIT;
        }
        if (active) {
            block_units_put(x, piece, at, sums);
        }
    }
    return EXEC_OK;
}

#endif
