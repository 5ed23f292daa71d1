/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The reductions of the CUDA kernels. Each folds two 16-byte packs, element by element. types.h
 * specifies the arithmetic, and the GPU test compares it with that of the host.
 */
#ifndef GPURING_REDUCE_H
#define GPURING_REDUCE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define REDUCE_FN static __device__ __forceinline__

/* Element by element: F::apply(T, T). */
template <class T, class F> struct reduce {
    REDUCE_FN struct exec_pack fold(struct exec_pack a, struct exec_pack b)
    {
        union view {
            struct exec_pack pack;
            T elements[16 / sizeof(T)];
        } x, y;

        x.pack = a;
        y.pack = b;
#pragma unroll
        for (unsigned i = 0; i < 16 / sizeof(T); i++) {
            x.elements[i] = F::apply(x.elements[i], y.elements[i]);
        }
        return x.pack;
    }
};

/* Fold word by word with F::apply(uint64_t, uint64_t), for bits and for bytes within words. */
template <class F> struct reduce_words {
    REDUCE_FN struct exec_pack fold(struct exec_pack a, struct exec_pack b)
    {
        a.w[0] = F::apply(a.w[0], b.w[0]);
        a.w[1] = F::apply(a.w[1], b.w[1]);
        return a;
    }
};

/* An operation given by an expression of x and y. */
#define REDUCE_OPERATION(name, expression)             \
    struct name {                                      \
        template <class T> REDUCE_FN T apply(T x, T y) \
        {                                              \
            return static_cast<T>(expression);         \
        }                                              \
    };
REDUCE_OPERATION(op_sum, x + y)
REDUCE_OPERATION(op_prod, x *y)
REDUCE_OPERATION(op_max, x > y ? x : y)
REDUCE_OPERATION(op_min, x < y ? x : y)
REDUCE_OPERATION(op_land, (x != 0) & (y != 0))
REDUCE_OPERATION(op_lor, (x != 0) | (y != 0))
REDUCE_OPERATION(op_lxor, (x != 0) ^ (y != 0))
REDUCE_OPERATION(op_band, x &y)
REDUCE_OPERATION(op_bor, x | y)
REDUCE_OPERATION(op_bxor, x ^ y)

/* Compute 16-bit products in 32 unsigned bits, because int would overflow. */
struct op_prod16 {
    REDUCE_FN uint16_t apply(uint16_t x, uint16_t y)
    {
        return static_cast<uint16_t>(static_cast<uint32_t>(x) * y);
    }
};

typedef op_prod op_prod8, op_prod32, op_prod64;

/* Compute eight or four sums in a word. The top bits are added without carries. */
template <uint64_t TOP> struct op_sum_swar {
    REDUCE_FN uint64_t apply(uint64_t x, uint64_t y)
    {
        return ((x & ~TOP) + (y & ~TOP)) ^ ((x ^ y) & TOP);
    }
};
typedef op_sum_swar<0x8080808080808080u> op_sum8;
typedef op_sum_swar<0x8000800080008000u> op_sum16;

struct op_complex_sum {
    template <class T> REDUCE_FN T apply(T x, T y)
    {
        return T{x.re + y.re, x.im + y.im};
    }
};

struct op_complex_prod {
    template <class T> REDUCE_FN T apply(T x, T y)
    {
        return T{x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    }
};

struct op_maxloc {
    template <class T> REDUCE_FN T apply(T x, T y)
    {
        return x.value > y.value || (x.value == y.value && x.index <= y.index) ? x : y;
    }
};

struct op_minloc {
    template <class T> REDUCE_FN T apply(T x, T y)
    {
        return x.value < y.value || (x.value == y.value && x.index <= y.index) ? x : y;
    }
};

/* Fold two 16-bit floats at a time. Sums and products are rounded once and not fused. */
#define REDUCE_HALVES(name, half2, sum, prod, max, min) \
    struct name##_sum {                                 \
        REDUCE_FN half2 apply(half2 x, half2 y)         \
        {                                               \
            return sum(x, y);                           \
        }                                               \
    };                                                  \
    struct name##_prod {                                \
        REDUCE_FN half2 apply(half2 x, half2 y)         \
        {                                               \
            return prod(x, y);                          \
        }                                               \
    };                                                  \
    struct name##_max {                                 \
        REDUCE_FN half2 apply(half2 x, half2 y)         \
        {                                               \
            return max(x, y);                           \
        }                                               \
    };                                                  \
    struct name##_min {                                 \
        REDUCE_FN half2 apply(half2 x, half2 y)         \
        {                                               \
            return min(x, y);                           \
        }                                               \
    };
