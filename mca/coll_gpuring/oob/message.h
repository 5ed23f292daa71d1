/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Point-to-point messages of the component over MPI's own messaging layer, below the communicator's
 * collectives and apart from the user's messages.
 */
#ifndef GPURING_OOB_MESSAGE_H
#define GPURING_OOB_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/compat.h"

/*
 * Open MPI's collectives use the tags from -10 downwards (ompi/mca/coll/base/coll_tags.h), -1 is
 * MPI_ANY_TAG; wildcard receives of users match no negative tag.
 */
enum gpuring_message_tag {
    GPURING_TAG_EXCHANGE = -9,
    GPURING_TAG_LETTER = -8,
    GPURING_TAG_STAGED = -7,      /* stage/agree.h: of blocking calls */
    GPURING_TAG_NONBLOCKING = -6, /* .. of non-blocking ones */
    GPURING_TAG_NOTICE = -5,      /* stage/notice_mail.h, on MPI_COMM_WORLD alone */
    /* As STAGED and NONBLOCKING, of calls between groups: their group's own communicator, whose
     * calls Open MPI makes for them at times of its own, agrees on these by the former two. */
    GPURING_TAG_GROUP_STAGED = -4,
    GPURING_TAG_GROUP_NONBLOCKING = -3,
};

/*
 * One for each persistent call of a communicator, as they may be started in any order: the lowest
 * tags that 24 bits hold, which some transports have for them. Open MPI's own non-blocking calls
 * come down there, by one each, after millions.
 */
#define GPURING_TAG_PERSISTENT(number) (-(1 << 23) + 1 + (int) ((number) &0xfffff))

/* Start a message. 0, or GPURING_ERR_NET with a log line. */
int gpuring_message_send(struct ompi_communicator_t *comm, const void *data, size_t bytes, int to,
                         int tag, ompi_request_t **request);
int gpuring_message_receive(struct ompi_communicator_t *comm, void *data, size_t bytes, int from,
                            int tag, ompi_request_t **request);

/*
 * Free a completed request and set it to NULL: 0, or GPURING_ERR_NET with a log line; *bytes (may
 * be NULL): how many came. GPURING_AGAIN: not complete. NULL requests are complete.
 */
int gpuring_message_finish(ompi_request_t **request, size_t *bytes);

/* The same, whatever came of it; false: not complete. */
bool gpuring_message_drop(ompi_request_t **request);

/* Give a request up, complete or not; false if the network may still use its memory. */
bool gpuring_message_cancel(ompi_request_t **request);

#endif
