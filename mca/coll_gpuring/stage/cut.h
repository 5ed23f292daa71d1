/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large blocking calls, cut into chunks of about coll_gpuring_stage_size bytes, so that copies and
 * messages overlap and pinned memory stays bounded:
 *
 *     chunk       0    1    2    3
 *     copy in     0    1    2    3
 *     call             0    1    2    3
 *     copy out              0    1    2    3
 *
 * A call is of blocks, one for each rank, or one in all (a vector). Chunk k is of units k * step to
 * (k + 1) * step - 1 of every block, and a call of the same collective. In host memory its pieces
 * follow one another:
 *
 *     user's buffer   +--a0--+--a1--+-a2-+   +--b0--+--b1--+-b2-+   +--c0--+--c1--+-c2-+
 *     place, chunk 1                     +--a1--+--b1--+--c1--+
 *
 * A call of many parts is not what a whole call of another rank can be matched with, and ranks may
 * differ in where their buffers are and in their types. So the ranks agree on it first
 * (stage/agree.h), whenever a call is large enough by its type signature, which is the same on all
 * ranks; and afterwards on whether all copies went well. It costs microseconds in a call that takes
 * milliseconds. Each rank has its host memory before they agree: none can lack it half-way.
 *
 * gatherv, scatterv, alltoallv and alltoallw are not cut: no rank knows the counts of others there,
 * so they do not know alike which call is large, nor how many chunks it would have. The calls of
 * neighbours are not cut either.
 */
#ifndef GPURING_STAGE_CUT_H
#define GPURING_STAGE_CUT_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/stage.h"

#define GPURING_CUT_SLOTS 3 /* chunks under way: copied in, called, copied out */

/* What of a buffer a call reads or writes. */
enum gpuring_cut_part {
    GPURING_CUT_NOTHING,
    GPURING_CUT_ALONE, /* this rank's block, at the begin of the buffer */
    GPURING_CUT_MINE,  /* this rank's block, where it is among all */
    GPURING_CUT_ALL,
};

struct gpuring_cut_buffer {
    const void *user; /* as the call has it, but block 0 of bytes begins here */
    enum gpuring_cut_part in, out;
    ptrdiff_t stride;         /* bytes from block to block, or: */
    const ptrdiff_t *offsets; /* where each block is */
};

/* Host memory for one chunk at a time. */
struct gpuring_cut_slot {
    struct gpuring_stage_block *block[2]; /* of the send and the receive buffer; NULL: not needed */
    char *place[2];
    struct gpuring_stream *stream; /* NULL: not needed yet */
    size_t chunk;
    bool used, filling, returning; /* copies in and out were started */
    int failed;
};

struct gpuring_cut;

/* A chunk's call of the previous module. */
typedef int (*gpuring_cut_call_fn)(const struct gpuring_cut *cut, const void *send, void *receive,
                                   size_t chunk);

/* A call in chunks, as its collective describes it; what is not named is 0. */
struct gpuring_cut {
    mca_coll_gpuring_module_t *module;
    enum gpuring_staged what;
    struct gpuring_stage whole; /* the call, described: where are its buffers? */
    gpuring_cut_call_fn call;
    bool possible; /* this rank's types can be cut */
    bool gaps;     /* units have gaps: a single block only */
    int failed;    /* 0, or a status: this rank cannot take part */

    int blocks, own;      /* how many; this rank's */
    size_t each;          /* units of every block, or: */
    const size_t *counts; /* units of each */
    size_t size, extent;  /* of a unit: bytes, and from unit to unit */
    ptrdiff_t lead;       /* from where a unit is to its first byte */
    struct gpuring_cut_buffer send, receive;

    struct ompi_datatype_t *type; /* of reductions, as are: */
    struct ompi_op_t *op;
    int root;
    int *chunk_counts, *chunk_displs; /* room for `blocks` of them, where the call takes arrays */
    void *lengths;                    /* what holds the arrays, to be freed */

    /* Of stage/cut.c: */
    bool stages; /* a buffer of this rank is on a GPU */
    size_t step, chunks;
    struct gpuring_runs full, last; /* of a chunk, and of the last one, with gaps */
    size_t span;                    /* from the first byte of a chunk to its last, with gaps */
    struct gpuring_cut_slot slots[GPURING_CUT_SLOTS];
};

/*
 * Run the call if all ranks can cut it and a buffer of any is on a GPU. *done: it was run, or has
 * failed on all ranks; else nothing happened. MPI error code.
 */
int gpuring_cut_run(struct gpuring_cut *cut, bool *done);

/* Units of a block that are in a chunk. */
size_t gpuring_cut_units(const struct gpuring_cut *cut, int block, size_t chunk);

/* Bytes of a chunk of a call of so many blocks, at most. */
size_t gpuring_cut_limit(int blocks);

static inline size_t gpuring_cut_bytes(gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return (size_t) count * type->super.size;
}

/* Elements that follow one another without gaps. */
static inline bool gpuring_cut_contiguous(gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return opal_datatype_is_contiguous_memory_layout(&type->super, count > 1 ? 2 : 1);
}

/* An address that is computed, not followed: MPI_BOTTOM is NULL. */
static inline void *gpuring_cut_at(const void *address, ptrdiff_t by)
{
    return (void *) ((uintptr_t) address + (uintptr_t) by);
}

/* Must the ranks agree on whether a call is cut? `bytes` is of all blocks, and by the type
 * signature alone: the answer must be the same on all ranks. */
static inline bool gpuring_cut_large(const mca_coll_gpuring_module_t *module, int blocks,
                                     size_t bytes)
{
    return OPAL_UNLIKELY(bytes > 2 * gpuring_params.stage_size) &&
           bytes > 2 * gpuring_cut_limit(blocks) && module->stages && module->nranks > 1 &&
           !OMPI_COMM_IS_INTER(module->comm);
}

#endif
