/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The steps of a plan: what builders write and what every reader (CUDA executor, host executor,
 * checker, simulator) executes. Plain C, included by the CUDA kernels too.
 *
 * A plan cuts the vector into parts (one per ring or tree), a part into windows, a window into
 * `nchunks` chunks. A lane runs its list of steps once per window, until its part is done:
 *
 *   vector  |------- part 0 -------|------- part 1 -------|
 *   part    | window 0 | window 1 | last window (shorter) |
 *   window  | chunk 0 | chunk 1 | ... | chunk nchunks-1 |
 *
 * Where a collective has a block for each rank (allgather, alltoall, ...), chunk b of a window is
 * the next chunk of block b instead; a block lies where the call says, in the input and in the
 * output, and may be shorter than others (work.h):
 *
 *   block 0 | window 0 | window 1 |        block 1 | window 0 | window 1 | window 2 |
 *
 * One step handles one chunk:
 *   value = operand[0] op operand[1] op ... (folded left to right; one operand: a plain copy)
 *   if GPURING_STEP_STORE: output[chunk] = value
 *   for every destination: send value
 * An operand is a receive connection of the lane, GPURING_REF_INPUT (this rank's own input), or
 * GPURING_REF_OUTPUT (what an earlier step of the lane has stored of the chunk).
 * Receiving frees one FIFO slot of the connection, sending takes one; a chunk always fits a slot.
 * A chunk that is empty in a window is skipped: nobody receives, folds, stores or sends it.
 * Both ends of a connection agree on that, because the same data is sent and received (the
 * checker proves it) and its size follows from the arguments of the call alone, in which MPI lets
 * sender and receiver agree. Leaving out all
 * steps of some chunks cannot add a deadlock: what remains of a schedule is still a schedule. So a
 * vector of a few elements goes round a ring once, not once per rank.
 */
#ifndef GPURING_PLAN_STEP_H
#define GPURING_PLAN_STEP_H

#include <stdint.h>

/* Small functions that CUDA kernels call too. */
#if defined(__CUDACC__)
#define GPURING_INLINE static inline __host__ __device__
#else
#define GPURING_INLINE static inline
#endif

/* Operands and destinations of a step, at most: what a block keeps the addresses of. */
#define GPURING_STEP_REFS 64

#define GPURING_REF_INPUT  0xffffu /* operand: this rank's input buffer */
#define GPURING_REF_OUTPUT 0xfffeu /* operand: its output buffer, of a step that stores there */

#define GPURING_ONCE_MOST 64

/* Is an operand in this rank's buffers? */
GPURING_INLINE int gpuring_ref_own(uint32_t ref)
{
    return ref >= GPURING_REF_OUTPUT;
}

enum {
    GPURING_STEP_STORE = 1,   /* write the value to the output buffer */
    GPURING_STEP_RING = 2,    /* of a lane's first step: the lane goes round a ring, see below */
    GPURING_STEP_INPUT = 4,   /* one of the operands is the input, or its block is as long as the
                                 input's */
    GPURING_STEP_PARTIAL = 8, /* what it stores is not yet the result; executors need not know */
    GPURING_STEP_ONCE = 16    /* of a lane's first step: it uses each connection once a window, and
                                 has no more than GPURING_ONCE_MOST in either direction */
};

/*
 *  0       4       8         10       12      14      16
 *  +-------+-------+---------+--------+-------+-------+
 *  | chunk | refs  | noperand| nsend  | flags |   0   |
 *  +-------+-------+---------+--------+-------+-------+
 *  refs[refs .. refs+noperands-1]: operands, in the order of folding;
 *  refs[refs+noperands .. +nsends-1]: destinations (send connections of the lane).
 */
struct gpuring_step {
    uint32_t chunk;     /* 0 .. nchunks-1 */
    uint32_t refs;      /* index into the lane's reference list */
    uint16_t noperands; /* >= 1 */
    uint16_t nsends;
    uint16_t flags;
    uint16_t reserved;
};

#if defined(__cplusplus)
static_assert(sizeof(struct gpuring_step) == 16, "layout of a step");
#else
_Static_assert(sizeof(struct gpuring_step) == 16, "layout of a step");
#endif

/*
 * A lane that goes round a ring of n = nchunks ranks has 2n-1 steps, each for the chunk before that
 * of the last step. Five are stored; these are the steps that each stands for:
 *
 *   stored   0   1           2      3             4
 *   step     0   1 .. n-2    n-1    n .. 2n-3     2n-2
 */
#define GPURING_RING_STEPS 5u

/* Which of the stored steps is step K of a lane, and for which chunk. */
GPURING_INLINE uint32_t gpuring_step_at(const struct gpuring_step *steps, uint32_t k, uint32_t n,
                                        uint32_t *chunk)
{
    if ((steps[0].flags & GPURING_STEP_RING) == 0) {
        *chunk = steps[k].chunk;
        return k;
    }
    *chunk = (steps[0].chunk + 2 * n - k) % n;
    return k == 0 ? 0 : k < n - 1 ? 1 : k == n - 1 ? 2 : k < 2 * n - 2 ? 3 : 4;
}

/* How many are stored of a lane's steps. */
GPURING_INLINE uint32_t gpuring_steps_stored(const struct gpuring_step *steps, uint32_t nsteps)
{
    return nsteps > 0 && (steps[0].flags & GPURING_STEP_RING) != 0 ? GPURING_RING_STEPS : nsteps;
}

/*
 * The algorithms: X(v, NAME, id, text, help) for each; v is what the user of the list passes on
 * (nothing, or a macro), text the value of parameters and files, help the name in help texts.
 */
#define GPURING_ALGORITHMS(X, v)                      \
    X(v, RING, ring, "ring", "rings")                 \
    X(v, TREE, tree, "tree", "double binary trees")   \
    X(v, DIRECT, direct, "direct", "direct exchange") \
    X(v, TWO_SHOT, two_shot, "two-shot", "direct reduce-scatter and allgather")

enum gpuring_algorithm {
#define GPURING_ALGORITHM_ENUM(v, name, id, text, help) GPURING_ALGORITHM_##name,
    GPURING_ALGORITHMS(GPURING_ALGORITHM_ENUM, )
#undef GPURING_ALGORITHM_ENUM
        GPURING_ALGORITHM_COUNT
};

enum gpuring_protocol {
    GPURING_PROTOCOL_SIMPLE, /* counters published after the data */
    GPURING_PROTOCOL_LL,     /* 8-byte stores of 4 bytes data and 4 bytes flag */
    GPURING_PROTOCOL_LL128,  /* 128-byte lines of 120 bytes data and 8 bytes flag */
    GPURING_PROTOCOL_COUNT
};

#endif
