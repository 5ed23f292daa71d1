/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Arithmetic of PTX on all lanes of a warp. The caller ignores the results of inactive lanes.
 * Registers hold unsigned values with zeros above.
 */
#include "test/ptx/ptx_code.h"

#include <string.h>

const struct ptx_type_info ptx_types[PTX_TYPE_COUNT] = {
#define TYPE(name, bytes, kind) [PTX_##name] = {#name, bytes, PTX_##kind},
    PTX_TYPES(TYPE)
#undef TYPE
};

static float f32_of(uint64_t bits)
{
    uint32_t low = (uint32_t) bits;
    float value;

    memcpy(&value, &low, sizeof value);
    return value;
}

/* Return the bits of a result in single precision. All NaNs have the same bits. Rounding is to
 * nearest, which all supported opcodes specify. */
static uint64_t bits_of_f32(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fffffff : bits;
}

static double f64_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_f64(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float f16_of(uint64_t bits)
{
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? f32_of(0x7f800000 | fraction << 13)
                  : exponent > 0 ? f32_of((exponent + 112) << 23 | fraction << 13)
                                 : (float) fraction * 0x1p-24f;

    return bits >> 15 & 1 ? -value : value;
}

/* Round to nearest even. Rounding a sum or a product of two 16-bit floats to single precision first
 * does not change the result, because single precision has more than twice as many digits plus
 * two. */
static uint64_t bits_of_f16(float value)
{
    uint32_t bits, sign, rest;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) {
        return 0x7fff;
    }
    if (bits >= 0x47800000) {
        return sign | 0x7c00;
    }
    if (bits < 0x38800000) { /* round to a multiple of 2^-24 with an addition */
        float shifted = f32_of(bits) + 0.5f;

        memcpy(&rest, &shifted, sizeof rest);
        return sign | (rest - 0x3f000000);
    }
    rest = bits - 0x38000000;
    return sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13;
}

static float bf16_of(uint64_t bits)
{
    return f32_of((bits & 0xffff) << 16);
}

static uint64_t bits_of_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* min and max return the number if the other operand is a NaN; -0 is less than 0. */
static float least(float x, float y)
{
    if (x != x || y != y) {
        return x != x ? y : x;
    }
    return x == y ? (__builtin_signbit(x) ? x : y) : x < y ? x : y;
}

static float most(float x, float y)
{
    return x != x || y != y ? least(x, y) : -least(-x, -y);
}

#define LANES         for (int i = 0; i < PTX_LANES; i++)
#define KEY(op, type) ((unsigned) (op) << 5 | (type))

