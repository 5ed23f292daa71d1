/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inputs and results of reductions for tests, for every type and every operation that MPI allows.
 * Values differ between positions and ranks. Results are exact (integers wrap, and floating values
 * are small integers), so that they can be compared bit by bit. They are computed independently of
 * the kernels, with 64-bit integers and long double.
 */
#ifndef GPURING_TEST_REFERENCE_H
#define GPURING_TEST_REFERENCE_H

#include <stdint.h>

#include "kernels/types.h"

/* Write the element at `position` of the input of `rank` to *element (any alignment). */
void reference_input(uint32_t type, uint32_t op, int rank, uint64_t position, void *element);

/* Write the element at `position` of the result over ranks 0 .. nranks-1. */
void reference_result(uint32_t type, uint32_t op, int nranks, uint64_t position, void *element);

/* Return 1 if both have the same value, ignoring padding. */
int reference_equal(uint32_t type, const void *a, const void *b);

#endif
