/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Out-of-band messages: how the ranks of a communicator talk outside of operations, for wire-up and
 * for agreements; doc/hacking/wireup.md says why not by collectives. Nothing here blocks; whoever
 * waits calls progress. Only message.c knows Open MPI.
 *
 * A gathering brings a block of each rank, of equal size, to all. It is Bruck's algorithm, log2 n
 * rounds of a header and, if there are any, blocks:
 *
 *   round with distance d = 1, 2, 4 ..: send the blocks of ranks me .. me+d-1 to rank me-d,
 *                                       receive those of me+d .. me+2d-1 from rank me+d
 *
 *   blocks   0 .. me-1 | me ..  n-1   n .. n+me-1     what is sent and received is contiguous
 *            (result)  |  own        (ranks 0 .. me-1, copied to the result at the end)
 *
 * A rank that cannot go on sends its failure in the header, without blocks, and so does every rank
 * that has heard of one. After log2 n rounds each rank has heard of each other: at the end of a
 * gathering all ranks know of a failure that was there when it began. Of a later one some ranks may
 * know: its `since` is the gathering at whose end all do. So all ranks give up after the same
 * gathering, and no rank waits for one that gave up.
 *
 * Letters go between single ranks, all at once.
 */
#ifndef GPURING_OOB_OOB_H
#define GPURING_OOB_OOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ompi_communicator_t;
struct ompi_request_t;

/* Raised whenever what travels between ranks, or lies in a FIFO, changes. */
#define GPURING_WIRE_VERSION 14

/* What a gathering brings: rank r's block is at blocks + r * bytes, from malloc. */
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

/* ---- Messages: over MPI's point-to-point layer (message.c), or a test's ---- */

/* Open MPI's collectives use the tags from -10 downwards (coll_tags.h), -1 is MPI_ANY_TAG; a user's
 * wildcard receive matches no negative tag. */
enum { GPURING_TAG_GATHER = -9, GPURING_TAG_LETTER = -8 };

struct gpuring_message {
    int peer;
    bool sent; /* by this rank; else expected */
    void *data;
    size_t bytes;                   /* expected: room, then what came */
    struct ompi_request_t *request; /* NULL: not started, or complete */
};

struct gpuring_message_ops {
    /* 0 or GPURING_ERR_NET (logged). */
    int (*start)(struct ompi_communicator_t *comm, int tag, struct gpuring_message *message);

    /* GPURING_AGAIN: under way. Else it is complete: 0, also where more came than there was room
     * for (bytes is SIZE_MAX then), or GPURING_ERR_NET (logged). */
    int (*finish)(struct gpuring_message *message);

    /* Give it up; false: the network may still use its memory. */
    bool (*cancel)(struct gpuring_message *message);
};

/* ---- Gatherings ---- */

struct gpuring_failure {
    uint64_t since; /* the gathering at whose end all ranks know it */
    int32_t status; /* a gpuring_status; 0: none */
    int32_t rank;
    uint64_t mark;
};

struct gpuring_oob_header {
    uint32_t magic, version;
    uint64_t number; /* of the gathering in its communicator */
    struct gpuring_failure failure;
    uint64_t bytes; /* of the message with blocks that follows; 0: none does */
    uint64_t word;
};
_Static_assert(sizeof(struct gpuring_oob_header) == 56, "travels between ranks of any version");

/* The messages of a round: headers are expected first, for they say what follows. */
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
    uint64_t steps; /* changes with every message */
    uint64_t word;  /* of an agreement: the bits that any rank gave, unless there was a failure */
    uint64_t mark;  /* this rank's failures carry it from now on */
    struct gpuring_message *letter; /* in the order in which they were added */
    int letters;

    /* Of oob.c alone: */
    uint64_t number; /* of the gathering that is under way, or was the last one */
    int distance;    /* of the round; 0: no gathering is under way */
    bool started;    /* the round's messages are under way */
    struct gpuring_failure failure;
    struct gpuring_oob_header in, out;
    size_t bytes;    /* of a block */
    uint8_t *blocks; /* see above; NULL: there are none */
    uint8_t discard; /* receives what is of no use */
    struct gpuring_message message[GPURING_OOB_MESSAGES];
    bool letters_started;
    int letters_status;
};

/* For one communicator (message.c); NULL: no memory. */
struct gpuring_oob *gpuring_oob_create(struct ompi_communicator_t *comm);

/* Cancels what is under way; keeps memory that the network may still write to. NULL is allowed. */
void gpuring_oob_free(struct gpuring_oob *oob);

/* Begin a gathering of blocks of `bytes` bytes, the same on all ranks. Returns where this rank's is
 * to be put before the next call of progress; NULL: there is no memory, or there was a failure, and
 * this rank takes part as one that failed. */
void *gpuring_oob_gather(struct gpuring_oob *oob, size_t bytes);

/* Begin an agreement, a gathering without blocks: it needs no memory. */
void gpuring_oob_agree(struct gpuring_oob *oob, uint64_t word);

/* Move on. 0: complete; GPURING_AGAIN; GPURING_ERR_NET or _PEER (logged): contact is lost. */
int gpuring_oob_progress(struct gpuring_oob *oob);

static inline bool gpuring_oob_busy(const struct gpuring_oob *oob)
{
    return oob->distance > 0;
}

/* What the last gathering brought, for the caller to clear; empty after a failure. */
struct gpuring_gathered gpuring_oob_take(struct gpuring_oob *oob);

/* The rank of which or to which a message is under way; -1: none. */
int gpuring_oob_awaits(const struct gpuring_oob *oob);

/* This rank cannot go on, for this negative gpuring_status. The first one counts; the next
 * gathering whose first message is not sent yet reports it to all ranks. */
void gpuring_oob_fail(struct gpuring_oob *oob, int status);

/* Does this rank know of a failure? All ranks may, or not yet. */
static inline bool gpuring_oob_troubled(const struct gpuring_oob *oob)
{
    return oob->failure.status != 0;
}

/* Take the failure that all ranks know by now, the same on all; status 0: there is none. */
struct gpuring_failure gpuring_oob_failure(struct gpuring_oob *oob);

/* ---- Letters ---- */

/* Add one: copied from data, or, with data NULL, expected, of at most `bytes` bytes. At most one
 * for each pair of ranks and direction, and all before any rank relies on them. 0 or
 * GPURING_ERR_NOMEM (logged). */
int gpuring_letters_add(struct gpuring_oob *oob, int peer, const void *data, size_t bytes);

/* Start, and move on. 0; GPURING_AGAIN; or an error (logged), when none is under way any more. */
int gpuring_letters_progress(struct gpuring_oob *oob);
void gpuring_letters_free(struct gpuring_oob *oob); /* as gpuring_oob_free */

#endif
