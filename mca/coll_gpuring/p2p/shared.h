/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory on the sender's GPU that carries large messages to processes of its node:
 *
 *     sender's GPU                                         receiver's GPU
 *     user's buffer --copy--> slot 0 | slot 1  ----copy----> user's buffer
 *                             (mapped by the receiver)
 *
 * A process allocates this memory once. It consists of buffers of two slots, and each message in
 * progress uses one buffer. Other processes map the memory once. The user's memory is never mapped,
 * because mapping and unmapping takes a driver some 2 ms (doc/hacking/p2p.md), because some kinds
 * of memory cannot be mapped, and because the owner must not free memory while others map it.
 *
 * A page of host memory, mapped by both processes, has the progress of each message. All other
 * information is exchanged in messages (offer.h).
 */
#ifndef GPURING_P2P_SHARED_H
#define GPURING_P2P_SHARED_H

#include "mca/coll_gpuring/device/device.h"

#define GPURING_P2P_SLOT  ((size_t) 2 << 20)
#define GPURING_P2P_SLOTS 2 /* the sender fills one while the receiver reads the other */

/* How other processes map this memory. */
struct gpuring_p2p_shared {
    struct gpuring_device_handle memory, page;
    uint64_t proof; /* seed of the pattern in the first bytes */
};

/* Progress of a message, in slots; atomic. */
struct gpuring_p2p_flow {
    uint64_t filled, taken;
    uint32_t failed; /* the sender fills no further slots */
    uint32_t ended;  /* the receiver reads no further slots */
};

/* The slots of this process, or the mapped slots of another one. */
struct gpuring_p2p_slots;
char *gpuring_p2p_slot(const struct gpuring_p2p_slots *slots, int buffer, uint64_t number);
struct gpuring_p2p_flow *gpuring_p2p_flow(const struct gpuring_p2p_slots *slots, int buffer);

/* Return true if coll_gpuring_p2p_level and the GPU of this process allow copies between this
 * memory and slots. */
bool gpuring_p2p_slots_reach(const char *gpu);

/* Return the identity of this process's node. */
uint64_t gpuring_p2p_node(void);

/* ---- The sender's side. Threads: any ---- */

/* Return the slots of this process, which the first call allocates. NULL if there are none (the
 * reason is logged once). */
const struct gpuring_p2p_slots *gpuring_p2p_slots_open(struct gpuring_p2p_shared *shared);

/* Reserve a buffer for one message and reset its flow. Returns its index, or -1 if none is free. */
int gpuring_p2p_slots_lend(void);
void gpuring_p2p_slots_return(int buffer); /* -1 is allowed */

/* ---- The receiver's side. Threads: one at a time ---- */

/*
 * Map the slots of a sender. The first call copies their first bytes to a buffer on the GPU (at
 * least `room` bytes), in the same way as data later, and compares them, because GPUs may read
 * wrong data although the mapping has succeeded. Returns NULL if the slots cannot be used, now and
 * later (the reason is logged once).
 */
const struct gpuring_p2p_slots *gpuring_p2p_slots_map(int sender,
                                                      const struct gpuring_p2p_shared *shared,
                                                      char *scratch, size_t room);

/* Unmap the slots of other processes, and free those of this process when all others have unmapped
 * them. */
void gpuring_p2p_slots_close(void);

#endif
