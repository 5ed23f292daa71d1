/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Part of an execution header (see executor.h) for host threads, included after EXEC_FN and EXEC:
 * loads and stores of shared data.
 */

EXEC_FN uint64_t exec_load_acquire(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

EXEC_FN void exec_store_release(uint64_t *p, uint64_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

/* Do nothing, because exec_store_counter is a release. */
EXEC_FN void exec_fence(const EXEC *x)
{
    (void) x;
}

EXEC_FN void exec_store_counter(uint64_t *p, uint64_t value)
{
    exec_store_release(p, value);
}

EXEC_FN uint32_t exec_load_size(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

EXEC_FN void exec_store_size(uint32_t *p, uint32_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELAXED);
}

EXEC_FN void exec_note(uint32_t *p, uint32_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELAXED);
}

EXEC_FN int exec_aborted(const EXEC *x)
{
    return x->work->abort != NULL && __atomic_load_n(x->work->abort, __ATOMIC_RELAXED) != 0;
}
