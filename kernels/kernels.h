/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The reductions of the CUDA kernels, expanded by kernels.cu and image.c. Types with the same bits
 * share a reduction if the operation does not distinguish them, for example sums of int32 and
 * uint32.
 *
 * The reductions of KERNELS_FAST have separate kernels, gpuring_PROTOCOL_OPERATION_REPRESENTATION,
 * with the fold inlined in every loop. All others share two kernels per protocol, any_8 (elements
 * of 1 to 8 bytes) and any_16, which call one function with a switch. A separate kernel for each
 * would take minutes to compile and megabytes per architecture, for types that are rarely reduced.
 */
#ifndef GPURING_KERNELS_H
#define GPURING_KERNELS_H

#include "kernels/types.h"

/* Representations of elements for a fold: X(representation). */
#define KERNELS_REPRESENTATIONS(X) \
    X(u8)                          \
    X(s8)                          \
    X(u16)                         \
    X(s16)                         \
    X(u32)                         \
    X(s32)                         \
    X(u64)                         \
    X(s64)                         \
    X(f16)                         \
    X(bf16)                        \
    X(f32)                         \
    X(f64)                         \
    X(c32)                         \
    X(c64)                         \
    X(float_int) X(double_int) X(short_int) X(int_int) X(long_int) X(float_float) X(double_double)

enum kernels_representation {
#define KERNELS_ENUM(representation) KERNELS_##representation,
    KERNELS_REPRESENTATIONS(KERNELS_ENUM)
#undef KERNELS_ENUM
        KERNELS_REPRESENTATION_COUNT
};

/* Device types: X(TYPE, representation for operations that do not compare values, and for those
 * that do). */
#define KERNELS_TYPES(X)                     \
    X(INT8, u8, s8)                          \
    X(UINT8, u8, u8)                         \
    X(INT16, u16, s16)                       \
    X(UINT16, u16, u16)                      \
    X(INT32, u32, s32)                       \
    X(UINT32, u32, u32)                      \
    X(INT64, u64, s64)                       \
    X(UINT64, u64, u64)                      \
    X(FLOAT16, f16, f16)                     \
    X(BFLOAT16, bf16, bf16)                  \
    X(FLOAT, f32, f32)                       \
    X(DOUBLE, f64, f64)                      \
    X(COMPLEX_FLOAT, c32, c32)               \
    X(COMPLEX_DOUBLE, c64, c64)              \
    X(LOGICAL8, u8, u8)                      \
    X(LOGICAL16, u16, u16)                   \
    X(LOGICAL32, u32, u32)                   \
    X(LOGICAL64, u64, u64)                   \
    X(BYTE, u8, u8)                          \
    X(FLOAT_INT, float_int, float_int)       \
    X(DOUBLE_INT, double_int, double_int)    \
    X(SHORT_INT, short_int, short_int)       \
    X(INT_INT, int_int, int_int)             \
    X(LONG_INT, long_int, long_int)          \
    X(FLOAT_FLOAT, float_float, float_float) \
    X(DOUBLE_DOUBLE, double_double, double_double)

/* Operations that compare values, so that types with the same bits differ. */
#define KERNELS_ORDERED(op) ((op) == GPURING_OP_MAX || (op) == GPURING_OP_MIN)

/* Encode a reduction as one number. */
#define KERNELS_CODE(op, representation) ((op) *32u + (uint32_t) (representation))

/* All reductions: X(OPERATION, representation, C++ of reduce.h). */
#define KERNELS_BITS(X, bits)                               \
    X(PROD, u##bits, reduce<uint##bits##_t, op_prod##bits>) \
    X(MAX, u##bits, reduce<uint##bits##_t, op_max>)         \
    X(MAX, s##bits, reduce<int##bits##_t, op_max>)          \
    X(MIN, u##bits, reduce<uint##bits##_t, op_min>)         \
    X(MIN, s##bits, reduce<int##bits##_t, op_min>)          \
    X(LAND, u##bits, reduce<uint##bits##_t, op_land>)       \
    X(LOR, u##bits, reduce<uint##bits##_t, op_lor>)         \
    X(LXOR, u##bits, reduce<uint##bits##_t, op_lxor>)       \
    X(BAND, u##bits, reduce_words<op_band>)                 \
    X(BOR, u##bits, reduce_words<op_bor>)                   \
    X(BXOR, u##bits, reduce_words<op_bxor>)

#define KERNELS_REALS(X, name, type, op)   \
    X(SUM, name, reduce<type, op##_sum>)   \
    X(PROD, name, reduce<type, op##_prod>) \
    X(MAX, name, reduce<type, op##_max>)   \
    X(MIN, name, reduce<type, op##_min>)

#define KERNELS_COMPLEX(X, name, type)         \
    X(SUM, name, reduce<type, op_complex_sum>) \
    X(PROD, name, reduce<type, op_complex_prod>)

#define KERNELS_PAIR(X, name)                                 \
    X(MAXLOC, name, reduce<struct gpuring_##name, op_maxloc>) \
    X(MINLOC, name, reduce<struct gpuring_##name, op_minloc>)

#define KERNELS_REDUCTIONS(X)                              \
    X(SUM, u8, reduce_words<op_sum8>)                      \
    X(SUM, u16, reduce_words<op_sum16>)                    \
    X(SUM, u32, reduce<uint32_t, op_sum>)                  \
    X(SUM, u64, reduce<uint64_t, op_sum>)                  \
    KERNELS_BITS(X, 8)                                     \
    KERNELS_BITS(X, 16)                                    \
    KERNELS_BITS(X, 32)                                    \
    KERNELS_BITS(X, 64)                                    \
    KERNELS_REALS(X, f16, __half2, op_half)                \
    KERNELS_REALS(X, bf16, __nv_bfloat162, op_bfloat)      \
    KERNELS_REALS(X, f32, float, op)                       \
    KERNELS_REALS(X, f64, double, op)                      \
    KERNELS_COMPLEX(X, c32, struct gpuring_complex_float)  \
    KERNELS_COMPLEX(X, c64, struct gpuring_complex_double) \
    KERNELS_PAIR(X, float_int)                             \
    KERNELS_PAIR(X, double_int)                            \
    KERNELS_PAIR(X, short_int)                             \
    KERNELS_PAIR(X, int_int)                               \
    KERNELS_PAIR(X, long_int)                              \
    KERNELS_PAIR(X, float_float)                           \
    KERNELS_PAIR(X, double_double)

/* Reductions with separate kernels: X(OPERATION, operation, representation, element size). */
#define KERNELS_FAST(X)  \
    X(SUM, sum, u32, 4)  \
    X(SUM, sum, u64, 8)  \
    X(SUM, sum, f16, 2)  \
    X(SUM, sum, bf16, 2) \
    X(SUM, sum, f32, 4)  \
    X(SUM, sum, f64, 8)  \
    X(MAX, max, f32, 4)  \
    X(MAX, max, f64, 8)  \
    X(MIN, min, f32, 4)  \
    X(MIN, min, f64, 8)

/* Protocols: X(PROTOCOL, name in lower case, further arguments of KERNELS_PROTOCOLS). Each protocol
 * has separate kernels, so that a kernel that is not in the instruction cache is short. */
#define KERNELS_PROTOCOLS(X, ...) \
    X(SIMPLE, simple, __VA_ARGS__) X(LL, ll, __VA_ARGS__) X(LL128, ll128, __VA_ARGS__)

#endif
