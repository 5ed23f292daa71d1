/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A GPU for the programs of the GPU suite, used as the component does, through device/device.h,
 * within one process and without MPI. On the stand-in driver (LD_LIBRARY_PATH) the same programs
 * try themselves; what they say then is no result of a GPU. Everything here ends the program with a
 * message if it fails.
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
    int capability; /* 90 for 9.0 */
    int processors; /* multiprocessors: blocks that run at once */
    bool stands_in; /* this is the stand-in driver */
    char name[160]; /* capability, PCI bus id */
};

extern struct gpu gpu;

/* Opens that GPU and lets all fabrics lie in its memory; `gpu` holds from then on. */
void gpu_open(int ordinal);
/* That of this rank on its host: GPURING_TEST_GPUS (1) are shared by turns. */
void gpu_open_of_rank(void);
void gpu_close(void);

void *gpu_alloc(size_t bytes);        /* memory of the GPU, zeroed */
void *gpu_alloc_pinned(size_t bytes); /* of the host */
void gpu_free(void *memory);
void gpu_free_pinned(void *memory);
void gpu_copy(void *to, const void *from, size_t bytes);

/* Runs a work to its end on stream number `stream`: a status, or GPURING_ERR_TIMEOUT. */
int gpu_run(struct gpuring_work *work);
/* Runs the works of all ranks of the fabric, each on a stream of its own. */
int gpu_run_streams(struct fabric *fabric);

double gpu_seconds(void);
double gpu_median(double *times, int n); /* sorts them */

/* TAP. */
void gpu_check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gpu_finish(void); /* the plan; the program's exit status */

#endif
