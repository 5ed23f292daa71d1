/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA kernels that kernels.h lists, and the one of move.h. A block of the former runs lane
 * blockIdx.x of its work until the lane is final or has waited for the work's patience.
 */
#include <stddef.h>
#include <stdint.h>

#include "kernels/exec_cuda.h"
#include "kernels/executor.h"
#include "kernels/overlap.h"
#include "kernels/block.h"
#include "kernels/block_move.h"
#include "kernels/kernels.h"
#include "kernels/reduce.h"

/* Load this thread's word of 8 bytes of a table with `count` elements. Return false if there is
 * none. */
template <class T>
static __device__ __forceinline__ bool block_load_word(uint64_t *word, const T *from,
                                                       uint32_t count)
{
    static_assert(sizeof(T) % 8 == 0, "words");
    bool has = threadIdx.x < count * (uint32_t) (sizeof(T) / 8);

    *word = has ? reinterpret_cast<const volatile uint64_t *>(from)[threadIdx.x] : 0;
    return has;
}

template <class T>
static __device__ __forceinline__ void block_store_word(bool has, T *to, uint64_t word)
{
    if (has) {
        reinterpret_cast<uint64_t *>(to)[threadIdx.x] = word;
    }
}

/* Copy a work or a lane, one word per thread, beginning with thread `first`. */
template <class T>
static __device__ __forceinline__ void block_copy(T *to, const T *from, uint32_t first)
{
    uint32_t i = threadIdx.x - first;

    if (i < (uint32_t) (sizeof(T) / 8)) {
        reinterpret_cast<uint64_t *>(to)[i] = reinterpret_cast<const uint64_t *>(from)[i];
    }
}

/* Return the number of elements of a table to copy: all if they fit, otherwise none. */
static __device__ __forceinline__ uint32_t block_fit(uint32_t count, uint32_t room)
{
    return count <= room ? count : 0;
}

/* Make a copy of the lane whose pointers refer to the copied tables, if there are any. Called by
 * one thread while others copy the tables. */
static __device__ __forceinline__ void block_turn_to_copies(struct block_shared *shared)
{
    struct gpuring_lane lane = shared->home;

    if (block_fit(lane.nrecvs, BLOCK_CONNS) > 0) {
        lane.recvs = shared->recvs;
    }
    if (block_fit(lane.nsends, BLOCK_CONNS) > 0) {
        lane.sends = shared->sends;
    }
    if (block_fit(lane.nstored, BLOCK_STEPS) > 0) {
        lane.steps = shared->steps;
    }
    if (block_fit(lane.nrefs, BLOCK_REFS) > 0) {
        lane.refs = shared->refs;
    }
    shared->lane = lane;
    if (shared->work.has_blocks != 0 && block_fit(shared->work.nblocks, BLOCK_BLOCKS) > 0) {
        if (shared->work.in.table != nullptr) {
            shared->work.in.table = shared->in;
        }
        if (shared->work.out.table != nullptr) {
            shared->work.out.table = shared->out;
        }
    }
}

/* Start a new lane, and make its copy, with threads of the last two warps. With Simple, these warps
 * copy no tables. */
static __device__ __forceinline__ void block_start(struct block_shared *shared,
                                                   const struct gpuring_work *work,
                                                   uint32_t type_size)
{
    if (work->resumed == 0 && threadIdx.x == blockDim.x - 1) {
        gpuring_lane_start(&shared->work, &shared->home, type_size, &shared->state);
        if (work->launch_seq == 0) {
            exec_store_size(&work->states[blockIdx.x].begun,
                            gpuring_begun(work->linger, block_clock()));
        }
    }
    if (threadIdx.x == blockDim.x - 33) {
        block_turn_to_copies(shared);
    }
}

/*
 * Copy the lane's tables. A thread copies at most one word of each table and one reference. It
 * issues all loads before the first store, and starts the lane in between. Owners of connections
 * update the counters of the copies.
 */
