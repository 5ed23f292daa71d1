/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Non-blocking and persistent calls. A non-blocking one has its request before it is known what
 * becomes of it: the ranks may still connect, agree, or vote. So its request is made for both
 * outcomes: the engine completes it, or the previous module's request does, which is begun when
 * that is known. Meanwhile other non-blocking calls that are delegated wait behind it, for the
 * previous module must get those of a communicator in one order on all ranks.
 *
 * A persistent call is decided when it is made, which waits for other ranks.
 * Internal to calls/.
 */
#ifndef GPURING_CALLS_REQUEST_H
#define GPURING_CALLS_REQUEST_H

#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/call.h"

/* Is it known that no buffer of a delegated call is on a GPU? */
static inline bool gpuring_request_on_host(enum gpuring_reason reason)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           reason == GPURING_REASON_MEMORY || reason == GPURING_REASON_NO_DRIVER;
}

/* Count a call that is delegated. Whatever other component serves a reduction folds in an order of
 * its own. */
void gpuring_request_delegated(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                               enum gpuring_reason reason);

/* A call that is described. reason: NONE, or why it is delegated. The call's memory goes with it.
 * MPI error codes. */
int gpuring_request_call(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                         enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                         struct gpuring_call *call, enum gpuring_reason reason,
                         struct ompi_info_t *info, ompi_request_t **request);

/* Must a non-blocking call that is delegated wait for others? */
static inline bool gpuring_request_waits(const mca_coll_gpuring_module_t *module)
{
    return OPAL_UNLIKELY(gpuring_queue_undecided(&module->serve->queue));
}

/* It waits; it is counted elsewhere, if it is counted. MPI error codes. */
int gpuring_request_behind(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                           const struct gpuring_arguments *arguments, ompi_request_t **request);

#endif
