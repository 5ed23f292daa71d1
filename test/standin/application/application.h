/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A second library, libcuda_application.so, with entry points of a CUDA driver that applications
 * call and the component does not. It loads the stand-in libcuda.so.1, so a program that loads it
 * finds the entry points of both. The component loads libcuda.so.1 by name and does not see this
 * library. The stand-in driver therefore has exactly the component's entry points and remains
 * strict, while applications may use the default stream, streams that wait for it, and events with
 * timing. The library has the entry points that Numba (except for kernels) and an Open MPI with
 * CUDA need.
 */
#ifndef GPURING_STANDIN_APPLICATION_H
#define GPURING_STANDIN_APPLICATION_H

#include "test/standin/standin.h"

/* The entry points of the stand-in libcuda.so.1. */
const struct gpuring_cuda_driver *application_driver(void);

const struct standin_events *application_events(void);

/* Make the context of an owner current until application_leave. */
CUresult application_enter(struct standin_owner owner);
void application_leave(void);

/* Replace the default stream with the stream that represents it in the current context. Must be
 * called before work is queued on *stream. */
CUresult application_stream(CUstream *stream);

#endif
