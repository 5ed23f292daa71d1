/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data phase of LL128 in a block of threads: a part of block.h. */
#ifndef GPURING_BLOCK_LL128_H
#define GPURING_BLOCK_LL128_H

/* The packs of one thread in a batch of LL128. */
struct block_lines {
    struct exec_pack packs[BLOCK_LINES][BLOCK_LINE_PACKS];
};

/* A batch: its first byte of data, and the threads that move it. */
struct block_span {
    uint64_t base;
    uint32_t thread, threads;
};

/* Return the first byte of data of this thread's line k in a batch. */
EXEC_FN uint64_t block_line_at(const EXEC *x, const struct block_span *span, int k)
{
    uint64_t groups = span->threads / BLOCK_LINE_THREADS;
    uint64_t line = groups * (uint64_t) k + span->thread / BLOCK_LINE_THREADS;

    return span->base + line * x->line_bytes;
}

/* Return the offset of this thread's pack q in the data of a line. */
EXEC_FN uint64_t block_pack_offset(const EXEC *x, int q)
{
    return 16 * (uint64_t) (exec_thread(x) % BLOCK_LINE_THREADS * BLOCK_LINE_PACKS + (uint32_t) q);
}

/* Return the bytes of data, 0 to 16, in pack q of the line whose data starts at `at`. */
EXEC_FN uint64_t block_pack_bytes(const EXEC *x, const struct exec_piece *piece, uint64_t at, int q)
{
    uint64_t line = x->line_bytes, offset = block_pack_offset(x, q);
    uint64_t left;

    if (at >= piece->bytes) {
        return 0;
    }
    left = piece->bytes - at < line ? piece->bytes - at : line;
    left = left > offset ? left - offset : 0;
    return left < 16 ? left : 16;
}

EXEC_FN void block_lines_input(EXEC *x, const struct block_span *span,
                               const struct exec_piece *piece, const uint8_t *from,
                               struct block_lines *lines)
{
    BLOCK_UNROLL
    for (int k = 0; k < BLOCK_LINES; k++) {
        uint64_t at = block_line_at(x, span, k);

        BLOCK_UNROLL
        for (int q = 0; q < BLOCK_LINE_PACKS; q++) {
            uint64_t bytes = block_pack_bytes(x, piece, at, q);

            if (bytes > 0) {
                lines->packs[k][q] = block_load(from + at + block_pack_offset(x, q), bytes, 0);
            }
        }
    }
}

/* Wait for the flags of all lines of the warp; return 1, or 0 if the warp gives up. */
EXEC_FN int block_lines_wait(EXEC *x, const struct block_span *span, const struct exec_piece *piece,
                             const uint8_t *from, uint64_t flag)
{
    uint64_t line_bytes = x->line_bytes;

    for (;;) {
        int ready = 1;

        BLOCK_UNROLL
        for (int k = 0; k < BLOCK_LINES; k++) {
            uint64_t at = block_line_at(x, span, k);

            ready &= at >= piece->bytes || block_line_ready(x, from + at / line_bytes * 128, flag);
        }
        if (block_warp_all(x, ready)) {
            return 1;
        }
        if (!block_warp_all(x, exec_poll(x))) {
            return 0;
        }
    }
}

/*
 * Receive this thread's share of the lines of an operand. Return 0 if the warp gave up. Load the
 * data after the flags, because a load of both may read the data before the line is stored, and the
 * flag afterwards.
 */
EXEC_FN int block_lines_receive(EXEC *x, const struct block_span *span,
                                const struct exec_piece *piece, uint32_t index,
                                struct block_lines *lines)
{
    uint64_t flag = x->lane->recvs[piece->operands[index]].step + 1;
    const uint8_t *from = exec_operand(x, piece, index);
    uint64_t line_bytes = x->line_bytes;

    if (!block_lines_wait(x, span, piece, from, flag)) {
        exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[index]);
        return 0;
    }
    BLOCK_UNROLL
    for (int k = 0; k < BLOCK_LINES; k++) {
        uint64_t at = block_line_at(x, span, k);

        if (at < piece->bytes) {
            block_line_load(x, from + at / line_bytes * 128, lines->packs[k]);
        }
    }
    return 1;
}

EXEC_FN int block_lines_gather(EXEC *x, const struct block_span *span,
                               const struct exec_piece *piece, struct block_lines *sum)
{
    for (uint32_t i = 0; i < piece->step->noperands; i++) {
        struct block_lines operand = {0};

        if (gpuring_ref_own(piece->operands[i])) {
            block_lines_input(x, span, piece, exec_operand(x, piece, i), &operand);
        } else if (!block_lines_receive(x, span, piece, i, &operand)) {
            return 0;
        }
        BLOCK_UNROLL
        for (int k = 0; k < BLOCK_LINES; k++) {
            BLOCK_UNROLL
            for (int q = 0; q < BLOCK_LINE_PACKS; q++) {
                sum->packs[k][q] = i == 0 ? operand.packs[k][q]
                                          : exec_fold(x, sum->packs[k][q], operand.packs[k][q]);
            }
        }
    }
    return 1;
}

/* Store this thread's packs of a batch in the output, if the step stores. */
EXEC_FN void block_lines_store(const EXEC *x, const struct block_span *span,
                               const struct exec_piece *piece, const struct block_lines *lines)
{
    uint8_t *output = exec_output(x, piece);

    BLOCK_UNROLL
    for (int k = 0; k < BLOCK_LINES; k++) {
        uint64_t at = block_line_at(x, span, k);

        BLOCK_UNROLL
        for (int q = 0; output != NULL && q < BLOCK_LINE_PACKS; q++) {
            block_store(output + at + block_pack_offset(x, q), lines->packs[k][q],
                        block_pack_bytes(x, piece, at, q));
        }
    }
}

/* Send this thread's share of the lines of a batch to destination i. */
EXEC_FN void block_lines_send(EXEC *x, const struct block_span *span,
                              const struct exec_piece *piece, uint32_t i,
                              const struct block_lines *lines)
{
    uint64_t flag = x->lane->sends[piece->sends[i]].step + 1, line_bytes = x->line_bytes;
    uint8_t *to = exec_send_slot(x, piece, i);

    BLOCK_UNROLL
    for (int k = 0; k < BLOCK_LINES; k++) {
        uint64_t at = block_line_at(x, span, k);

        (void) block_warp_all(x, 1); /* the threads of a line store together */
        if (at < piece->bytes) {
            block_line_store(x, to + at / line_bytes * 128, flag, lines->packs[k]);
        }
    }
}

EXEC_FN int block_ll128(EXEC *x, const struct exec_piece *piece)
{
    struct block_span span = {x->bytes, exec_thread(x), exec_nthreads(x)};
    uint64_t batch =
        (uint64_t) BLOCK_LINES * (exec_nthreads(x) / BLOCK_LINE_THREADS) * x->line_bytes;

    for (; x->bytes < piece->bytes; span.base = x->bytes += batch) {
        int idle = block_warp_all(x, block_line_at(x, &span, 0) >= piece->bytes);
        struct block_lines sum = {0};

        exec_progress(x);
        if (!exec_all(x, idle || block_lines_gather(x, &span, piece, &sum))) {
            return EXEC_WAIT;
        }
        if (idle) {
            continue;
        }
        block_lines_store(x, &span, piece, &sum);
        for (uint32_t i = 0; i < piece->step->nsends; i++) {
            block_lines_send(x, &span, piece, i, &sum);
        }
    }
    return EXEC_OK;
}

#endif
