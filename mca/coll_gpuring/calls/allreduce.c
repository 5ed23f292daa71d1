/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * MPI_Allreduce, MPI_Iallreduce and MPI_Allreduce_init (MPIX_ in Open MPI 4.1): describe the call,
 * decide what becomes of it, and run it, queue it, or delegate it.
 */
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/status.h"

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
    enum gpuring_reason reason = GPURING_REASON_NO_DRIVER;
    struct gpuring_circumstances known;
    struct gpuring_call call;

    /* Such a call has no place in the order of calls: it is not counted, and delegated to the
     * previous component, for which non-blocking calls are apart from blocking ones. */
    if (OPAL_UNLIKELY(gpuring_compat_internal(rcount, rtype, op))) {
        return gpuring_stage_iallreduce(GPURING_VALUES_REDUCTION, comm, request, module);
    }
    self->calls++;
    if (gpuring_eligible_any()) {
        reason = gpuring_eligible_reduction(GPURING_VALUES_REDUCTION, &call);
        gpuring_buffer_mismatch_note(self, reason, &call);
    }
    if (reason == GPURING_REASON_NONE) {
        known = gpuring_serve_look(self, &call, GPURING_FORM_NONBLOCKING);
        switch (gpuring_decide(&known, &reason)) {
        case GPURING_DELEGATE:
            break;
        case GPURING_REFUSE:
            return gpuring_compat_error(self->failure);
        default:
            return gpuring_serve_request(self, &call, false, request);
        }
    }
    gpuring_serve_delegated(self, reason);
    gpuring_serve_order_lost(self, reason, "MPI_Iallreduce");
    return on_host(reason, &call)
               ? GPURING_CALL_PREVIOUS(self, iallreduce, GPURING_VALUES_REDUCTION, comm, request)
               : gpuring_stage_iallreduce(GPURING_VALUES_REDUCTION, comm, request, module);
}

/* Are calls of some size delegated? Equal on all ranks, or the wire-up finds out. */
static bool delegates_sizes(void)
{
    return gpuring_params.algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS ||
           gpuring_tuning_names(&gpuring_process.tuning, GPURING_COLLECTIVE_ALLREDUCE,
                                GPURING_PARAM_ALGORITHM_PREVIOUS);
}

/* The _init of a persistent call may wait, so that the ranks know whether they delegate its size.
 * What fails then is returned by the calls. */
static void connect_if_tuned(mca_coll_gpuring_module_t *self, const struct gpuring_call *call)
{
    enum gpuring_reason reason;

    if (!call->agree && !self->serve->all_ready && delegates_sizes()) {
        (void) gpuring_progress_call(self, call, GPURING_FORM_CONNECT, &reason);
        self->serve->all_ready = __atomic_load_n(&self->engine, __ATOMIC_ACQUIRE) != NULL;
    }
}

int mca_coll_gpuring_allreduce_init(GPURING_ARGUMENTS_REDUCTION, GPURING_END_PERSISTENT)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    enum gpuring_reason reason = GPURING_REASON_NO_DRIVER;
    struct gpuring_circumstances known;
    struct gpuring_call call;

    if (gpuring_eligible_any()) {
        reason = gpuring_eligible_reduction(GPURING_VALUES_REDUCTION, &call);
    }
    if (reason == GPURING_REASON_NONE) {
        connect_if_tuned(self, &call);
        known = gpuring_serve_look(self, &call, GPURING_FORM_NONBLOCKING);
        if (gpuring_decide(&known, &reason) != GPURING_DELEGATE) {
            return gpuring_serve_request(self, &call, true, request);
        }
    }
    gpuring_serve_delegated(self, reason);
    gpuring_serve_order_lost(self, reason, "MPI_Allreduce_init");
    return reason == GPURING_REASON_NO_DRIVER
               ? GPURING_CALL_PREVIOUS(self, allreduce_init, GPURING_VALUES_REDUCTION, comm, info,
                                       request)
               : gpuring_stage_allreduce_init(GPURING_VALUES_REDUCTION, comm, info, request,
                                              module);
}
