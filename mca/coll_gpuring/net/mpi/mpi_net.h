/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internals of the net `mpi`: its links (mpi_net.c), their messages (mpi_messages.c), and their end
 * after a failure (settle.c).
 */
#ifndef GPURING_NET_MPI_NET_H
#define GPURING_NET_MPI_NET_H

#include "mca/coll_gpuring/net/base.h"

#define TAGS        5 /* per end */
#define NETS        8 /* per track, at most */
#define TAG_CONTROL 3
#define TAG_WANTED  4

/* The reason for which the sender has given up, in the byte order that AllGather 1 compares. */
struct control_message {
    struct gpuring_message message;
    int32_t status;
};

/* The messages of one protocol, by step modulo nslots. */
struct ring {
    struct gpuring_message *messages;
    uint64_t started; /* receiving: receives were posted for the steps before it */
    uint64_t begun;   /* receiving: steps that had arrived when the receives were last withdrawn */
    uint64_t window;  /* sending: bytes of the present window */
};

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    int peer;          /* rank; -1 before the link is connected */
    int32_t peer_tags; /* index of the peer's tags */
    bool left;         /* post no further chunks and receives */
    bool ended;        /* the peer has reported that it has given up */
    bool empty[2];     /* settling: nothing is left on tag 0, and on TAG_WANTED */
    struct ring ring[GPURING_PROTOCOL_COUNT];
    struct control_message in, abort;
    unsigned looks; /* since the receives were last withdrawn */
    bool any;       /* the lane accesses host memory and may want chunks */
    /* Sending: the empty messages of steps, by step modulo nslots. Receiving: [0] has the chunk
     * that the lane wants. NULL unless `any`. */
    struct gpuring_message *wanted;
    uint64_t want; /* receiving: 1 + the last step whose chunk was wanted */
};

struct gpuring_net {
    struct gpuring_net_base base;
    const struct gpuring_message_ops *messages;
    struct ompi_communicator_t *comm;
    int rank, track, number, lowest_tag;
    struct gpuring_net_devices devices; /* none: MPI chooses them */
    uint64_t completed; /* messages; atomic, because MPI completes them in any thread */
    uint64_t seen;      /* the value of `completed` at the last call of mpi_changed */
    bool held;          /* MPI may still access a message that was not freed */
};

static inline struct gpuring_net *net_of(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

static inline int32_t own_tags(const struct gpuring_net_link *link)
{
    return (int32_t) (uint32_t) link->base.id; /* the index in the net's table */
}

/* mpi_messages.c. start returns 0 or the link's status. If the message fails, the link fails. */
int gpuring_mpi_net_start(struct gpuring_net_link *link, unsigned which,
                          struct gpuring_message *message);
/* Return 0, GPURING_ERR_NET, or GPURING_AGAIN while the message is in flight. A receive that MPI
 * has cancelled after the end of an earlier operation is posted again. */
int gpuring_mpi_net_finish(struct gpuring_net_link *link, struct gpuring_message *message);
/* Return true if the message has completed. If it has failed, the link fails. */
bool gpuring_mpi_net_finished(struct gpuring_net_link *link, struct gpuring_message *message);
void gpuring_mpi_net_fail(struct gpuring_net_link *link, int status, const char *why);
/* Take the user's memory back from MPI. This fails if the chunk has begun to arrive. */
void gpuring_mpi_net_cancel_wanted(struct gpuring_net_link *link);

/* settle.c: link_abort and link_settle of net.h. */
void gpuring_mpi_net_abort(struct gpuring_net_link *link, int status);
int gpuring_mpi_net_settle(struct gpuring_net_link *link, bool late);

#endif
