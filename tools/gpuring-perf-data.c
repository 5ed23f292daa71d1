/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Types, operations and data. Every element that a rank contributes is a small integer that depends
 * only on rank and position. All partial results are integers that the type represents exactly, so
 * that the result is the same in every order of folding. Each element can therefore be compared for
 * equality with every algorithm.
 */
#include "gpuring-perf.h"

#include <complex.h>
#include <string.h>

#define SIMPLE(name, ctype)                                                \
    static void store_##name(void *buffer, size_t at, int64_t value)       \
    {                                                                      \
        ((ctype *) buffer)[at] = (ctype) value;                            \
    }                                                                      \
    static bool equal_##name(const void *buffer, size_t at, int64_t value) \
    {                                                                      \
        return ((const ctype *) buffer)[at] == (ctype) value;              \
    }

/* X(name, MPI handle, C type, class, largest integer up to which all are exact) */
#define TYPES(X)                                                                         \
    X(int8, MPI_INT8_T, int8_t, PERF_INTEGER, INT8_MAX)                                  \
    X(uint8, MPI_UINT8_T, uint8_t, PERF_INTEGER, INT8_MAX)                               \
    X(int16, MPI_INT16_T, int16_t, PERF_INTEGER, INT16_MAX)                              \
    X(uint16, MPI_UINT16_T, uint16_t, PERF_INTEGER, INT16_MAX)                           \
    X(int32, MPI_INT32_T, int32_t, PERF_INTEGER, INT32_MAX)                              \
    X(uint32, MPI_UINT32_T, uint32_t, PERF_INTEGER, INT32_MAX)                           \
    X(int64, MPI_INT64_T, int64_t, PERF_INTEGER, INT64_C(1) << 52)                       \
    X(uint64, MPI_UINT64_T, uint64_t, PERF_INTEGER, INT64_C(1) << 52)                    \
    X(float, MPI_FLOAT, float, PERF_FLOATING, INT64_C(1) << 24)                          \
    X(double, MPI_DOUBLE, double, PERF_FLOATING, INT64_C(1) << 52)                       \
    X(long_double, MPI_LONG_DOUBLE, long double, PERF_FLOATING, INT64_C(1) << 52)        \
    X(complex_float, MPI_C_FLOAT_COMPLEX, float complex, PERF_COMPLEX, INT64_C(1) << 24) \
    X(complex_double, MPI_C_DOUBLE_COMPLEX, double complex, PERF_COMPLEX, INT64_C(1) << 52)

#define TYPE_FUNCTIONS(name, handle, ctype, class, exact) SIMPLE(name, ctype)
TYPES(TYPE_FUNCTIONS)

