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
    size_t count;
    struct ompi_datatype_t *type;
    size_t bytes;    /* of the message, packed */
    const void *gpu; /* a byte of it that is on a GPU; NULL: in host memory */

    /* On a GPU: */
    struct gpuring_runs element; /* of the user's buffer, in the order of the message */
    size_t size;                 /* bytes of an element */
    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream; /* while copies run */
};

/* Is the buffer on a GPU? Nothing has to be released. */
bool gpuring_p2p_message_find(struct gpuring_p2p_message *message, const void *user, size_t count,
                              struct ompi_datatype_t *type);

/* Of one on a GPU: which bytes of the buffer; and the bounce buffer, unless it has one. 0 or
 * GPURING_ERR_NOMEM (logged). From here on it has to be released. */
int gpuring_p2p_message_describe(struct gpuring_p2p_message *message);
int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message);

/* Its bytes on a GPU, if they follow one another; NULL: they do not, or are in host memory. */
const char *gpuring_p2p_message_contiguous(const struct gpuring_p2p_message *message);

/* Host memory for all of its bytes, in their order: the bounce buffer, or the user's; NULL: the
 * user's has gaps. */
char *gpuring_p2p_message_landing(const struct gpuring_p2p_message *message);

/* Pack the first bytes of a message in host memory, or unpack them. 0 or GPURING_ERR_IO. */
int gpuring_p2p_message_convert(const struct gpuring_p2p_message *message, void *packed,
                                size_t bytes, bool pack);

/* Start to copy the first bytes of a message (`bytes` or all) in or out. An error is logged, and no
 * copy runs any more. */
int gpuring_p2p_message_start(struct gpuring_p2p_message *message, size_t bytes, bool in);

/* Is the copy done? 0; GPURING_AGAIN; or an error (logged). Wait: until it is, while others'
 * messages move on. */
int gpuring_p2p_message_poll(struct gpuring_p2p_message *message);
int gpuring_p2p_message_wait(struct gpuring_p2p_message *message);

/* Log that a copy of a message has failed; at full level once. */
void gpuring_p2p_message_copy_failed(size_t bytes, int status);

/* Only while no copy runs. */
void gpuring_p2p_message_release(struct gpuring_p2p_message *message);

#endif
