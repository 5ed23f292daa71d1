/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Sums of ints over the ranks of a communicator, in buffers of the harness. Every element of every
 * rank differs, and all elements of a result are checked. */
#ifndef GPURING_TEST_SUMS_H
#define GPURING_TEST_SUMS_H

#include "harness.h"

struct sum {
    int count;
    int seed;      /* equal on all ranks; changes all values */
    void *send;    /* or MPI_IN_PLACE */
    void *receive; /* filled with -1 before the call, unless it is in place */
    MPI_Comm comm; /* an intracommunicator */
    MPI_Request request;
};

struct sum sum_new(int count, int seed, bool in_place, MPI_Comm comm);
void sum_free(struct sum *sum);
/* Write new data for another call. */
void sum_write(struct sum *sum, int seed);
/* Make a blocking call, start a non-blocking call, or create the request of a persistent call.
 * Return the MPI error code. */
int sum_start(struct sum *sum, enum form form);
/* Complete `times` calls in this form with one request. */
int sum_complete(struct sum *sum, enum form form, int times);
/* Return true if the result is right. */
bool sum_right(const struct sum *sum);

/* Return true if one call in this form is right on this rank. */
bool sum_is_right(enum form form, int count, MPI_Comm comm);

/* Complete an allreduce of any ints in a form, like sum_complete. */
int sum_ints(enum form form, int times, const void *send, void *receive, int count, MPI_Comm comm);

#endif