static __device__ __forceinline__ void block_tables(struct block_shared *shared,
                                                    const struct gpuring_work *work,
                                                    uint32_t type_size)
{
    static_assert(sizeof(gpuring_fifo_end) * BLOCK_CONNS <= 8 * GPURING_LL_THREADS &&
                      sizeof(gpuring_step) * BLOCK_STEPS <= 8 * GPURING_LL_THREADS &&
                      sizeof(gpuring_extent) * BLOCK_BLOCKS <= 8 * GPURING_LL_THREADS &&
                      BLOCK_REFS <= GPURING_LL_THREADS,
                  "a thread for each word and each reference");
    const struct gpuring_lane *lane = &shared->home;
    uint32_t nrefs = block_fit(lane->nrefs, BLOCK_REFS), thread = threadIdx.x;
    uint32_t nblocks = work->has_blocks != 0 ? block_fit(work->nblocks, BLOCK_BLOCKS) : 0;
    uint16_t ref = thread < nrefs ? lane->refs[thread] : 0;
    uint64_t recv, send, step, in = 0, out = 0;
    bool recvs = block_load_word(&recv, lane->recvs, block_fit(lane->nrecvs, BLOCK_CONNS));
    bool sends = block_load_word(&send, lane->sends, block_fit(lane->nsends, BLOCK_CONNS));
    bool steps = block_load_word(&step, lane->steps, block_fit(lane->nstored, BLOCK_STEPS));
    bool ins = false, outs = false;

    if (nblocks > 0) {
        ins = block_load_word(&in, work->in.table, work->in.table != nullptr ? nblocks : 0);
        outs = block_load_word(&out, work->out.table, work->out.table != nullptr ? nblocks : 0);
    }
    block_start(shared, work, type_size);
    block_store_word(recvs, shared->recvs, recv);
    block_store_word(sends, shared->sends, send);
    block_store_word(steps, shared->steps, step);
    if (nblocks > 0) {
        block_store_word(ins, shared->in, in);
        block_store_word(outs, shared->out, out);
    }
    if (thread < nrefs) {
        shared->refs[thread] = ref;
    }
}

static_assert(BLOCK_CONNS <= EXEC_FIRST_SEND, "owners: threads of their own");

static_assert(GPURING_MAPPED_MOST <= BLOCK_CONNS, "all connections are copied");

/* Let the copies of the connections lead to the buffers of their peers instead of slots. `mapped`
 * was loaded by this thread. Called after the copies have been stored. */
static __device__ __forceinline__ void block_map(struct block_shared *shared,
                                                 const struct gpuring_mapped *mapped)
{
    uint32_t i = threadIdx.x;

    if (i < shared->lane.nrecvs) {
        shared->recvs[i].slots = mapped->input;
        shared->sends[i].slots = mapped->output;
        shared->recvs[i].slot_bytes = shared->sends[i].slot_bytes = 0;
    }
}

/* Copy the counters of connections back: owner i those of receive connection i, and owner
 * EXEC_FIRST_SEND + i those of send connection i. With Simple, the warps that wait and post copy
 * the counters that they change. */
template <class R>
static __device__ __forceinline__ void block_counters(const struct block<R> *x,
                                                      struct block_shared *shared)
{
    const uint32_t i = exec_owner(x) % EXEC_FIRST_SEND;
    const bool sends = exec_owner(x) >= EXEC_FIRST_SEND;
    const struct gpuring_lane *lane = &shared->lane;
    const struct gpuring_fifo_end *from = sends ? shared->sends : shared->recvs;
    struct gpuring_fifo_end *to = (sends ? shared->home.sends : shared->home.recvs) + i;

