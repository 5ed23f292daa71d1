/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/left.h"

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"

/* Equal on all ranks, or the wire-up finds out. */
static bool anything_left(void)
{
    return gpuring_params.algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS ||
           gpuring_tuning_leaves(&gpuring_process.tuning);
}

bool gpuring_left_persistent(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    if (call->agree) {
        return false;
    }
    if (!module->serve->settled && anything_left()) {
        struct gpuring_item item = {.call = *call, .wires = true};

        /* What fails is told by the calls. */
        gpuring_queue_push(module, &item);
        (void) gpuring_queue_wait(module, &item);
        gpuring_left_settle(module);
    }
    return gpuring_left_nonblocking(module, call);
}
