/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The block executor (kernels/block.h) with real threads instead of GPU threads, so that a thread
 * sanitizer can check the code of the CUDA kernels. A missing barrier is a data race here.
 *
 * One thread writes an LL128 line, the flag last. (On a GPU, eight threads store it together.)
 * Unlike GPUs, host threads have no atomic stores of 128 bytes.
 */
#ifndef GPURING_TEST_BLOCK_THREADS_H
#define GPURING_TEST_BLOCK_THREADS_H

#include "kernels/work.h"

/*
 * Run every lane of the work with `nthreads` threads until it is final or has waited for the work's
 * patience (polls of a thread). The result is that of gpuring_work_run_host, or GPURING_ERR_NOMEM
 * if threads cannot be created. As on a GPU, types of more than 16 bytes are not supported.
 */
int block_work_run(struct gpuring_work *work, uint32_t nthreads);

#endif
