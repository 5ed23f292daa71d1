/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An element. Integers and logicals are in i (with a flag if they are signed), and others in re and
 * im. For pairs, re is the value and im the index. */
struct value {
    uint64_t i;
    int is_signed;
    long double re, im;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static struct value input_value(uint32_t type, uint32_t op, int rank, uint64_t position)
{
    uint64_t h = mix(position * 64 + (uint64_t) rank + 1);
    struct value value = {.i = h};

    switch (gpuring_type_info(type)->class) {
    case GPURING_CLASS_LOGICAL:
        value.i = h % 3 == 0 ? 0 : h | 1;
        break;
    case GPURING_CLASS_INTEGER:
        if (op == GPURING_OP_LAND || op == GPURING_OP_LOR || op == GPURING_OP_LXOR) {
            value.i = h % 3 == 0 ? 0 : h | 1;
        }
        break;
    case GPURING_CLASS_PAIR:
        value.re = (int) (h % 5) - 2;
        value.im = (int) (h >> 8 & 0x3ff);
        break;
    default: /* powers of two for products, and small integers otherwise */
        value.re = op == GPURING_OP_PROD ? (h & 1 ? -1.0L : 1.0L) * (h & 2 ? 2.0L : 1.0L)
                                         : (long double) (h % 17) - 8;
        value.im = op == GPURING_OP_PROD ? (h & 4 ? 1.0L : 0.0L) : (long double) (h >> 20 & 7) - 3;
        break;
    }
    return value;
}

/* Return the binary16 or bfloat16 of a value that it represents exactly, from 2^-14 on. */
static uint16_t bits_exact(long double value, int mantissa_bits, int bias)
{
    int exponent;
    long double fraction = frexpl(fabsl(value), &exponent); /* 0.5 .. 1 */
    unsigned sign = signbit(value) ? 0x8000u : 0;

    if (value == 0) {
        return (uint16_t) sign;
    }
    return (uint16_t) (sign | (unsigned) (exponent - 1 + bias) << mantissa_bits |
                       (unsigned) ldexpl(2 * fraction - 1, mantissa_bits));
}

#define SET_REAL(name, ctype)                            \
    static void set_##name(ctype *to, long double value) \
    {                                                    \
        *to = (ctype) value;                             \
    }
SET_REAL(FLOAT, float)
SET_REAL(DOUBLE, double)
SET_REAL(LONG_DOUBLE, long double)
#if GPURING_HAVE_FLOAT128
SET_REAL(FLOAT128, gpuring_float128)
#endif

static void set_FLOAT16(struct gpuring_float16 *to, long double value)
{
    to->bits = bits_exact(value, 10, 15);
}

static void set_BFLOAT16(struct gpuring_bfloat16 *to, long double value)
{
    to->bits = bits_exact(value, 7, 127);
}

#define PUT_FLOATING(name) set_##name(&element, value->re);
#define PUT_INTEGER(name)  element = (__typeof__(element)) value->i;
#define PUT_LOGICAL        PUT_INTEGER
#define PUT_BYTE           PUT_INTEGER
#define PUT_COMPLEX(name)                            \
    element.re = (__typeof__(element.re)) value->re; \
    element.im = (__typeof__(element.im)) value->im;
#define PUT_PAIR(name)                                     \
    element.value = (__typeof__(element.value)) value->re; \
    element.index = (__typeof__(element.index)) value->im;

static void value_put(uint32_t type, const struct value *value, void *to)
{
    switch (type) {
#define PUT_CASE(name, ctype, kind, text)     \
    case GPURING_TYPE_##name: {               \
        ctype element;                        \
        memset(&element, 0, sizeof element);  \
        PUT_##kind(name);                     \
        memcpy(to, &element, sizeof element); \
        break;                                \
    }
        GPURING_TYPES(PUT_CASE)
    default:
        abort();
    }
}

/* Reduce an integer to its type and extend it to 64 bits again. */
static void value_narrow(uint32_t type, struct value *value)
{
    unsigned bits = 8 * gpuring_type_info(type)->size;

    value->is_signed = type == GPURING_TYPE_INT8 || type == GPURING_TYPE_INT16 ||
                       type == GPURING_TYPE_INT32 || type == GPURING_TYPE_INT64;
    if (bits < 64) {
        value->i &= (UINT64_C(1) << bits) - 1;
        if (value->is_signed && value->i >> (bits - 1)) {
            value->i |= ~UINT64_C(0) << bits;
        }
    }
}

