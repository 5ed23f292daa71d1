/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Out-of-band messages between the ranks of a communicator, for the wire-up and for agreements.
 * doc/hacking/wireup.md explains why they are not MPI collectives. No function blocks; the waiting
 * thread calls progress. Only oob_message.c uses Open MPI.
 *
 * A gathering is an allgather: every rank gets a block of equal size from each rank. It uses
 * Bruck's algorithm with log2 n rounds. In each round a rank sends a header and, if there are any,
 * blocks:
 *
 *   round with distance d = 1, 2, 4 ..: send the blocks of ranks me .. me+d-1 to rank me-d,
 *                                       receive those of me+d .. me+2d-1 from rank me+d
 *
 *   blocks   0 .. me-1 | me ..  n-1   n .. n+me-1     what is sent and received is contiguous
 *            (result)  |  own        (ranks 0 .. me-1, copied to the result at the end)
 *
 * A rank that cannot continue sends its failure in the header, without blocks. Every rank that has
 * received a failure does the same. After log2 n rounds each rank has received information from
 * every other rank, so at the end of a gathering all ranks know a failure that existed when it
 * began. Some ranks may already know a later failure. The field `since` of a failure is the
 * gathering at whose end all ranks know it. Therefore all ranks give up after the same gathering,
 * and no rank waits for one that has given up.
 *
 * Connect infos are messages between single ranks. All connect infos are in flight at the same
 * time.
 */
#ifndef GPURING_OOB_OOB_H
#define GPURING_OOB_OOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/util/message.h"

/* Result of a gathering. The block of rank r is at blocks + r * bytes. Allocated by malloc. */
struct gpuring_gathered {
    int nranks; /* 0: nothing, after a failure */
    size_t bytes;
    uint8_t *blocks;
};

static inline void *gpuring_gathered_block(const struct gpuring_gathered *gathered, int rank)
{
    return gathered->blocks + (size_t) rank * gathered->bytes;
}
void gpuring_gathered_clear(struct gpuring_gathered *gathered);

/* ---- Tags of the messages (util/message.h) ---- */

/* From 5.0 on, Open MPI sends internal messages with the tags from -7 down on any communicator
 * (coll_tags.h), so gatherings and connect infos use GPURING_OOB_TAGS. -1 is MPI_ANY_TAG; a user's
 * wildcard receive matches no negative tag. */
#define GPURING_TAG_NOTE (-3) /* on MPI_COMM_WORLD */

/* ---- Gatherings ---- */

struct gpuring_failure {
    uint64_t since; /* number of the gathering at whose end all ranks know it */
    int32_t status; /* a gpuring_status; 0: none */
    int32_t rank;
    uint64_t mark; /* bits; if several ranks have failed, those that their marks have in common */
};

struct gpuring_oob_header {
    uint32_t magic, version;
    uint64_t number; /* of the gathering in its communicator */
    struct gpuring_failure failure;
    uint64_t bytes; /* size of the message with blocks that follows; 0 if there is none */
    uint64_t word;
};
_Static_assert(sizeof(struct gpuring_oob_header) == 56, "travels between ranks of any version");

/* The messages of a round. Headers are received first, because they contain the size of the blocks.
 */
enum {
    GPURING_OOB_HEADER_IN,
    GPURING_OOB_BLOCKS_IN,
    GPURING_OOB_HEADER_OUT,
    GPURING_OOB_BLOCKS_OUT,
    GPURING_OOB_MESSAGES
};

struct gpuring_oob {
    const struct gpuring_message_ops *ops;
    struct ompi_communicator_t *comm;
    int rank, nranks;
    int track;      /* 1 to GPURING_TRACKS; 0: none */
    uint64_t steps; /* changes with every message */
    uint64_t word;  /* result of an agreement: the bitwise OR over all ranks; invalid after a
                       failure */
    uint64_t mark;  /* stored in failures of this rank from now on */
    struct gpuring_message *connect_info; /* in the order in which the caller added them */
    int connect_infos;

    /* Internal to oob.c: */
    uint64_t number; /* number of the current or last gathering */
    int distance;    /* distance of the current round; 0 if there is no gathering */
    bool started;    /* the round's messages are in flight */
    struct gpuring_failure failure;
    struct gpuring_oob_header in, out;
    size_t bytes;    /* of a block */
    uint8_t *blocks; /* see above; NULL if there are none */
    uint8_t discard; /* receives unwanted data */
    struct gpuring_message message[GPURING_OOB_MESSAGES];
    bool connect_infos_started;
    int connect_infos_status;
};

/* MPI's point-to-point layer (oob_message.c). */
extern const struct gpuring_message_ops gpuring_message_mpi;

/* Create the object for one communicator (oob_message.c). Returns NULL without memory. */
struct gpuring_oob *gpuring_oob_create(struct ompi_communicator_t *comm);

/* Cancel all messages and free the object, except memory that the network may still write to. NULL
 * is allowed. */
void gpuring_oob_free(struct gpuring_oob *oob);

/* Begin a gathering of blocks of `bytes` bytes, the same on all ranks. Returns the address to which
 * the caller must write this rank's block before the next call of progress. Returns NULL without
 * memory or after a failure; this rank then takes part as a failed rank. */
void *gpuring_oob_gather(struct gpuring_oob *oob, size_t bytes);

/* Begin an agreement: a gathering without blocks, which needs no memory. */
void gpuring_oob_agree(struct gpuring_oob *oob, uint64_t word);

/* Progress the gathering. Returns 0 when it is complete, GPURING_AGAIN, or GPURING_ERR_NET or _PEER
 * (logged) if the connection to a rank is lost. */
int gpuring_oob_progress(struct gpuring_oob *oob);

static inline bool gpuring_oob_busy(const struct gpuring_oob *oob)
{
    return oob->distance > 0;
}

/* Return the result of the last gathering, which the caller must clear. Empty after a failure. */
struct gpuring_gathered gpuring_oob_take(struct gpuring_oob *oob);

/* Return a rank with which a message is in flight, or -1. */
int gpuring_oob_awaits(const struct gpuring_oob *oob);

/* Record that this rank cannot continue, with a negative gpuring_status. Only the first call
 * counts. The next gathering whose first message was not sent yet reports it to all ranks. */
void gpuring_oob_fail(struct gpuring_oob *oob, int status);

/* Return true if this rank knows a failure. Other ranks may not know it yet. */
static inline bool gpuring_oob_troubled(const struct gpuring_oob *oob)
{
    return oob->failure.status != 0;
}

/* Take the failure that all ranks know now. The result is the same on all ranks; status 0 means
 * that there is none. */
struct gpuring_failure gpuring_oob_failure(struct gpuring_oob *oob);

/* ---- Connect infos ---- */

/* Add a connect info. If `data` is not NULL, it is copied and sent. If it is NULL, a connect info
 * of at most `bytes` bytes is received. There may be one connect info per pair of ranks and
 * direction. All connect infos must be added before any rank relies on them. Returns 0 or
 * GPURING_ERR_NOMEM (logged). */
int gpuring_connect_infos_add(struct gpuring_oob *oob, int peer, const void *data, size_t bytes);

/* Start and progress all connect infos. Returns 0 when they are complete, GPURING_AGAIN, or an
 * error (logged) after which no connect info is in flight. */
int gpuring_connect_infos_progress(struct gpuring_oob *oob);
void gpuring_connect_infos_free(struct gpuring_oob *oob); /* as gpuring_oob_free */

#endif
