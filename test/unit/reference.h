/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inputs and results of reductions for tests: every type, every operation that MPI allows, values
 * that differ at every position and rank, and results that are exact (integers wrap; floating
 * values are small integers), so that they can be compared bit by bit. Computed apart from the
 * kernels, in 64-bit integers and long double.
 */
#ifndef GPURING_TEST_REFERENCE_H
#define GPURING_TEST_REFERENCE_H

#include <stdint.h>

#include "kernels/types.h"

/* The element at `position` of the input of `rank`, written to *element (any alignment). */
void reference_input(uint32_t type, uint32_t op, int rank, uint64_t position, void *element);

/* The element at `position` of the result over ranks 0 .. nranks-1. */
void reference_result(uint32_t type, uint32_t op, int nranks, uint64_t position, void *element);

/* 1 if both are the same value; padding does not count. */
int reference_equal(uint32_t type, const void *a, const void *b);

#endif
