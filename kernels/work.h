/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One operation of one rank, as input of the executors. Plain C, because CUDA and the host include
 * it.
 *
 * The lanes of a plan are a constant table. The caller fills in a work from the arguments of the
 * call, and an executor computes the data of each lane from both. A work is resumable. An executor
 * runs every lane until it is done or has waited for `patience` without progress, stores the lane's
 * state, and returns. It is called or launched again until all lanes are done. A kernel therefore
 * never occupies a GPU forever, and ranks that share a GPU make progress in turn. All pointers must
 * be valid for the executor (the host or one device).
 */
#ifndef GPURING_WORK_H
#define GPURING_WORK_H

#include <stdint.h>

#include "kernels/fifo.h"
#include "kernels/step.h"
#include "kernels/types.h"

enum gpuring_lane_status {
    GPURING_LANE_NEW, /* its executor calls gpuring_lane_start */
    GPURING_LANE_RUNNING,
    GPURING_LANE_DONE,
    GPURING_LANE_ABORTED, /* the abort word was set */
    GPURING_LANE_CORRUPT, /* a slot has another size than this step, because counts differ */
};

enum gpuring_lane_wait {
    GPURING_WAIT_NONE = 0,
    GPURING_WAIT_RECV = 1, /* for data on recvs[wait_ref] */
    GPURING_WAIT_SEND = 2, /* for a free slot on sends[wait_ref] */
};

/* A block of a buffer: its offset in bytes, and its number of elements. */
struct gpuring_extent {
    uint64_t offset, count;
};

/* The blocks of a buffer: a table, or blocks of the same size at equal distances. */
struct gpuring_blocks {
    const struct gpuring_extent *table; /* NULL: use stride and count */
    /* Distance of blocks in bytes. 0: all numbers denote the same block. */
    uint64_t stride;
    uint64_t count; /* elements of each block */
};

GPURING_INLINE struct gpuring_extent gpuring_block_at(const struct gpuring_blocks *blocks,
                                                      uint32_t number)
{
    struct gpuring_extent block;

    if (blocks->table != 0) {
        return blocks->table[number];
    }
    block.offset = number * blocks->stride;
    block.count = blocks->count;
    return block;
}

/*
 * Get the elements [*first, *first + *count) of a block that belong to part `part` of `parts`.
 * Parts have at least GPURING_PART_BYTES bytes, so only the first parts get elements of a small
 * block. All ranks get the same result for the same block.
 */
#define GPURING_PART_BYTES 8192

/* Return the maximum number of elements of a part. */
GPURING_INLINE uint64_t gpuring_block_part(uint64_t elements, uint32_t parts, uint64_t type_size)
{
    uint64_t least = GPURING_PART_BYTES / type_size, even = (elements + parts - 1) / parts;

    return (even + least - 1) / least * least;
}

GPURING_INLINE void gpuring_block_share(uint64_t elements, uint32_t part, uint32_t parts,
                                        uint64_t type_size, uint64_t *first, uint64_t *count)
{
    uint64_t each, begin;

    if (parts == 1) { /* avoids divisions, which take longer than the data of a small call */
        *first = 0;
        *count = elements;
        return;
    }
    each = gpuring_block_part(elements, parts, type_size);
    begin = part * each;
    *first = begin < elements ? begin : elements;
    *count = elements - *first < each ? elements - *first : each;
}

/* The constant part of a lane. It has the size of a cache line. */
struct gpuring_lane {
    const struct gpuring_step *steps;
    const uint16_t *refs;
    struct gpuring_fifo_end *recvs; /* this protocol's connections, indexed by the refs */
    struct gpuring_fifo_end *sends;
    uint32_t part_begin, part_end; /* share of the vector, or of each block, in parts of the work */
    uint32_t nsteps, nchunks;
    uint32_t nstored, nrefs, nrecvs, nsends; /* sizes of the tables (nstored: steps); 0: unknown,
                                                so they are not copied */
};

/* The state of a lane, which executors change. The position is only defined while the lane is
 * RUNNING. */
