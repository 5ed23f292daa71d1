/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The block executor (kernels/block.h) with real threads for a block's threads: what the CUDA
 * kernels do, where a thread sanitizer can watch it. A missing barrier is a data race here.
 *
 * An LL128 line belongs to one thread (on a GPU, to eight that store together), written flag last:
 * that 128-byte stores stay whole is a property of hardware that threads do not have.
 */
#ifndef GPURING_TEST_BLOCK_THREADS_H
#define GPURING_TEST_BLOCK_THREADS_H

#include "kernels/work.h"

/*
 * Runs every lane of the work by `nthreads` threads until it is final or has waited for the work's
 * patience (polls of a thread). Returns as gpuring_work_run_host; GPURING_ERR_NOMEM if threads
 * cannot be created. Types of more than 16 bytes are not supported, as on a GPU.
 */
int block_work_run(struct gpuring_work *work, uint32_t nthreads);

#endif
