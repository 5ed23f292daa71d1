/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Random datatypes of a common signature. The layout of an element is computed here, without MPI:
 * the position of each of its numbers, in the order of the signature.
 */
#ifndef GPURING_TEST_SOAK_TYPES_H
#define GPURING_TEST_SOAK_TYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* A cell is what signatures repeat: one number, or four of different types. */
#define SOAK_CELLS 12 /* of an element, at most; it has a divisor of that */
struct soak_signature {
    int numbers; /* of a cell */
    MPI_Datatype types[4];
    int sizes[4];
};
extern const int soak_signatures;
struct soak_signature soak_signature(int i);

struct soak_type {
    MPI_Datatype handle;
    bool made; /* to be freed */
    int cells; /* of an element */
    const struct soak_signature *signature;
    int numbers;
    MPI_Aint at[SOAK_CELLS * 4]; /* of the numbers of an element */
    MPI_Aint lower, extent;
    MPI_Aint low, high; /* the bytes of an element, from the first one to the end of the last one */
};

/* Draw a random type with `cells` cells, of which `elements` consecutive elements do not overlap.
 */
struct soak_type soak_type_draw(const struct soak_signature *signature, int cells, int elements,
                                uint64_t *state);
/* The same for MPI_BOTTOM: elements from this address on. */
void soak_type_absolute(struct soak_type *type, void *address);
void soak_type_free(struct soak_type *type);

/* Number i of the numbers of a buffer that begins with an element at 0. */
static inline MPI_Aint soak_type_at(const struct soak_type *type, long i)
{
    return i / type->numbers * type->extent + type->at[i % type->numbers];
}

static inline int soak_type_size(const struct soak_type *type, long i)
{
    return type->signature->sizes[i % type->signature->numbers];
}

#endif
