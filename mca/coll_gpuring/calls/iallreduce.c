/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* MPI_Iallreduce. */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/serve/buffer_mismatch.h"
#include "mca/coll_gpuring/serve/delegate.h"
#include "mca/coll_gpuring/serve/left.h"
#include "mca/coll_gpuring/serve/request.h"
#include "mca/coll_gpuring/stage/stage.h"

int mca_coll_gpuring_iallreduce(const void *sbuf, void *rbuf, gpuring_count_t count,
                                struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                struct ompi_communicator_t *comm, ompi_request_t **request,
                                mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason;
    struct gpuring_call call;

    /* It has no place in the order of calls: it is not counted, and left to the previous component,
     * for which non-blocking calls are apart from blocking ones. */
    if (OPAL_UNLIKELY(gpuring_compat_internal(count, dtype, op))) {
        return gpuring_stage_iallreduce(sbuf, rbuf, count, dtype, op, comm, request, module);
    }
    if (!gpuring_eligible_any()) {
        gpuring_buffer_mismatch_skip(self);
        gpuring_delegate_count(self, GPURING_REASON_NO_DRIVER);
        return GPURING_CALL_PREVIOUS(self, iallreduce, sbuf, rbuf, count, dtype, op, comm, request);
    }
    reason = gpuring_eligible_reduction(sbuf, rbuf, count, dtype, op, &call);
    gpuring_buffer_mismatch_note(self, reason, &call);
    if (reason == GPURING_REASON_NONE && gpuring_left_nonblocking(self, &call)) {
        reason = GPURING_REASON_LEFT;
    }
    if (reason == GPURING_REASON_NONE && self->state == GPURING_STATE_FAILED) {
        return gpuring_compat_error(self->failure);
    }
    /* Every rank's call comes here in the same state if all earlier calls were waited for. If not,
     * some ranks may know already that the communicator is not served: the call must not be handed
     * on then, but is queued like theirs. */
    if (reason == GPURING_REASON_NONE) {
        return gpuring_serve_start(self, &call, request);
    }
    gpuring_delegate_count(self, reason);
    if (reason == GPURING_REASON_MEMORY || /* without another look at the buffers */
        (reason == GPURING_REASON_LEFT && !gpuring_call_on_gpu(&call))) {
        return GPURING_CALL_PREVIOUS(self, iallreduce, sbuf, rbuf, count, dtype, op, comm, request);
    }
    return gpuring_stage_iallreduce(sbuf, rbuf, count, dtype, op, comm, request, module);
}
