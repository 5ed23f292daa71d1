/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* MPI_Allreduce_init: persistent, MPIX_ in Open MPI 4.1. */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/serve/delegate.h"
#include "mca/coll_gpuring/serve/left.h"
#include "mca/coll_gpuring/serve/request.h"
#include "mca/coll_gpuring/stage/stage.h"

int mca_coll_gpuring_allreduce_init(const void *sbuf, void *rbuf, gpuring_count_t count,
                                    struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                    struct ompi_communicator_t *comm, struct ompi_info_t *info,
                                    ompi_request_t **request, mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason;
    struct gpuring_call call;

    self->staging.calls++;
    if (!gpuring_eligible_any()) {
        gpuring_delegate_count(self, GPURING_REASON_NO_DRIVER);
        return GPURING_CALL_PREVIOUS(self, allreduce_init, sbuf, rbuf, count, dtype, op, comm, info,
                                     request);
    }
    reason = gpuring_eligible_reduction(sbuf, rbuf, count, dtype, op, &call);
    if (reason == GPURING_REASON_NONE) {
        if (!gpuring_left_persistent(self, &call)) {
            return gpuring_serve_init(self, &call, request);
        }
        reason = GPURING_REASON_LEFT;
    }
    gpuring_delegate_count(self, reason);
    return gpuring_stage_allreduce_init(sbuf, rbuf, count, dtype, op, comm, info, request, module);
}