/* MPI handles are not constants in every MPI library, so fill the tables on first use. */
const struct perf_type *perf_type_at(size_t index)
{
    static struct perf_type types[PERF_MAX_CHOSEN];
    static size_t ntypes;

    if (ntypes == 0) {
#define TYPE_ENTRY(tname, handle, ctype, tclass, texact)                                         \
    types[ntypes++] = (struct perf_type){#tname,           handle,        sizeof(ctype), tclass, \
                                         (int64_t) texact, store_##tname, equal_##tname};
        TYPES(TYPE_ENTRY)
#define TYPE_ONE(name, handle, ctype, class, exact) +1
        _Static_assert(TYPES(TYPE_ONE) <= PERF_MAX_CHOSEN, "room for the types");
    }
    return index < ntypes ? &types[index] : NULL;
}

const struct perf_op *perf_op_at(size_t index)
{
    static struct perf_op ops[10];

    if (ops[0].name == NULL) {
        ops[0] = (struct perf_op){"sum", MPI_SUM, PERF_SUM};
        ops[1] = (struct perf_op){"prod", MPI_PROD, PERF_PROD};
        ops[2] = (struct perf_op){"max", MPI_MAX, PERF_MAX};
        ops[3] = (struct perf_op){"min", MPI_MIN, PERF_MIN};
        ops[4] = (struct perf_op){"land", MPI_LAND, PERF_LAND};
        ops[5] = (struct perf_op){"lor", MPI_LOR, PERF_LOR};
        ops[6] = (struct perf_op){"lxor", MPI_LXOR, PERF_LXOR};
        ops[7] = (struct perf_op){"band", MPI_BAND, PERF_BAND};
        ops[8] = (struct perf_op){"bor", MPI_BOR, PERF_BOR};
        ops[9] = (struct perf_op){"bxor", MPI_BXOR, PERF_BXOR};
    }
    return index < sizeof ops / sizeof ops[0] ? &ops[index] : NULL;
}

bool perf_op_fits(const struct perf_op *op, const struct perf_type *type)
{
    switch (op->kind) {
    case PERF_SUM:
    case PERF_PROD:
        return true;
    case PERF_MAX:
    case PERF_MIN:
        return type->class != PERF_COMPLEX;
    default:
        return type->class == PERF_INTEGER;
    }
}

/* Mix two numbers into a 64-bit value (the finaliser of splitmix64, public domain). */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x632be59bd9b4e019);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Limits that keep all partial results in the exact range. */
struct limits {
    uint64_t contributors; /* maximum number of ranks that contribute to one element */
    uint64_t modulus;      /* contributions are smaller */
};

static struct limits limits_of(enum perf_op_kind kind, int64_t exact, int nranks)
{
    struct limits limits = {(uint64_t) nranks, 0};
    uint64_t room = (uint64_t) exact;

    switch (kind) {
    case PERF_SUM:
        if (limits.contributors > room) {
            limits.contributors = room;
        }
        limits.modulus = room / limits.contributors + 1;
        if (limits.modulus > 256) {
            limits.modulus = 256;
        }
        break;
    case PERF_PROD: { /* factors 1 and 2, at most log2(exact) of them 2 */
        uint64_t twos = 0;

        while (room >> (twos + 1) != 0) {
            twos++;
        }
        if (limits.contributors > twos) {
            limits.contributors = twos;
        }
        limits.modulus = 2;
        break;
    }
    case PERF_LAND:
    case PERF_LOR:
    case PERF_LXOR:
        limits.modulus = 2;
        break;
    default:
        limits.modulus = room < INT32_MAX ? room + 1 : (uint64_t) INT32_MAX;
    }
    return limits;
}

/* Return the contribution of a rank to element `at` of a reduction. */
static int64_t contribution(const struct perf_op *op, const struct limits *limits, int rank,
                            int nranks, size_t at)
{
    bool contributes = ((uint64_t) rank + mix(at, 1)) % (uint64_t) nranks < limits->contributors;
    uint64_t value = mix((uint64_t) rank + 1, at);

    if (op->kind == PERF_PROD) {
        return contributes ? 1 + (int64_t) (value % 2) : 1;
    }
    if (op->kind ==
        PERF_LAND) { /* zeros must be rare, because otherwise every result would be false */
        return value % ((uint64_t) nranks * 2) != 0;
    }
    if (op->kind == PERF_LOR) {
        return value % ((uint64_t) nranks * 2) == 0;
    }
    return contributes ? (int64_t) (value % limits->modulus) : 0;
}

