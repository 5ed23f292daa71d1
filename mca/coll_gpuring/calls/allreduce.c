/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * MPI_Allreduce, MPI_Iallreduce and MPI_Allreduce_init (MPIX_ in Open MPI 4.1): describe the call,
 * decide what becomes of it, and run it, queue it, or delegate it.
 */
#include "mca/coll_gpuring/calls/request.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/status.h"

/* Of a call of any form. */
#define FIELD(argument) .argument = argument
#define ARGUMENTS       ((struct gpuring_arguments){GPURING_NAMES_REDUCTION(FIELD), .comm = comm})

/* Is it known that no buffer of a delegated call is on a GPU, so that nobody needs to look? */
static bool on_host(enum gpuring_reason reason, const struct gpuring_call *call)
{
    return reason == GPURING_REASON_MEMORY || reason == GPURING_REASON_NO_DRIVER ||
           (reason == GPURING_REASON_TUNED && !gpuring_call_on_gpu(call));
}

int mca_coll_gpuring_allreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason = GPURING_REASON_NO_DRIVER;
    struct gpuring_call call;
    int status = GPURING_OK, delegated;

    self->calls++;
    if (gpuring_eligible_any()) {
        reason = gpuring_eligible_reduction(GPURING_VALUES_REDUCTION, &call);
        gpuring_buffer_mismatch_note(self, reason, &call);
    }
    if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
        status = gpuring_serve_blocking(self, &call, &reason);
        if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
            return OPAL_LIKELY(status == GPURING_OK) ? MPI_SUCCESS : gpuring_compat_error(status);
        }
    }
    gpuring_serve_delegated(self, reason);
    if (on_host(reason, &call)) {
        return GPURING_CALL_PREVIOUS(self, allreduce, GPURING_VALUES_REDUCTION, comm);
    }
    gpuring_serve_order_lost(self, reason, "MPI_Allreduce");
    delegated = gpuring_stage_allreduce(GPURING_VALUES_REDUCTION, comm, module);
    return status == GPURING_OK ? delegated : gpuring_compat_error(status);
}

int mca_coll_gpuring_iallreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_NONBLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_call call = {.memory = NULL};
    enum gpuring_reason reason;

    /* Such a call has no place in the order of calls: it is not counted, and delegated to the
     * previous component, for which non-blocking calls are apart from blocking ones. */
    if (OPAL_UNLIKELY(gpuring_compat_internal(rcount, rtype, op))) {
        return gpuring_request_waits(self)
                   ? gpuring_request_behind(self, GPURING_STAGED_allreduce, &ARGUMENTS, request)
                   : gpuring_stage_iallreduce(GPURING_VALUES_REDUCTION, comm, request, module);
    }
    self->calls++;
    if (!gpuring_eligible_any()) {
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);
        return GPURING_CALL_PREVIOUS(self, iallreduce, GPURING_VALUES_REDUCTION, comm, request);
    }
    reason = gpuring_eligible_reduction(GPURING_VALUES_REDUCTION, &call);
    gpuring_buffer_mismatch_note(self, reason, &call);
    return gpuring_request_call(self, GPURING_STAGED_allreduce, GPURING_NONBLOCKING, &ARGUMENTS,
                                &call, reason, NULL, request);
}

int mca_coll_gpuring_allreduce_init(GPURING_ARGUMENTS_REDUCTION, GPURING_END_PERSISTENT)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_call call = {.memory = NULL};
    enum gpuring_reason reason;

    if (!gpuring_eligible_any()) {
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);
        return GPURING_CALL_PREVIOUS(self, allreduce_init, GPURING_VALUES_REDUCTION, comm, info,
                                     request);
    }
    reason = gpuring_eligible_reduction(GPURING_VALUES_REDUCTION, &call);
    return gpuring_request_call(self, GPURING_STAGED_allreduce, GPURING_PERSISTENT, &ARGUMENTS,
                                &call, reason, info, request);
}
