/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The folding functions for the default instruction set of the build, and the choice between the
 * tables. */
#define FOLD_TABLE gpuring_fold_table_base
#include "kernels/fold_body.h"

const gpuring_fold_table *gpuring_fold_table_get(unsigned set)
{
#if defined(__x86_64__)
    if (set == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return &gpuring_fold_table_avx512;
    }
    if (set == 1 && __builtin_cpu_supports("avx2")) {
        return &gpuring_fold_table_avx2;
    }
#endif
    return set == 0 ? &gpuring_fold_table_base : NULL;
}

/* The table of the best instruction set, which is found when it is first needed. Threads that race
 * store the same value. */
static const gpuring_fold_table *best;

static __attribute__((noinline)) gpuring_fold_fn find_first(uint32_t type, uint32_t op)
{
    const gpuring_fold_table *table = NULL;

    for (unsigned set = 3; table == NULL && set > 0; set--) {
        table = gpuring_fold_table_get(set - 1);
    }
    __atomic_store_n(&best, table, __ATOMIC_RELAXED);
    return (*table)[type][op];
}

gpuring_fold_fn gpuring_fold_find(uint32_t type, uint32_t op)
{
    const gpuring_fold_table *table = __atomic_load_n(&best, __ATOMIC_RELAXED);

    if (type >= GPURING_TYPE_COUNT || op >= GPURING_OP_COUNT) {
        return NULL;
    }
    return table != NULL ? (*table)[type][op] : find_first(type, op);
}
