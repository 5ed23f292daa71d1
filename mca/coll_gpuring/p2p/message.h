/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The user's side of one message: its buffer, the bounce buffer and the copies between them; or a
 * buffer in host memory, which the PML itself gets. Functions return 0 or a gpuring_status.
 */
#ifndef GPURING_P2P_MESSAGE_H
#define GPURING_P2P_MESSAGE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/runs.h"

struct gpuring_stage_bounce;
struct gpuring_stream;

struct gpuring_p2p_message {
    const char *user;
    const void *gpu; /* a byte of it that is on a GPU, NULL: in host memory */
    size_t bytes;    /* of the message, packed */

    size_t count; /* in host memory: as the user gave them */
    struct ompi_datatype_t *type;

    struct gpuring_runs element; /* of the user's buffer, in the order of the message */
    size_t size;                 /* bytes of an element */
    ptrdiff_t extent;

    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream; /* while copies run */
};

/* Is the buffer on a GPU? If not, nothing has to be released. */
bool gpuring_p2p_message_find(struct gpuring_p2p_message *message, const void *user, size_t count,
                              struct ompi_datatype_t *type);

/* Which bytes of it. GPURING_ERR_NOMEM (logged): the message holds nothing. */
int gpuring_p2p_message_describe(struct gpuring_p2p_message *message, size_t count,
                                 struct ompi_datatype_t *type);

/* The bounce buffer, unless it has one. Errors likewise. */
int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message);

/* What the PML gets: so many MPI_BYTEs. */
void *gpuring_p2p_message_host(const struct gpuring_p2p_message *message);

/* A message in host memory; it keeps the type. */
struct gpuring_p2p_message gpuring_p2p_message_in_host(const void *user, size_t count,
                                                       struct ompi_datatype_t *type);

/* Its bytes on a GPU, if they follow one another; NULL: they do not, or are in host memory. */
const char *gpuring_p2p_message_contiguous(const struct gpuring_p2p_message *message);

/* Host memory for all of its bytes, in their order: the bounce buffer, or the user's; NULL: the
 * user's has gaps. */
char *gpuring_p2p_message_landing(const struct gpuring_p2p_message *message);

/* The first bytes of a message in host memory with gaps, from and to the user's buffer. */
int gpuring_p2p_message_pack(const struct gpuring_p2p_message *message, void *packed, size_t bytes);
int gpuring_p2p_message_unpack(const struct gpuring_p2p_message *message, const void *packed,
                               size_t bytes);

/* Start to copy a message in, or the first bytes of it out. An error is logged, and no copy runs
 * any more. */
int gpuring_p2p_message_start_in(struct gpuring_p2p_message *message);
int gpuring_p2p_message_start_out(struct gpuring_p2p_message *message, size_t bytes);

/* Is the copy done? 0; GPURING_AGAIN; or an error (logged). Wait: until it is, while others'
 * messages move on. */
int gpuring_p2p_message_poll(struct gpuring_p2p_message *message);
int gpuring_p2p_message_wait(struct gpuring_p2p_message *message);

/* Start, and wait. */
int gpuring_p2p_message_copy_in(struct gpuring_p2p_message *message);
int gpuring_p2p_message_copy_out(struct gpuring_p2p_message *message, size_t bytes);

/* Log that a copy of a message has failed; at full level once. */
void gpuring_p2p_message_copy_failed(size_t bytes, int status);

/* Only while no copy runs. */
void gpuring_p2p_message_release(struct gpuring_p2p_message *message);

#endif
