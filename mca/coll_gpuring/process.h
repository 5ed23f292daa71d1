/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* State that all modules of a process share: the device, and the network after its first use. */
#ifndef GPURING_PROCESS_H
#define GPURING_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/engine/tuning.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"

struct gpuring_process {
    bool threads;   /* MPI_THREAD_MULTIPLE */
    int world_rank; /* -1 before MPI_COMM_WORLD is known */
    int output;     /* opal_output stream */
    char hostname[64];

    struct gpuring_tuning tuning; /* rules of coll_gpuring_tuning_file; empty without a file */
    uint64_t tuning_fingerprint;

    unsigned modules; /* number of modules; atomic */

    struct gpuring_proxy_counts net_counts; /* atomic */

    pthread_mutex_t lock;                        /* guards the following fields */
    const struct gpuring_device_ops *device_ops; /* NULL: no device, nothing is served */
    struct gpuring_device *device;
    int gpu;                     /* ordinal of the attached GPU, or -1 */
    struct gpuring_proxy *proxy; /* NULL before a network is opened (wireup/net_select.c) */
};
extern struct gpuring_process gpuring_process;

/* Open the device that coll_gpuring_device selects. If there is none, device_ops remains NULL. */
void gpuring_process_open_device(void);

/* Read the tuning file, if one was given. */
void gpuring_process_open_tuning(void);

/* Attach the device to the GPU and context of a user's buffer, or of `pointer`, unless it is
 * attached already. Must be called before the first use of the device. Returns 0 or a
 * gpuring_status. Thread-safe. */
int gpuring_process_attach_at(const struct gpuring_pointer *pointer);
int gpuring_process_attach_first(const void *buffer);
static inline int gpuring_process_attach(const void *buffer)
{
    /* Partner: gpuring_process_attach_first. */
    return __atomic_load_n(&gpuring_process.gpu, __ATOMIC_ACQUIRE) >= 0
               ? 0
               : gpuring_process_attach_first(buffer);
}

/* Copy between host memory and user's memory of any kind, and wait for the end. Returns 0 or a
 * gpuring_status. Thread-safe. */
int gpuring_process_copy(void *to, const void *from, size_t bytes);

/* Return true if the GPU of this buffer can still copy. If it can, calls that are not served can be
 * staged. */
bool gpuring_process_copies(const void *buffer);

/*
 * The following functions find out where a user's buffers are. All entry functions use them, so the
 * cheap check is first:
 *
 *     if (gpuring_memory_possible() && gpuring_memory_on_gpu(buf)) ...
 *
 * Results must not be kept from one call to the next, because freed addresses may be allocated
 * again as memory of another kind. Query each buffer of a call once. Threads: any.
 *
 * gpuring_memory_possible returns true if this process may have GPU memory: GPU buffers are served
 * (coll_gpuring_device), and the application or one of its libraries has loaded the CUDA driver. It
 * makes no system call and no driver call. Without the driver it takes a few instructions, or 10 ns
 * if the program loads libraries at run time.
 */
static inline bool gpuring_memory_possible(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    return ops != NULL && ops->possible != NULL && ops->possible();
}

/*
 * Return the kind, GPU and context of the memory at an address. This makes one driver call, or none
 * if gpuring_memory_possible is false. MPI_IN_PLACE, MPI_BOTTOM and NULL are treated as host
 * memory, without a driver call.
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

/* Close the device and free the tuning rules. All engines and networks must be closed before. */
void gpuring_process_close(void);

#endif
