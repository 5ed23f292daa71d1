/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Helpers for cmocka tests that run small PTX kernels with the stand-in driver's interpreter. */
#ifndef GPURING_TEST_PTX_KERNEL_H
#define GPURING_TEST_PTX_KERNEL_H

#include "test/ptx/ptx.h"

#define PTX_TEST_THREADS 64
#define PTX_TEST_WORDS   256

/* Return the component's kernels, or skip the test if nvcc makes no PTX that the interpreter knows.
 * The program is valid until the end of the process. */
struct ptx_program *ptx_kernels(void);

/* The only memory of the GPU: three arrays, which are the parameters of a kernel. */
struct ptx_test_memory {
    uint64_t a[PTX_TEST_WORDS], b[PTX_TEST_WORDS], out[PTX_TEST_WORDS];
} __attribute__((aligned(128)));
extern struct ptx_test_memory ptx_memory;
extern struct ptx_fault ptx_fault_told; /* fault of the last run */

/* Return the text of a module with functions and a kernel k(a, b, out) that runs `body`. Its
 * threads have their number in %r0, the addresses of their words in %rd0, %rd1 and %rd2, the
 * address of out in %rd3, and 512 bytes of shared memory. The text is valid until the next call. */
char *ptx_module_of(const char *functions, const char *body);
enum ptx_error ptx_run_grid(const char *text, uint32_t blocks, uint32_t threads, uint64_t seed);
/* Run one block in several orders of its threads. It must end well. */
void ptx_run_well(const char *functions, const char *body);
/* Run one block in several orders of its threads. It must be stopped in each of them with this
 * error and this text. */
void ptx_run_badly(const char *body, enum ptx_error expected, const char *says);

/* Two grids of one block of 32 threads that run concurrently on one GPU or on two. The memory
 * guarantees only the order of PTX (ptx_weak.h). b is 0 for the first grid, and 1 for the second
 * one. */
struct ptx_pair {
    uint64_t seed;
    bool one_gpu, ascending;
};
enum ptx_error ptx_run_pair(const char *text, const struct ptx_pair *pair);

#endif
