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

/* Signatures are sequences of equal cells. A cell is one number, or four numbers of different
 * types. */
#define SOAK_CELLS 12 /* maximum cells of an element, which has a divisor of this number */
struct soak_signature {
    int numbers; /* numbers per cell */
    MPI_Datatype types[4];
    int sizes[4];
};
extern const int soak_signatures;
struct soak_signature soak_signature(int i);

struct soak_type {
    MPI_Datatype handle;
    bool made; /* true if it must be freed */
    int cells; /* cells per element */
    const struct soak_signature *signature;
    int numbers;
    MPI_Aint at[SOAK_CELLS * 4]; /* offsets of the numbers of an element */
    MPI_Aint lower, extent;
    MPI_Aint low, high; /* first byte of an element, and end of its last byte */
};

/* Draw a random type with `cells` cells, of which `elements` consecutive elements do not
 * overlap. */
struct soak_type soak_type_draw(const struct soak_signature *signature, int cells, int elements,
                                uint64_t *state);
/* Convert the type for use with MPI_BOTTOM, with elements from this address on. */
void soak_type_absolute(struct soak_type *type, void *address);
void soak_type_free(struct soak_type *type);

/* Return the offset of number i in a buffer whose first element is at 0. */
static inline MPI_Aint soak_type_at(const struct soak_type *type, long i)
{
    return i / type->numbers * type->extent + type->at[i % type->numbers];
}

static inline int soak_type_size(const struct soak_type *type, long i)
{
    return type->signature->sizes[i % type->signature->numbers];
}

#endif
