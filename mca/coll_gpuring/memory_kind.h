/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Where a user's buffers lie. Every entry asks, so the first question is the cheap one:
 *
 *     if (gpuring_memory_possible() && gpuring_pointer_on_gpu(gpuring_memory_of(buf).kind)) ...
 *
 * Answers are not kept from call to call: freed memory comes back as memory of another kind. Ask
 * once for each buffer of a call. Threads: any.
 */
#ifndef GPURING_MEMORY_KIND_H
#define GPURING_MEMORY_KIND_H

#include <stdbool.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/process.h"

/*
 * Could this process have GPU memory at all: GPUs are served (coll_gpuring_device) and the CUDA
 * driver was loaded, by the application or a library of it. No system call and no driver call.
 * Without the driver, a few instructions; 10 ns where the program loads libraries as it runs.
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

#endif