struct gpuring_lane_state {
    uint64_t first; /* first element of the window, in the vector or in the share of each block */
    uint64_t rest;  /* elements from there to the end of the lane */
    uint64_t bytes; /* finished bytes of the current chunk */
    uint32_t step;  /* current step in the window */
    uint32_t status;
    uint32_t wait; /* enum gpuring_lane_wait: kind of the last wait without success */
    uint32_t wait_ref;
    /* launch_seq of the work. A kernel stores it at the end of the lane, after everything else
     * (release). */
    uint32_t launch_seq;
    uint32_t begun; /* GPU: gpuring_begun while a work with launch_seq 0 runs, 0 otherwise */
    uint32_t peer;  /* host: finished peers of the current step with GPURING_STEP_EACH */
    uint32_t ahead; /* host: windows after the current one whose first steps have run, see
                       GPURING_STEP_AHEAD */
};

/*
 * Return the value that identifies a run of a work in a graph of the application. Such a work runs
 * any number of times, and no host writes its states in between. It has launch_seq 0, no command,
 * and a number from 1 to 0xffff in `linger`. A kernel stores the value in the member `begun` of its
 * lane's state when it begins, and 0 when it ends, so that the host learns which work runs. clock:
 * in units of about a microsecond, so that two runs get different values.
 */
GPURING_INLINE uint32_t gpuring_begun(uint32_t number, uint32_t clock)
{
    return number << 16 | (clock & 0xffff);
}

/* A patience that never ends. Only the abort word ends the waits of such a kernel. It is for works
 * in a stream of the application, which no host resumes. */
#define GPURING_PATIENCE_ENDLESS UINT64_MAX

/*
 * A line in pinned memory through which a lingering kernel receives its next call. Each word has 4
 * bytes of data in its lower half and a flag in its upper half, so that a word is either old or
 * new, and one read of the GPU gets all of them. The host writes the words. Flag n marks the call
 * with launch number n. Flag n + GPURING_COMMAND_LEAVE requests a kernel that has run call n - 1 to
 * end. The kernel stores the number of its last call in `left` when it decides to end, and does not
 * read the words again. Therefore, once `left` is stored, a command has either been run or never
 * will be.
 */
#define GPURING_COMMAND_WORDS 4 /* input, then output, each low half first */
#define GPURING_COMMAND_LEAVE UINT32_C(0x80000000)

struct gpuring_command {
    uint64_t words[GPURING_COMMAND_WORDS];
    uint64_t unused[4];
    uint32_t left; /* in a cache line of its own, which the kernel writes */
};

/* The buffers of a peer, which this executor accesses directly. */
struct gpuring_mapped {
    uint8_t *input, *output;
};
#define GPURING_MAPPED_MOST 15 /* peers */

/* One operation. It is also the only parameter of a kernel. */
struct gpuring_work {
    const void *input; /* may be equal to the output (in place) */
    void *output;
    uint32_t type; /* enum gpuring_type */
    uint32_t op;   /* enum gpuring_op */
    uint32_t protocol;
    uint32_t nlanes;
    uint64_t count; /* elements of the vector; for blocks: a lane's longest share of a block */
    uint64_t chunk; /* maximum elements per chunk, a multiple of the alignment */
    const struct gpuring_lane *lanes;
    struct gpuring_lane_state *states;
    uint64_t slice;                 /* elements that fit into a slot if chunks are larger, or 0 */
    uint64_t patience;              /* maximum wait of a lane; CUDA: nanoseconds, or
                                       GPURING_PATIENCE_ENDLESS; host: polls of a lane (1: return
                                       immediately) */
    const volatile uint32_t *abort; /* nonzero: stop at the next wait */
    uint32_t parts;                 /* of the vector, or of each block */
    uint32_t has_blocks;            /* 0: one vector */
    uint32_t nblocks;    /* size of the blocks' tables; 0: unknown, so they are not copied */
    uint32_t launch_seq; /* number of this launch on its stream */
    uint32_t resumed;    /* number of launches after patience was over; 0: all lanes are NEW, and a
                            kernel does not read their states */
    uint32_t linger; /* nanoseconds that a kernel waits for a command after its only lane is DONE;
                        without a command, see gpuring_begun */
    struct gpuring_command *command; /* NULL: it does not wait */
    struct gpuring_blocks in, out;   /* blocks of input and output, if there are any */
    /* The buffers of at most GPURING_MAPPED_MOST peers, in the order of the connections of a lane,
     * or NULL. Only for Simple on a GPU and the plan of two-shot in a node, without slices; see
     * step.h. All addresses are aligned to 16 bytes. */
    const struct gpuring_mapped *mapped;
    struct gpuring_lane first; /* copy of lanes[0], which a kernel can read without a load */
};

