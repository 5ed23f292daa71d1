/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The host executor of LL and LL128, the protocols with flagged lines. The includer defines
 * EXEC_PROTOCOL before this header, and the functions that are only declared here after it.
 */
#ifndef GPURING_EXEC_HOST_LINES_H
#define GPURING_EXEC_HOST_LINES_H

#include "kernels/exec_host.h"

/* Unpack `bytes` bytes from lines with the flag `flag` as they arrive. Return EXEC_OK, or EXEC_WAIT
 * if patience is over. May write up to 3 bytes more. */
EXEC_FN int lines_unpack(struct exec *x, const uint8_t *lines, uint64_t flag, uint8_t *to,
                         uint64_t bytes);

/* lines_begin prepares the slot of a connection for a piece of `bytes` bytes. lines_pack packs some
 * of these bytes into lines. */
EXEC_FN void lines_begin(const struct gpuring_fifo_end *send, uint64_t bytes);
EXEC_FN void lines_pack(const struct exec *x, uint8_t *lines, uint64_t flag, const uint8_t *from,
                        uint64_t bytes);

/* Bytes that are unpacked in one step, so that they stay in the L1 cache. This is a multiple of the
 * data of every kind of line. */
#define BLOCK_BYTES 3360
_Static_assert(BLOCK_BYTES % 120 == 0 && BLOCK_BYTES % 112 == 0 && BLOCK_BYTES % 96 == 0 &&
                   BLOCK_BYTES % 32 == 0,
               "blocks hold whole lines and whole elements");

/* Wait for a block of a received operand, and unpack it to `to`. */
EXEC_FN int unpack_lines(struct exec *x, const struct exec_piece *piece, uint32_t index,
                         uint64_t bytes, uint8_t *to)
{
    const struct gpuring_fifo_end *recv = &x->lane->recvs[piece->operands[index]];
    const uint8_t *lines = exec_slot(x, recv, piece->bytes) + exec_slot_used(x, x->bytes);
    int result;

    if (!gpuring_fifo_is_short(EXEC_PROTOCOL, recv, piece->bytes)) {
        __builtin_prefetch(recv->slots +
                           ((recv->step + 1) & (recv->nslots - 1)) * recv->slot_bytes);
    }
    result = lines_unpack(x, lines, recv->step + 1, to, bytes);
    if (result != EXEC_OK) {
        exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[index]);
    }
    return result;
}

EXEC_FN void host_send(const struct exec *x, const struct exec_piece *piece,
                       const struct gpuring_fifo_end *send, uint64_t at, const uint8_t *value,
                       uint64_t bytes)
{
    if (at == 0) {
        lines_begin(send, piece->bytes);
    }
    lines_pack(x, exec_slot(x, send, piece->bytes) + exec_slot_used(x, at), send->step + 1, value,
               bytes);
}

EXEC_FN void host_store(const struct exec *x, uint8_t *output, const uint8_t *value, uint64_t bytes)
{
    (void) x;
    if (value != output) {
        memcpy(output, value, bytes);
    }
}

/* Get one block of an operand from the user's buffers or from a connection. */
EXEC_FN int operand_lines(struct exec *x, const struct exec_piece *piece, uint32_t index,
                          uint64_t bytes, uint8_t *scratch, const uint8_t **value)
{
    if (gpuring_ref_own(piece->operands[index])) {
        *value = exec_operand(x, piece, index) + x->bytes;
        return EXEC_OK;
    }
    *value = scratch;
    return unpack_lines(x, piece, index, bytes, scratch);
}

/*
 * Process block by block. Nothing is written before all operands of a block have arrived, so a lane
 * that gives up can start the block again, also in place. x->bytes counts the finished bytes.
 */
EXEC_FN int exec_data(struct exec *x, const struct exec_piece *piece)
{
    uint8_t scratch[2][BLOCK_BYTES + 4] __attribute__((aligned(64)));
    uint32_t last = piece->step->noperands - 1u;

    while (x->bytes < piece->bytes) {
        uint64_t rest = piece->bytes - x->bytes;
        uint64_t bytes = rest < BLOCK_BYTES ? rest : BLOCK_BYTES;
        uint8_t *output = exec_output(x, piece);
        const uint8_t *value, *operand;

        output = output != NULL ? output + x->bytes : NULL;
        if (operand_lines(x, piece, 0, bytes, scratch[0], &value) != EXEC_OK) {
            return EXEC_WAIT;
        }
        for (uint32_t i = 1; i <= last; i++) {
            uint8_t *to = i == last && output != NULL ? output : scratch[0];

            if (operand_lines(x, piece, i, bytes, scratch[1], &operand) != EXEC_OK) {
                return EXEC_WAIT;
            }
            x->fold(to, value, operand, bytes >> x->type_shift);
            value = to;
        }
        for (uint32_t i = 0; i < piece->step->nsends; i++) {
            host_send(x, piece, &x->lane->sends[piece->sends[i]], x->bytes, value, bytes);
        }
        if (output != NULL) {
            host_store(x, output, value, bytes);
        }
        x->bytes += bytes;
    }
    return EXEC_OK;
}

/* Run a step that only receives into the output. */
EXEC_FN int lines_receive(struct exec *x, const struct exec_piece *piece, uint64_t used)
{
    uint32_t ref = piece->operands[0];
    int result = host_wait_recv(x, piece, ref, used);

    if (result == EXEC_OK) {
        result = unpack_lines(x, piece, 0, piece->bytes, exec_output(x, piece));
    }
    if (result == EXEC_OK) {
        exec_post_recv(x, &x->lane->recvs[ref]);
    }
    return result;
}

/* Run a step. Most steps have one operand, and need neither blocks nor scratch memory. */
EXEC_FN int exec_run(struct exec *x, const struct exec_piece *piece)
{
    const struct gpuring_step *step = piece->step;
    uint64_t used = exec_slot_used(x, piece->bytes);
    int result;

    if (step->noperands == 1 && gpuring_ref_own(piece->operands[0])) {
        return host_run_own(x, piece, used);
    }
    if (step->noperands == 1 && step->nsends == 0 && (step->flags & GPURING_STEP_STORE) &&
        piece->bytes % 4 == 0) { /* LL unpacks whole words */
        return lines_receive(x, piece, used);
    }
    result = host_wait(x, piece, used);
    if (result == EXEC_OK) {
        result = exec_data(x, piece);
    }
    if (result == EXEC_OK) {
        host_post(x, piece, used);
    }
    return result;
}

EXEC_FN int lines_run(struct gpuring_work *work, const struct gpuring_type_info *type,
                      gpuring_fold_fn fold)
{
    struct exec x;

    exec_prepare(&x, work, type, fold);
    return lanes_run(&x, work);
}

#endif
