/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Kernels of a few lines of PTX, run by the stand-in driver's interpreter; in cmocka tests. */
#ifndef GPURING_TEST_PTX_KERNEL_H
#define GPURING_TEST_PTX_KERNEL_H

#include "test/ptx/ptx.h"

#define PTX_TEST_THREADS 64
#define PTX_TEST_WORDS   256

/* What a kernel gets: three arrays, alone in the GPU's memory. */
struct ptx_test_memory {
    uint64_t a[PTX_TEST_WORDS], b[PTX_TEST_WORDS], out[PTX_TEST_WORDS];
} __attribute__((aligned(128)));
extern struct ptx_test_memory ptx_memory;
extern struct ptx_fault ptx_fault_told; /* by the last run */

/* A module with functions and a kernel k(a, b, out) that does `body`. Its threads have their number
 * in %r0, the addresses of their words in %rd0, %rd1 and %rd2, that of out in %rd3, and 512 bytes
 * of shared memory. Valid until the next call. */
char *ptx_module_of(const char *functions, const char *body);
enum ptx_error ptx_run_grid(const char *text, uint32_t blocks, uint32_t threads, uint64_t seed);
/* One block, in several orders of its threads. */
void ptx_run_well(const char *functions, const char *body);
/* It is stopped in each of them, and the text says so. */
void ptx_run_badly(const char *body, enum ptx_error expected, const char *says);

/* Two grids of a block of 32 threads at the same time, on a memory whose order is only what PTX
 * guarantees (ptx_weak.h), on one GPU or two. b is 0 for the first one, and 1 for the other. */
struct ptx_pair {
    uint64_t seed;
    bool one_gpu, ascending;
};
enum ptx_error ptx_run_pair(const char *text, const struct ptx_pair *pair);

#endif
