/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The user's side of one message: the user's buffer on a GPU, the bounce buffer, and the copies
 * between them. A buffer in host memory is passed to the PML itself. Functions return 0 or a
 * gpuring_status.
 */
#ifndef GPURING_P2P_P2P_MESSAGE_H
#define GPURING_P2P_P2P_MESSAGE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/stage/part.h"

struct gpuring_stage_bounce;
struct gpuring_stream;

struct gpuring_p2p_message {
    const char *user;
    size_t count;
    struct ompi_datatype_t *type;
    size_t bytes;    /* of the message, packed */
    const void *gpu; /* address of a byte on a GPU; NULL if in host memory */

    /* Valid on a GPU only: */
    struct gpuring_runs element; /* of the user's buffer, in the order of the message */
    size_t size;                 /* bytes of it; those of the message if it has no gaps */
    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream; /* while copies run */
};

/* Return true if the buffer is on a GPU. The message must be released in this case. */
static inline bool gpuring_p2p_message_find(struct gpuring_p2p_message *message, const void *user,
                                            size_t count, struct ompi_datatype_t *type)
{
    struct gpuring_part part = gpuring_part_elements(user, count, type);

    *message = (struct gpuring_p2p_message){
        .user = user,
        .count = count,
        .type = type,
        .bytes = count * type->super.size,
        .size = count * type->super.size,
    };
    if (!gpuring_part_contiguous(&part)) {
        part.count = 1;
        message->size = type->super.size;
    }
    /* Without memory for it, the element is empty, and gpuring_p2p_message_reserve fails. */
    (void) gpuring_part_find_runs(&part, &message->gpu, &message->element);
    return message->gpu != NULL;
}

/* Allocate the bounce buffer of a buffer on a GPU, unless the message has one. touched: see
 * gpuring_stage_bounce_get. Returns 0 or GPURING_ERR_NOMEM (logged). */
int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message, size_t touched);

/* Return the bytes on a GPU if they are contiguous. NULL if they have gaps or are in host memory.
 */
const char *gpuring_p2p_message_contiguous(const struct gpuring_p2p_message *message);

/* Return host memory for the packed message: the bounce buffer, or the user's buffer. NULL if the
 * user's buffer is in host memory and has gaps. */
char *gpuring_p2p_message_landing(const struct gpuring_p2p_message *message);

/* Pack the first bytes of a message in host memory, or unpack them. Returns 0 or GPURING_ERR_IO. */
int gpuring_p2p_message_convert(const struct gpuring_p2p_message *message, void *packed,
                                size_t bytes, bool pack);

/* Copy the first min(bytes, all) bytes of a message in or out. how: see copy_runs in device.h.
 * After an error, which is logged, or with GPURING_COPY_WAIT, no copy is running. */
int gpuring_p2p_message_copy(struct gpuring_p2p_message *message, size_t bytes, unsigned how);

/* Poll the copy. Returns 0 when it is done, GPURING_AGAIN, or an error (logged). */
int gpuring_p2p_message_poll(struct gpuring_p2p_message *message);

/* Copy the whole message to its bounce buffer: allocate the buffer if this has not been done, start
 * the copy, and wait for its end if `wait`. */
int gpuring_p2p_message_copy_in(struct gpuring_p2p_message *message, bool wait);

/* Log that a copy of a message has failed. Only the first failure is logged as an error. */
void gpuring_p2p_message_copy_failed(size_t bytes, int status);

/* Release the message. No copy may be running. */
void gpuring_p2p_message_release(struct gpuring_p2p_message *message);

#endif