    if (exec_owner(x) >= 2 * EXEC_FIRST_SEND || (exec_overlaps(x) && exec_duty(x) == EXEC_MOVES) ||
        i >= (sends ? lane->nsends : lane->nrecvs) || (sends ? lane->sends : lane->recvs) != from) {
        return;
    }
    if (!exec_overlaps(x) || exec_duty(x) == EXEC_WAITS) {
        to->step = from[i].step;
        to->seen = from[i].seen;
    }
    if (!exec_overlaps(x) || exec_duty(x) == EXEC_POSTS) {
        to->posted = from[i].posted;
    }
}

/* Copy the work and the lane, and the lane's state if it is not new. The state is in pinned host
 * memory, from which a load takes a microsecond. */
static __device__ __forceinline__ void block_take(struct block_shared *shared,
                                                  const struct gpuring_work *work)
{
    block_copy(&shared->work, work, 0);
    if (blockIdx.x == 0) {
        block_copy(&shared->home, &work->first, 32);
    } else {
        block_copy(&shared->home, &work->lanes[blockIdx.x], 32);
    }
    if (work->resumed != 0) {
        block_copy(&shared->state, &work->states[blockIdx.x], 64);
    }
}

/* The kind of a kernel: its protocol and its reduction (reduce.h). */
template <uint32_t PROTOCOL, class F> struct kind : F {
    static constexpr uint32_t protocol = PROTOCOL;
};

/*
 * Wait for the next call of a kernel that lingers (struct gpuring_command). Called by the first
 * warp. Each thread reads one word with acquire. This orders everything that the host has seen to
 * be complete before the accesses that this block makes after its next barrier. Return true if all
 * words have the next launch number, after storing the buffers and that number in the work.
 */
static __device__ __forceinline__ bool block_take_command(struct gpuring_work *work)
{
    static_assert(offsetof(struct gpuring_work, output) == sizeof(void *), "words 2 and 3");
    const uint64_t *word = &work->command->words[threadIdx.x % GPURING_COMMAND_WORDS];
    uint32_t next = work->launch_seq + 1, wait = (work->linger >> 10) + 1;
    uint32_t end = block_clock() + wait, last_cycle = block_cycles() + BLOCK_LINGER_CYCLES * wait;
    uint64_t command;
    bool over, taken;

    do {
        command = exec_load_acquire(word);
        over = command >> 32 == next + GPURING_COMMAND_LEAVE || block_over(block_clock(), end) ||
               block_over(block_cycles(), last_cycle);
        taken = __all_sync(BLOCK_WARP, command >> 32 == next);
    } while (!taken && __all_sync(BLOCK_WARP, !over));
    __syncwarp(); /* all threads have read the work before it is changed */
    if (taken && threadIdx.x < GPURING_COMMAND_WORDS) {
        reinterpret_cast<uint32_t *>(&work->input)[threadIdx.x] = static_cast<uint32_t>(command);
    }
    if (taken && threadIdx.x == 0) {
        work->launch_seq = next;
    }
    return taken;
}

/* Wait for the next call after a lane with this status. If there is one, start its lane and return
 * true. Otherwise return false; the block then accesses nothing any longer. */
template <class R>
static __device__ __forceinline__ bool block_lingers(struct block<R> *x,
                                                     struct block_shared *shared, uint32_t status)
{
    bool taken = true; /* for the warps that do not poll */

    if (R::protocol != GPURING_PROTOCOL_LL || shared->work.command == nullptr ||
        status != GPURING_LANE_DONE) {
        return false;
    }
    if (threadIdx.x < 32) {
        taken = block_take_command(&shared->work);
    }
    if (!exec_all(x, taken)) {
        if (threadIdx.x == 0) {
            exec_store_size(&shared->work.command->left, shared->work.launch_seq);
        }
        return false;
    }
    if (threadIdx.x == 0) {
        gpuring_lane_start(&shared->work, &shared->lane, x->type_size, &shared->state);
    }
    x->single_batch = x->turn = 0;
    exec_barrier(x);
    return true;
}