static int64_t fold_value(enum perf_op_kind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case PERF_SUM:
        return a + b;
    case PERF_PROD:
        return a * b;
    case PERF_MAX:
        return a > b ? a : b;
    case PERF_MIN:
        return a < b ? a : b;
    case PERF_LAND:
        return a && b;
    case PERF_LOR:
        return a || b;
    case PERF_LXOR:
        return !a != !b;
    case PERF_BAND:
        return a & b;
    case PERF_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* Return element `at` of the reduction over the first `ranks` contributors. */
static int64_t reduced(const struct perf_case *what, const struct limits *limits, int ranks,
                       size_t at)
{
    int64_t value = contribution(what->op, limits, 0, what->nranks, at);

    for (int rank = 1; rank < ranks; rank++) {
        value = fold_value(what->op->kind, value,
                           contribution(what->op, limits, rank, what->nranks, at));
    }
    return value;
}

/* Return element `at` of the block from rank `from` to rank `to` (0 if all receive the same). */
static int64_t moved(const struct perf_case *what, int from, int to, size_t at)
{
    uint64_t limit = (uint64_t) (what->type->exact < INT32_MAX ? what->type->exact : INT32_MAX);

    return (int64_t) (mix((uint64_t) from * 65537 + (uint64_t) to + 1, at) % limit);
}

static struct limits case_limits(const struct perf_case *what)
{
    struct limits none = {0, 0};

    return what->op != NULL ? limits_of(what->op->kind, what->type->exact, what->nranks) : none;
}

void perf_data_fill(const struct perf_case *what, void *buffer)
{
    struct limits limits = case_limits(what);
    size_t blocks = perf_collective_send_blocks(what->collective, (size_t) what->nranks);
    size_t first = 0;

    enum perf_shape shape = what->collective->shape;

    if (what->in_place &&
        (shape == PERF_GATHER_ALL || (shape == PERF_GATHER && what->rank == what->root))) {
        first = what->count * (size_t) what->rank; /* this rank's block of the receive buffer */
    }
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < what->count; i++) {
            size_t at = block * what->count + i;
            int64_t value;

            if (what->op != NULL) {
                value = contribution(what->op, &limits, what->rank, what->nranks, at);
            } else {
                bool differ = shape == PERF_ALLTOALL || shape == PERF_SCATTER;

                value = moved(what, what->rank, differ ? (int) block : 0, i);
            }
            what->type->store(buffer, first + at, value);
        }
    }
}

void perf_data_poison(void *buffer, size_t bytes)
{
    memset(buffer, 0xa5, bytes);
}

/* Return the correct value of element `at` of this rank's receive buffer. */
static int64_t expected(const struct perf_case *what, const struct limits *limits, size_t at)
{
    size_t block = at / what->count, i = at % what->count;

    switch (what->collective->shape) {
    case PERF_REDUCE_ALL:
    case PERF_REDUCE_ROOT:
        return reduced(what, limits, what->nranks, at);
    case PERF_REDUCE_BLOCK:
        return reduced(what, limits, what->nranks, (size_t) what->rank * what->count + at);
    case PERF_SCAN:
        return reduced(what, limits, what->rank + 1, at);
    case PERF_EXSCAN:
        return reduced(what, limits, what->rank, at);
    case PERF_BCAST:
        return moved(what, what->root, 0, at);
    case PERF_SCATTER:
        return moved(what, what->root, what->rank, at);
    case PERF_GATHER:
    case PERF_GATHER_ALL:
        return moved(what, (int) block, 0, i);
    default:
        return moved(what, (int) block, what->rank, i);
    }
}

/* Return true if this rank receives a result. */
static bool receives(const struct perf_case *what)
{
    switch (what->collective->shape) {
    case PERF_REDUCE_ROOT:
    case PERF_GATHER:
        return what->rank == what->root;
    case PERF_SCATTER:
        return what->rank != what->root || !what->in_place;
    case PERF_EXSCAN:
        return what->rank > 0;
    default:
        return true;
    }
}

size_t perf_data_check(const struct perf_case *what, const void *buffer, size_t *first)
{
    struct limits limits = case_limits(what);
    size_t elements =
        what->count * perf_collective_recv_blocks(what->collective, (size_t) what->nranks);
    size_t wrong = 0;

    if (!receives(what)) {
        return 0;
    }
    for (size_t at = 0; at < elements; at++) {
        if (!what->type->equal(buffer, at, expected(what, &limits, at))) {
            if (wrong == 0) {
                *first = at;
            }
            wrong++;
        }
    }
    return wrong;
}
