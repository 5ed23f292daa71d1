/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Comparing a result with that of the second path: coll_gpuring_check=data. Pure functions. */
#ifndef GPURING_SERVE_VERIFY_H
#define GPURING_SERVE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * True if two ways to fold the same contributions may differ in the last bits: sums and products
 * of floating and complex types. All else must be equal.
 */
bool gpuring_verify_rounds(uint32_t type, uint32_t op);

/*
 * For such: fold the magnitudes of one rank's contribution (|re| + |im|) into scale[count], by the
 * same operation. first: it is the first rank's. Rounding errors are proportional to this scale,
 * whatever cancels in the result.
 */
void gpuring_verify_scale(double *scale, const void *block, uint64_t count, uint32_t type,
                          uint32_t op, bool first);

/*
 * The first element in which `found` differs from `expected`, or `count`. With a scale, elements
 * may differ by 4 n units in the last place of it (n ranks; n - 1 operations each way, of half a
 * unit each; more for complex products).
 */
uint64_t gpuring_verify(const void *found, const void *expected, const double *scale,
                        uint64_t count, uint32_t type, int nranks);

/* An element as text, for messages: numbers where they are, else hexadecimal bytes. */
void gpuring_verify_text(const void *vector, uint64_t element, uint32_t type, char *text,
                         size_t size);

#endif
