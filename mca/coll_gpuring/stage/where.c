/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/where.h"

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/util/status.h"

static bool on_gpu(const void *address)
{
    return gpuring_pointer_on_gpu(gpuring_memory_of(address).kind);
}

/* Without memory for the runs nobody knows: the first byte stands for all, and the call fails when
 * it needs the runs. */
static const void *find_any(const struct gpuring_part *part, ptrdiff_t first)
{
    struct gpuring_runs runs = {.count = 0};
    const void *found = NULL;

    if (gpuring_part_runs(part, &runs) != GPURING_OK) {
        found = gpuring_stage_address(MPI_BOTTOM, first);
    } else {
        for (size_t i = runs.count; i > 0; i--) {
            const void *address =
                gpuring_stage_address(MPI_BOTTOM, gpuring_runs_at(&runs, i - 1)->offset);

            found = on_gpu(address) ? address : found;
        }
    }
    gpuring_runs_free(&runs);
    return found;
}

const void *gpuring_stage_find_on_gpu(const void *user, const struct gpuring_part *part)
{
    const void *address;
    ptrdiff_t offset;

    if (!gpuring_part_touches(part, &offset)) {
        return NULL;
    }
    if (user == MPI_BOTTOM) {
        return find_any(part, offset);
    }
    address = gpuring_stage_address(user, offset);
    return on_gpu(address) ? address : NULL;
}
