/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Rendezvous for large messages from GPU memory. Instead of the data, the sender sends an offer in
 * the program's communicator and with its tag, so that the PML matches it like the message itself.
 * The data is then transferred
 *
 *     directly      from GPU to GPU, through slots on the sender's GPU that the receiver has mapped
 *                   (shared.h), if both buffers are contiguous and on one node
 *     in chunks     otherwise: the sender copies a chunk to pinned host memory and sends it, and
 * the receiver copies it to its GPU. The three steps overlap.
 *
 *     sender                                                receiver
 *       |-- offer (3907 bytes, program's tag) ---------------->|  receive is matched
 *       |<------------- answer: number of bytes, which way ----|
 *       |-- chunk, chunk, ... -------------------------------->|
 *       |   or: the index of a buffer of slots --------------->|  and no further message
 *
 * All messages except the offer use MPI_COMM_WORLD (p2p_state.h). A receiver accepts one message
 * from a sender at a time, so chunks need no number.
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
#include "mca/coll_gpuring/p2p/shared.h"
#include "mca/coll_gpuring/params.h"

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
    uint64_t node;    /* of the sender */
    int32_t sender;   /* rank in MPI_COMM_WORLD */
    int32_t direct;   /* 1: `shared` can be mapped by processes of the node */
    struct gpuring_p2p_shared shared;
};
_Static_assert(sizeof(struct gpuring_p2p_offer) <= GPURING_P2P_OFFER_BYTES, "is sent so");

struct gpuring_p2p_answer {
    uint64_t sending; /* of the offer */
    uint64_t bytes;   /* to be sent; 0: none */
    int32_t
        direct;   /* 1: through slots, if the sender has a free buffer; it replies with its index */
    int32_t near; /* 1: the receiver could use slots for such messages */
};

#define GPURING_P2P_CHUNK ((size_t) 512 << 10) /* bytes; the last one is shorter */

/* Return true if messages of this length are offered, where that is possible. */
static inline bool gpuring_p2p_is_large(size_t bytes)
{
    return gpuring_params.p2p_rendezvous > 0 && bytes >= gpuring_params.p2p_rendezvous &&
           bytes >= GPURING_P2P_OFFER_BYTES;
}

/* Return true if the GPURING_P2P_OFFER_BYTES bytes that were received are an offer. */
bool gpuring_p2p_offer_read(const void *data, struct gpuring_p2p_offer *offer);

/* Return true if the receive of this message, which got `bytes` bytes, has received an offer. */
bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer);

/* Send an offer of this message. Sets *sending to NULL if the message must not be offered. Returns
 * MPI_SUCCESS or an MPI error of the PML (logged). */
int gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope,
                              struct gpuring_p2p_sending **sending);
int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *sending);
void gpuring_p2p_sending_free(struct gpuring_p2p_sending *sending); /* NULL is allowed */

/*
 * Fetch the data of an offer. The target is the user's buffer if it is in host memory or is
 * contiguous on a GPU, and the bounce buffer otherwise. Returns NULL without memory (logged).
 */
struct gpuring_p2p_fetch *gpuring_p2p_fetch_new(const struct gpuring_p2p_offer *offer,
                                                const struct gpuring_p2p_message *message);
int gpuring_p2p_fetch_advance(struct gpuring_p2p_fetch *fetch);
void gpuring_p2p_fetch_free(struct gpuring_p2p_fetch *fetch); /* NULL is allowed */

#endif
