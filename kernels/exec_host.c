/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The host executor: run a work with the executor that was compiled for its protocol. */
#include "kernels/exec_host.h"

int gpuring_work_run_host(struct gpuring_work *work)
{
    static gpuring_run_host *const runs[GPURING_PROTOCOL_COUNT] = {
        [GPURING_PROTOCOL_SIMPLE] = gpuring_run_host_simple,
        [GPURING_PROTOCOL_LL] = gpuring_run_host_ll,
        [GPURING_PROTOCOL_LL128] = gpuring_run_host_ll128,
    };
    const struct gpuring_type_info *type = gpuring_type_info(work->type);
    gpuring_fold_fn fold = gpuring_fold_find(work->type, work->op);

    if (fold == NULL || work->protocol >= GPURING_PROTOCOL_COUNT) {
        gpuring_error("no fold of type %u by operation %u over protocol %u", work->type, work->op,
                      work->protocol);
        return GPURING_ERR_UNSUPPORTED;
    }
    return runs[work->protocol](work, type, fold);
}
