/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The image of the CUDA kernels that the driver loads: one fatbin with PTX and with machine code
 * for every architecture of --with-cuda-arch, embedded in the component. kernels/local.mk builds
 * it.
 *
 * Every kernel except gpuring_move (move.h) has this signature:
 *
 *     extern "C" __global__ void NAME(struct gpuring_work work)
 *
 * Block i runs lane i of the work with gpuring_kernel_threads(work) threads. A kernel ends when
 * every lane is final or has waited for the work's patience, in nanoseconds. work.lanes are in
 * memory of the GPU, and work.states in pinned host memory. Each block stores its lane's state
 * there, state.launch_seq last, and accesses nothing afterwards, unless the work has a command.
 *
 * A kernel can read its parameters immediately. A block that loads its lane must wait for it before
 * it can load the lane's tables. Small calls have one lane, so the first lane is also a parameter.
 * The other lanes are not, because a launch with 4000 bytes of parameters takes 1.2 us longer than
 * one with 1000 bytes (doc/results/gpu.md).
 */
#ifndef GPURING_IMAGE_H
#define GPURING_IMAGE_H

#include <stdint.h>

#include "kernels/work.h"

/*
 * Maximum number of threads of a block. The bandwidth of a block of Simple or LL128 grows with its
 * number of threads, and 512 threads use all registers of a multiprocessor. The last two warps of
 * Simple move no data: one waits, and one posts.
 *
 * A block of LL has a thread for every 8 bytes of its largest chunk, so that the chunk takes one
 * batch, but at least GPURING_LL_THREADS threads. With fewer threads, barriers are faster, and the
 * block fits on a part of a multiprocessor next to kernels of the application. Slots do not depend
 * on the number of threads, so peers may use different numbers.
 */
#define GPURING_KERNEL_THREADS 512u
#define GPURING_KERNEL_CONTROL 64
#define GPURING_LL_THREADS     128u

#if defined(__cplusplus)
static_assert(sizeof(struct gpuring_work) == 240, "a warp copies it, a word per thread");
#else
_Static_assert(sizeof(struct gpuring_work) == 240, "a warp copies it, a word per thread");
#endif

/* Return the number of threads of each block that runs this work. All lanes have the same number of
 * parts and chunks as the first one, and the last lane is the longest. */
uint32_t gpuring_kernel_threads(const struct gpuring_work *work);

extern const unsigned char gpuring_kernel_image[];

/* Number of kernels, which are numbered from 0. */
#define GPURING_KERNELS 36
/* Return the number of the kernel for a type, an operation and a protocol, or -1 if there is none,
 * see below. */
int gpuring_kernel_number(uint32_t type, uint32_t op, uint32_t protocol);
/* Return the name of a kernel, or NULL if the number is invalid. Static storage. */
const char *gpuring_kernel_numbered(int number);

/* Return the name of the kernel for a type, an operation and a protocol, or NULL if there is none
 * (a host-only type, or an operation that MPI does not allow on the type). Static storage. */
const char *gpuring_kernel_name(uint32_t type, uint32_t op, uint32_t protocol);

#endif
