/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The FIFO of a connection: layout and counters shared by executors (kernels/), transports and the
 * proxy. Plain C, included by CUDA too.
 *
 * A connection carries chunks from one lane of the sender to one lane of the receiver. With Simple
 * on GPUs it carries slices of chunks (work.h), which are also called "chunk" below. Each protocol
 * has a separate ring of `slots` slots and separate counters, so that protocols never mix:
 *
 *   sender                          memory of the receiver
 *   step s: wait head > s - slots   slots:  | s%slots | ... |     payload
 *           write slot s%slots  --> size[]: | bytes   | ... |     bytes of the slot in use
 *           publish tail = s+1  --> tail                          chunks posted
 *   memory of the sender
 *   head  <------------------------ consumed: head = s+1          chunks given back (credits)
 *
 * tail: written by the sender (release) after payload and size, read by the receiver (acquire).
 * head: written by the receiver (release) after its last read of the slot, read by the sender
 * (acquire). Both only grow; they never wrap in 64 bits.
 *
 * With LL the payload validates itself: 8-byte lines {data32, flag32}, where flag is the low 32
 * bits of s+1. New memory is zero, and flag 0 is cleaned like any stale flag. Within a node no tail
 * and no size are published for flagged lines. Chunks of up to 8 bytes within a node use a short
 * slot of 16 bytes instead, so that four of them share a cache line. The short slots are before the
 * other slots.
 *
 * LL flags repeat after 2^32 steps. Therefore the sender writes every line of the slot and of the
 * short slot in the first `slots` steps after each multiple of GPURING_LL_CLEAN_PERIOD, except for
 * 0, because new memory needs no cleaning.
 *
 * With LL128 a line is 120 bytes of data and a 64-bit flag, s+1, which never repeats. On hosts,
 * where a 128-byte store is not atomic, the flag is written last (release) and read first
 * (acquire). size[] includes the flags of the lines, because a proxy has to move them, too.
 *
 * A network connection has two such FIFOs. The sender's lane writes into slots in local memory, and
 * its proxy copies slot by slot into the receiver's memory. Heads are sent back in the same way.
 * The receiver's head frees the receiver's slot. Only the sender's proxy reads it, before it copies
 * a slot. The slot of the sending lane is free when the network has read it, and then the sender's
 * proxy advances the lane's head. A lane can therefore be up to 2 x slots ahead of its peer.
 * `local` is not 0 if the connection has a proxy. With LL the receiver then waits for the tail,
 * because the network may split 8-byte lines.
 */
#ifndef GPURING_TRANSPORT_FIFO_H
#define GPURING_TRANSPORT_FIFO_H

#include <stdint.h>

#include "kernels/step.h"

#define GPURING_CACHE_LINE      128 /* two x86 lines (adjacent-line prefetch), one GPU line */
#define GPURING_FIFO_MAX_SLOTS  256
#define GPURING_FIFO_MAX_SIZES  64   /* maximum slots of a ring that publishes sizes */
#define GPURING_FIFO_SHORT      16   /* bytes of a short slot: two LL lines with 8 bytes of data */
#define GPURING_FIFO_SPREADS    4096 /* minimum bytes of a chunk for gpuring_fifo_rotate_offset */
#define GPURING_LL_CLEAN_PERIOD (UINT64_C(1) << 30)

/* Values of gpuring_fifo_end.local. 0: both ends are in one node. */
#define GPURING_FIFO_NET     1 /* a proxy carries the slots; the receiver waits for the tail */
#define GPURING_FIFO_NET_ANY 2 /* the same, and the net accesses any host memory, see below */

/*
 * If the net accesses any host memory, chunks of Simple need not be in slots. Slots that are not
 * used need no memory, because their pages are never touched.
 *
 * The sending lane may store the address of a chunk in the slot instead of the chunk, and
 * GPURING_FIFO_ADDRESS in size[]. The chunk must not change before the head has passed the slot.
 *
 * The receiving lane stores in its head which chunk it waits for, the next one. A chunk of Simple
 * of more than GPURING_FIFO_WANTED bytes is received only then, at the address that the lane has
 * stored in its head (`to`). Both ends know the size from the call.
 */
#define GPURING_FIFO_ADDRESS 0x80000000u
/* MPI over TCP sends messages of up to this number of bytes eagerly, by default. */
#define GPURING_FIFO_WANTED (65536 - 128)

/*
 * Shared counters of one protocol of one connection. The two halves are on separate cache lines,
 * because different ranks write them.
 *
 *   0        8            128              384
 *   | tail   | pad        | size[64]       |
 *   0        8        16       24          32       128
 *   | head   | wanted | to   | room      | pad    |
 */
struct gpuring_fifo_tail { /* in the receiver's memory (network: also a local one at the sender) */
    uint64_t tail;
    uint8_t pad0[GPURING_CACHE_LINE - 8];
    uint32_t size[GPURING_FIFO_MAX_SIZES];
};

