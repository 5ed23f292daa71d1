/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Buffers, types and an operation that staged and staged_large share. */
#ifndef GPURING_TEST_STAGED_DATA_H
#define GPURING_TEST_STAGED_DATA_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* The layout of a type. All numbers are in ints. */
struct data_layout {
    int n;             /* ints per element */
    int at[6];         /* their offsets */
    int lower, extent; /* bounds */
};

#define DATA_TYPES 8 /* maximum */

struct data_buffers {
    char *host_send, *host_receive;   /* of the reference */
    char *gpu_send, *gpu_receive;     /* of the call under test, or: */
    char *other_send, *other_receive; /* on the host */
};

extern struct data_buffers data;
extern MPI_Datatype data_types[DATA_TYPES]; /* of the layouts; the first one is MPI_INT */
extern MPI_Op data_op;                      /* on them: associative, not commutative */

/* Types with gaps and explicit bounds. */
#define DATA_GAPS 5
extern const struct data_layout data_gaps[DATA_GAPS];

/* Allocate buffers of `area` bytes, and create the types. */
void data_open(const struct data_layout *layouts, int n, size_t area);
void data_close(void);
const struct data_layout *data_layout_of(MPI_Datatype type);

/* Fill a buffer of this number of bytes and, unless it is
 * NULL, its reference with the same ints, which depend on the seed. */
void data_fill(char *buffer, bool on_gpu, char *reference, size_t bytes, unsigned seed);
/* Return the seed of the next call on this rank, so that all calls have different data. */
unsigned data_seed(void);
/* Return true if the first bytes are equal to the reference. */
bool data_same(const char *buffer, bool on_gpu, const char *reference, size_t bytes);

#endif
