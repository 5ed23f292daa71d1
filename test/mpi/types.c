/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Types and operations, and data with an exactly known result at every position. */
#include "harness.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Fortran's REAL*16, where the C compiler has the type. */
#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 quad;
#define QUAD(X) X(quad, quad)
#else
#define QUAD(X)
#endif

#ifdef MPIX_C_FLOAT16
#define HALF(X) X(half, _Float16)
#else
#define HALF(X)
#endif

/* X(name, C type): plain arithmetic types. */
#define PLAIN(X)                  \
    X(schar, signed char)         \
    X(uchar, unsigned char)       \
    X(short, short)               \
    X(ushort, unsigned short)     \
    X(int, int)                   \
    X(uint, unsigned int)         \
    X(long, long)                 \
    X(ulong, unsigned long)       \
    X(llong, long long)           \
    X(ullong, unsigned long long) \
    X(float, float)               \
    X(double, double)             \
    X(ldouble, long double)       \
    QUAD(X)                       \
    HALF(X)

#define PLAIN_FUNCTIONS(name, type)                                         \
    static void put_##name(void *buffer, size_t i, long re, long im)        \
    {                                                                       \
        (void) im;                                                          \
        ((type *) buffer)[i] = (type) re;                                   \
    }                                                                       \
    static bool same_##name(const void *buffer, size_t i, long re, long im) \
    {                                                                       \
        (void) im;                                                          \
        return ((const type *) buffer)[i] == (type) re;                     \
    }
PLAIN(PLAIN_FUNCTIONS)

#define COMPLEX_FUNCTIONS(name, type)                                        \
    static void put_c##name(void *buffer, size_t i, long re, long im)        \
    {                                                                        \
        ((type *) buffer)[2 * i] = (type) re;                                \
        ((type *) buffer)[2 * i + 1] = (type) im;                            \
    }                                                                        \
    static bool same_c##name(const void *buffer, size_t i, long re, long im) \
    {                                                                        \
        return ((const type *) buffer)[2 * i] == (type) re &&                \
               ((const type *) buffer)[2 * i + 1] == (type) im;              \
    }
COMPLEX_FUNCTIONS(float, float)
COMPLEX_FUNCTIONS(double, double)
COMPLEX_FUNCTIONS(ldouble, long double)
#ifdef __SIZEOF_FLOAT128__
COMPLEX_FUNCTIONS(quad, quad)
#endif

/* Compare only the truth value of a logical. */
#define LOGICAL_FUNCTIONS(name, type)                                        \
    static void put_l##name(void *buffer, size_t i, long re, long im)        \
    {                                                                        \
        (void) im;                                                           \
        ((type *) buffer)[i] = re != 0;                                      \
    }                                                                        \
    static bool same_l##name(const void *buffer, size_t i, long re, long im) \
    {                                                                        \
        (void) im;                                                           \
        return (((const type *) buffer)[i] != 0) == (re != 0);               \
    }
LOGICAL_FUNCTIONS(bool, uint8_t)
LOGICAL_FUNCTIONS(short, uint16_t)
LOGICAL_FUNCTIONS(int, uint32_t)
LOGICAL_FUNCTIONS(llong, uint64_t)

