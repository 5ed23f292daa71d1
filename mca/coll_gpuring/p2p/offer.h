/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large messages from GPU memory, by rendezvous. In place of the data the sender sends an offer, in
 * the program's communicator and with its tag, so that the PML matches it as the message itself.
 * The receiver takes the data
 *
 *     directly      from the sender's GPU memory, mapped by CUDA IPC, with one copy: both buffers
 *                   contiguous, one node
 *     in chunks     else: the sender copies them to pinned host memory and sends them, the receiver
 *                   copies them to its GPU; all three at once
 *
 * and answers:
 *
 *     sender                                                receiver
 *       |-- offer (3907 bytes, program's tag) ---------------->|  receive is matched
 *       |                                                      |  copies from the sender's GPU
 *       |<------------- answer: 0 bytes, all is there ---------|
 *
 *       |-- offer --------------------------------------------->|
 *       |<------------- answer: send so many bytes ------------|
 *       |-- chunk, chunk, ... --------------------------------->|
 *
 * Answers and chunks are messages of MPI_COMM_WORLD (p2p/peers.h). A receiver takes the chunks of
 * one message of a sender at a time, so that chunks need no number.
 *
 * Offers are known by their length and their first 16 bytes, which are random. The first data of a
 * peer are taken both ways and compared: GPUs that seem to reach each other may read something
 * else.
 *
 * Functions return 0 or a gpuring_status (logged). `advance` is called by one thread at a time for
 * all messages of the process (p2p/request.c); all others by any.
 */
#ifndef GPURING_P2P_OFFER_H
#define GPURING_P2P_OFFER_H

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/p2p/message.h"

struct gpuring_p2p_envelope;
struct gpuring_p2p_sending;
struct gpuring_p2p_fetch;

/* A length that few messages have, and that a PML sends at once (with btl/vader 4096 less
 * its headers). */
#define GPURING_P2P_OFFER_BYTES ((size_t) 3907)

struct gpuring_p2p_offer {
    uint64_t mark[2];
    uint64_t number; /* of the sender's offers */
    uint64_t bytes;  /* of the message */
    uint64_t node;   /* of the sender */
    int32_t sender;  /* rank in MPI_COMM_WORLD */
    int32_t mapped;  /* 1: `memory` can be mapped by processes of the node */
    struct gpuring_device_handle memory;
};
_Static_assert(sizeof(struct gpuring_p2p_offer) <= GPURING_P2P_OFFER_BYTES, "is sent so");

struct gpuring_p2p_answer {
    uint64_t number; /* of the offer */
    uint64_t bytes;  /* to be sent in chunks; 0: none */
};

#define GPURING_P2P_CHUNK ((size_t) 512 << 10) /* bytes; the last one is shorter */

/* Does coll_gpuring_p2p_level leave other processes' GPU memory to messages? */
bool gpuring_p2p_direct_allowed(void);

/* What is the same in all offers of this process. */
void gpuring_p2p_offer_mark(struct gpuring_p2p_offer *offer);

/* The bytes that a receive got (`bytes` of them): an offer? */
bool gpuring_p2p_offer_read(const void *data, size_t bytes, struct gpuring_p2p_offer *offer);

/* Has a receive of this message got an offer (`bytes` have arrived)? */
bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer);

/* Is this message sent by an offer? Then it has been sent, or *code is an MPI error. */
bool gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                               const struct gpuring_p2p_envelope *envelope,
                               struct gpuring_p2p_sending **sending, int *code);
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

/* No message comes any more. */
void gpuring_p2p_fetch_close(void);

#endif
