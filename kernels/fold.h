/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Folding of vectors on the host: one function for each type and operation, compiled for several
 * instruction sets (fold_body.h). The best one that the processor supports is chosen at run time.
 */
#ifndef GPURING_FOLD_H
#define GPURING_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/types.h"

/*
 * Compute to[i] = a[i] op b[i] for i < count. Buffers need no alignment. `to` may be equal to a or
 * b, but must not overlap them otherwise.
 */
typedef void (*gpuring_fold_fn)(void *to, const void *a, const void *b, size_t count);

/* Return the function for a type and an operation, or NULL if MPI does not allow the operation on
 * the type. Any thread may call this. */
gpuring_fold_fn gpuring_fold_find(uint32_t type, uint32_t op);

/* Return the table of one instruction set, for tests and benchmarks, or NULL if this processor or
 * this build does not support it. `set` is 0 for the default of the build, 1 for AVX2, 2 for
 * AVX-512. */
typedef gpuring_fold_fn gpuring_fold_table[GPURING_TYPE_COUNT][GPURING_OP_COUNT];
const gpuring_fold_table *gpuring_fold_table_get(unsigned set);

extern const gpuring_fold_table gpuring_fold_table_base;
extern const gpuring_fold_table gpuring_fold_table_avx2;
extern const gpuring_fold_table gpuring_fold_table_avx512;

#endif