/*
 * Bounds of chunks and lanes are multiples of this number of bytes, so that vectors in FIFOs are
 * aligned. (Sizes of types are powers of two up to 32.) Users' buffers need not be aligned.
 */
#define GPURING_CHUNK_ALIGN_BYTES 128

GPURING_INLINE uint64_t gpuring_chunk_align(uint64_t type_size)
{
    return GPURING_CHUNK_ALIGN_BYTES / type_size;
}

/* Return total * part / parts, rounded down to a multiple of `align` elements, a power of two. The
 * last part ends at `total`. */
GPURING_INLINE uint64_t gpuring_part_bound(uint64_t total, uint32_t part, uint32_t parts,
                                           uint64_t align)
{
    if (part == 0 || part == parts) { /* avoids divisions, which take longer than a small call */
        return part == 0 ? 0 : total;
    }
    return (total / parts * part + total % parts * part / parts) & ~(align - 1);
}

/* Compute the elements [*first, *first + *count) of a vector of `total` elements that belong to the
 * parts [begin, end) of `parts`. All ranks get the same result for the same parts. */
GPURING_INLINE void gpuring_part_range(uint64_t total, uint32_t begin, uint32_t end, uint32_t parts,
                                       uint64_t align, uint64_t *first, uint64_t *count)
{
    *first = gpuring_part_bound(total, begin, parts, align);
    *count = gpuring_part_bound(total, end, parts, align) - *first;
}

/* Compute a lane's elements of the vector. For blocks: 0, and the longest share of a block. */
GPURING_INLINE void gpuring_lane_range(const struct gpuring_work *work,
                                       const struct gpuring_lane *lane, uint64_t type_size,
                                       uint64_t *first, uint64_t *count)
{
    if (work->has_blocks) {
        *first = 0;
        *count = work->count;
        return;
    }
    gpuring_part_range(work->count, lane->part_begin, lane->part_end, work->parts,
                       gpuring_chunk_align(type_size), first, count);
}

/* Initialize the state of a NEW lane, which is then RUNNING. */
GPURING_INLINE void gpuring_lane_start(const struct gpuring_work *work,
                                       const struct gpuring_lane *lane, uint64_t type_size,
                                       struct gpuring_lane_state *state)
{
    gpuring_lane_range(work, lane, type_size, &state->first, &state->rest);
    state->bytes = 0;
    state->step = state->peer = 0;
    state->status = GPURING_LANE_RUNNING;
}

/*
 * Return the number n of elements of each chunk in the window that starts with `rest` remaining
 * elements in the lane. This is the lane's chunk size. In the last window, the rest is distributed
 * over all chunks; they are aligned, the last chunks may be shorter or empty, and empty chunks are
 * skipped (step.h). All ranks get the same result, because it depends only on the plan and the
 * arguments. Chunk c covers [min(c * n, rest), min((c + 1) * n, rest)) of the window.
 */
GPURING_INLINE uint64_t gpuring_window_chunk(uint64_t rest, uint64_t nchunks, uint64_t chunk,
                                             uint64_t type_size)
{
    uint64_t even, align;

    if (nchunks == 1) { /* avoids divisions, which take longer than the data of a small call */
        return rest < chunk ? rest : chunk;
    }
    align = gpuring_chunk_align(type_size); /* a power of two */
    even = (rest + nchunks - 1) / nchunks;
    even = (even + align - 1) & ~(align - 1);
    return even < chunk ? even : chunk;
}

/*
 * A chunk may be larger than a slot. It is then sent slice by slice, so that waiting for a slice,
 * moving a slice and posting a slice overlap. A plan that needs K slots for whole chunks needs K
 * times the number of slices per chunk, which is at most GPURING_SLICES.
 */
#define GPURING_SLICES          4
#define GPURING_SLICE_MIN_BYTES (32 << 10) /* a smaller slice takes longer to post than to move */

/* Return the number of elements of each slice of a chunk with `count` elements. The last slice may
 * be shorter. `slot` is work.slice. Both ends of a connection get the same result, because it
 * depends only on the call. */
GPURING_INLINE uint64_t gpuring_slice(uint64_t count, uint64_t slot, uint64_t type_size)
{
    uint64_t align, least, even;

    if (slot == 0) {
        return count;
    }
    align = gpuring_chunk_align(type_size);
    least = GPURING_SLICE_MIN_BYTES / type_size;
    even = ((count + GPURING_SLICES - 1) / GPURING_SLICES + align - 1) & ~(align - 1);
    even = even > least ? even : least;
    return even < slot ? even : slot;
}