#define PAIR_FUNCTIONS(name, value_type, index_type)                              \
    struct pair_##name {                                                          \
        value_type value;                                                         \
        index_type index;                                                         \
    };                                                                            \
    static void put_##name(void *buffer, size_t i, long re, long im)              \
    {                                                                             \
        ((struct pair_##name *) buffer)[i].value = (value_type) re;               \
        ((struct pair_##name *) buffer)[i].index = (index_type) im;               \
    }                                                                             \
    static bool same_##name(const void *buffer, size_t i, long re, long im)       \
    {                                                                             \
        const struct pair_##name *pair = (const struct pair_##name *) buffer + i; \
                                                                                  \
        return pair->value == (value_type) re && pair->index == (index_type) im;  \
    }
PAIR_FUNCTIONS(float_int, float, int)
PAIR_FUNCTIONS(double_int, double, int)
PAIR_FUNCTIONS(long_int, long, int)
PAIR_FUNCTIONS(int_int, int, int)
PAIR_FUNCTIONS(short_int, short, int)
PAIR_FUNCTIONS(ldouble_int, long double, int)
PAIR_FUNCTIONS(float_float, float, float)
PAIR_FUNCTIONS(double_double, double, double)

const struct harness_type *harness_types(void)
{
#define T(handle, class, functions)                                            \
    {                                                                          \
#handle, handle, HARNESS_##class, 0, put_##functions, same_##functions \
    }
    static struct harness_type types[96];
    const struct harness_type all[] = {
        T(MPI_SIGNED_CHAR, INTEGER, schar),
        T(MPI_UNSIGNED_CHAR, INTEGER, uchar),
        T(MPI_SHORT, INTEGER, short),
        T(MPI_UNSIGNED_SHORT, INTEGER, ushort),
        T(MPI_INT, INTEGER, int),
        T(MPI_UNSIGNED, INTEGER, uint),
        T(MPI_LONG, INTEGER, long),
        T(MPI_UNSIGNED_LONG, INTEGER, ulong),
        T(MPI_LONG_LONG, INTEGER, llong),
        T(MPI_UNSIGNED_LONG_LONG, INTEGER, ullong),
        T(MPI_INT8_T, INTEGER, schar),
        T(MPI_UINT8_T, INTEGER, uchar),
        T(MPI_INT16_T, INTEGER, short),
        T(MPI_UINT16_T, INTEGER, ushort),
        T(MPI_INT32_T, INTEGER, int),
        T(MPI_UINT32_T, INTEGER, uint),
        T(MPI_INT64_T, INTEGER, llong),
        T(MPI_UINT64_T, INTEGER, ullong),
        T(MPI_AINT, OTHER_INTEGER, long),
        T(MPI_OFFSET, OTHER_INTEGER, llong),
        T(MPI_COUNT, OTHER_INTEGER, llong),
        T(MPI_INTEGER, OTHER_INTEGER, int),
        T(MPI_INTEGER1, OTHER_INTEGER, schar),
        T(MPI_INTEGER2, OTHER_INTEGER, short),
        T(MPI_INTEGER4, OTHER_INTEGER, int),
        T(MPI_INTEGER8, OTHER_INTEGER, llong),
        T(MPI_FLOAT, FLOATING, float),
        T(MPI_DOUBLE, FLOATING, double),
        T(MPI_LONG_DOUBLE, FLOATING, ldouble),
        T(MPI_REAL, FLOATING, float),
        T(MPI_REAL4, FLOATING, float),
        T(MPI_REAL8, FLOATING, double),
        T(MPI_DOUBLE_PRECISION, FLOATING, double),
#ifdef MPIX_C_FLOAT16
        T(MPIX_C_FLOAT16, FLOATING, half),
#endif
        T(MPI_C_FLOAT_COMPLEX, COMPLEX, cfloat),
        T(MPI_C_DOUBLE_COMPLEX, COMPLEX, cdouble),
        T(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, cldouble),
        T(MPI_COMPLEX, COMPLEX, cfloat),
        T(MPI_DOUBLE_COMPLEX, COMPLEX, cdouble),
        T(MPI_COMPLEX8, COMPLEX, cfloat),
        T(MPI_COMPLEX16, COMPLEX, cdouble),
        T(MPI_CXX_FLOAT_COMPLEX, COMPLEX, cfloat),
        T(MPI_CXX_DOUBLE_COMPLEX, COMPLEX, cdouble),
        T(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX, cldouble),
#ifdef __SIZEOF_FLOAT128__
        T(MPI_REAL16, FLOATING, quad),
        T(MPI_COMPLEX32, COMPLEX, cquad),
#endif
        T(MPI_C_BOOL, LOGICAL, lbool),
        T(MPI_CXX_BOOL, LOGICAL, lbool),
        T(MPI_LOGICAL, LOGICAL, lint),
        T(MPI_LOGICAL1, LOGICAL, lbool),
        T(MPI_LOGICAL2, LOGICAL, lshort),
        T(MPI_LOGICAL4, LOGICAL, lint),
        T(MPI_LOGICAL8, LOGICAL, lllong),
        T(MPI_BYTE, BYTE, uchar),
        T(MPI_FLOAT_INT, PAIR, float_int),
        T(MPI_DOUBLE_INT, PAIR, double_int),
        T(MPI_LONG_INT, PAIR, long_int),
        T(MPI_2INT, PAIR, int_int),
        T(MPI_SHORT_INT, PAIR, short_int),
        T(MPI_LONG_DOUBLE_INT, PAIR, ldouble_int),
        T(MPI_2INTEGER, PAIR, int_int),
        T(MPI_2REAL, PAIR, float_float),
        T(MPI_2DOUBLE_PRECISION, PAIR, double_double),
    };
#undef T
    _Static_assert(sizeof all / sizeof *all < sizeof types / sizeof *types, "room for the end");

    if (types[0].name == NULL) {
        memcpy(types, all, sizeof all);
        for (struct harness_type *type = types; type->name != NULL; type++) {
            MPI_Aint low, extent = 0;

            if (type->handle != MPI_DATATYPE_NULL) {
                MPI_Type_get_extent(type->handle, &low, &extent);
            }
            type->size = (size_t) extent;
            if (extent == 0) {
                type->handle = MPI_DATATYPE_NULL; /* known by name only */
            }
        }
    }
    return types;
}

#define FOLD(name, integer)                                                                      \
    static void fold_##name(const struct harness_type *type, long *re, long *im, long a, long b) \
    {                                                                                            \
        (void) type;                                                                             \
        (void) im;                                                                               \
        (void) b;                                                                                \
        *re = (integer);                                                                         \
    }
FOLD(max, a > *re ? a : *re)
FOLD(min, a < *re ? a : *re)
FOLD(land, *re != 0 && a != 0)
FOLD(lor, *re != 0 || a != 0)
FOLD(lxor, (*re != 0) != (a != 0))
FOLD(band, *re &a)
FOLD(bor, *re | a)
FOLD(bxor, *re ^ a)

static void fold_sum(const struct harness_type *type, long *re, long *im, long a, long b)
{
    (void) type;
    *re += a;
    *im += b;
}

static void fold_prod(const struct harness_type *type, long *re, long *im, long a, long b)
{
    long old = *re;

    if (type->class == HARNESS_COMPLEX) {
        *re = old * a - *im * b;
        *im = old * b + *im * a;
    } else {
        *re = old * a;
    }
}

static void fold_maxloc(const struct harness_type *type, long *re, long *im, long a, long b)
{
    (void) type;
    if (a > *re || (a == *re && b < *im)) {
        *re = a;
        *im = b;
    }
}

static void fold_minloc(const struct harness_type *type, long *re, long *im, long a, long b)
{
    (void) type;
    if (a < *re || (a == *re && b < *im)) {
        *re = a;
        *im = b;
    }
}

const struct harness_op *harness_ops(void)
{
    enum {
        I = 1 << HARNESS_INTEGER,
        O = 1 << HARNESS_OTHER_INTEGER,
        F = 1 << HARNESS_FLOATING,
        C = 1 << HARNESS_COMPLEX,
        L = 1 << HARNESS_LOGICAL,
        B = 1 << HARNESS_BYTE,
        P = 1 << HARNESS_PAIR,
    };
    static struct harness_op ops[16];
    const struct harness_op all[] = {
        {"MPI_SUM", MPI_SUM, I | O | F | C, fold_sum},
        {"MPI_PROD", MPI_PROD, I | O | F | C, fold_prod},
        {"MPI_MAX", MPI_MAX, I | O | F, fold_max},
        {"MPI_MIN", MPI_MIN, I | O | F, fold_min},
        {"MPI_LAND", MPI_LAND, I | L, fold_land},
        {"MPI_LOR", MPI_LOR, I | L, fold_lor},
        {"MPI_LXOR", MPI_LXOR, I | L, fold_lxor},
        {"MPI_BAND", MPI_BAND, I | O | B, fold_band},
        {"MPI_BOR", MPI_BOR, I | O | B, fold_bor},
        {"MPI_BXOR", MPI_BXOR, I | O | B, fold_bxor},
        {"MPI_MAXLOC", MPI_MAXLOC, P, fold_maxloc},
        {"MPI_MINLOC", MPI_MINLOC, P, fold_minloc},
    };

    if (ops[0].name == NULL) {
        memcpy(ops, all, sizeof all);
    }
    return ops;
}

const struct harness_type *harness_type_named(const char *name)
{
    const struct harness_type *type = harness_types();

    while (type->name != NULL && strcmp(type->name, name) != 0) {
        type++;
    }
    return type->name != NULL ? type : NULL;
}

const struct harness_op *harness_op_named(const char *name)
{
    const struct harness_op *op = harness_ops();

    while (op->name != NULL && strcmp(op->name, name) != 0) {
        op++;
    }
    return op->name != NULL ? op : NULL;
}

/* Mix position and rank, so that a shifted, swapped or repeated chunk is detected at every
 * position. */
static unsigned long mix(size_t i, int rank)
{
    uint64_t x = ((uint64_t) i + 1) * UINT64_C(0x9e3779b97f4a7c15) +
                 (uint64_t) rank * UINT64_C(0xc2b2ae3d27d4eb4f);

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (unsigned long) (x >> 40);
}

void harness_value(const struct harness_type *type, const struct harness_op *op, int rank, size_t i,
                   long *re, long *im)
{
    unsigned long x = mix(i, rank);

    *im = 0;
    if (op->handle == MPI_PROD) {
        *re = 1 + (long) (x % 3); /* 8 ranks: at most 3^8 = 6561 */
        *im = type->class == HARNESS_COMPLEX ? (long) (x / 3 % 2) : 0;
    } else if (type->class == HARNESS_PAIR) {
        *re = (long) (x % 13); /* ties are frequent: the index decides */
        *im = (long) (x / 13 % 5) + rank % 3;
    } else if (type->class == HARNESS_LOGICAL || op->handle == MPI_LAND || op->handle == MPI_LOR ||
               op->handle == MPI_LXOR) {
        *re = (long) (x % 4 != 0);
    } else {
        *re = (long) (x % 101);
        *im = type->class == HARNESS_COMPLEX ? (long) (x / 101 % 101) : 0;
    }
}

void harness_expected(const struct harness_type *type, const struct harness_op *op, int size,
                      size_t i, long *re, long *im)
{
    harness_value(type, op, 0, i, re, im);
    for (int rank = 1; rank < size; rank++) {
        long a, b;

        harness_value(type, op, rank, i, &a, &b);
        op->fold(type, re, im, a, b);
    }
}

void harness_fill(const struct harness_type *type, const struct harness_op *op, int rank,
                  void *buffer, size_t count)
{
    memset(buffer, 0, count * type->size); /* padding of pairs */
    for (size_t i = 0; i < count; i++) {
        long re, im;

        harness_value(type, op, rank, i, &re, &im);
        type->put(buffer, i, re, im);
    }
}

size_t harness_wrong(const struct harness_type *type, const struct harness_op *op, int size,
                     const void *buffer, size_t count, size_t *first)
{
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        long re, im;

        harness_expected(type, op, size, i, &re, &im);
        if (!type->same(buffer, i, re, im)) {
            if (wrong++ == 0) {
                *first = i;
            }
        }
    }
    return wrong;
}
