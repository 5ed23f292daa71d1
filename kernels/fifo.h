/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The FIFO of a connection: layout and counters shared by executors (kernels/), transports and
 * the proxy. Plain C, included by CUDA too.
 *
 * A connection carries chunks, or with Simple on GPUs their slices (work.h), from one lane of the
 * sender to one lane of the receiver; below "chunk" is what fills a slot. For each
 * protocol it has its own ring of `slots` slots and its own counters, so that protocols never mix:
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
 * With LL the payload validates itself: 8-byte lines {data32, flag32}, flag = low 32 bits of s+1;
 * fresh memory is zero, and flag 0 is cleaned like any stale one. Within a node no tail and no size
 * are published for flagged lines.
 * Up to 8 bytes of LL within a node lie in a short slot of 16 bytes instead, in front of the
 * others: four such chunks share a cache line on its way.
 *
 * LL flags repeat after 2^32 steps: in the first `slots` steps after each multiple of
 * GPURING_LL_CLEAN_PERIOD (but 0: fresh memory needs no cleaning) the sender writes every line of
 * the slot, and of the short one.
 *
 * With LL128 a line is 120 bytes of data and a 64-bit flag, s+1, which never repeats. Where a
 * 128-byte store is not whole (hosts), the flag is written last (release) and read first (acquire).
 * size[] counts what lies in the slot, lines with their flags: what a proxy has to move.
 *
 * A network connection has the same picture twice: the sender's lane writes into slots of its own
 * memory, its proxy moves slot by slot into the receiver's memory; heads go back likewise.
 * What frees which slot: the receiver's head frees the receiver's slot, and only the sender's proxy
 * looks at it, before it moves a slot. The lane's slot is freed when the network has read it: the
 * sender's proxy then raises the lane's head. A lane can thus run up to 2 x slots ahead of its
 * peer. `local` tells the lane that a proxy stands between: with LL the receiver then waits for the
 * tail (the network need not write 8-byte lines whole).
 */
#ifndef GPURING_TRANSPORT_FIFO_H
#define GPURING_TRANSPORT_FIFO_H

#include <stdint.h>

#include "kernels/step.h"

#define GPURING_CACHE_LINE      128 /* two x86 lines (adjacent-line prefetch), one GPU line */
#define GPURING_FIFO_MAX_SLOTS  256
#define GPURING_FIFO_MAX_SIZES  64   /* slots, at most, of a ring that publishes sizes */
#define GPURING_FIFO_SHORT      16   /* bytes of a short slot: LL lines of half as much data */
#define GPURING_FIFO_SPREADS    4096 /* bytes of a chunk, at least: see gpuring_fifo_rotate_offset */
#define GPURING_LL_CLEAN_PERIOD (UINT64_C(1) << 30)

/*
 * Shared counters of one protocol of one connection; each half on lines of its own, because the
 * writers differ.
 *   0        8            128              384
 *   | tail   | pad        | size[64]       |
 */
struct gpuring_fifo_tail { /* in the receiver's memory (network: also a local one at the sender) */
    uint64_t tail;
    uint8_t pad0[GPURING_CACHE_LINE - 8];
    uint32_t size[GPURING_FIFO_MAX_SIZES];
};

struct gpuring_fifo_head { /* in the sender's memory (network: also a local one at the receiver) */
    uint64_t head;
    uint8_t pad0[GPURING_CACHE_LINE - 8];
};

/* One end of a connection as a lane sees it; its counts persist from operation to operation. Owned
 * by the transport; step, posted and seen are written by the lane only. */
struct gpuring_fifo_end {
    uint8_t *slots;                 /* slots x slot_bytes, 128-byte aligned */
    struct gpuring_fifo_tail *tail; /* where arrivals are published */
    struct gpuring_fifo_head *head; /* where slots are given back */
    uint64_t step;                  /* chunks sent or received so far */
    uint64_t posted;                /* and published, or given back: less while a kernel runs */
    uint64_t seen;       /* sending: the head as last read, receiving: the tail; spares reads */
    uint64_t slot_bytes; /* room of a slot: payload for Simple, lines for LL and LL128 */
    uint32_t nslots;     /* power of two, <= GPURING_FIFO_MAX_SLOTS; with sizes <= .._MAX_SIZES */
    uint16_t local; /* 1: a proxy carries the slots; who receives waits for the tail with LL, too */
    uint16_t spread; /* 1: chunks of Simple that are smaller than a slot spread over it, on hosts */
};

/* Short slots lie in front of the slots of LL: in memory, so many bytes. */
GPURING_INLINE uint64_t gpuring_fifo_short_bytes(uint32_t nslots)
{
    uint64_t bytes = (uint64_t) nslots * GPURING_FIFO_SHORT;

    return (bytes + GPURING_CACHE_LINE - 1) / GPURING_CACHE_LINE * GPURING_CACHE_LINE;
}

/* Does the protocol put so many bytes into a short slot? */
GPURING_INLINE int gpuring_fifo_is_short(enum gpuring_protocol protocol,
                                         const struct gpuring_fifo_end *end, uint64_t bytes)
{
    return protocol == GPURING_PROTOCOL_LL && bytes <= GPURING_FIFO_SHORT / 2 && !end->local;
}

/* The slot of the end's step, and its short one. */
GPURING_INLINE uint8_t *gpuring_fifo_slot(const struct gpuring_fifo_end *end)
{
    return end->slots + (end->step & (end->nslots - 1)) * end->slot_bytes;
}

GPURING_INLINE uint8_t *gpuring_fifo_short(const struct gpuring_fifo_end *end)
{
    return end->slots - (end->nslots - (end->step & (end->nslots - 1))) * GPURING_FIFO_SHORT;
}

/*
 * Where in its slot a chunk of so many bytes lies, in bytes. Where the connection spreads them, at
 * another place each time round. Lines take long to write while they lie in the receiver's own
 * cache; when small chunks, too, pass through all of the memory, others have displaced them there.
 * Chunks below GPURING_FIFO_SPREADS are faster where they stay in both caches.
 */
GPURING_INLINE uint64_t gpuring_fifo_rotate_offset(const struct gpuring_fifo_end *end,
                                                   uint64_t bytes)
{
    uint64_t room = (bytes + GPURING_CACHE_LINE - 1) / GPURING_CACHE_LINE * GPURING_CACHE_LINE;

    return !end->spread || bytes < GPURING_FIFO_SPREADS
               ? 0
               : end->step / end->nslots % (end->slot_bytes / room) * room;
}

/* Is it time to write the lines of LL that the step does not use? */
GPURING_INLINE int gpuring_fifo_cleans(const struct gpuring_fifo_end *end)
{
    return end->step >= GPURING_LL_CLEAN_PERIOD &&
           end->step % GPURING_LL_CLEAN_PERIOD < end->nslots;
}

/* Payload bytes that fit a slot of slot_bytes in each protocol. */
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