static int less(const struct value *a, const struct value *b)
{
    return a->is_signed ? (int64_t) a->i < (int64_t) b->i : a->i < b->i;
}

static void fold_integer(uint32_t op, struct value *a, const struct value *b)
{
    switch (op) {
    case GPURING_OP_SUM:
        a->i += b->i;
        break;
    case GPURING_OP_PROD:
        a->i *= b->i;
        break;
    case GPURING_OP_MAX:
        a->i = less(a, b) ? b->i : a->i;
        break;
    case GPURING_OP_MIN:
        a->i = less(a, b) ? a->i : b->i;
        break;
    case GPURING_OP_LAND:
        a->i = a->i && b->i;
        break;
    case GPURING_OP_LOR:
        a->i = a->i || b->i;
        break;
    case GPURING_OP_LXOR:
        a->i = !a->i != !b->i;
        break;
    case GPURING_OP_BAND:
        a->i &= b->i;
        break;
    case GPURING_OP_BOR:
        a->i |= b->i;
        break;
    case GPURING_OP_BXOR:
        a->i ^= b->i;
        break;
    default:
        abort();
    }
}

static void fold_real(uint32_t op, int is_complex, struct value *a, const struct value *b)
{
    struct value product = {.re = a->re * b->re, .im = 0};

    switch (op) {
    case GPURING_OP_SUM:
        a->re += b->re;
        a->im += b->im;
        break;
    case GPURING_OP_PROD:
        if (is_complex) {
            product.re -= a->im * b->im;
            product.im = a->re * b->im + a->im * b->re;
        }
        *a = product;
        break;
    case GPURING_OP_MAX:
        a->re = fmaxl(a->re, b->re);
        break;
    case GPURING_OP_MIN:
        a->re = fminl(a->re, b->re);
        break;
    default:
        abort();
    }
}

static void fold_pair(uint32_t op, struct value *a, const struct value *b)
{
    long double sign = op == GPURING_OP_MAXLOC ? 1 : -1;

    if (sign * b->re > sign * a->re || (a->re == b->re && b->im < a->im)) {
        *a = *b;
    }
}

void reference_input(uint32_t type, uint32_t op, int rank, uint64_t position, void *element)
{
    struct value value = input_value(type, op, rank, position);

    value_put(type, &value, element);
}

void reference_result(uint32_t type, uint32_t op, int nranks, uint64_t position, void *element)
{
    uint32_t kind = gpuring_type_info(type)->class;
    struct value result = input_value(type, op, 0, position);

    value_narrow(type, &result);
    for (int rank = 1; rank < nranks; rank++) {
        struct value value = input_value(type, op, rank, position);

        value_narrow(type, &value);
        if (kind == GPURING_CLASS_PAIR) {
            fold_pair(op, &result, &value);
        } else if (kind == GPURING_CLASS_FLOATING || kind == GPURING_CLASS_COMPLEX) {
            fold_real(op, kind == GPURING_CLASS_COMPLEX, &result, &value);
        } else {
            fold_integer(op, &result, &value);
            value_narrow(type, &result);
        }
    }
    value_put(type, &result, element);
}

#define SAME_INTEGER(a, b) (memcmp(a, b, sizeof *(a)) == 0)
#define SAME_LOGICAL       SAME_INTEGER
#define SAME_BYTE          SAME_INTEGER
#define SAME_COMPLEX(a, b) ((a)->re == (b)->re && (a)->im == (b)->im)
#define SAME_PAIR(a, b)    ((a)->value == (b)->value && (a)->index == (b)->index)
#define SAME_FLOATING      SAME_INTEGER /* bits, so that -0 and 0 differ */

int reference_equal(uint32_t type, const void *a, const void *b)
{
    long double left, right;

    if (type == GPURING_TYPE_LONG_DOUBLE) { /* may have bytes that do not count */
        memcpy(&left, a, sizeof left);
        memcpy(&right, b, sizeof right);
        return left == right;
    }
    switch (type) {
#define SAME_CASE(name, ctype, kind, text) \
    case GPURING_TYPE_##name: {            \
        ctype x, y;                        \
        memcpy(&x, a, sizeof x);           \
        memcpy(&y, b, sizeof y);           \
        return SAME_##kind(&x, &y);        \
    }
        GPURING_TYPES(SAME_CASE)
    default:
        abort();
    }
}
