/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* MPI_Allreduce. */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/serve/buffer_mismatch.h"
#include "mca/coll_gpuring/serve/delegate.h"
#include "mca/coll_gpuring/serve/execute.h"
#include "mca/coll_gpuring/serve/left.h"
#include "mca/coll_gpuring/serve/memory_agreement.h"
#include "mca/coll_gpuring/stage/pipeline.h"
#include "mca/coll_gpuring/util/status.h"

/* Not at once: behind others, to be agreed on, not wired up yet, or with a check. *reason: why it
 * is to be handed on, if it is. */
static int allreduce_queued(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                            enum gpuring_reason *reason)
{
    struct gpuring_item item = {.call = *call, .may_hand_on = true};
    int status;

    if (module->state == GPURING_STATE_FAILED) {
        return module->failure;
    }
    gpuring_queue_push(module, &item);
    status = gpuring_queue_wait(module, &item);
    *reason = item.handed_on ? gpuring_agree_reason(&item)
              : item.left    ? GPURING_REASON_LEFT
                             : GPURING_REASON_DEAD;
    return status;
}

/* Its outcome, or GPURING_ITEM_FALL_BACK and the reason. */
static int allreduce_run(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         enum gpuring_reason *reason)
{
    int status;

    if (!call->agree && gpuring_left(module, call)) {
        *reason = GPURING_REASON_LEFT;
        status = GPURING_ITEM_FALL_BACK;
    } else if (gpuring_execute_at_once(module, call)) {
        status = gpuring_execute_blocking(module, call);
    } else {
        status = allreduce_queued(module, call, reason);
    }
    gpuring_left_settle(module);
    return status;
}

/* No buffer of this rank is on a GPU: without another look at them. */
static int allreduce_on_hosts(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;

    uint64_t number = gpuring_stage_calls(self);

    return gpuring_pipeline_large(self, rcount, rtype)
               ? gpuring_pipeline_allreduce(GPURING_VALUES_REDUCTION, comm, module)
               : gpuring_stage_passed(
                     self, GPURING_STAGED_allreduce, number,
                     GPURING_CALL_PREVIOUS(self, allreduce, GPURING_VALUES_REDUCTION, comm));
}

int mca_coll_gpuring_allreduce(const void *sbuf, void *rbuf, gpuring_count_t count,
                               struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                               struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason;
    struct gpuring_call call;
    int status = GPURING_OK, handed_on;

    if (!gpuring_eligible_any()) {
        gpuring_buffer_mismatch_skip(self);
        gpuring_delegate_count(self, GPURING_REASON_NO_DRIVER);
        return allreduce_on_hosts(sbuf, rbuf, count, dtype, op, comm, module);
    }
    reason = gpuring_eligible_reduction(sbuf, rbuf, count, dtype, op, &call);
    gpuring_buffer_mismatch_note(self, reason, &call);
    if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
        status = allreduce_run(self, &call, &reason);
        if (OPAL_LIKELY(status != GPURING_ITEM_FALL_BACK && status != GPURING_ERR_MIXED)) {
            return gpuring_compat_error(status);
        }
    }
    gpuring_delegate_count(self, reason);
    if (reason == GPURING_REASON_MEMORY ||
        (reason == GPURING_REASON_LEFT && !gpuring_call_on_gpu(&call))) {
        return allreduce_on_hosts(sbuf, rbuf, count, dtype, op, comm, module);
    }
    handed_on = gpuring_pipeline_allreduce(sbuf, rbuf, count, dtype, op, comm, module);
    return status == GPURING_ERR_MIXED ? gpuring_compat_error(status) : handed_on;
}
