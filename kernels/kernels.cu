/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA kernels that kernels.h lists, all protocols in each. A kernel runs lane blockIdx.x of
 * its work until the lane is final or has waited for the work's patience.
 */
#include <stdint.h>

#include "kernels/exec_cuda.h"
#include "kernels/executor.h"
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "kernels/reduce.h"

/* Copies a structure of 8-byte words, one word a thread. */
template <class T> static __device__ __forceinline__ void block_copy(T *to, const T *from)
{
    static_assert(sizeof(T) % 8 == 0 && sizeof(T) / 8 <= 32, "one warp copies it");
    if (threadIdx.x < sizeof(T) / 8) {
        reinterpret_cast<uint64_t *>(to)[threadIdx.x] =
            reinterpret_cast<const volatile uint64_t *>(from)[threadIdx.x];
    }
}

/* Works and lanes lie in host memory: they are read once. */
template <class R> static __device__ __forceinline__ void block_run(struct gpuring_work *work)
{
    __shared__ struct block_shared shared;
    struct block<R> x;

    block_copy(&shared.work, work);
    __syncthreads();
    x.home = &shared.work.lanes[blockIdx.x];
    block_copy(&shared.lane, x.home);
    x.deadline = x.last_cycle = 0; /* set before they are read, which compilers do not see */
    __syncthreads();
    x.work = &shared.work;
    x.lane = &shared.lane;
    x.type_size = R::size(shared.work.type);
    x.line_bytes = R::line_bytes;
    x.code = reduce_code(shared.work.type, shared.work.op);
    (void) exec_lane(&x);
}

#define KERNEL(name, ...)                                                   \
    extern "C" __global__ void __launch_bounds__(GPURING_KERNEL_THREADS, 1) \
        gpuring_##name(struct gpuring_work *work)                           \
    {                                                                       \
        block_run<__VA_ARGS__>(work);                                       \
    }
#define KERNEL_FAST(op, name, representation, size) \
    KERNEL(name##_##representation,                 \
           folding_one<KERNELS_CODE(GPURING_OP_##op, KERNELS_##representation), size>)
KERNELS_FAST(KERNEL_FAST)
KERNEL(any_8, folding_any<8>)
KERNEL(any_16, folding_any<16>)
