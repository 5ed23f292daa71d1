/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Wrapper around the host executor's entry (ld --wrap), linked into a copy of the component. It
 * runs the executor, and then flips the lowest bit of one byte of the result. The environment
 * variable GPURING_MUTATION selects the byte: `first`, `last` (the first byte of the last element)
 * or `beyond` (one after the first 64 KiB, if the result is longer). If it is unset, the results
 * stay right. The blocks of a result count as one vector.
 *
 * With `plan` each plan of a collective other than allreduce is wrong: its last step stores
 * although it must not, or does not store although it must.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/util/status.h"

int __real_gpuring_work_run_host(struct gpuring_work *work);
int __wrap_gpuring_work_run_host(struct gpuring_work *work);

/* Return the number of blocks of a result: one for each rank, or one. */
static uint32_t blocks_of(const struct gpuring_work *work)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");

    return (work->out.table == NULL && work->out.stride == 0) || ranks == NULL
               ? 1
               : (uint32_t) atoi(ranks);
}

static uint64_t result_bytes(const struct gpuring_work *work, uint64_t element)
{
    uint64_t bytes = 0;

    for (uint32_t b = 0; work->has_blocks && b < blocks_of(work); b++) {
        bytes += gpuring_block_at(&work->out, b).count * element;
    }
    return work->has_blocks ? bytes : work->count * element;
}

static void change(const struct gpuring_work *work, uint64_t element, uint64_t at)
{
    uint64_t offset = at;

    for (uint32_t b = 0; work->has_blocks; b++) {
        struct gpuring_extent block = gpuring_block_at(&work->out, b);

        if (at < block.count * element) {
            offset = block.offset + at;
            break;
        }
        at -= block.count * element;
    }
    ((uint8_t *) work->output)[offset] ^= 1;
}

int __wrap_gpuring_work_run_host(struct gpuring_work *work)
{
    const char *mutation = getenv("GPURING_MUTATION");
    uint64_t element = gpuring_type_info(work->type)->size, bytes, at = UINT64_MAX;
    int status = __real_gpuring_work_run_host(work);

    if (mutation == NULL || status != GPURING_OK || work->output == NULL) {
        return status;
    }
    bytes = result_bytes(work, element);
    if (strcmp(mutation, "first") == 0) {
        at = 0;
    } else if (strcmp(mutation, "last") == 0) {
        at = bytes - element;
    } else if (strcmp(mutation, "beyond") == 0) {
        at = 65544;
    }
    if (at < bytes) {
        change(work, element, at);
    }
    return status;
}

int __real_gpuring_plan_build_on(enum gpuring_collective collective,
                                 const struct gpuring_plan_input *input,
                                 struct gpuring_plan **plan);
int __wrap_gpuring_plan_build_on(enum gpuring_collective collective,
                                 const struct gpuring_plan_input *input,
                                 struct gpuring_plan **plan);

int __wrap_gpuring_plan_build_on(enum gpuring_collective collective,
                                 const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    const char *mutation = getenv("GPURING_MUTATION");
    int status = __real_gpuring_plan_build_on(collective, input, plan);

    if (mutation != NULL && status == GPURING_OK && strcmp(mutation, "plan") == 0) {
        const struct gpuring_plan_lane *lane = &(*plan)->lanes[0];
        struct gpuring_step *steps = (struct gpuring_step *) (uintptr_t) lane->steps;

        steps[lane->nsteps - 1].flags ^= GPURING_STEP_STORE;
    }
    return status;
}
