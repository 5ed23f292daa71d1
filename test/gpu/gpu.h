/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A GPU for the programs of the GPU suite. Like the component, they use it through device/device.h,
 * but within one process and without MPI. To test these programs, run them on the stand-in driver
 * (LD_LIBRARY_PATH). Their output is then not a result of a GPU. If a function of this header
 * fails, it ends the program with a message.
 */
#ifndef GPURING_TEST_GPU_H
#define GPURING_TEST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/device/device.h"
#include "test/unit/fabric.h"

#define GPU_STREAMS 16

struct gpu {
    struct gpuring_device *device;
    struct gpuring_stream *streams[GPU_STREAMS];
    int capability; /* compute capability: 90 for 9.0 */
    int processors; /* number of multiprocessors, and of blocks that run concurrently */
    bool stands_in; /* true on the stand-in driver */
    char name[160]; /* description with compute capability and PCI bus id */
};

extern struct gpu gpu;

/* Open the GPU, fill in `gpu`, and place all fabrics in the memory of the GPU. */
void gpu_open(int ordinal);
/* Open the GPU of this rank. The local ranks are distributed over GPURING_TEST_GPUS GPUs (default:
 * 1). */
void gpu_open_of_rank(void);
void gpu_close(void);

void *gpu_alloc(size_t bytes);        /* zeroed memory of the GPU */
void *gpu_alloc_pinned(size_t bytes); /* pinned host memory */
void gpu_free(void *memory);
void gpu_free_pinned(void *memory);
void gpu_copy(void *to, const void *from, size_t bytes);

/* Run a work on the first stream until it ends. Return a status, or GPURING_ERR_TIMEOUT. */
int gpu_run(struct gpuring_work *work);
/* Run the works of all ranks of the fabric, each on a separate stream. */
int gpu_run_streams(struct fabric *fabric);

double gpu_seconds(void);
double gpu_median(double *times, int n); /* sorts `times` */

/* Print a line of TAP. */
void gpu_check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gpu_finish(void); /* prints the plan of TAP, and returns the exit status of the program */

#endif
