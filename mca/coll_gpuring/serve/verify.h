/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare a result with the result of a second path (coll_gpuring_check=data). Pure functions. */
#ifndef GPURING_SERVE_VERIFY_H
#define GPURING_SERVE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Return true if folding the same contributions in two orders may give results that differ in the
 * last bits. This is the case for sums and products of floating and complex types. All other
 * results must be equal.
 */
bool gpuring_verify_rounds(uint32_t type, uint32_t op);

/*
 * Fold the magnitudes (|re| + |im|) of one rank's contribution into scale[count] with the same
 * operation. Only for results whose rounding may differ (gpuring_verify_rounds). first: this is the
 * contribution of the first rank. Rounding errors are proportional to this scale, even if terms
 * cancel in the result.
 */
void gpuring_verify_scale(double *scale, const void *block, uint64_t count, uint32_t type,
                          uint32_t op, bool first);

/*
 * Return the index of the first element in which `found` differs from `expected`, or `count`. With
 * a scale, elements may differ by 4 n units in the last place of the scale for n ranks. Each of the
 * two orders has n - 1 operations with an error of half a unit, and more for complex products.
 */
uint64_t gpuring_verify(const void *found, const void *expected, const double *scale,
                        uint64_t count, uint32_t type, int nranks);

/* Write an element as text for messages: as a number if it is one, otherwise as hexadecimal bytes.
 */
void gpuring_verify_text(const void *vector, uint64_t element, uint32_t type, char *text,
                         size_t size);

#endif