/* Order all accesses of the block before launch_seq, which the host polls, and store it. With
 * Simple, the posting warp does this, and gives the last slots back after the same fence. */
template <class R>
static __device__ __forceinline__ void block_report(struct block<R> *x,
                                                    const struct block_shared *shared)
{
    if (exec_overlaps(x) ? exec_duty(x) != EXEC_POSTS : threadIdx.x != 0) {
        return;
    }
    if (exec_owner(x) == 0) {
        if (shared->work.launch_seq == 0) {
            exec_store_size(&x->home->begun, 0);
        }
    }
    if (exec_overlaps(x)) {
        exec_post_end(x);
    } else {
        exec_fence(x);
    }
    if (exec_owner(x) == 0) {
        exec_store_size(&x->home->launch_seq, shared->work.launch_seq);
    }
}

template <class R> static __device__ __forceinline__ void block_run(const struct gpuring_work *work)
{
    __shared__ struct block_shared shared;
    struct gpuring_mapped mapped = {};
    struct block<R> x;
    uint32_t status;

    block_take(&shared, work);
    __syncthreads();
    if (R::protocol == GPURING_PROTOCOL_SIMPLE && work->mapped != nullptr &&
        threadIdx.x < shared.home.nrecvs) {
        mapped = work->mapped[threadIdx.x];
    }
    block_tables(&shared, work, R::size(shared.work.type));
    x.deadline = x.last_cycle = 0; /* for compilers alone: they are set again before they are
                                      read */
    x.single_batch = x.turn = x.slices = 0;
    x.used_recvs = x.used_sends = 0;
    __syncthreads();
    if (R::protocol == GPURING_PROTOCOL_SIMPLE && work->mapped != nullptr) {
        block_map(&shared, &mapped);
        __syncthreads();
    }
    x.work = &shared.work;
    x.lane = &shared.lane;
    x.lists = shared.lists;
    x.units = shared.units;
    x.state = &shared.state;
    x.home = &shared.work.states[blockIdx.x];
    x.type_size = R::size(shared.work.type);
    x.line_bytes = R::line_bytes;
    x.code = reduce_code(shared.work.type, shared.work.op);
    do {
        status = exec_lane(&x);
        block_counters(&x, &shared);
        __syncthreads();
        block_report(&x, &shared);
    } while (block_lingers(&x, &shared, status));
}

/* Allow as many registers as a multiprocessor has for GPURING_KERNEL_THREADS threads, so that no
 * kernel spills. */
#define KERNEL(PROTOCOL, name, ...)                                         \
    extern "C" __global__ void __launch_bounds__(GPURING_KERNEL_THREADS, 1) \
        gpuring_##name(const __grid_constant__ struct gpuring_work work)    \
    {                                                                       \
        block_run<kind<GPURING_PROTOCOL_##PROTOCOL, __VA_ARGS__>>(&work);   \
    }
#define KERNEL_FAST(PROTOCOL, protocol, op, name, representation, size) \
    KERNEL(PROTOCOL, protocol##_##name##_##representation,              \
           folding_one<KERNELS_CODE(GPURING_OP_##op, KERNELS_##representation), size>)
#define KERNEL_ANY(PROTOCOL, protocol, size) \
    KERNEL(PROTOCOL, protocol##_any_##size, folding_any<size>)

#define KERNELS_FAST_OF(op, name, representation, size) \
    KERNELS_PROTOCOLS(KERNEL_FAST, op, name, representation, size)
KERNELS_FAST(KERNELS_FAST_OF)
KERNELS_PROTOCOLS(KERNEL_ANY, 8)
KERNELS_PROTOCOLS(KERNEL_ANY, 16)

/* Copies need few registers, so that two blocks fit on a multiprocessor. */
extern "C" __global__ void __launch_bounds__(GPURING_MOVE_THREADS, 2)
    gpuring_move(const __grid_constant__ struct gpuring_move move)
{
    move_run(&move);
}
