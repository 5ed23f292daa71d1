/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The user's side of one message: its buffer, the bounce buffer and the copies between them.
 * Functions return 0 or a gpuring_status.
 */
#ifndef GPURING_P2P_MESSAGE_H
#define GPURING_P2P_MESSAGE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/runs.h"

struct gpuring_stage_bounce;
struct gpuring_stream;

struct gpuring_p2p_message {
    const char *user;
    const void *gpu; /* a byte of it that is on a GPU */
    size_t bytes;    /* of the message, packed */

    struct gpuring_runs element; /* of the user's buffer, in the order of the message */
    size_t size;                 /* bytes of an element */
    ptrdiff_t extent;

    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream; /* while copies run */
};

/* Is the buffer on a GPU? If not, nothing has to be released. */
bool gpuring_p2p_message_find(struct gpuring_p2p_message *message, const void *user, size_t count,
                              struct ompi_datatype_t *type);

/* The bounce buffer. GPURING_ERR_NOMEM (logged): the message holds nothing. */
int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message, size_t count,
                                struct ompi_datatype_t *type);

/* What the PML gets: so many MPI_BYTEs. */
void *gpuring_p2p_message_host(const struct gpuring_p2p_message *message);

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

/* Only while no copy runs. */
void gpuring_p2p_message_release(struct gpuring_p2p_message *message);

#endif
