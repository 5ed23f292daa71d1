/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The types and operations of reductions. Each list exists once and is expanded by the kernels, by
 * the eligibility rules and by the tests. Plain C, because CUDA includes it, too.
 *
 * A core type is a representation, not an MPI handle: MPI_INT, MPI_INT32_T and MPI_INTEGER are all
 * INT32. Types without reductions (MPI_CHAR, MPI_WCHAR, MPI_CHARACTER, MPI_PACKED, derived types)
 * are moved as BYTE.
 *
 * Arithmetic:
 *  - integers wrap, signed ones too (they are computed as unsigned);
 *  - FLOAT16 and BFLOAT16 are folded in float, rounded to nearest even after each operation;
 *  - logical types (C _Bool and Fortran LOGICAL of each width): any nonzero value is true, results
 *    are 0 or 1; the same holds for logical operations on integers;
 *  - complex types are pairs of real and imaginary part, in C, C++ and Fortran;
 *  - MAXLOC and MINLOC return the lowest index of equal values.
 */
#ifndef GPURING_TYPES_H
#define GPURING_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Classes of types as bits. Each operation has the classes on which MPI allows it. */
enum gpuring_class {
    GPURING_CLASS_INTEGER = 1,
    GPURING_CLASS_FLOATING = 2,
    GPURING_CLASS_COMPLEX = 4,
    GPURING_CLASS_LOGICAL = 8,
    GPURING_CLASS_BYTE = 16,
    GPURING_CLASS_PAIR = 32, /* a value and its index */
};

/* 16-bit floating types are stored as bits. Kernels and reduce.h convert them. */
struct gpuring_float16 {
    uint16_t bits; /* IEEE 754 binary16 */
};
struct gpuring_bfloat16 {
    uint16_t bits; /* the upper half of a binary32 */
};

#define GPURING_COMPLEX(name, real) \
    struct gpuring_##name {         \
        real re, im;                \
    };
GPURING_COMPLEX(complex_float, float)
GPURING_COMPLEX(complex_double, double)

/* MPI_FLOAT_INT, MPI_DOUBLE_INT, ...: structures with the layout of C. */
#define GPURING_PAIR(name, value_type, index_type) \
    struct gpuring_##name {                        \
        value_type value;                          \
        index_type index;                          \
    };
GPURING_PAIR(float_int, float, int32_t)
GPURING_PAIR(double_int, double, int32_t)
GPURING_PAIR(short_int, int16_t, int32_t)
GPURING_PAIR(int_int, int32_t, int32_t)
GPURING_PAIR(long_int, int64_t, int32_t)
GPURING_PAIR(float_float, float, float)
GPURING_PAIR(double_double, double, double)

/* Types for hosts and GPUs: X(NAME, C type, class, name in messages and reports). */
#define GPURING_TYPES_DEVICE(X)                                                      \
    X(INT8, int8_t, INTEGER, "int8")                                                 \
    X(UINT8, uint8_t, INTEGER, "uint8")                                              \
    X(INT16, int16_t, INTEGER, "int16")                                              \
    X(UINT16, uint16_t, INTEGER, "uint16")                                           \
    X(INT32, int32_t, INTEGER, "int32")                                              \
    X(UINT32, uint32_t, INTEGER, "uint32")                                           \
    X(INT64, int64_t, INTEGER, "int64")                                              \
    X(UINT64, uint64_t, INTEGER, "uint64")                                           \
    X(FLOAT16, struct gpuring_float16, FLOATING, "float16")                          \
    X(BFLOAT16, struct gpuring_bfloat16, FLOATING, "bfloat16")                       \
    X(FLOAT, float, FLOATING, "float")                                               \
    X(DOUBLE, double, FLOATING, "double")                                            \
    X(COMPLEX_FLOAT, struct gpuring_complex_float, COMPLEX, "complex_float")         \
    X(COMPLEX_DOUBLE, struct gpuring_complex_double, COMPLEX, "complex_double")      \
    X(LOGICAL8, uint8_t, LOGICAL, "logical8") /* also C and C++ bool */              \
    X(LOGICAL16, uint16_t, LOGICAL, "logical16")                                     \
    X(LOGICAL32, uint32_t, LOGICAL, "logical32")                                     \
    X(LOGICAL64, uint64_t, LOGICAL, "logical64")                                     \
    X(BYTE, uint8_t, BYTE, "byte")                                                   \
    X(FLOAT_INT, struct gpuring_float_int, PAIR, "float_int")                        \
    X(DOUBLE_INT, struct gpuring_double_int, PAIR, "double_int")                     \
    X(SHORT_INT, struct gpuring_short_int, PAIR, "short_int")                        \
    X(INT_INT, struct gpuring_int_int, PAIR, "int_int") /* MPI_2INT, MPI_2INTEGER */ \
    X(LONG_INT, struct gpuring_long_int, PAIR, "long_int")                           \
    X(FLOAT_FLOAT, struct gpuring_float_float, PAIR, "float_float") /* MPI_2REAL */  \
    X(DOUBLE_DOUBLE, struct gpuring_double_double, PAIR, "double_double")

