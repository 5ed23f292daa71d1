/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory of the sender that carries large messages to processes of its node:
 *
 *     sender's GPU                 sender's slots                  receiver's GPU
 *     user's buffer --copy--> slot 0 | slot 1  ----copy----> user's buffer
 *                             (mapped by the receiver)
 *
 * There are two places for slots: the sender's GPU, and host memory that both GPUs access. A
 * process allocates each of them once. It consists of buffers of two slots, and each message in
 * progress uses one buffer. Other processes map the memory once. Messages never map user memory,
 * because mapping and unmapping takes a driver some 2 ms (doc/hacking/p2p.md), because some kinds
 * of memory cannot be mapped, and because the owner must not free memory while others map it.
 *
 * A page of host memory, mapped by both processes, has the progress of each message. All other
 * information is exchanged in messages (offer.h).
 *
 * Messages of up to coll_gpuring_p2p_kernels bytes between GPUs use one slot, and kernels copy them
 * (kernels/move.h). The receiver launches its kernel without waiting for the sender's, because the
 * blocks of both kernels meet at signals next to the slots:
 *
 *     sender's GPU     pattern | signals of each buffer | slots
 *     page             of each buffer: flow | ends of the sender's blocks | of the receiver's
 *
 * If a block of the receiver runs out of patience, the receiver waits for the sender's host, which
 * reports the filled slot as for other messages, and copies it with the driver.
 */
#ifndef GPURING_P2P_SHARED_H
#define GPURING_P2P_SHARED_H

#include "mca/coll_gpuring/device/device.h"

/* Places of slots, in ascending order of the bandwidth between GPUs. The values are exchanged. */
enum gpuring_p2p_place { GPURING_P2P_NONE, GPURING_P2P_HOST, GPURING_P2P_GPU, GPURING_P2P_PLACES };

#define GPURING_P2P_SLOTS 2 /* the sender fills one while the receiver reads the other */

/* How other processes map this memory. */
struct gpuring_p2p_shared {
    struct gpuring_device_handle memory, page; /* in host memory: `page` for both */
    uint64_t proof;                            /* seed of the pattern in the first bytes */
};

/* The message that uses a buffer, and its progress in slots. The last three members are constant
 * while `sending` is not 0, and the others are atomic. */
struct gpuring_p2p_flow {
    uint64_t sending; /* identifies the message at its sender; 0: none */
    uint64_t filled, taken;
    uint32_t failed; /* the sender fills no further slots */
    uint32_t ended;  /* the receiver reads no further slots */
    uint64_t number; /* of this use of the buffer; unique at the sender */
    uint32_t lead;   /* offset of the data in a slot */
    uint32_t kernel; /* 1: a kernel fills the slot */
};

/* The slots of this process in one place, or those of another one that are mapped. */
struct gpuring_p2p_slots;
size_t gpuring_p2p_slot_bytes(const struct gpuring_p2p_slots *slots);
char *gpuring_p2p_slot(const struct gpuring_p2p_slots *slots, int buffer, uint64_t number);
struct gpuring_p2p_flow *gpuring_p2p_flow(const struct gpuring_p2p_slots *slots, int buffer);

/* Return true if kernels of this process can access the slots and the page. */
bool gpuring_p2p_slots_kernel(const struct gpuring_p2p_slots *slots);
/* Describe the sender's copy of a message to its slot, or the receiver's copy from the slot. The
 * caller sets the user's buffer. Valid while the buffer is reserved. */
struct gpuring_move gpuring_p2p_move(const struct gpuring_p2p_slots *slots, int buffer,
                                     size_t bytes, bool sends);

/* ---- The sender's side. Threads: any ---- */

/* Return the slots of this process, which the first call allocates. NULL if there are none (the
 * reason is logged once). */
const struct gpuring_p2p_slots *gpuring_p2p_slots_open(enum gpuring_p2p_place place,
                                                       struct gpuring_p2p_shared *shared);

/* Reserve a buffer for a message and report it in the page. use: `sending`, `lead` and `kernel` of
 * its flow. Returns its index, or -1 if none is free. Some buffers are only for messages that were
 * answered, so that these never wait for one that may not be received. */
int gpuring_p2p_slots_lend(enum gpuring_p2p_place place, const struct gpuring_p2p_flow *use,
                           bool answered);
void gpuring_p2p_slots_return(enum gpuring_p2p_place place, int buffer); /* -1 is allowed */

/* ---- The receiver's side. Threads: one at a time ---- */

/*
 * Map the slots of a sender. Before slots on a GPU are used first, their first bytes are copied to
 * a buffer on the GPU (at least `room` bytes), in the same ways as data later, and compared,
 * because GPUs may read wrong data although the mapping has succeeded. Returns NULL if the slots
 * cannot be used, now and later (the reason is logged once).
 */
const struct gpuring_p2p_slots *gpuring_p2p_slots_map(enum gpuring_p2p_place place, int sender,
                                                      const struct gpuring_p2p_shared *shared,
                                                      char *scratch, size_t room);

/* Return the buffer of a message, or -1 if it has none yet. */
int gpuring_p2p_slots_find(const struct gpuring_p2p_slots *slots, uint64_t sending);

/* Unmap the slots of other processes, and free those of this process when all others have unmapped
 * them. */
void gpuring_p2p_slots_close(void);

#endif
