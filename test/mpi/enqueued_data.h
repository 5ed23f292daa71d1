/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Streams, communicators and data of the test of enqueued calls. */
#ifndef GPURING_TEST_ENQUEUED_DATA_H
#define GPURING_TEST_ENQUEUED_DATA_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/gpuring_stream.h"

#define MOST 100000 /* elements of a block of the largest call */

enum call { ALLREDUCE, BCAST, REDUCE, ALLGATHER, REDUCE_SCATTER_BLOCK, ALLTOALL, CALLS };
extern const char *const names[CALLS];

/* Buffers on the GPU. Kernels fill the others from `source`, and afterwards from `garbage`. */
extern struct data {
    int *source, *in, *out, *result, *garbage, *host;
    size_t bytes;
} data;
void data_open(void);
void data_close(void);

/* See driver_need. */
void need(bool good, const char *what);

void *new_stream(void);
MPIX_Stream object_of(void *stream);
/* Create a communicator with a stream. The object is freed before the communicator. */
MPI_Comm comm_of(void *stream);

/* Return the error of a communicator. Wait for it, because errors of other nodes are detected late.
 */
int error_of(MPI_Comm comm);

/* The contribution of a rank at a position of a block for another rank. */
int value_of(int rank, int to, size_t i);
/* Return the result of a call at a position of a block, or 0 if this rank has none. */
int expected(enum call call, int root, int block, size_t i);
/* Return true if data.result is right. */
bool is_right(enum call call, int root, size_t count);

/* Let a kernel write the input, make the call, let kernels take the result and overwrite both
 * buffers, and then synchronise once. Returns true if the result is right. */
bool runs(enum call call, size_t count, bool in_place, void *stream, MPI_Comm comm);

#endif
