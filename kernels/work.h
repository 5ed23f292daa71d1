/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One operation of one rank as the executors take it. Plain C, included by CUDA and by the host.
 *
 * A work is filled by the caller from a plan, the connections and the call's arguments. It is
 * resumable: an executor runs every lane until it is done or has waited for `patience` without
 * getting on, leaves the lane's state in the work, and returns; it is called (or launched) again
 * until all are done. A kernel therefore never occupies a GPU for ever, and ranks that share one
 * make progress in turn. All pointers must be valid where the executor runs (the host, or one
 * device).
 */
#ifndef GPURING_WORK_H
#define GPURING_WORK_H

#include <stdint.h>

#include "kernels/fifo.h"
#include "kernels/step.h"
#include "kernels/types.h"

enum gpuring_lane_status {
    GPURING_LANE_RUNNING = 0,
    GPURING_LANE_DONE = 1,
    GPURING_LANE_ABORTED = 2, /* saw the abort word */
    GPURING_LANE_CORRUPT = 3, /* a slot holds another size than this step: counts differ */
};

enum gpuring_lane_wait {
    GPURING_WAIT_NONE = 0,
    GPURING_WAIT_RECV = 1, /* for data on recvs[wait_ref] */
    GPURING_WAIT_SEND = 2, /* for a free slot on sends[wait_ref] */
};

/* A block of a buffer: where it begins, in bytes from the buffer's address, and its elements. */
struct gpuring_extent {
    uint64_t offset, count;
};

/* The blocks of a buffer: by a table, or all alike. */
struct gpuring_blocks {
    const struct gpuring_extent *table; /* NULL: */
    uint64_t stride;                    /* bytes from block to block; 0: there is only one, which
                                           every number names */
    uint64_t count;                     /* elements of each */
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
 * The elements [*first, *first + *count) of a block that part `part` of `parts` has. Parts have at
 * least GPURING_PART_BYTES: small blocks are those of the first parts alone. The same on all ranks
 * for the same block.
 */
#define GPURING_PART_BYTES 8192

/* The most that a part has. */
GPURING_INLINE uint64_t gpuring_block_part(uint64_t elements, uint32_t parts, uint64_t type_size)
{
    uint64_t least = GPURING_PART_BYTES / type_size, even = (elements + parts - 1) / parts;

    return (even + least - 1) / least * least;
}

GPURING_INLINE void gpuring_block_share(uint64_t elements, uint32_t part, uint32_t parts,
                                        uint64_t type_size, uint64_t *first, uint64_t *count)
{
    uint64_t each, begin;

    if (parts == 1) { /* without divisions, which take longer than a small call's data */
        *first = 0;
        *count = elements;
        return;
    }
    each = gpuring_block_part(elements, parts, type_size);
    begin = part * each;
    *first = begin < elements ? begin : elements;
    *count = elements - *first < each ? elements - *first : each;
}

/* Constant part first, then the state that the executor changes. */
struct gpuring_lane {
    const struct gpuring_step *steps;
    const uint16_t *refs;
    struct gpuring_fifo_end *recvs; /* this protocol's connections, indexed by the refs */
    struct gpuring_fifo_end *sends;
    uint64_t first, count; /* elements of the vector that are this lane's; of blocks: 0, and those
                              of its longest share of a block */
    uint64_t chunk;        /* elements per chunk, at most; a multiple of the alignment */
    uint32_t nsteps, nchunks;
    uint32_t nstored, nrefs, nrecvs, nsends; /* of the tables (nstored: steps); 0: not known, they
                                                are not copied */
    uint32_t
        launch_seq; /* of the work, once a kernel has left the lane: written last, by release */
    uint32_t part;  /* of all blocks */

