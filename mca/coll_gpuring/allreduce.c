/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* MPI_Allreduce. */
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/run.h"
#include "mca/coll_gpuring/util/status.h"

/* Not at once: behind others, not wired up yet, or with a check. */
static int allreduce_queued(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_item item = {.call = *call};

    if (module->state == GPURING_STATE_FAILED) {
        return module->failure;
    }
    gpuring_queue_push(module, &item);
    return gpuring_queue_wait(module, &item);
}

int mca_coll_gpuring_allreduce(const void *sbuf, void *rbuf, gpuring_count_t count,
                               struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                               struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason;
    struct gpuring_call call;
    int status;

    reason = gpuring_eligible_reduction(sbuf, rbuf, count, dtype, op, &call);
    if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
        status = gpuring_run_at_once(self) ? gpuring_run_blocking(self, &call)
                                           : allreduce_queued(self, &call);
        if (OPAL_LIKELY(status != GPURING_ITEM_FALL_BACK)) {
            return gpuring_compat_error(status);
        }
        reason = GPURING_REASON_DEAD;
    }
    gpuring_fallback_count(self, reason);
    return GPURING_CALL_PREVIOUS(self, allreduce, sbuf, rbuf, count, dtype, op, comm);
}
