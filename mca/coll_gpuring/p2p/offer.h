/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Rendezvous for large messages from GPU memory. Instead of the data, the sender sends an offer in
 * the program's communicator and with its tag, so that the PML matches it like the message itself.
 * The data is then transferred
 *
 *     through slots    of the sender, on its GPU or in host memory, which the receiver has mapped
 *                      (shared.h), if both processes are on one node. If it has a free buffer, the
 *                      sender begins to fill it before it sends the offer.
 *     by one copy      from the sender's buffer if both are the same process
 *     in chunks        otherwise: the sender copies a chunk to pinned host memory and sends it, and
 *                      the receiver copies it to its GPU. The three steps overlap.
 *
 *     sender                                                receiver
 *       |-- offer (3907 bytes, program's tag) ---------------->|  receive is matched
 *       |<------------- answer: number of bytes, which way ----|
 *       |-- chunk, chunk, ... -------------------------------->|  only if in chunks
 *
 * All messages except the offer use MPI_COMM_WORLD (p2p_state.h). A receiver accepts one message in
 * chunks from a sender at a time, so chunks need no number. Through slots, several messages make
 * progress at the same time; the page shows which message uses which buffer.
 *
 * An offer is recognised by its length and its first 16 bytes, which are random.
 *
 * Functions return 0 or a gpuring_status (logged). Only one thread at a time calls the `advance`
 * functions, for all messages of the process (p2p/p2p_request.c). Any thread may call the others.
 */
#ifndef GPURING_P2P_OFFER_H
#define GPURING_P2P_OFFER_H

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/p2p/p2p_message.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/shared.h"

struct gpuring_p2p_envelope;
struct gpuring_p2p_sending;
struct gpuring_p2p_fetch;

/* A length that few messages have and that a PML sends eagerly (btl/vader: 4096 minus its headers).
 */
#define GPURING_P2P_OFFER_BYTES ((size_t) 3907)

/* Random bits. */
#define GPURING_P2P_MARK_0 UINT64_C(0x9d3a61f7c2e8450b)
#define GPURING_P2P_MARK_1 UINT64_C(0x5be0947f1d6c32a8)

struct gpuring_p2p_offer {
    uint64_t mark[2]; /* GPURING_P2P_MARK_0 and _1 */
    uint64_t sending; /* identifies the offer at its sender */
    uint64_t bytes;   /* of the message */
    struct gpuring_p2p_home home;
    int32_t sender; /* rank in MPI_COMM_WORLD */
    int32_t place;  /* of the sender's slots, enum gpuring_p2p_place */
    struct gpuring_p2p_shared shared;
};
_Static_assert(sizeof(struct gpuring_p2p_offer) <= GPURING_P2P_OFFER_BYTES, "is sent so");

struct gpuring_p2p_answer {
    uint64_t sending; /* of the offer */
    uint64_t bytes;   /* to be sent; 0: none */
    int32_t slots;    /* 1: the receiver reads the sender's slots */
    int32_t place;    /* the best one for such messages */
};

#define GPURING_P2P_CHUNK ((size_t) 1 << 20) /* bytes; the last one is shorter */

/* Return true if the GPURING_P2P_OFFER_BYTES bytes that were received are an offer. */
bool gpuring_p2p_offer_read(const void *data, struct gpuring_p2p_offer *offer);

/* Return true if the receive of this message, which got `bytes` bytes, has received an offer. */
bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer);

/*
 * Decline an offer that a receive without room for it has got, so that its sender does not wait.
 * This is only possible if the PML has delivered the first bytes, and if there is room for these.
 * status: of the receive, which has ended with MPI_ERR_TRUNCATE.
 */
void gpuring_p2p_offer_truncated(const struct gpuring_p2p_message *message,
                                 struct ompi_communicator_t *comm,
                                 const ompi_status_public_t *status);

/* Send an offer of this message to a process that takes it (peers.h). Sets *sending to NULL if the
 * message cannot be offered. Returns MPI_SUCCESS or an MPI error of the PML (logged). */
int gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope, int peer,
                              struct gpuring_p2p_sending **sending);
/* Return the user's buffer. A receive of the same process copies it. */
const char *gpuring_p2p_sending_source(const struct gpuring_p2p_sending *sending);
int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *sending);
void gpuring_p2p_sending_free(struct gpuring_p2p_sending *sending); /* NULL is allowed */

/*
 * Fetch the data of an offer. The target is the user's buffer if it is in host memory or is
 * contiguous on a GPU, and the bounce buffer otherwise. Returns NULL if there is no memory
 * (logged).
 */
struct gpuring_p2p_fetch *gpuring_p2p_fetch_new(const struct gpuring_p2p_offer *offer,
                                                const struct gpuring_p2p_message *message);
int gpuring_p2p_fetch_advance(struct gpuring_p2p_fetch *fetch);
void gpuring_p2p_fetch_free(struct gpuring_p2p_fetch *fetch); /* NULL is allowed */

#endif