/* The chunk of one peer of a step with GPURING_STEP_EACH, or one slice of it. */
struct exec_peer {
    uint64_t offset; /* in the user's input (sending) or output (receiving), in bytes */
    uint64_t bytes;  /* 0: the peer has no data, and nothing is sent or received */
};

/*
 * Return chunk `number` of a lane whose window begins at element `first`, with `rest` elements left
 * and chunks of at most `chunk` elements. If chunks are cut into slices of at most `slot` elements,
 * return the slice at which the longest chunk has `done` finished bytes. reads: use the blocks of
 * the input, otherwise those of the output.
 */
GPURING_INLINE struct exec_peer exec_peer_find(const struct gpuring_work *work,
                                               const struct gpuring_lane *lane, uint32_t number,
                                               int reads, uint64_t first, uint64_t rest,
                                               uint64_t chunk, uint64_t slot, uint64_t done,
                                               uint64_t type_size)
{
    struct exec_peer peer = {0, 0};
    uint64_t begin = number * chunk, end = rest;

    if (work->has_blocks) {
        struct gpuring_extent block = gpuring_block_at(reads ? &work->in : &work->out, number);
        uint64_t share;

        peer.offset = block.offset;
        gpuring_block_share(block.count, lane->part_begin, work->parts, type_size, &share, &end);
        peer.offset += share * type_size;
        begin = 0;
        end = end > first ? end - first : 0;
    }
    if (begin < end) {
        uint64_t count = end - begin < chunk ? end - begin : chunk;
        uint64_t each = gpuring_slice(count, slot, type_size), at = 0;

        if (done > 0) {
            uint64_t longest = gpuring_slice(chunk, slot, type_size) * type_size;

            at = (uint32_t) done / (uint32_t) longest * each;
        }
        peer.offset += (first + begin + at) * type_size;
        peer.bytes = at >= count ? 0 : (count - at < each ? count - at : each) * type_size;
    }
    return peer;
}

/* Return the bytes of data in an LL128 line: 120, or less because elements are not split. */
GPURING_INLINE uint64_t gpuring_line_bytes(uint64_t type_size)
{
    return 120 & ~(type_size - 1); /* sizes are powers of two */
}

/* Return the maximum number of elements of a chunk in slots of slot_bytes bytes, for
 * gpuring_work.chunk. */
GPURING_INLINE uint64_t gpuring_chunk_max(enum gpuring_protocol protocol, uint64_t slot_bytes,
                                          uint64_t type_size)
{
    uint64_t bytes = protocol == GPURING_PROTOCOL_LL128
                         ? slot_bytes / 128 * gpuring_line_bytes(type_size)
                         : gpuring_fifo_payload(protocol, slot_bytes);

    return bytes / GPURING_CHUNK_ALIGN_BYTES * gpuring_chunk_align(type_size);
}

/*
 * For overlap.h: a slice of a step. `at` has the addresses of its operands, of the slots of its
 * destinations, and of the output if the step stores. If each peer has its own chunk, `own` and
 * `bytes` are the address in the user's buffer and the size for each peer. `result` is that of the
 * wait. `last` is the number of operands if the slice sends nothing and nothing follows in the
 * lane, otherwise 0. After such a slice, `at` has the connections whose slots must be given back.
 */
#define EXEC_LISTS 3
struct exec_list {
    void *at[GPURING_STEP_REFS + 1];
    void *own[GPURING_STEP_REFS];
    uint32_t bytes[GPURING_STEP_REFS];
    int result;
    uint32_t last;
};

/* Duties of a thread in a lane with overlap. */
enum exec_duty { EXEC_MOVES, EXEC_WAITS, EXEC_POSTS };

/*
 * Run all lanes with the host executor in the calling thread, round robin, until each is done or
 * its patience is over. Returns GPURING_OK (all done), GPURING_AGAIN, GPURING_ERR_ABORTED,
 * GPURING_ERR_COUNTS (a slot has an unexpected size), or GPURING_ERR_UNSUPPORTED (no such type,
 * operation or protocol). Only one thread at a time may run a work.
 */
int gpuring_work_run_host(struct gpuring_work *work);

#endif
