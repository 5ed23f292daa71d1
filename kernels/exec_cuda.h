/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The execution header of a lane that is a CUDA thread block; see executor.h and block.h.
 *
 * Order of memory, as PTX defines it: counters are read with ld.acquire.sys, and written with
 * st.relaxed.sys after a fence.acq_rel.sys of the same thread. A bar.sync before or after extends
 * this order to the other threads of the block, because causality order is transitive. A system
 * fence takes about as long as a hop, so there is only one per block and step. Peers are other GPUs
 * and host processes, so all scopes are sys. LL and LL128 lines are volatile (relaxed.sys)
 * accesses. Their flag is stored together with the data: in one 8-byte access for LL, and in a
 * store of 128 bytes by eight threads for LL128. LL128 assumes more of the hardware than PTX
 * guarantees (see doc/hacking/device.md), and is used only if the topology keeps such stores in
 * order.
 */
#ifndef GPURING_EXEC_CUDA_H
#define GPURING_EXEC_CUDA_H

#include "kernels/image.h"
#include "kernels/work.h"

#define EXEC_FN    template <class R> static __device__ __forceinline__
#define EXEC_SLOW  static __device__ __noinline__
#define BLOCK_FN   static __device__ __forceinline__
#define BLOCK_SLOW static __device__ __noinline__
#define EXEC       struct block<R>

#define BLOCK_UNROLL       _Pragma("unroll")
#define BLOCK_ROLLED       _Pragma("unroll 1")
#define BLOCK_PACKS        R::packs
#define BLOCK_COPY_PACKS   5
#define BLOCK_WIDE         R::wide
#define BLOCK_STORES       R::stores
#define BLOCK_LINES        2
#define BLOCK_OPERANDS     R::operands
#define BLOCK_LINE_THREADS 8
#define BLOCK_ITEMS        128
#define BLOCK_WARP         0xffffffffu
#define BLOCK_ONES(word)   static_cast<uint32_t>(__popcll(word))

/* Polls between two reads of the clock, and of the abort word, which is in host memory. */
#define BLOCK_POLLS_CLOCK 32
#define BLOCK_POLLS_ABORT 8192

struct alignas(16) exec_pack {
    uint64_t w[2];
};

/*
 * Data that the threads of a block share: copies of the work, of the lane with its state, and of
 * its tables if they fit. A step reads them many times, and reads of global memory are slow.
 */
#define BLOCK_CONNS  16
#define BLOCK_STEPS  16
#define BLOCK_REFS   64
#define BLOCK_BLOCKS 32

struct block_shared {
    union {
        struct exec_list lists[EXEC_LISTS];      /* Simple, see overlap.h */
        struct exec_pack units[2 * BLOCK_ITEMS]; /* LL, see block_ll.h */
    };
    struct gpuring_work work;
    struct gpuring_lane lane, home; /* home: the original, with pointers to global memory */
    struct gpuring_lane_state state;
    struct gpuring_fifo_end recvs[BLOCK_CONNS], sends[BLOCK_CONNS];
    struct gpuring_step steps[BLOCK_STEPS];
    struct gpuring_extent in[BLOCK_BLOCKS], out[BLOCK_BLOCKS];
    uint16_t refs[BLOCK_REFS];
};

/* One thread's view of its lane. R is the reduction of the kernel. */
template <class R> struct block {
    const struct gpuring_work *work; /* `work`, `lane` and `state` point into struct block_shared */
    const struct gpuring_lane *lane;
    const struct gpuring_lane_state *state;
    struct gpuring_lane_state *home;
    struct exec_list *lists; /* `lists` and `units` also point into struct block_shared */
    struct exec_pack *units;
    uint64_t type_size, line_bytes, first, rest, bytes;
    uint32_t deadline, last_cycle; /* end of the current wait on both clocks */
    uint32_t step, slices, polls, single_batch, turn;
    uint64_t used_recvs, used_sends; /* for single-batch lanes, see block_ll.h */
    uint32_t code;                   /* code of the reduction if R does not define it */
};

struct exec_piece;
EXEC_FN void exec_note_single_batch(EXEC *x, const struct exec_piece *piece);
EXEC_FN int exec_data(EXEC *x, const struct exec_piece *piece);
EXEC_FN int exec_run(EXEC *x, const struct exec_piece *piece);
#define exec_serial(x)      0
#define exec_each(x, piece) EXEC_OK
#define exec_mapped(x)      (exec_overlaps(x) && (x)->work->mapped != nullptr)
EXEC_FN int exec_signal(EXEC *x, const struct exec_piece *piece);
EXEC_FN void exec_begin(EXEC *x);
EXEC_FN void exec_end(EXEC *x);

