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

/* In a forked process: the test fails if the condition does not hold. */
#define CUDA_REQUIRE(condition)                                                                 \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "# failed: %s (line %d; last message: %s)\n", #condition, __LINE__, \
                    cuda_last_log);                                                             \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

/* Loads the driver, as an application does. */
void cuda_load_driver(void);
/* The same with a copy of it that lacks an entry point, as older ones do; its handle. */
void *cuda_load_driver_without(const char *symbol);

/* The first steps of an application: load the driver,
 * make a context of the GPU current, allocate a buffer. */
const struct gpuring_cuda_driver *cuda_application_start(int gpu, CUdeviceptr *buffer,
                                                         size_t bytes);

/* A buffer on another GPU than the current one, in its primary context, which is retained. */
CUdeviceptr cuda_alloc_on(const struct gpuring_cuda_driver *driver, int gpu, size_t bytes);

/* Run body in a process, with these faults: it must end well and leave an empty report. */
void cuda_in_process(const char *faults, void (*body)(void));

/* Find an entry point that the stand-in driver has in addition to the driver's own. */
void cuda_find(const char *name, void *function);

/* A device attached to the GPU of the buffer; NULL if that failed. */
struct gpuring_device *cuda_attached(CUdeviceptr buffer);

/* Copy on a separate stream. Repeated once, because a fault may be intended for another call. */
void cuda_copy(struct gpuring_device *device, void *to, const void *from, size_t bytes);

/* A sum of int32_t in place, with the one lane of the transport's first plan; in the tables, pinned
 * memory of CUDA_TABLE_BYTES. room: bytes of a slot. */
#define CUDA_TABLE_BYTES 4096
struct gpuring_work *cuda_work(struct gpuring_transport *transport, const struct gpuring_plan *plan,
                               void *tables, CUdeviceptr buffer, uint64_t count,
                               enum gpuring_protocol protocol, uint64_t room);

/* Ranks that are wired up and reduce device memory a few times, with every result checked. */
struct cuda_scenario {
    int nranks;
    int gpus;                           /* rank r uses GPU r % gpus */
    const char *faults[CUDA_MAX_RANKS]; /* of each rank; NULL: none */
    const char *exclusive;              /* GPURING_STANDIN_EXCLUSIVE, or NULL */
};

struct cuda_outcome {
    int wired[CUDA_MAX_RANKS];   /* status of the wire-up */
    int reduced[CUDA_MAX_RANKS]; /* status of the allreduces, if wired */
    char name[CUDA_MAX_RANKS][32];
    char warning[CUDA_MAX_RANKS][1024]; /* the last one */
    char report[2048];                  /* of the stand-in: leaks and misuses */
    int unreached;                      /* some fault was not */
    uint32_t resumed;                   /* kernels that ran out of patience, of all ranks */
};

/* Runs it; the test fails if a process hangs, dies, or finds a wrong result. */
void cuda_run(const struct cuda_scenario *scenario, struct cuda_outcome *outcome);

#endif