    /* Where it goes on; no longer kept when it is done. */
    uint64_t done;  /* elements of finished windows */
    uint64_t bytes; /* of the current chunk, handled so far */
    uint32_t step;  /* in the current window */
    uint32_t status;
    uint32_t wait; /* enum gpuring_lane_wait: what it waited for when it returned */
    uint32_t wait_ref;
};

struct gpuring_work {
    const void *input; /* may overlap with the output, as in place */
    void *output;
    uint32_t type; /* enum gpuring_type */
    uint32_t op;   /* enum gpuring_op */
    uint32_t protocol;
    uint32_t nlanes;
    uint32_t launch_seq;   /* number of this launch on its stream, see gpuring_lane */
    uint32_t block_shares; /* that each block is cut into, one per lane; 0: one vector, no blocks */
    struct gpuring_blocks in, out; /* of input and output, if there are blocks */
    uint32_t nblocks;              /* in their tables; 0: not known, they are not copied */
    uint32_t resumed;              /* how often its patience was over, and it was launched again */
    struct gpuring_lane *lanes;
    const volatile uint32_t *abort; /* nonzero: stop at the next wait */
    uint64_t slice;                 /* elements that fit a slot, if chunks are larger; else 0 */
    uint64_t patience;              /* how long a lane waits before it returns: CUDA: nanoseconds;
                                       host: polls of one lane (1: return at once) */
};

/*
 * Bounds of chunks and of lanes are multiples of this many elements (sizes of types are powers of
 * two, up to 32), so that vectors in the FIFOs are aligned; users' buffers need not be.
 */
#define GPURING_CHUNK_ALIGN_BYTES 128

GPURING_INLINE uint64_t gpuring_chunk_align(uint64_t type_size)
{
    return GPURING_CHUNK_ALIGN_BYTES / type_size;
}

/*
 * The elements of each chunk of the window that starts with `rest` elements left in the lane: the
 * lane's chunk size, but in the last window the rest is spread over all chunks (aligned, the last
 * ones shorter or empty; empty chunks are skipped, see step.h). The same on all ranks, since it
 * depends on the plan and the arguments only. Chunk c covers
 * [min(c * n, rest), min((c + 1) * n, rest)) of the window.
 */
GPURING_INLINE uint64_t gpuring_window_chunk(uint64_t rest, uint64_t nchunks, uint64_t chunk,
                                             uint64_t type_size)
{
    uint64_t even, align;

    if (nchunks == 1) { /* without divisions, which take longer than a small call's data */
        return rest < chunk ? rest : chunk;
    }
    align = gpuring_chunk_align(type_size); /* a power of two */
    even = (rest + nchunks - 1) / nchunks;
    even = (even + align - 1) & ~(align - 1);
    return even < chunk ? even : chunk;
}

/*
 * A chunk may be larger than a slot: it then goes through its connections slice by slice, so that
 * waiting for a slice, moving one and posting one overlap. A plan that needs K slots of chunks
 * needs as many times more as a chunk has slices, GPURING_SLICES at most.
 */
#define GPURING_SLICES          4
#define GPURING_SLICE_MIN_BYTES (32 << 10) /* with less, a slice is moved faster than posted */

/* The elements of each slice of a chunk of `count`, the last one shorter; slot: work.slice. The
 * same at both ends of a connection, for it depends on the call alone. */
GPURING_INLINE uint64_t gpuring_slice(uint64_t count, uint64_t slot, uint64_t type_size)
{
    uint64_t align = gpuring_chunk_align(type_size), least = GPURING_SLICE_MIN_BYTES / type_size;
    uint64_t even = ((count + GPURING_SLICES - 1) / GPURING_SLICES + align - 1) / align * align;

    even = even > least ? even : least;
    return slot == 0 ? count : even < slot ? even : slot;
}

/* Data bytes of an LL128 line: 120, but no element is split between lines. */
GPURING_INLINE uint64_t gpuring_line_bytes(uint64_t type_size)
{
    return 120 & ~(type_size - 1); /* sizes are powers of two */
}

/* The most elements that a chunk may have in slots of slot_bytes: for gpuring_lane.chunk. */
GPURING_INLINE uint64_t gpuring_chunk_max(enum gpuring_protocol protocol, uint64_t slot_bytes,
                                          uint64_t type_size)
{
    uint64_t bytes = protocol == GPURING_PROTOCOL_LL128
                         ? slot_bytes / 128 * gpuring_line_bytes(type_size)
                         : gpuring_fifo_payload(protocol, slot_bytes);

    return bytes / GPURING_CHUNK_ALIGN_BYTES * gpuring_chunk_align(type_size);
}

/* With overlap: the result of the wait for a slice, and where its operands and destinations lie. */
#define EXEC_LISTS 3
struct exec_list {
    const void *at[GPURING_STEP_REFS];
    int result;
};

/* What a thread does for a lane whose duties overlap. */
enum exec_duty { EXEC_MOVES, EXEC_WAITS, EXEC_POSTS };

/*
 * The host executor: runs all lanes in the calling thread, round robin, until each is done or has
 * waited for patience. Returns GPURING_OK (all done), GPURING_AGAIN, GPURING_ERR_ABORTED,
 * GPURING_ERR_COUNTS (a slot of another size than expected), or GPURING_ERR_UNSUPPORTED (no such
 * type, operation or protocol). One thread at a time per work.
 */
int gpuring_work_run_host(struct gpuring_work *work);

#endif
