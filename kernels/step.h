/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The steps of a plan. Builders write them; the CUDA executor, the host executor, the checker and
 * the simulator execute them. Plain C, because the CUDA kernels include it too.
 *
 * A plan cuts the vector into parts (one per ring or tree), a part into windows, a window into
 * `nchunks` chunks. A lane runs its list of steps once per window, until its part is done:
 *
 *   vector  |------- part 0 -------|------- part 1 -------|
 *   part    | window 0 | window 1 | last window (shorter) |
 *   window  | chunk 0 | chunk 1 | ... | chunk nchunks-1 |
 *
 * In a collective with one block per rank (allgather, alltoall, ...), chunk b of a window is the
 * next chunk of block b instead. The call specifies where each block is in the input and in the
 * output, and blocks may differ in length (work.h):
 *
 *   block 0 | window 0 | window 1 |        block 1 | window 0 | window 1 | window 2 |
 *
 * One step handles one chunk:
 *   value = operand[0] op operand[1] op ... (folded left to right; one operand: a plain copy)
 *   if GPURING_STEP_STORE: output[chunk] = value
 *   for every destination: send value
 * An operand is a receive connection of the lane, GPURING_REF_INPUT (this rank's own input), or
 * GPURING_REF_OUTPUT (the value that an earlier step of the lane has stored for this chunk).
 * Receiving frees one FIFO slot of the connection, and sending takes one. A chunk always fits into
 * a slot.
 *
 * A step with GPURING_STEP_EACH has another chunk for each of its peers. It sends or it receives:
 *   for every destination i: send input[chunk i]          (the only operand is the input)
 *   for every operand i: output[chunk i] = operand[i]     (no destination)
 * Chunk i is `chunk` + i modulo nchunks. An executor may wait for all peers of the step before it
 * moves any chunk.
 *
 * If a rank has mapped the buffers of its peers (gpuring_work.mapped), slots carry no data:
 *   a step with GPURING_STEP_EACH moves nothing. Sending means that the peer may read the input,
 *     and receiving that the peer has stored its chunk in the output.
 *   other steps read the chunk in the inputs of the peers, and store it in their outputs.
 * This is only right for two-shot in a node, where one rank alone reads and stores each chunk.
 *
 * A chunk that is empty in a window is skipped: no rank receives, folds, stores or sends it. Both
 * ends of a connection skip the same chunks, because they send and receive the same data (the
 * checker proves this) and the size of the data follows from the arguments of the call, which MPI
 * requires to match. Skipping all steps of a chunk cannot cause a deadlock, because the rest of a
 * schedule is still a schedule. Therefore a vector of a few elements takes one round of a ring
 * rather than one round per rank.
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

/* Maximum number of operands and destinations of a step. A thread block stores their addresses. */
#define GPURING_STEP_REFS 64

#define GPURING_REF_INPUT  0xffffu /* operand: this rank's input buffer */
#define GPURING_REF_OUTPUT 0xfffeu /* operand: its output buffer; the step must store there */

#define GPURING_ONCE_MOST 64

/* Return true if an operand is in this rank's own buffers. */
GPURING_INLINE int gpuring_ref_own(uint32_t ref)
{
    return ref >= GPURING_REF_OUTPUT;
}

enum {
    GPURING_STEP_STORE = 1, /* write the value to the output buffer */
    GPURING_STEP_RING = 2,  /* on a lane's first step: the lane follows a ring, see below */
    /* An operand is the input, or the chunk has the length of the input's block. */
    GPURING_STEP_INPUT = 4,
    /* The stored value is not the final result. Only the checker uses this flag. */
    GPURING_STEP_PARTIAL = 8,
    /* One of the first steps of a lane, if these only send the input and its other steps send
     * nothing. Such steps may run some windows ahead. */
    GPURING_STEP_AHEAD = 32,
    /* On a lane's first step: the lane uses each connection at most once per window, and has at
     * most GPURING_ONCE_MOST connections in each direction. */
    GPURING_STEP_SINGLE_USE = 16,
    GPURING_STEP_EACH = 64 /* each peer has its own chunk, see above */
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
 * A lane that follows a ring of n = nchunks ranks has 2n-1 steps. Each step handles the chunk
 * before that of the previous step. Five steps are stored, and each represents these steps:
 *
 *   stored   0   1           2      3             4
 *   step     0   1 .. n-2    n-1    n .. 2n-3     2n-2
 */
#define GPURING_RING_STEPS 5u

/* Return the index of the stored step that represents step k of a lane, and set *chunk. */
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

/* Return the number of peers of a step with GPURING_STEP_EACH. */
GPURING_INLINE uint32_t gpuring_step_peers(const struct gpuring_step *step)
{
    return step->nsends > 0 ? step->nsends : step->noperands;
}

/* Return the chunk of peer i of such a step. Lanes that follow a ring have no such steps. */
GPURING_INLINE uint32_t gpuring_step_chunk(uint32_t chunk, uint32_t i, uint32_t nchunks)
{
    return chunk + i < nchunks ? chunk + i : chunk + i - nchunks;
}

/* Return the number of stored steps of a lane with nsteps steps. */
GPURING_INLINE uint32_t gpuring_steps_stored(const struct gpuring_step *steps, uint32_t nsteps)
{
    return nsteps > 0 && (steps[0].flags & GPURING_STEP_RING) != 0 ? GPURING_RING_STEPS : nsteps;
}

/*
 * The algorithms: X(v, NAME, id, text, help). The macro that expands the list passes v (nothing, or
 * a macro), which each row gets back. text is the value in parameters and files, and help is the
 * name in help texts.
 */
#define GPURING_ALGORITHMS(X, v)                      \
    X(v, RING, ring, "ring", "rings")                 \
    X(v, TREE, tree, "tree", "double binary trees")   \
    X(v, DIRECT, direct, "direct", "direct exchange") \
    X(v, TWO_SHOT, two_shot, "two-shot", "direct reduce-scatter and allgather, or by node")

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
