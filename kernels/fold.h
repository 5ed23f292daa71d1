/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Folding vectors on the host: one function for each type and operation, built for several
 * instruction sets (fold_body.h); the best one that the processor has is taken at run time.
 */
#ifndef GPURING_FOLD_H
#define GPURING_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/types.h"

/*
 * to[i] = a[i] op b[i] for i < count. Buffers need no alignment; `to` may be a or b, but may not
 * overlap them otherwise.
 */
typedef void (*gpuring_fold_fn)(void *to, const void *a, const void *b, size_t count);

/* NULL if there is none: MPI does not allow the operation on the type. Any thread. */
gpuring_fold_fn gpuring_fold_find(uint32_t type, uint32_t op);

/* The table of one instruction set, for tests and benchmarks; NULL if this processor or this build
 * lacks it. set: 0 the build's baseline, 1 AVX2, 2 AVX-512. */
typedef gpuring_fold_fn gpuring_fold_table[GPURING_TYPE_COUNT][GPURING_OP_COUNT];
const gpuring_fold_table *gpuring_fold_table_get(unsigned set);

extern const gpuring_fold_table gpuring_fold_table_base;
extern const gpuring_fold_table gpuring_fold_table_avx2;
extern const gpuring_fold_table gpuring_fold_table_avx512;

#endif
