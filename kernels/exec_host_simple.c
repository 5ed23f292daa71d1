/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The host executor of Simple. */
#define EXEC_PROTOCOL GPURING_PROTOCOL_SIMPLE
#include "kernels/exec_host.h"

#include "kernels/copy.h"

/*
 * Calls with more data than this store their output with non-temporal stores when they copy it from
 * a slot or from the input. A normal store loads the line first and evicts another one. Measured
 * with a shared L3 cache of 32 MiB. Vectors with 2 ranks: 8 MiB became slower, and 16 MiB faster.
 * Blocks, input and output together, with 4 ranks: 8 MiB took 0.8 of the time, and 10 MiB 0.7; with
 * 2 ranks there was no difference. The cache size of the processor is not used, because virtual
 * machines report the sum of all caches.
 */
#define CACHED_VECTOR (UINT64_C(12) << 20)
#define CACHED_BLOCKS (UINT64_C(6) << 20)

static int is_apart(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    return a + bytes <= b || b + bytes <= a;
}

EXEC_FN void host_store(const struct exec *x, uint8_t *output, const uint8_t *value, uint64_t bytes)
{
    if (output == value) {
        return;
    }
    if (!is_apart(output, value, bytes)) {
        memmove(output, value, bytes);
    } else if (x->beyond) {
        gpuring_copy_stream(output, value, bytes);
    } else {
        gpuring_copy(output, value, bytes);
    }
}

/* Copy a part of a piece into a slot. Both ends use the same offset in the slot. */
EXEC_FN void host_send(const struct exec *x, const struct exec_piece *piece,
                       const struct gpuring_fifo_end *send, uint64_t at, const uint8_t *value,
                       uint64_t bytes)
{
    (void) x;
    gpuring_copy_to_slot(gpuring_fifo_slot(send) + gpuring_fifo_rotate_offset(send, piece->bytes) +
                             at,
                         value, bytes);
}

static const uint8_t *simple_operand(const struct exec *x, const struct exec_piece *piece,
                                     uint32_t index)
{
    uint32_t ref = piece->operands[index];
    const struct gpuring_fifo_end *recv;

    if (gpuring_ref_own(ref)) {
        return exec_operand(x, piece, index);
    }
    recv = &x->lane->recvs[ref];
    return host_wants(recv, piece->bytes)
               ? recv->head->to
               : gpuring_fifo_slot(recv) + gpuring_fifo_rotate_offset(recv, piece->bytes);
}

/* Compute sums block by block, so that blocks are sent and added from the L1 cache. Copies, and
 * sums of two operands that are only stored, are made in one step. */
EXEC_FN int exec_data(struct exec *x, const struct exec_piece *piece)
{
    uint8_t sum[8192] __attribute__((aligned(64)));
    uint8_t *output = exec_output(x, piece);
    uint32_t last = piece->step->noperands - 1u;
    int simple = last == 0 || (last == 1 && piece->step->nsends == 0 && output != NULL);
    uint64_t block = simple ? piece->bytes : sizeof sum;

    for (uint64_t at = 0; at < piece->bytes; at += block) {
        uint64_t bytes = piece->bytes - at < block ? piece->bytes - at : block;
        const uint8_t *value = simple_operand(x, piece, 0) + at;
        uint8_t *end = output != NULL ? output + at : sum;

        for (uint32_t i = 1; i <= last; i++) {
            uint8_t *to = i == last ? end : sum;

            x->fold(to, value, simple_operand(x, piece, i) + at, bytes >> x->type_shift);
            value = to;
        }
        if (output != NULL) {
            host_store(x, end, value, bytes);
        }
        for (uint32_t i = 0; i < piece->step->nsends; i++) {
            const struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];

            if (host_address(x, piece, send) == NULL) {
                host_send(x, piece, send, at, value, bytes);
            }
        }
    }
    return EXEC_OK;
}

EXEC_FN int exec_run(struct exec *x, const struct exec_piece *piece)
{
    int own = piece->step->noperands == 1 && gpuring_ref_own(piece->operands[0]);
    int result = own ? host_run_own(x, piece, piece->bytes) : host_wait(x, piece, piece->bytes);

    if (result == EXEC_OK && !own) {
        result = exec_data(x, piece); /* does not wait */
        host_post(x, piece, piece->bytes);
    }
    return result;
}

static int has_many(const struct gpuring_blocks *blocks)
{
    return blocks->table != NULL || blocks->stride > 0;
}

/* Return true if the call has more data than the caches hold. In vectors, all lanes count, even if
 * several of them have the same part. For blocks this is an upper bound, because lanes only know
 * their share of the longest block. */
static int is_beyond(const struct gpuring_work *work, uint64_t type_size)
{
    uint64_t blocks = (uint64_t) (has_many(&work->in) ? work->nblocks : 1) +
                      (has_many(&work->out) ? work->nblocks : 1);
    uint64_t bytes = work->count * type_size, parts = 0;

    if (work->has_blocks) { /* lanes of the same part follow each other */
        for (uint32_t i = 0; i < work->nlanes; i++) {
            parts += i == 0 || work->lanes[i].part_begin != work->lanes[i - 1].part_begin;
        }
        return blocks * parts * bytes > CACHED_BLOCKS;
    }
    for (uint32_t i = 0; i < work->nlanes; i++) {
        parts += work->lanes[i].part_end - work->lanes[i].part_begin;
    }
    return bytes * parts > CACHED_VECTOR * work->parts;
}

int gpuring_run_host_simple(struct gpuring_work *work, const struct gpuring_type_info *type,
                            gpuring_fold_fn fold)
{
    struct exec x;
    int status;

    exec_prepare(&x, work, type, fold);
    x.beyond = is_beyond(work, type->size);
    status = lanes_run(&x, work);
    if (x.beyond) { /* before the end of the call is signaled to others */
        gpuring_copy_stream_end();
    }
    return status;
}
