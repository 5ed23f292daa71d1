/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the modules of a process share: the device, and the network once it is needed. */
#ifndef GPURING_PROCESS_H
#define GPURING_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/engine/tuning.h"

/* The process's part: what all modules share. */
struct gpuring_process {
    bool threads;   /* MPI_THREAD_MULTIPLE */
    int world_rank; /* -1 until MPI_COMM_WORLD is known */
    int output;     /* opal_output stream */
    char hostname[64];

    struct gpuring_tuning tuning; /* of coll_gpuring_tuning_file; without rules: nothing said */
    uint64_t tuning_fingerprint;

    unsigned modules; /* that are alive; atomic */

    pthread_mutex_t lock;                        /* guards what follows */
    const struct gpuring_device_ops *device_ops; /* NULL: no device, nothing is served */
    struct gpuring_device *device;
    int gpu;                     /* ordinal of the GPU that the device is attached to, -1: none */
    struct gpuring_proxy *proxy; /* NULL until a network is opened (wireup/net_select.c) */
};
extern struct gpuring_process gpuring_process;

/* Open the device that coll_gpuring_device asks for; device_ops stays NULL if there is none. */
void gpuring_process_open_device(void);

/* Read the tuning file, if one was given. */
void gpuring_process_open_tuning(void);

/* Before the first use of the device: choose GPU and context by the user's buffer. Thread-safe. */
int gpuring_process_attach_first(const void *buffer);
static inline int gpuring_process_attach(const void *buffer)
{
    /* Partner: gpuring_process_attach_first. */
    return __atomic_load_n(&gpuring_process.gpu, __ATOMIC_ACQUIRE) >= 0
               ? 0
               : gpuring_process_attach_first(buffer);
}

/* Copy between host and user's memory of any kind; returns when it is done. Thread-safe. */
int gpuring_process_copy(void *to, const void *from, size_t bytes);

/* Does the GPU of this buffer still copy, so that calls which are not served can be staged? */
bool gpuring_process_copies(const void *buffer);

/*
 * Where do a user's buffers lie? Every entry asks, so the first question is the cheap one:
 *
 *     if (gpuring_memory_possible() && gpuring_memory_on_gpu(buf)) ...
 *
 * Answers are not kept from call to call: freed memory comes back as memory of another kind. Ask
 * once for each buffer of a call. Threads: any.
 *
 * Possible: could this process have GPU memory at all: GPUs are served (coll_gpuring_device) and
 * the CUDA driver was loaded, by the application or a library of it. No system call and no driver
 * call. Without the driver, a few instructions; 10 ns where the program loads libraries as it runs.
 */
static inline bool gpuring_memory_possible(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    return ops != NULL && ops->possible != NULL && ops->possible();
}

/*
 * Kind, GPU and context of the memory at an address; one driver call if that is possible, else
 * none. MPI_IN_PLACE, MPI_BOTTOM and NULL are host memory, without a driver call.
 */
static inline struct gpuring_pointer gpuring_memory_of(const void *address)
{
    if (address == NULL || address == MPI_BOTTOM || address == MPI_IN_PLACE ||
        !gpuring_memory_possible()) {
        return (struct gpuring_pointer){.kind = GPURING_POINTER_HOST, .ordinal = -1};
    }
    return gpuring_process.device_ops->classify(gpuring_process.device, address);
}

static inline bool gpuring_memory_on_gpu(const void *address)
{
    return gpuring_pointer_on_gpu(gpuring_memory_of(address).kind);
}

/* Close all that was opened. No engine may exist any more, and no network. */
void gpuring_process_close(void);

#endif
