/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/memory_kind.h"

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/process.h"

bool gpuring_memory_possible(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    return ops != NULL && ops->possible();
}

struct gpuring_pointer gpuring_memory_of(const void *address)
{
    if (address == NULL || address == MPI_BOTTOM || address == MPI_IN_PLACE ||
        !gpuring_memory_possible()) {
        return (struct gpuring_pointer){.kind = GPURING_POINTER_HOST, .ordinal = -1};
    }
    return gpuring_process.device_ops->classify(gpuring_process.device, address);
}
