/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/verify.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/types.h"

/* Floating and complex types: F(type, real type, number of components, epsilon), where epsilon is
 * the unit in the last place of 1. */
#if GPURING_HAVE_FLOAT128
#define QUAD_REALS(F)                           \
    F(FLOAT128, gpuring_float128, 1, 0x1p-112L) \
    F(COMPLEX_FLOAT128, gpuring_float128, 2, 0x1p-112L)
#else
#define QUAD_REALS(F)
#endif
#define REALS(F)                                         \
    F(FLOAT, float, 1, FLT_EPSILON)                      \
    F(DOUBLE, double, 1, DBL_EPSILON)                    \
    F(COMPLEX_FLOAT, float, 2, FLT_EPSILON)              \
    F(COMPLEX_DOUBLE, double, 2, DBL_EPSILON)            \
    F(LONG_DOUBLE, long double, 1, LDBL_EPSILON)         \
    F(COMPLEX_LONG_DOUBLE, long double, 2, LDBL_EPSILON) \
    QUAD_REALS(F)

/* Return the number of components of an element, and their precision. The number is 0 if the type
 * is neither a floating nor a complex one. */
static struct precision {
    int components;
    long double epsilon;
} precision_of(uint32_t type)
{
    switch (type) {
#define PRECISION(name, real, count, epsilon) \
    case GPURING_TYPE_##name:                 \
        return (struct precision){count, epsilon};
        REALS(PRECISION)
#undef PRECISION
    case GPURING_TYPE_FLOAT16:
        return (struct precision){1, 0x1p-10L};
    case GPURING_TYPE_BFLOAT16:
        return (struct precision){1, 0x1p-7L};
    default:
        return (struct precision){0, 0};
    }
}

static long double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    long double value = exponent == 0    ? ldexpl(fraction, -24)
                        : exponent == 31 ? (fraction != 0 ? (long double) NAN : HUGE_VALL)
                                         : ldexpl(1024 + fraction, exponent - 25);

    return (bits & 0x8000) != 0 ? -value : value;
}

/* Return component `index` of a vector. */
static long double value_at(const void *vector, uint64_t index, uint32_t type)
{
    switch (type) {
#define VALUE(name, real, count, epsilon)                                              \
    case GPURING_TYPE_##name: {                                                        \
        real value;                                                                    \
        memcpy(&value, (const uint8_t *) vector + index * sizeof value, sizeof value); \
        return (long double) value;                                                    \
    }
        REALS(VALUE)
#undef VALUE
    default: {
        uint16_t bits;
        uint32_t wide;
        float value;

        memcpy(&bits, (const uint8_t *) vector + index * sizeof bits, sizeof bits);
        if (type == GPURING_TYPE_FLOAT16) {
            return half_value(bits);
        }
        wide = (uint32_t) bits << 16;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    }
}

bool gpuring_verify_rounds(uint32_t type, uint32_t op)
{
    return precision_of(type).components > 0 && (op == GPURING_OP_SUM || op == GPURING_OP_PROD);
}

void gpuring_verify_scale(double *scale, const void *block, uint64_t count, uint32_t type,
                          uint32_t op, bool first)
{
    uint64_t n = (uint64_t) precision_of(type).components;

    for (uint64_t i = 0; i < count; i++) {
        double magnitude = (double) fabsl(value_at(block, i * n, type));

        if (n == 2) {
            magnitude += (double) fabsl(value_at(block, i * n + 1, type));
        }
        scale[i] = first                  ? magnitude
                   : op == GPURING_OP_SUM ? scale[i] + magnitude
                                          : scale[i] * magnitude;
    }
}

/* Return true if two pairs have equal members. Their padding may differ. */
static bool same_pair(const void *a, const void *b, uint32_t type)
{
    switch (type) {
#define SAME_PAIR(name, structure)                                     \
    case GPURING_TYPE_##name: {                                        \
        struct gpuring_##structure left, right;                        \
        memcpy(&left, a, sizeof left);                                 \
        memcpy(&right, b, sizeof right);                               \
        return left.value == right.value && left.index == right.index; \
    }
        SAME_PAIR(FLOAT_INT, float_int)
        SAME_PAIR(DOUBLE_INT, double_int)
        SAME_PAIR(SHORT_INT, short_int)
        SAME_PAIR(INT_INT, int_int)
        SAME_PAIR(LONG_INT, long_int)
        SAME_PAIR(FLOAT_FLOAT, float_float)
        SAME_PAIR(DOUBLE_DOUBLE, double_double)
        SAME_PAIR(LONG_DOUBLE_INT, long_double_int)
#undef SAME_PAIR
    default:
        return false;
    }
}

/* Return true if two values are equal, are both NaN, or differ by at most the tolerance. If the
 * scale itself has overflowed, any two values are accepted. */
static bool close_enough(long double a, long double b, long double tolerance)
{
    return a == b || (isnan(a) && isnan(b)) || fabsl(a - b) <= tolerance || !isfinite(tolerance);
}

uint64_t gpuring_verify(const void *found, const void *expected, const double *scale,
                        uint64_t count, uint32_t type, int nranks)
{
    const struct gpuring_type_info *info = gpuring_type_info(type);
    uint64_t n = (uint64_t) precision_of(type).components;

    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *a = (const uint8_t *) found + i * info->size;
        const uint8_t *b = (const uint8_t *) expected + i * info->size;
        long double tolerance;

        if (memcmp(a, b, info->size) == 0) {
            continue;
        }
        if (n == 0) {
            if (info->class == GPURING_CLASS_PAIR && same_pair(a, b, type)) {
                continue;
            }
            return i;
        }
        tolerance =
            scale == NULL ? 0 : 4 * nranks * precision_of(type).epsilon * (long double) scale[i];
        for (uint64_t c = 0; c < n; c++) {
            if (!close_enough(value_at(found, i * n + c, type), value_at(expected, i * n + c, type),
                              tolerance)) {
                return i;
            }
        }
    }
    return count;
}

void gpuring_verify_text(const void *vector, uint64_t element, uint32_t type, char *text,
                         size_t size)
{
    const struct gpuring_type_info *info = gpuring_type_info(type);
    const uint8_t *bytes = (const uint8_t *) vector + element * info->size;
    uint64_t n = (uint64_t) precision_of(type).components;
    size_t used = 0;

    if (n == 1) {
        snprintf(text, size, "%.21Lg", value_at(vector, element, type));
    } else if (n == 2) {
        snprintf(text, size, "%.21Lg%+.21Lgi", value_at(vector, 2 * element, type),
                 value_at(vector, 2 * element + 1, type));
    } else {
        for (uint32_t i = 0; i < info->size && used + 3 < size; i++) {
            /* most significant byte first, as numbers are read */
            used += (size_t) snprintf(text + used, size - used, "%s%02x", i == 0 ? "0x" : "",
                                      bytes[info->size - 1 - i]);
        }
    }
}
