/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What real programs call of a CUDA driver besides the component's entry points: a library of its
 * own, libcuda_application.so, which loads the stand-in libcuda.so.1. A program that loads it finds
 * both; the component loads libcuda.so.1 by its name and sees nothing of this one. So that one has
 * exactly the component's entry points, and is as strict with them as ever, while applications may
 * do what the component must not: use the default stream, streams that wait for it, and events
 * with times. It knows what Numba calls, kernels excepted, and what an Open MPI with CUDA calls.
 */
#ifndef GPURING_STANDIN_APPLICATION_H
#define GPURING_STANDIN_APPLICATION_H

#include "test/standin/standin.h"

/* The entry points of the stand-in libcuda.so.1. */
const struct gpuring_cuda_driver *application_driver(void);

const struct standin_events *application_events(void);

/* Makes the context of something current until application_leave. */
CUresult application_enter(struct standin_owner owner);
void application_leave(void);

/* Before something is given to a stream: replaces the default stream by the one that stands for it
 * in the current context. */
CUresult application_stream(CUstream *stream);

#endif