struct gpuring_fifo_head { /* in the sender's memory (network: also a local one at the receiver) */
    uint64_t head;
    /* Only at the receiver of GPURING_FIFO_NET_ANY. The lane writes these, `wanted` last
     * (release). */
    uint64_t wanted; /* 1 + the step that the lane wants, or the last one that it wanted */
    uint8_t *to;
    uint64_t room; /* bytes of the chunk, with flags */
    uint8_t pad0[GPURING_CACHE_LINE - 32];
};

/* One end of a connection as seen by a lane. Its counters persist between operations. The transport
 * owns it. Only the lane writes step, posted and seen. */
struct gpuring_fifo_end {
    uint8_t *slots;                 /* slots x slot_bytes, 128-byte aligned */
    struct gpuring_fifo_tail *tail; /* counter of posted chunks */
    struct gpuring_fifo_head *head; /* counter of chunks given back */
    uint64_t step;                  /* chunks sent or received so far */
    uint64_t posted;     /* chunks posted or given back; may be less than `step` in a kernel */
    uint64_t seen;       /* last value of the head (sender) or the tail (receiver) */
    uint64_t slot_bytes; /* room of a slot: payload for Simple, lines for LL and LL128 */
    uint32_t nslots;     /* power of two, <= GPURING_FIFO_MAX_SLOTS; with sizes <= .._MAX_SIZES */
    uint16_t local;      /* GPURING_FIFO_NET, .._NET_ANY, or 0 */
    uint16_t spread;     /* 1: hosts rotate small chunks of Simple over the whole slot */
};

/* Return the bytes of all short slots, which are in front of the slots of LL. */
GPURING_INLINE uint64_t gpuring_fifo_short_bytes(uint32_t nslots)
{
    uint64_t bytes = (uint64_t) nslots * GPURING_FIFO_SHORT;

    return (bytes + GPURING_CACHE_LINE - 1) / GPURING_CACHE_LINE * GPURING_CACHE_LINE;
}

/* Return true if the protocol uses a short slot for a chunk of `bytes` bytes. */
GPURING_INLINE int gpuring_fifo_is_short(enum gpuring_protocol protocol,
                                         const struct gpuring_fifo_end *end, uint64_t bytes)
{
    return protocol == GPURING_PROTOCOL_LL && bytes <= GPURING_FIFO_SHORT / 2 && !end->local;
}

/* Return the slot, or the short slot, of the current step. */
GPURING_INLINE uint8_t *gpuring_fifo_slot(const struct gpuring_fifo_end *end)
{
    return end->slots + (end->step & (end->nslots - 1)) * end->slot_bytes;
}

GPURING_INLINE uint8_t *gpuring_fifo_short(const struct gpuring_fifo_end *end)
{
    return end->slots - (end->nslots - (end->step & (end->nslots - 1))) * GPURING_FIFO_SHORT;
}

/*
 * Return the offset of a chunk of `bytes` bytes in its slot, in bytes. If the connection spreads
 * chunks, the offset changes in each round of the ring. Writes to lines that are in the receiver's
 * cache are slow. If small chunks use all of the memory, too, the receiver's cache has evicted the
 * lines before they are written again. Chunks below GPURING_FIFO_SPREADS are faster if they stay in
 * both caches.
 */
GPURING_INLINE uint64_t gpuring_fifo_rotate_offset(const struct gpuring_fifo_end *end,
                                                   uint64_t bytes)
{
    uint64_t room = (bytes + GPURING_CACHE_LINE - 1) / GPURING_CACHE_LINE * GPURING_CACHE_LINE;

    return !end->spread || bytes < GPURING_FIFO_SPREADS
               ? 0
               : end->step / end->nslots % (end->slot_bytes / room) * room;
}

/* Return true if this step must also write the lines of LL that it does not use. */
GPURING_INLINE int gpuring_fifo_cleans(const struct gpuring_fifo_end *end)
{
    return end->step >= GPURING_LL_CLEAN_PERIOD &&
           end->step % GPURING_LL_CLEAN_PERIOD < end->nslots;
}

/* Return the payload bytes that fit into a slot of slot_bytes bytes. */
GPURING_INLINE uint64_t gpuring_fifo_payload(enum gpuring_protocol protocol, uint64_t slot_bytes)
{
    switch (protocol) {
    case GPURING_PROTOCOL_LL:
        return slot_bytes / 8 * 4;
    case GPURING_PROTOCOL_LL128:
        return slot_bytes / 128 * 120;
    default:
        return slot_bytes;
    }
}

#if defined(__cplusplus)
static_assert(sizeof(struct gpuring_fifo_tail) == 384, "layout of a tail");
static_assert(sizeof(struct gpuring_fifo_head) == 128, "layout of a head");
#else
_Static_assert(sizeof(struct gpuring_fifo_tail) == 384, "layout of a tail");
_Static_assert(sizeof(struct gpuring_fifo_head) == 128, "layout of a head");
#endif

#endif
