/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA kernels as the driver loads them: one fatbin with machine code for every architecture
 * of --with-cuda-arch and PTX, embedded in the component. Built by kernels/local.mk.
 *
 * Every kernel has the signature
 *     extern "C" __global__ void NAME(struct gpuring_launch launch), or its begin
 * and runs lane i of the work in block i with GPURING_KERNEL_THREADS(protocol) threads. It leaves
 * when every lane is final or has waited for the work's patience, in nanoseconds. work.lanes lie in
 * pinned memory: there each block leaves its lane's state, at last lane.turn, and touches nothing
 * afterwards.
 */
#ifndef GPURING_IMAGE_H
#define GPURING_IMAGE_H

#include <stdint.h>

#include "kernels/work.h"

/*
 * Threads of a block. What a block of Simple or LL128 carries grows with its threads, and 512 of
 * them take the registers of a whole multiprocessor. LL is for short calls: a block of 256 threads
 * takes half a multiprocessor at most, so that it begins beside kernels of the application. Of
 * Simple's threads the last two warps move no data: one waits, and one posts.
 */
#define GPURING_KERNEL_THREADS(protocol) ((protocol) == GPURING_PROTOCOL_LL ? 256u : 512u)
#define GPURING_KERNEL_CONTROL           64

/*
 * The parameters of a kernel: a GPU has them at once, where it would have to ask the host for the
 * work, and then for the lane, a microsecond each. But 4000 bytes of them make a launch 1.2 us
 * longer than 1000 (doc/results/gpu.md). So the kernels of LL and LL128, whose calls are short,
 * take the first lanes only; those of lanes beyond are asked for. All drivers take 4 KiB.
 */
#define GPURING_LAUNCH_LANES 32 /* of Simple */
#define GPURING_LAUNCH_LINES 8  /* of LL and LL128 */
#define GPURING_LAUNCH_BYTES 4096

struct gpuring_launch {
    struct gpuring_work work;
    struct gpuring_lane lanes[GPURING_LAUNCH_LANES]; /* copies of the work's first ones */
};

#if defined(__cplusplus)
static_assert(sizeof(struct gpuring_launch) <= GPURING_LAUNCH_BYTES, "every driver takes it");
#else
_Static_assert(sizeof(struct gpuring_launch) <= GPURING_LAUNCH_BYTES, "every driver takes it");
#endif

extern const unsigned char gpuring_kernel_image[];

/* All kernels, numbered from 0 to GPURING_KERNELS - 1. */
#define GPURING_KERNELS 36
/* The number of the kernel that folds this type with this operation over this protocol; -1: there
 * is none, see below. */
int gpuring_kernel_number(uint32_t type, uint32_t op, uint32_t protocol);
/* The name of a kernel; NULL: none has the number. Static storage. */
const char *gpuring_kernel_numbered(int number);

/* The kernel that folds this type with this operation over this protocol, NULL if there is none
 * (a host-only type, an operation that MPI does not allow on the type). Static storage. */
const char *gpuring_kernel_name(uint32_t type, uint32_t op, uint32_t protocol);

#endif
