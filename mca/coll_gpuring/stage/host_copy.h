/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One buffer of a staged call, and its bounce buffer. The bounce buffer is host memory with the
 * same bytes at the same offsets, so counts, datatypes and displacements keep their meaning. It has
 * the alignment of the user's buffer, up to 64 bytes. Only bytes that the datatypes touch are
 * copied.
 *
 * Functions return 0 or a gpuring_status, and log nothing unless stated. Threads: any, but only one
 * at a time for each buffer.
 */
#ifndef GPURING_STAGE_HOST_COPY_H
#define GPURING_STAGE_HOST_COPY_H

#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/stage/part.h"

#define GPURING_POISON 0xff /* bytes that replace data that could not be copied: NaN, or -1 */

struct gpuring_stage_bounce;
struct gpuring_stream;

struct gpuring_stage_buffer {
    const char *user;
    const struct gpuring_part *in, *out; /* blocks that the call reads and writes, which may
                                            overlap; NULL: none */
    const void *on_gpu;                  /* one byte of these that is on a GPU, or NULL */

    /* Passed to the previous module instead of `user`: `user`, or an address in `bounce`. */
    const char *address;
    struct gpuring_stage_bounce *bounce;
    struct gpuring_runs in_runs, out_runs;
};

/* Initialise a buffer, whose parts must remain valid until it has been reserved. Returns true if it
 * is on a GPU. This allocates nothing. */
bool gpuring_stage_buffer_init(struct gpuring_stage_buffer *buffer, const void *user,
                               const struct gpuring_part *in, const struct gpuring_part *out);

/* If the buffer is on a GPU, get its bounce buffer and set `address`. GPURING_ERR_NOMEM: `*lacking`
 * bytes of host memory could not be allocated. The buffer must be released even so. */
int gpuring_stage_buffer_reserve(struct gpuring_stage_buffer *buffer, size_t *lacking);

/* Start to copy the part `in` to the bounce buffer, or the part `out` from it. Do nothing if the
 * buffer is not on a GPU. The caller waits for the stream, also after an error. */
int gpuring_stage_buffer_copy_in(const struct gpuring_stage_buffer *buffer,
                                 struct gpuring_stream *stream);
int gpuring_stage_buffer_copy_out(const struct gpuring_stage_buffer *buffer,
                                  struct gpuring_stream *stream);

/* Fill the part `in` of the bounce buffer with GPURING_POISON. */
void gpuring_stage_buffer_poison(const struct gpuring_stage_buffer *buffer);

/* Return the bounce buffer to the pool. No copy may be running. A zeroed buffer may be released. */
void gpuring_stage_buffer_release(struct gpuring_stage_buffer *buffer);

#endif