/* x and y are the sources as values of type `ctype`. `back` converts the result to bits. */
#define CASE(op, type, ctype, back, expression)       \
    case KEY(op, PTX_##type):                         \
        LANES                                         \
        {                                             \
            ctype x = (ctype) a[i], y = (ctype) b[i]; \
            r[i] = (back) (expression);               \
        }                                             \
        return true;
#define UNSIGNED(op, expression)                  \
    CASE(op, u16, uint16_t, uint16_t, expression) \
    CASE(op, u32, uint32_t, uint32_t, expression) \
    CASE(op, u64, uint64_t, uint64_t, expression)
#define SIGNED(op, expression)                   \
    CASE(op, s16, int16_t, uint16_t, expression) \
    CASE(op, s32, int32_t, uint32_t, expression) \
    CASE(op, s64, int64_t, uint64_t, expression)
/* Operations with the same result bits for signed and unsigned types. */
#define WRAPS(op, sign)                         \
    CASE(op, u16, uint32_t, uint16_t, x sign y) \
    CASE(op, u32, uint32_t, uint32_t, x sign y) \
    CASE(op, u64, uint64_t, uint64_t, x sign y) \
    CASE(op, s16, uint32_t, uint16_t, x sign y) \
    CASE(op, s32, uint32_t, uint32_t, x sign y) \
    CASE(op, s64, uint64_t, uint64_t, x sign y)
#define BITS(op, expression)                      \
    CASE(op, b16, uint64_t, uint16_t, expression) \
    CASE(op, b32, uint64_t, uint32_t, expression) \
    CASE(op, b64, uint64_t, uint64_t, expression)

#define FLOAT(op, type, expression)                              \
    case KEY(op, PTX_##type):                                    \
        LANES                                                    \
        {                                                        \
            r[i] = bits_of_##type(expression(type, a[i], b[i])); \
        }                                                        \
        return true;
#define PAIR(op, type, half, expression)                                           \
    case KEY(op, PTX_##type):                                                      \
        LANES                                                                      \
        {                                                                          \
            r[i] = bits_of_##half(expression(half, a[i], b[i])) |                  \
                   bits_of_##half(expression(half, a[i] >> 16, b[i] >> 16)) << 16; \
        }                                                                          \
        return true;
#define SUM(type, x, y)        (type##_of(x) + type##_of(y))
#define DIFFERENCE(type, x, y) (type##_of(x) - type##_of(y))
#define PRODUCT(type, x, y)    (type##_of(x) * type##_of(y))
#define LEAST(type, x, y)      least(type##_of(x), type##_of(y))
#define MOST(type, x, y)       most(type##_of(x), type##_of(y))

#define COMPARE_ONE(op, type, first, second, sign)       \
    case KEY(op, PTX_##type):                            \
        LANES                                            \
        {                                                \
            mask |= (uint32_t) (first sign second) << i; \
        }                                                \
        break;
#define COMPARE_AS(op, type, ctype, sign) COMPARE_ONE(op, type, (ctype) a[i], (ctype) b[i], sign)
#define COMPARE(op, sign)                                  \
    COMPARE_AS(op, u16, uint16_t, sign)                    \
    COMPARE_AS(op, u32, uint32_t, sign)                    \
    COMPARE_AS(op, u64, uint64_t, sign)                    \
    COMPARE_AS(op, s16, int16_t, sign)                     \
    COMPARE_AS(op, s32, int32_t, sign)                     \
    COMPARE_AS(op, s64, int64_t, sign)                     \
    COMPARE_ONE(op, f32, f32_of(a[i]), f32_of(b[i]), sign) \
    COMPARE_ONE(op, f64, f64_of(a[i]), f64_of(b[i]), sign)
#define COMPARE_BITS(op, sign)          \
    COMPARE_AS(op, b16, uint16_t, sign) \
    COMPARE_AS(op, b32, uint32_t, sign) \
    COMPARE_AS(op, b64, uint64_t, sign)

static bool compare(unsigned op, unsigned type, uint64_t *result, const uint64_t *a,
                    const uint64_t *b)
{
    uint32_t mask = 0;

    switch (KEY(op, type)) {
        COMPARE(PTX_SETP_EQ, ==)
        COMPARE(PTX_SETP_NE, !=)
        COMPARE(PTX_SETP_LT, <)
        COMPARE(PTX_SETP_LE, <=)
        COMPARE(PTX_SETP_GT, >)
        COMPARE(PTX_SETP_GE, >=)
        COMPARE_BITS(PTX_SETP_EQ, ==)
        COMPARE_BITS(PTX_SETP_NE, !=)
    default:
        return false;
    }
    result[0] = mask;
    return true;
}

static bool arithmetic(unsigned op, unsigned type, uint64_t *restrict r, const uint64_t *a,
                       const uint64_t *b)
{
    switch (KEY(op, type)) {
        WRAPS(PTX_ADD, +)
        WRAPS(PTX_SUB, -)
        WRAPS(PTX_MUL, *)
        CASE(PTX_MUL_WIDE, u16, uint16_t, uint32_t, (uint32_t) x * y)
        CASE(PTX_MUL_WIDE, u32, uint32_t, uint64_t, (uint64_t) x * y)
        CASE(PTX_MUL_WIDE, s16, int16_t, uint32_t, (int32_t) x * y)
        CASE(PTX_MUL_WIDE, s32, int32_t, uint64_t, (int64_t) x * y)
        CASE(PTX_MUL_HI, u32, uint32_t, uint32_t, (uint64_t) x * y >> 32)
        CASE(PTX_MUL_HI, u64, uint64_t, uint64_t, (unsigned __int128) x * y >> 64)
        UNSIGNED(PTX_DIV, y == 0 ? 0 : x / y)
        UNSIGNED(PTX_REM, y == 0 ? 0 : x % y)
        UNSIGNED(PTX_MIN, x < y ? x : y)
        UNSIGNED(PTX_MAX, x > y ? x : y)
        SIGNED(PTX_MIN, x < y ? x : y)
        SIGNED(PTX_MAX, x > y ? x : y)
        FLOAT(PTX_ADD, f32, SUM)
        FLOAT(PTX_SUB, f32, DIFFERENCE)
        FLOAT(PTX_MUL, f32, PRODUCT)
        FLOAT(PTX_ADD, f64, SUM)
        FLOAT(PTX_SUB, f64, DIFFERENCE)
        FLOAT(PTX_MUL, f64, PRODUCT)
        PAIR(PTX_ADD, f16x2, f16, SUM)
        PAIR(PTX_MUL, f16x2, f16, PRODUCT)
        PAIR(PTX_MIN, f16x2, f16, LEAST)
        PAIR(PTX_MAX, f16x2, f16, MOST)
        PAIR(PTX_ADD, bf16x2, bf16, SUM)
        PAIR(PTX_MUL, bf16x2, bf16, PRODUCT)
        PAIR(PTX_MIN, bf16x2, bf16, LEAST)
        PAIR(PTX_MAX, bf16x2, bf16, MOST)
    default:
        return false;
    }
}

/* A shift by at least the number of bits gives 0, or all sign bits. */
static bool bitwise(unsigned op, unsigned type, uint64_t *restrict r, const uint64_t *a,
                    const uint64_t *b)
{
    switch (KEY(op, type)) {
        BITS(PTX_AND, x & y)
        BITS(PTX_OR, x | y)
        BITS(PTX_XOR, x ^ y)
        CASE(PTX_SHL, b16, uint64_t, uint16_t, (uint32_t) y > 15 ? 0 : x << y)
        CASE(PTX_SHL, b32, uint64_t, uint32_t, (uint32_t) y > 31 ? 0 : x << y)
        CASE(PTX_SHL, b64, uint64_t, uint64_t, (uint32_t) y > 63 ? 0 : x << y)
        CASE(PTX_SHR, u16, uint64_t, uint16_t, (uint32_t) y > 15 ? 0 : (uint16_t) x >> y)
        CASE(PTX_SHR, u32, uint64_t, uint32_t, (uint32_t) y > 31 ? 0 : (uint32_t) x >> y)
        CASE(PTX_SHR, u64, uint64_t, uint64_t, (uint32_t) y > 63 ? 0 : x >> y)
        CASE(PTX_SHR, s16, uint64_t, uint16_t, (int16_t) x >> ((uint32_t) y > 15 ? 15 : y))
        CASE(PTX_SHR, s32, uint64_t, uint32_t, (int32_t) x >> ((uint32_t) y > 31 ? 31 : y))
        CASE(PTX_SHR, s64, uint64_t, uint64_t, (int64_t) x >> ((uint32_t) y > 63 ? 63 : y))
    default:
        return false;
    }
}

/* Insert the low `length` bits of a into b at bit `at`. */
static bool insert(unsigned type, uint64_t *restrict r, const uint64_t *a, const uint64_t *b,
                   const uint64_t *at, const uint64_t *length)
{
    unsigned bits = 8 * ptx_types[type].bytes;

    LANES
    {
        uint64_t from = at[i] & 255, count = length[i] & 255;
        uint64_t ones = count > 63 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
        uint64_t mask = from >= bits ? 0 : ones << from;

        r[i] = (b[i] & ~mask) | (from >= bits ? 0 : a[i] << from & mask);
        r[i] &= bits == 32 ? UINT32_MAX : UINT64_MAX;
    }
    return type == PTX_b32 || type == PTX_b64;
}

/* Extract `length` bits of a from bit `at` on. Signed types are sign-extended. */
static bool extract(unsigned type, uint64_t *restrict r, const uint64_t *a, const uint64_t *at,
                    const uint64_t *length)
{
    unsigned bits = 8 * ptx_types[type].bytes;

    LANES
    {
        uint64_t from = at[i] & 255, count = length[i] & 255, last = from + count - 1;
        uint64_t ones = count > 63 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
        bool sign = ptx_types[type].kind == PTX_SIGNED && count > 0 &&
                    (a[i] >> (last < bits ? last : bits - 1) & 1) != 0;
        uint64_t field = from < bits ? a[i] >> from & ones : 0;
        uint64_t above = from + count <= bits ? ~ones
                         : from < bits        ? ~(UINT64_MAX >> (64 - bits) >> from)
                                              : UINT64_MAX;

        r[i] = (field | (sign ? above : 0)) & (UINT64_MAX >> (64 - bits));
    }
    return bits >= 32;
}

/* Select four of the eight bytes of a and b. Bit 3 of a selector replicates the sign of the
 * byte. */
static bool permute(unsigned type, uint64_t *restrict r, const uint64_t *a, const uint64_t *b,
                    const uint64_t *choices)
{
    LANES
    {
        uint64_t bytes = b[i] << 32 | a[i];

        r[i] = 0;
        for (int k = 0; k < 4; k++) {
            uint64_t choice = choices[i] >> 4 * k, byte = bytes >> 8 * (choice & 7) & 255;

            r[i] |= ((choice & 8) == 0 ? byte : (byte & 128) != 0 ? 255 : 0) << 8 * k;
        }
    }
    return type == PTX_b32;
}

/* Compute a * b + c of integers. */
static bool multiply_add(unsigned type, uint64_t *restrict r, const uint64_t *a, const uint64_t *b,
                         const uint64_t *c)
{
    unsigned bits = 8 * ptx_types[type].bytes;

    LANES
    {
        r[i] = (a[i] * b[i] + c[i]) & (UINT64_MAX >> (64 - bits));
    }
    return bits >= 16;
}

static bool of_one(unsigned op, unsigned type, uint64_t *restrict r, const uint64_t *a)
{
    unsigned bits = 8 * ptx_types[type].bytes;

    if (bits < 16) {
        return false;
    }
    LANES
    {
        r[i] = op == PTX_POPC  ? (uint64_t) __builtin_popcountll(a[i])
               : op == PTX_NEG ? -a[i] & (UINT64_MAX >> (64 - bits))
                               : ~a[i] & (UINT64_MAX >> (64 - bits));
    }
    return op != PTX_POPC || bits >= 32;
}

bool ptx_alu(unsigned op, unsigned type, uint64_t *result,
             const uint64_t *const sources[PTX_SOURCES])
{
    const uint64_t *a = sources[0], *b = sources[1];

    switch (op) {
    case PTX_BFI:
        return insert(type, result, a, b, sources[2], sources[3]);
    case PTX_BFE:
        return extract(type, result, a, b, sources[2]);
    case PTX_PRMT:
        return permute(type, result, a, b, sources[2]);
    case PTX_MAD:
        return multiply_add(type, result, a, b, sources[2]);
    case PTX_NOT:
    case PTX_NEG:
    case PTX_POPC:
        return of_one(op, type, result, a);
    default:
        break;
    }
    if (op >= PTX_SETP_EQ && op <= PTX_SETP_GE) {
        return compare(op, type, result, a, b);
    }
    return op < PTX_AND ? arithmetic(op, type, result, a, b) : bitwise(op, type, result, a, b);
}