EXEC_FN uint32_t exec_thread(const EXEC *)
{
    return threadIdx.x;
}

/* Return the number of threads that move data. It is known at compile time except for LL. Only
 * these threads call this function. Thread 0 among them ends a lane. */
EXEC_FN uint32_t exec_nthreads(const EXEC *)
{
    return R::protocol == GPURING_PROTOCOL_LL ? blockDim.x
           : R::protocol == GPURING_PROTOCOL_SIMPLE
               ? GPURING_KERNEL_THREADS - GPURING_KERNEL_CONTROL
               : GPURING_KERNEL_THREADS;
}

EXEC_FN constexpr uint32_t exec_protocol(const EXEC *)
{
    return R::protocol;
}

EXEC_FN constexpr bool exec_overlaps(const EXEC *)
{
    return R::protocol == GPURING_PROTOCOL_SIMPLE;
}

/* A copy needs registers. Simple would spill, and from compute capability 10.0 on also some kernels
 * of LL128. */
EXEC_FN constexpr bool exec_copies_step(const EXEC *)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    return R::protocol == GPURING_PROTOCOL_LL;
#else
    return R::protocol != GPURING_PROTOCOL_SIMPLE;
#endif
}

EXEC_FN uint32_t exec_single_batch(const EXEC *x)
{
    return R::protocol == GPURING_PROTOCOL_LL ? x->single_batch : 0;
}

/* The first warps move data, the next one waits, and the last one posts. */
EXEC_FN enum exec_duty exec_duty(const EXEC *)
{
    return threadIdx.x < GPURING_KERNEL_THREADS - 64   ? EXEC_MOVES
           : threadIdx.x < GPURING_KERNEL_THREADS - 32 ? EXEC_WAITS
                                                       : EXEC_POSTS;
}

EXEC_FN uint32_t exec_owner(const EXEC *x)
{
    return exec_overlaps(x) ? threadIdx.x % 32 : threadIdx.x;
}

EXEC_FN constexpr uint32_t exec_owners(const EXEC *)
{
    return 32;
}

EXEC_FN void exec_posted(const EXEC *)
{
    __syncwarp();
}

#define exec_gives_back(x, from) 1

EXEC_FN int exec_agree(const EXEC *x, int ok)
{
    return exec_overlaps(x) ? __all_sync(BLOCK_WARP, ok) : __syncthreads_and(ok);
}

EXEC_FN struct exec_list *exec_list(const EXEC *x, uint32_t k)
{
    return &x->lists[k % EXEC_LISTS];
}

/* Barriers 1 and 2 are for "ready", and 3 and 4 for "moved" (overlap.h). Barrier 0 is for all
 * threads. */
#define BLOCK_BARRIER(operation, first, threads) \
    asm volatile("bar." operation " %0, %1;" ::"r"((first) + k % 2), "n"(threads) : "memory")

EXEC_FN void exec_meet_ready(const EXEC *, uint32_t k)
{
    BLOCK_BARRIER("sync", 1, GPURING_KERNEL_THREADS);
}

EXEC_FN void exec_arrive_ready(const EXEC *, uint32_t k)
{
    BLOCK_BARRIER("arrive", 1, GPURING_KERNEL_THREADS);
}

EXEC_FN void exec_meet_moved(const EXEC *, uint32_t k)
{
    BLOCK_BARRIER("sync", 3, GPURING_KERNEL_THREADS - 32);
}

EXEC_FN void exec_arrive_moved(const EXEC *, uint32_t k)
{
    BLOCK_BARRIER("arrive", 3, GPURING_KERNEL_THREADS - 32);
}

EXEC_FN void exec_barrier(const EXEC *)
{
    __syncthreads();
}

EXEC_FN int exec_all(const EXEC *, int ok)
{
    return __syncthreads_and(ok);
}

BLOCK_FN uint64_t exec_load_acquire(const uint64_t *p)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
    return value;
}

EXEC_FN void exec_fence(const EXEC *)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

BLOCK_FN void exec_store_counter(uint64_t *p, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}

BLOCK_FN uint32_t exec_load_size(const uint32_t *p)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
}

BLOCK_FN void exec_store_size(uint32_t *p, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

BLOCK_FN void exec_note(uint32_t *p, uint32_t value)
{
    exec_store_size(p, value);
}

/* Return the clock in units of 1024 ns. 32 bits are enough for all waits, and save registers. */
BLOCK_FN uint32_t block_clock()
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return static_cast<uint32_t>(now >> 10);
}

