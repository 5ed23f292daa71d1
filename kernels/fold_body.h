/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The folding functions. This file is included once per instruction set, with FOLD_TABLE set to the
 * name of the table. Loops are plain C that the compiler can vectorise: no branches, no dependences
 * between iterations, any alignment.
 */
#include <string.h>

#include "kernels/fold.h"

#if defined(__clang__)
#define FOLD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* long double has no vectors */
#else
#define FOLD_INDEPENDENT _Pragma("GCC ivdep")
/* Vectorise also with -O2. Floating-point exceptions are not used here. */
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic", "no-trapping-math")
#endif

/* User buffers may have any alignment and may have been written with any type. */
#define FOLD_UNALIGNED(name, ctype, kind, text) \
    struct fold_##name {                        \
        ctype value;                            \
    } __attribute__((packed, may_alias));
GPURING_TYPES(FOLD_UNALIGNED)

/* Define a function that computes `result` from x and y. The expression may use ctype and name. */
#define FOLD(op, name, ctype, result)                                                       \
    static void fold_##op##_##name(void *to_, const void *a_, const void *b_, size_t count) \
    {                                                                                       \
        const struct fold_##name *a = a_, *b = b_;                                          \
        struct fold_##name *to = to_;                                                       \
                                                                                            \
        FOLD_INDEPENDENT                                                                    \
        for (size_t i = 0; i < count; i++) {                                                \
            ctype x = a[i].value, y = b[i].value;                                           \
            to[i].value = result;                                                           \
        }                                                                                   \
    }

/* Integers wrap, so compute with unsigned types, whose low bits do not depend on the width. */
#define FOLD_INTEGER(name, ctype)                                  \
    FOLD(SUM, name, ctype, (ctype) ((uint64_t) x + (uint64_t) y))  \
    FOLD(PROD, name, ctype, (ctype) ((uint64_t) x * (uint64_t) y)) \
    FOLD(MAX, name, ctype, x > y ? x : y)                          \
    FOLD(MIN, name, ctype, x < y ? x : y)                          \
    FOLD_LOGICAL(name, ctype)                                      \
    FOLD_BYTE(name, ctype)

#define FOLD_LOGICAL(name, ctype)                          \
    FOLD(LAND, name, ctype, (ctype) ((x != 0) & (y != 0))) \
    FOLD(LOR, name, ctype, (ctype) ((x != 0) | (y != 0)))  \
    FOLD(LXOR, name, ctype, (ctype) ((x != 0) ^ (y != 0)))

#define FOLD_BYTE(name, ctype)               \
    FOLD(BAND, name, ctype, (ctype) (x & y)) \
    FOLD(BOR, name, ctype, (ctype) (x | y))  \
    FOLD(BXOR, name, ctype, (ctype) (x ^ y))

/* fold_value_NAME and fold_round_NAME convert to and from the type that is used to compute. Except
 * for 16-bit types, they do nothing. */
