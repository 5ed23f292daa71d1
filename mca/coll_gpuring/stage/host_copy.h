/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One buffer of a staged call, and its bounce buffer: host memory that has the same bytes at the
 * same offsets (modulo 64 also at the same addresses), so that counts, datatypes and displacements
 * keep their meaning. Only bytes that the datatypes touch are copied.
 *
 * Functions return 0 or a gpuring_status, and log nothing unless stated. Threads: any, one for each
 * buffer.
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
    struct gpuring_part in, out; /* what the call reads and writes; may overlap */
    const void *on_gpu;          /* a byte of the call that is on a GPU; NULL: none is */

    const char
        *address; /* what replaces `user` in the call: `user` itself, or in a bounce buffer */
    struct gpuring_stage_bounce *bounce;
    struct gpuring_runs in_runs, out_runs;
};

/* Set on_gpu from the user's buffer and its parts. Nothing has to be released yet. */
bool gpuring_stage_buffer_find(struct gpuring_stage_buffer *buffer);

/* Get the bounce buffer of one that is on a GPU, and set `address`. GPURING_ERR_NOMEM: there are no
 * `*lacking` bytes of host memory; the buffer still has to be released. */
int gpuring_stage_buffer_reserve(struct gpuring_stage_buffer *buffer, size_t *lacking);

/* Start to copy what the call reads into the bounce buffer, or what it wrote out of it. Nothing is
 * copied of a buffer that is not on a GPU. The caller waits for the stream, also after an error. */
int gpuring_stage_buffer_copy_in(const struct gpuring_stage_buffer *buffer,
                                 struct gpuring_stream *stream);
int gpuring_stage_buffer_copy_out(const struct gpuring_stage_buffer *buffer,
                                  struct gpuring_stream *stream);

/* Fill what the call reads from the bounce buffer with GPURING_POISON. */
void gpuring_stage_buffer_poison(const struct gpuring_stage_buffer *buffer);

/* Give back the bounce buffer, while no copy runs. A zeroed buffer may be released. */
void gpuring_stage_buffer_release(struct gpuring_stage_buffer *buffer);

#endif
