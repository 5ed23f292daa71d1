/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The host executor of LL128. */
#define EXEC_PROTOCOL GPURING_PROTOCOL_LL128
#include "kernels/exec_host_lines.h"

/* Unpack lines of LL128: up to 120 bytes of whole elements, followed by the flag, which the host
 * writes last. */
EXEC_FN int lines_unpack(struct exec *x, const uint8_t *lines, uint64_t flag, uint8_t *to,
                         uint64_t bytes)
{
    uint64_t line_bytes = x->line_bytes;

    for (uint64_t at = 0; at < bytes; at += line_bytes, lines += 128) {
        /* Acquire: pairs with the release in lines_pack. */
        while (exec_load_acquire((const uint64_t *) (const void *) (lines + 120)) != flag) {
            if (!exec_poll(x)) {
                return EXEC_WAIT;
            }
        }
        memcpy(to + at, lines, bytes - at < line_bytes ? bytes - at : line_bytes);
    }
    return EXEC_OK;
}

EXEC_FN void lines_begin(const struct gpuring_fifo_end *send, uint64_t bytes)
{
    (void) send;
    (void) bytes;
}

EXEC_FN void lines_pack(const struct exec *x, uint8_t *lines, uint64_t flag, const uint8_t *from,
                        uint64_t bytes)
{
    uint64_t line_bytes = x->line_bytes;

    for (uint64_t at = 0; at < bytes; at += line_bytes, lines += 128) {
        memcpy(lines, from + at, bytes - at < line_bytes ? bytes - at : line_bytes);
        exec_store_release((uint64_t *) (void *) (lines + 120), flag);
    }
}

int gpuring_run_host_ll128(struct gpuring_work *work, const struct gpuring_type_info *type,
                           gpuring_fold_fn fold)
{
    return lines_run(work, type, fold);
}
