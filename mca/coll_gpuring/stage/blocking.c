/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Staged blocking calls. */
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/util/status.h"

static int copy_out(struct gpuring_stage *stage)
{
    int status = gpuring_stage_start_out(stage);

    return gpuring_compat_error(status == GPURING_OK ? gpuring_stage_wait_out(stage) : status);
}

int gpuring_stage_blocking(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                           struct gpuring_arguments *arguments)
{
    struct gpuring_stage stage;
    int result;

    gpuring_stage_describe(&stage, module, what, arguments);
    if (!gpuring_stage_is_on_gpu(&stage)) {
        return gpuring_stage_call_previous(module, what, GPURING_BLOCKING, arguments, NULL, NULL);
    }
    if (gpuring_stage_reserve(&stage, arguments) != GPURING_OK) {
        return MPI_ERR_NO_MEM;
    }
    gpuring_stage_copy_in(&stage);
    gpuring_stage_wait_begin(&stage);
    result = gpuring_stage_call_previous(module, what, GPURING_BLOCKING, arguments, NULL, NULL);
    gpuring_stage_wait_end(&stage);
    if (result == MPI_SUCCESS) {
        result = copy_out(&stage);
    }
    gpuring_stage_release(&stage);
    return result;
}
