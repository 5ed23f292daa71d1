/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory on the sender's GPU through which large messages pass to processes of its node:
 *
 *     sender's GPU                                         receiver's GPU
 *     user's buffer --copy--> slot 0 | slot 1  ----copy----> user's buffer
 *                             (mapped by the receiver)
 *
 * A process has one piece of it, with buffers of two slots each, one for each message that is under
 * way. Others map it once. The user's memory is never mapped: to map and unmap takes a driver some
 * 2 ms (doc/hacking/p2p.md), not all memory can be, and the owner may not free it meanwhile.
 *
 * A page of host memory that both map says how far a message is. What else is said is in messages
 * (offer.h).
 */
#ifndef GPURING_P2P_SHARED_H
#define GPURING_P2P_SHARED_H

#include "mca/coll_gpuring/device/device.h"

#define GPURING_P2P_SLOT  ((size_t) 2 << 20)
#define GPURING_P2P_SLOTS 2 /* one is filled while the other is taken */

/* How others reach a process's. */
struct gpuring_p2p_shared {
    struct gpuring_device_handle memory, page;
    uint64_t proof; /* of which the first bytes are made */
};

/* How far a message is, in slots; atomic. */
struct gpuring_p2p_flow {
    uint64_t filled, taken;
    uint32_t failed; /* no more come */
    uint32_t ended;  /* no more are taken */
};

/* The slots of a process: this one's, or another's that are mapped. */
struct gpuring_p2p_slots;
char *gpuring_p2p_slot(const struct gpuring_p2p_slots *slots, int buffer, uint64_t number);
struct gpuring_p2p_flow *gpuring_p2p_flow(const struct gpuring_p2p_slots *slots, int buffer);

/* ---- The sender's side. Threads: any ---- */

/* This process's, made at the first call. NULL: there are none (logged why, once). */
const struct gpuring_p2p_slots *gpuring_p2p_slots_open(struct gpuring_p2p_shared *shared);

/* A buffer for one message, with its flow at 0; -1: none is free. */
int gpuring_p2p_slots_lend(void);
void gpuring_p2p_slots_return(int buffer); /* -1 is allowed */

/* ---- The receiver's side. Threads: one at a time ---- */

/*
 * Map a sender's. The first time its first bytes are read as the data will be, to a buffer on the
 * GPU (at least `room` bytes), and compared: GPUs that seem to reach each other may read something
 * else. NULL: not possible, now and later (logged why, once).
 */
const struct gpuring_p2p_slots *gpuring_p2p_slots_map(int sender,
                                                      const struct gpuring_p2p_shared *shared,
                                                      char *scratch, size_t room);

/* Unmap others', and free this process's when they have unmapped it. */
void gpuring_p2p_slots_close(void);

#endif