#define FOLD_FLOATING(name, ctype)                                                          \
    FOLD(SUM, name, ctype, fold_round_##name(fold_value_##name(x) + fold_value_##name(y)))  \
    FOLD(PROD, name, ctype, fold_round_##name(fold_value_##name(x) * fold_value_##name(y))) \
    FOLD(MAX, name, ctype, fold_value_##name(x) > fold_value_##name(y) ? x : y)             \
    FOLD(MIN, name, ctype, fold_value_##name(x) < fold_value_##name(y) ? x : y)

/* -ffp-contract=off makes the compiler round products before it adds them. GCC 12 ignores this when
 * it combines a sum and a difference into one instruction. */
#if !defined(__clang__) && __GNUC__ >= 12
#define FOLD_ROUNDED(product) __builtin_assoc_barrier(product)
#else
#define FOLD_ROUNDED(product) (product)
#endif
#define FOLD_COMPLEX(name, ctype)                                        \
    FOLD(SUM, name, ctype, ((ctype){x.re + y.re, x.im + y.im}))          \
    FOLD(PROD, name, ctype,                                              \
         ((ctype){FOLD_ROUNDED(x.re * y.re) - FOLD_ROUNDED(x.im * y.im), \
                  FOLD_ROUNDED(x.re * y.im) + FOLD_ROUNDED(x.im * y.re)}))

#define FOLD_PAIR(name, ctype)                                                    \
    FOLD(MAXLOC, name, ctype,                                                     \
         x.value > y.value || (x.value == y.value && x.index <= y.index) ? x : y) \
    FOLD(MINLOC, name, ctype,                                                     \
         x.value < y.value || (x.value == y.value && x.index <= y.index) ? x : y)

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * binary16 to binary32: put exponent and mantissa in place and correct the bias (15 to 127). Two
 * kinds need more: infinity and NaN (exponent field full: correct once more), and subnormals
 * (exponent field 0: subtract the implied one, and the hardware normalises).
 */
static inline float fold_value_FLOAT16(struct gpuring_float16 x)
{
    uint32_t sign = (uint32_t) (x.bits & 0x8000) << 16;
    uint32_t bits = (uint32_t) (x.bits & 0x7fff) << 13;
    uint32_t exponent = bits & 0x0f800000;
    uint32_t full = exponent == 0x0f800000 ? (255 - 31 - 112) << 23 : 0;
    float subnormal = float_of_bits(bits + (113 << 23)) - float_of_bits(113 << 23);

    bits = exponent == 0 ? bits_of_float(subnormal) : bits + (112 << 23) + full;
    return float_of_bits(bits | sign);
}

/*
 * binary32 to binary16, to nearest even. Normal values: add half of the last kept place, minus one
 * if that place is even, and truncate. Subnormal values: add 0.5, whose last place is the last kept
 * place, so that the hardware rounds. Values from 65520 on are infinity, and NaN becomes a quiet
 * NaN.
 */
static inline struct gpuring_float16 fold_round_FLOAT16(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits & 0x80000000, magnitude = bits ^ sign;
    uint32_t odd = magnitude >> 13 & 1;
    uint32_t normal = (magnitude - (112 << 23) + 0xfff + odd) >> 13;
    uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - (UINT32_C(126) << 23);
    uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t half = magnitude < (113 << 23) ? subnormal : normal;

    half = magnitude >= 0x477ff000 ? special : half;
    return (struct gpuring_float16){(uint16_t) (half | sign >> 16)};
}

static inline float fold_value_BFLOAT16(struct gpuring_bfloat16 x)
{
    return float_of_bits((uint32_t) x.bits << 16);
}

static inline struct gpuring_bfloat16 fold_round_BFLOAT16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    uint32_t nan = bits | 0x400000;

    rounded = (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded;
    return (struct gpuring_bfloat16){(uint16_t) (rounded >> 16)};
}

#define FOLD_IDENTITY(name, ctype)                 \
    static inline ctype fold_value_##name(ctype x) \
    {                                              \
        return x;                                  \
    }                                              \
    static inline ctype fold_round_##name(ctype x) \
    {                                              \
        return x;                                  \
    }
FOLD_IDENTITY(FLOAT, float)
FOLD_IDENTITY(DOUBLE, double)
FOLD_IDENTITY(LONG_DOUBLE, long double)
#if GPURING_HAVE_FLOAT128
FOLD_IDENTITY(FLOAT128, gpuring_float128)
#endif

#define FOLD_ALL(name, ctype, kind, text) FOLD_##kind(name, ctype)
GPURING_TYPES(FOLD_ALL)

#define FOLD_ENTRY(op, name) [GPURING_OP_##op] = fold_##op##_##name
#define FOLD_ROW_INTEGER(name)                                                     \
    {                                                                              \
        FOLD_ENTRY(SUM, name), FOLD_ENTRY(PROD, name), FOLD_ENTRY(MAX, name),      \
            FOLD_ENTRY(MIN, name), FOLD_ENTRY(LAND, name), FOLD_ENTRY(LOR, name),  \
            FOLD_ENTRY(LXOR, name), FOLD_ENTRY(BAND, name), FOLD_ENTRY(BOR, name), \
            FOLD_ENTRY(BXOR, name)                                                 \
    }
#define FOLD_ROW_FLOATING(name)                                               \
    {                                                                         \
        FOLD_ENTRY(SUM, name), FOLD_ENTRY(PROD, name), FOLD_ENTRY(MAX, name), \
            FOLD_ENTRY(MIN, name)                                             \
    }
#define FOLD_ROW_COMPLEX(name)                        \
    {                                                 \
        FOLD_ENTRY(SUM, name), FOLD_ENTRY(PROD, name) \
    }
#define FOLD_ROW_LOGICAL(name)                                                \
    {                                                                         \
        FOLD_ENTRY(LAND, name), FOLD_ENTRY(LOR, name), FOLD_ENTRY(LXOR, name) \
    }
#define FOLD_ROW_BYTE(name)                                                   \
    {                                                                         \
        FOLD_ENTRY(BAND, name), FOLD_ENTRY(BOR, name), FOLD_ENTRY(BXOR, name) \
    }
#define FOLD_ROW_PAIR(name)                                \
    {                                                      \
        FOLD_ENTRY(MAXLOC, name), FOLD_ENTRY(MINLOC, name) \
    }
#define FOLD_ROW(name, ctype, kind, text) [GPURING_TYPE_##name] = FOLD_ROW_##kind(name),

const gpuring_fold_table FOLD_TABLE = {GPURING_TYPES(FOLD_ROW)};
