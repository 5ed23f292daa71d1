/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages between two ranks of a communicator, as the wire-up and the net `mpi` use them.
 * oob/oob_message.c implements them with MPI's point-to-point layer; tests have implementations of
 * their own. Messages with the same sender, receiver and tag are received in the order in which
 * they were sent. No function blocks.
 */
#ifndef GPURING_UTIL_MESSAGE_H
#define GPURING_UTIL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Must be incremented whenever a message between ranks or the layout of a FIFO changes. */
#define GPURING_WIRE_VERSION 36

/*
 * The tracks of a communicator (serve/tracks.h) are numbered from 1 to GPURING_TRACKS, and each has
 * separate tags. 0 means the communicator without a track. The two lowest tags for each of them
 * belong to its out-of-band messages (oob/oob.h), and the tags after these to the net `mpi`.
 */
#define GPURING_TRACKS   32
#define GPURING_OOB_TAGS (2 * (GPURING_TRACKS + 1))

/* Open MPI keeps the negative tags from this one up (gpuring_compat_recycle_tags). */
#define GPURING_TAGS_OF_MPI(lowest) ((lowest) / 8)

struct ompi_communicator_t;
struct ompi_request_t;

struct gpuring_message {
    int peer;
    bool sent;        /* true: this rank sends it; false: this rank receives it */
    bool synchronous; /* sent: it is complete only when the peer receives it */
    bool withdrawn;   /* a receive: `withdraw` has returned false, so it may yet be cancelled */
    int tag;          /* net `mpi` only: the tag with which a receive is started again */
    void *data;
    size_t bytes;                   /* of a receive: the room, then the number of bytes received */
    struct ompi_request_t *request; /* NULL: not started, or complete */
    struct ompi_communicator_t *comm;
    /* A counter that is incremented when the message completes, unless it is a send that is
     * complete when it has started. Completions in another thread at that moment may not be
     * counted. NULL: none. */
    uint64_t *completed;
};

struct gpuring_message_ops {
    /* 0 or GPURING_ERR_NET (logged). */
    int (*start)(struct ompi_communicator_t *comm, int tag, struct gpuring_message *message);

    /* Return GPURING_AGAIN while the message is in flight. When it is complete, return 0 or
     * GPURING_ERR_NET (logged). A message longer than the room also returns 0, with bytes ==
     * SIZE_MAX. A receive that was cancelled after `withdraw` had returned false returns
     * GPURING_AGAIN, with request == NULL. */
    int (*finish)(struct gpuring_message *message);

    /* Cancel the message. Returns false if the network may still use its memory. */
    bool (*cancel)(struct gpuring_message *message);

    /* Cancel a receive unless it has received a message, or has begun to. Returns true if it was
     * cancelled. Otherwise it may yet be cancelled, because some networks do this later. Net `mpi`
     * only. */
    bool (*withdraw)(struct gpuring_message *message);

    /* Progress all messages of the process. The net `mpi` calls it without its gate. */
    void (*progress)(void);

    /* Return the lowest tag that a message may have. It is negative. Only coll/hcoll also uses tags
     * near it (coll_tags.h). */
    int (*lowest_tag)(void);
};

#endif