REDUCE_HALVES(op_half, __half2, __hadd2_rn, __hmul2_rn, __hmax2, __hmin2)
REDUCE_HALVES(op_bfloat, __nv_bfloat162, __hadd2_rn, __hmul2_rn, __hmax2, __hmin2)

/* The reduction for an operation and a representation of kernels.h. */
template <uint32_t CODE> struct reduction;
#define REDUCE_LISTED(op, representation, ...)                                                \
    template <>                                                                               \
    struct reduction<KERNELS_CODE(GPURING_OP_##op, KERNELS_##representation)> : __VA_ARGS__ { \
    };
KERNELS_REDUCTIONS(REDUCE_LISTED)

/* Run a reduction that is chosen at run time and equal on all threads. */
static __device__ __noinline__ struct exec_pack reduce_any(uint32_t code, struct exec_pack a,
                                                           struct exec_pack b)
{
    switch (code) {
#define REDUCE_CASE(op, representation, ...)                      \
    case KERNELS_CODE(GPURING_OP_##op, KERNELS_##representation): \
        return __VA_ARGS__::fold(a, b);
        KERNELS_REDUCTIONS(REDUCE_CASE)
    default:
        return a;
    }
}

/* With more packs in flight, kernels of Simple would spill: from compute capability 10.0 on most of
 * them, and for 7.5 sums of bfloat16. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000
#define REDUCE_PACKS 5
#else
#define REDUCE_PACKS 4
#endif

/* Reductions of kernels: one that is known at compile time, or any reduction of elements of up to
 * SIZE bytes. Each defines the number of packs in flight (block.h), as many as fit into the
 * registers. folding_any has fewer, because its function calls need registers, too. */
template <uint32_t CODE, unsigned SIZE> struct folding_one {
    static constexpr unsigned line_bytes = 120;
    static constexpr int packs = REDUCE_PACKS;
    static constexpr unsigned wide = 8;
    static constexpr int stores = 4;
    static constexpr unsigned operands = 4;

    REDUCE_FN unsigned size(uint32_t)
    {
        return SIZE;
    }
    REDUCE_FN struct exec_pack fold(uint32_t, struct exec_pack a, struct exec_pack b)
    {
        return reduction<CODE>::fold(a, b);
    }
};

template <unsigned SIZE> struct folding_any {
    static constexpr unsigned line_bytes = SIZE > 8 ? 112 : 120;
    static constexpr int packs = 2;
    static constexpr unsigned wide = 4;
    static constexpr int stores = 1; /* otherwise one kernel for 10.0 would spill */
    static constexpr unsigned operands = 2;

    REDUCE_FN unsigned size(uint32_t type)
    {
        if (SIZE > 8) {
            return SIZE;
        }
        switch (type) {
#define REDUCE_SIZE(name, ctype, kind, text) \
    case GPURING_TYPE_##name:                \
        return sizeof(ctype);
            GPURING_TYPES_DEVICE(REDUCE_SIZE)
        default:
            return SIZE;
        }
    }
    REDUCE_FN struct exec_pack fold(uint32_t code, struct exec_pack a, struct exec_pack b)
    {
        return reduce_any(code, a, b);
    }
};

/* Return the code of an operation on a type. */
static __device__ __forceinline__ uint32_t reduce_code(uint32_t type, uint32_t op)
{
    uint32_t representation = 0;

    switch (type) {
#define REDUCE_TYPE(name, words, ordered)                                           \
    case GPURING_TYPE_##name:                                                       \
        representation = KERNELS_ORDERED(op) ? KERNELS_##ordered : KERNELS_##words; \
        break;
        KERNELS_TYPES(REDUCE_TYPE)
    }
    return KERNELS_CODE(op, representation);
}

#endif
