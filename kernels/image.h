/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA kernels as the driver loads them: one fatbin with machine code for every architecture
 * of --with-cuda-arch and PTX, embedded in the component. Built by kernels/local.mk.
 *
 * Every kernel has the signature
 *     extern "C" __global__ void NAME(struct gpuring_work *work)
 * and runs lane i of the work in block i with GPURING_KERNEL_THREADS threads. It leaves when every
 * lane is final or has waited for work->patience nanoseconds. Work and lanes lie in pinned memory;
 * each block publishes its lane at last, by lane.turn, and touches nothing afterwards.
 */
#ifndef GPURING_IMAGE_H
#define GPURING_IMAGE_H

#include <stdint.h>

#define GPURING_KERNEL_THREADS 512

extern const unsigned char gpuring_kernel_image[];

/* The kernel that folds this type with this operation over this protocol, NULL if there is none
 * (a host-only type, an operation that MPI does not allow on the type). Static storage. */
const char *gpuring_kernel_name(uint32_t type, uint32_t op, uint32_t protocol);

#endif
