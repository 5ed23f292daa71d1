/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large messages from GPU memory, by rendezvous. In place of the data the sender sends an offer, in
 * the program's communicator and with its tag, so that the PML matches it as the message itself.
 * The data then go
 *
 *     directly      from GPU to GPU, through slots on the sender's GPU that the receiver has mapped
 *                   (shared.h): both buffers contiguous, one node
 *     in chunks     else: the sender copies them to pinned host memory and sends them, the receiver
 *                   copies them to its GPU; all three at once
 *
 *     sender                                                receiver
 *       |-- offer (3907 bytes, program's tag) ---------------->|  receive is matched
 *       |<------------- answer: so many bytes, which way ------|
 *       |-- chunk, chunk, ... -------------------------------->|
 *       |   or: the buffer of slots that is used ------------->|  and no message more
 *
 * All but the offer are messages of MPI_COMM_WORLD (pml.h). A receiver takes one message of a
 * sender at a time, so that chunks need no number.
 *
 * Offers are known by their length and their first 16 bytes, which are random.
 *
 * Functions return 0 or a gpuring_status (logged). `advance` is called by one thread at a time for
 * all messages of the process (p2p/request.c); all others by any.
 */
#ifndef GPURING_P2P_OFFER_H
#define GPURING_P2P_OFFER_H

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/p2p/message.h"
#include "mca/coll_gpuring/p2p/shared.h"

struct gpuring_p2p_envelope;
struct gpuring_p2p_sending;
struct gpuring_p2p_fetch;

/* A length that few messages have, and that a PML sends at once (with btl/vader 4096 less
 * its headers). */
#define GPURING_P2P_OFFER_BYTES ((size_t) 3907)

struct gpuring_p2p_offer {
    uint64_t mark[2];
    uint64_t sending; /* by which its sender knows it */
    uint64_t bytes;   /* of the message */
    uint64_t node;    /* of the sender */
    int32_t sender;   /* rank in MPI_COMM_WORLD */
    int32_t direct;   /* 1: `shared` can be mapped by processes of the node */
    struct gpuring_p2p_shared shared;
};
_Static_assert(sizeof(struct gpuring_p2p_offer) <= GPURING_P2P_OFFER_BYTES, "is sent so");

struct gpuring_p2p_answer {
    uint64_t sending; /* of the offer */
    uint64_t bytes;   /* to be sent; 0: none */
    int32_t direct;   /* 1: by slots, if a buffer of them is free; the sender says which */
    int32_t near;     /* 1: slots would do for such messages */
};

#define GPURING_P2P_CHUNK ((size_t) 512 << 10) /* bytes; the last one is shorter */

/* May this memory be copied from slots, or to them: by coll_gpuring_p2p_level, and by the GPU that
 * this process is attached to? */
bool gpuring_p2p_slots_reach(const char *gpu);

/* What is the same in all offers of this process. */
void gpuring_p2p_offer_mark(struct gpuring_p2p_offer *offer);

/* Are the GPURING_P2P_OFFER_BYTES bytes that a receive got an offer? */
bool gpuring_p2p_offer_read(const void *data, struct gpuring_p2p_offer *offer);

/* Has a receive of this message got an offer (`bytes` have arrived)? */
bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer);

/* Send an offer of this message; *sending is NULL if it is none to be offered. MPI_SUCCESS, or an
 * MPI error of the PML (logged). */
int gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope,
                              struct gpuring_p2p_sending **sending);
int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *sending);
void gpuring_p2p_sending_free(struct gpuring_p2p_sending *sending); /* NULL is allowed */

/*
 * Take the data: of a message in host memory to the user's buffer; on a GPU there if that is
 * contiguous, else to the bounce buffer. NULL: no memory (logged).
 */
struct gpuring_p2p_fetch *gpuring_p2p_fetch_new(const struct gpuring_p2p_offer *offer,
                                                const struct gpuring_p2p_message *message);
int gpuring_p2p_fetch_advance(struct gpuring_p2p_fetch *fetch);
void gpuring_p2p_fetch_free(struct gpuring_p2p_fetch *fetch); /* NULL is allowed */

#endif
