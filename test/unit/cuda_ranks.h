/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Processes that use the CUDA device on the stand-in driver (test/standin): an application's first
 * steps, and ranks that are wired up and reduce device memory, each with separate faults. None of
 * this is a result of a GPU.
 */
#ifndef GPURING_TEST_CUDA_RANKS_H
#define GPURING_TEST_CUDA_RANKS_H

#include <stdio.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/cuda/driver.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/transport/transport.h"

#define CUDA_MAX_RANKS 3
#define CUDA_LIMIT     60 /* seconds, for anything */

/* The last message of this process. */
extern char cuda_last_log[1024];

/* In a forked process, fail the test if the condition is false. */
#define CUDA_REQUIRE(condition)                                                                 \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "# failed: %s (line %d; last message: %s)\n", #condition, __LINE__, \
                    cuda_last_log);                                                             \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

/* Load the driver, like an application. */
void cuda_load_driver(void);
/* Load a copy of the driver that lacks an entry point, like an older driver. Return its handle. */
void *cuda_load_driver_without(const char *symbol);

/* Do the first steps of an application: load the driver, make a context of the GPU current,
 * allocate a buffer. */
const struct gpuring_cuda_driver *cuda_application_start(int gpu, CUdeviceptr *buffer,
                                                         size_t bytes);

/* Allocate a buffer on another GPU in its primary context, which is retained. */
CUdeviceptr cuda_alloc_on(const struct gpuring_cuda_driver *driver, int gpu, size_t bytes);

/* Run `body` in a process with these faults. It must succeed and leave an empty report. */
void cuda_in_process(const char *faults, void (*body)(void));

/* Find an entry point that the stand-in driver has in addition to the driver's own. */
void cuda_find(const char *name, void *function);

/* Return a device that is attached to the GPU of the buffer, or NULL on failure. */
struct gpuring_device *cuda_attached(CUdeviceptr buffer);

/* Copy on a separate stream. Repeated once, because a fault may be intended for another call. */
void cuda_copy(struct gpuring_device *device, void *to, const void *from, size_t bytes);

/* Fill in a work for a sum of int32_t in place, with the only lane of the transport's first plan.
 * `tables` is pinned memory of CUDA_TABLE_BYTES, and `room` the size of a slot in bytes. */
#define CUDA_TABLE_BYTES 4096
struct gpuring_work *cuda_work(struct gpuring_transport *transport, const struct gpuring_plan *plan,
                               void *tables, CUdeviceptr buffer, uint64_t count,
                               enum gpuring_protocol protocol, uint64_t room);

/* Ranks that are wired up and reduce device memory a few times, with every result checked. */
struct cuda_scenario {
    int nranks;
    int gpus;                           /* rank r uses GPU r % gpus */
    const char *faults[CUDA_MAX_RANKS]; /* faults of each rank, or NULL */
    const char *exclusive;              /* GPURING_STANDIN_EXCLUSIVE, or NULL */
    bool twice;                         /* ranks are connected twice */
};

struct cuda_outcome {
    int wired[CUDA_MAX_RANKS];   /* status of the wire-up */
    int reduced[CUDA_MAX_RANKS]; /* status of the allreduces, if wired */
    char name[CUDA_MAX_RANKS][32];
    unsigned int torn[CUDA_MAX_RANKS];  /* peers with torn lines of LL128 */
    bool tears;                         /* the plan does not use LL128 */
    char warning[CUDA_MAX_RANKS][1024]; /* last warning of each rank */
    char report[2048]; /* leaks and misuses that the stand-in driver has reported */
    int unreached;     /* true if a fault was not reached */
    uint32_t resumed;  /* kernels of all ranks that ran out of patience */
};

/* Run a scenario. Fail the test if a process hangs, crashes, or finds a wrong result. */
void cuda_run(const struct cuda_scenario *scenario, struct cuda_outcome *outcome);

#endif