/* Types only for hosts. Quad precision (Fortran REAL*16) exists if the compiler has it in addition
 * to long double. */
#if defined(__SIZEOF_FLOAT128__) && defined(__x86_64__)
#define GPURING_HAVE_FLOAT128 1
#define GPURING_TYPES_QUAD(X)                           \
    X(FLOAT128, gpuring_float128, FLOATING, "float128") \
    X(COMPLEX_FLOAT128, struct gpuring_complex_float128, COMPLEX, "complex_float128")
#else
#define GPURING_HAVE_FLOAT128 0
#define GPURING_TYPES_QUAD(X)
#endif

#define GPURING_TYPES_HOST(X)                                                                  \
    X(LONG_DOUBLE, long double, FLOATING, "long_double")                                       \
    X(COMPLEX_LONG_DOUBLE, struct gpuring_complex_long_double, COMPLEX, "complex_long_double") \
    X(LONG_DOUBLE_INT, struct gpuring_long_double_int, PAIR, "long_double_int")                \
    GPURING_TYPES_QUAD(X)

#define GPURING_TYPES(X)    \
    GPURING_TYPES_DEVICE(X) \
    GPURING_TYPES_HOST(X)

#if !defined(__CUDACC__)
GPURING_COMPLEX(complex_long_double, long double)
GPURING_PAIR(long_double_int, long double, int32_t)
#if GPURING_HAVE_FLOAT128
__extension__ typedef __float128 gpuring_float128;
GPURING_COMPLEX(complex_float128, gpuring_float128)
#endif
#endif

enum gpuring_type {
#define GPURING_TYPE_ENUM(name, ctype, class, text) GPURING_TYPE_##name,
    GPURING_TYPES(GPURING_TYPE_ENUM)
#undef GPURING_TYPE_ENUM
        GPURING_TYPE_COUNT
};

/* X(NAME, classes, name in messages and reports); the MPI handle is MPI_NAME. */
#define GPURING_OPS(X)                                                                      \
    X(SUM, GPURING_CLASS_INTEGER | GPURING_CLASS_FLOATING | GPURING_CLASS_COMPLEX, "sum")   \
    X(PROD, GPURING_CLASS_INTEGER | GPURING_CLASS_FLOATING | GPURING_CLASS_COMPLEX, "prod") \
    X(MAX, GPURING_CLASS_INTEGER | GPURING_CLASS_FLOATING, "max")                           \
    X(MIN, GPURING_CLASS_INTEGER | GPURING_CLASS_FLOATING, "min")                           \
    X(LAND, GPURING_CLASS_INTEGER | GPURING_CLASS_LOGICAL, "land")                          \
    X(LOR, GPURING_CLASS_INTEGER | GPURING_CLASS_LOGICAL, "lor")                            \
    X(LXOR, GPURING_CLASS_INTEGER | GPURING_CLASS_LOGICAL, "lxor")                          \
    X(BAND, GPURING_CLASS_INTEGER | GPURING_CLASS_BYTE, "band")                             \
    X(BOR, GPURING_CLASS_INTEGER | GPURING_CLASS_BYTE, "bor")                               \
    X(BXOR, GPURING_CLASS_INTEGER | GPURING_CLASS_BYTE, "bxor")                             \
    X(MAXLOC, GPURING_CLASS_PAIR, "maxloc")                                                 \
    X(MINLOC, GPURING_CLASS_PAIR, "minloc")

enum gpuring_op {
#define GPURING_OP_ENUM(name, classes, text) GPURING_OP_##name,
    GPURING_OPS(GPURING_OP_ENUM)
#undef GPURING_OP_ENUM
        GPURING_OP_COUNT
};

#if !defined(__CUDACC__)
struct gpuring_type_info {
    const char *name;
    uint32_t size;   /* distance between two elements, in bytes */
    uint32_t align;  /* alignment in C; buffers need not be aligned */
    uint32_t class;  /* enum gpuring_class */
    uint32_t device; /* 1: GPUs can reduce it, too */
};

struct gpuring_op_info {
    const char *name;
    uint32_t classes; /* classes of types on which MPI allows it */
};

/* Return the properties of a type or an operation, or NULL if it is out of range. Static
 * storage. */
const struct gpuring_type_info *gpuring_type_info(uint32_t type);
const struct gpuring_op_info *gpuring_op_info(uint32_t op);

/* Return 1 if MPI allows the operation on the type, and otherwise 0. All host executors support
 * such operations. */
int gpuring_op_allows(uint32_t op, uint32_t type);
#endif

#endif