/*
 * Return the second clock, in units of 1024 cycles. It is needed because PTX guarantees nothing
 * about the first one, which may advance in steps of a millisecond or stop. No GPU runs at
 * BLOCK_CYCLES cycles per nanosecond, so the first clock ends a wait first if it is precise. A
 * block that is moved to another multiprocessor sees another count, and then gives up too early, or
 * at the time of the first clock.
 */
#define BLOCK_CYCLES 4

/* The same factor for a lingering kernel, for which an application may be waiting. If the first
 * clock is not precise, the kernel ends after the requested time on a GPU of 2 GHz, and later on a
 * slower one. */
#define BLOCK_LINGER_CYCLES 2

BLOCK_FN uint32_t block_cycles()
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return static_cast<uint32_t>(now >> 10);
}

BLOCK_FN bool block_over(uint32_t now, uint32_t end)
{
    return static_cast<int32_t>(now - end) >= 0;
}

/* Restart patience. The clocks are only read when a wait polls. */
EXEC_FN void exec_progress(EXEC *x)
{
    x->polls = 0;
    x->deadline = x->last_cycle = 0;
}

EXEC_FN int exec_aborted(const EXEC *x)
{
    return x->work->abort != nullptr && *x->work->abort != 0;
}

EXEC_FN int exec_poll(EXEC *x)
{
    x->polls++;
    if (x->polls == BLOCK_POLLS_CLOCK) {
        uint32_t patience = static_cast<uint32_t>(x->work->patience >> 10) + 1;

        x->deadline = block_clock() + patience;
        x->last_cycle = block_cycles() + BLOCK_CYCLES * patience;
    } else if (x->polls % BLOCK_POLLS_CLOCK == 0 &&
               (block_over(block_clock(), x->deadline) ||
                block_over(block_cycles(), x->last_cycle)) &&
               x->work->patience != GPURING_PATIENCE_ENDLESS) {
        return 0;
    }
    return x->polls % BLOCK_POLLS_ABORT != 0 || !exec_aborted(x);
}

EXEC_FN struct exec_pack exec_fold(const EXEC *x, struct exec_pack a, struct exec_pack b)
{
    return R::fold(x->code, a, b);
}

BLOCK_FN struct exec_pack block_load_pack(const void *p)
{
    __builtin_assume(__isGlobal(p));
    ulonglong2 v = *static_cast<const ulonglong2 *>(p);

    return exec_pack{{v.x, v.y}};
}

BLOCK_FN void block_store_pack(void *p, struct exec_pack v)
{
    __builtin_assume(__isGlobal(p));
    *static_cast<ulonglong2 *>(p) = make_ulonglong2(v.w[0], v.w[1]);
}

BLOCK_FN void block_load_lines(const uint64_t *p, uint64_t *w)
{
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(w[0]), "=l"(w[1])
                 : "l"(p)
                 : "memory");
}

BLOCK_FN uint64_t block_load_flag(const uint64_t *p)
{
    uint64_t flag;

    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(flag) : "l"(p) : "memory");
    return flag;
}

BLOCK_FN void block_store_lines(uint64_t *p, const uint64_t *w)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(w[0]), "l"(w[1])
                 : "memory");
}

EXEC_FN int block_warp_all(const EXEC *, int ok)
{
    return __all_sync(BLOCK_WARP, ok);
}

/* Eight threads share a line: thread k has bytes 16k to 16k+15. The flag is in the upper half of
 * the last thread's bytes, and this thread reads it for all. */
EXEC_FN int block_line_ready(const EXEC *, const uint8_t *line, uint64_t flag)
{
    return threadIdx.x % 8 != 7 ||
           block_load_flag(reinterpret_cast<const uint64_t *>(line + 120)) == flag;
}

EXEC_FN void block_line_load(const EXEC *, const uint8_t *line, struct exec_pack *v)
{
    block_load_lines(reinterpret_cast<const uint64_t *>(line + 16 * (threadIdx.x % 8)), v->w);
}

EXEC_FN void block_line_store(const EXEC *, uint8_t *line, uint64_t flag, const struct exec_pack *v)
{
    uint32_t part = threadIdx.x % 8;
    uint64_t w[2] = {v->w[0], part == 7 ? flag : v->w[1]};

    block_store_lines(reinterpret_cast<uint64_t *>(line + 16 * part), w);
}

#endif
