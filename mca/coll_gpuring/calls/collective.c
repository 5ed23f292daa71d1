/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The collectives that this component serves, beside allreduce (allreduce.c), in all forms:
 * describe the call, decide what becomes of it, and run it, queue it, or delegate it.
 */
#include "mca/coll_gpuring/calls/request.h"
#include "mca/coll_gpuring/calls/describe.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/status.h"

#define FIELD(argument) .argument = argument

typedef mca_coll_gpuring_module_t module_t;

static bool decides_by_vote(enum gpuring_staged what)
{
    return gpuring_served_of(what)->votes && gpuring_buffers_decide();
}

/* An eligible call in which ranks may have their buffers where they like: NONE, or why it is to be
 * delegated. The ranks vote in all calls in which all of them can. */
static enum gpuring_reason vote(module_t *self, struct gpuring_call *call,
                                enum gpuring_reason reason)
{
    if (reason != GPURING_REASON_NONE && reason != GPURING_REASON_MEMORY) {
        return reason;
    }
    if (call->count == 0 || !gpuring_type_info(call->type)->device ||
        !gpuring_vote_possible(self)) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_UNKNOWN : reason;
    }
    if (gpuring_select_delegates(&self->engine->choice_config, call->collective,
                                 gpuring_call_bytes(call))) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_TUNED : reason;
    }
    return gpuring_vote_cast(self, call);
}

/* What is known when a call is made: NONE, or why it is delegated. It is counted, unless that is
 * done when it runs. */
static enum gpuring_reason describe(module_t *self, enum gpuring_staged what, bool counts,
                                    const struct gpuring_arguments *a, struct gpuring_call *call,
                                    int *status)
{
    enum gpuring_reason reason = gpuring_call_describe(self, what, a, call, status);

    if (decides_by_vote(what)) {
        return *status == GPURING_OK ? vote(self, call, reason) : reason;
    }
    if (counts) {
        gpuring_buffer_mismatch_note(self, reason, call);
    }
    return reason;
}

static int delegate(module_t *self, enum gpuring_staged what, enum gpuring_reason reason,
                    struct gpuring_arguments *a)
{
    gpuring_request_delegated(self, what, reason);
    return gpuring_request_on_host(reason)
               ? gpuring_stage_call_previous(self, what, GPURING_BLOCKING, a, NULL, NULL)
               : gpuring_stage_blocking(self, what, a);
}

static int blocking(module_t *self, enum gpuring_staged what, struct gpuring_arguments *a)
{
    struct gpuring_call call;
    int status, delegated;
    enum gpuring_reason reason = describe(self, what, true, a, &call, &status);

    if (reason == GPURING_REASON_NONE && status == GPURING_OK) {
        status = gpuring_serve_blocking(self, &call, &reason);
    }
    gpuring_call_release(&call);
    if (reason == GPURING_REASON_NONE) {
        return OPAL_LIKELY(status == GPURING_OK) ? MPI_SUCCESS : gpuring_compat_error(status);
    }
    delegated = delegate(self, what, reason, a);
    return status == GPURING_OK ? delegated : gpuring_compat_error(status);
}

/* May it be Open MPI's own, which have no place in the order of calls? */
static bool is_internal(enum gpuring_staged what, const struct gpuring_arguments *a)
{
    return what == GPURING_STAGED_bcast    ? gpuring_compat_internal_bcast(a->rcount, a->rtype)
           : what == GPURING_STAGED_reduce ? gpuring_compat_internal(a->rcount, a->rtype, a->op)
                                           : false;
}

/* A non-blocking or persistent call. */
static int request_call(module_t *self, enum gpuring_staged what, enum gpuring_stage_form form,
                        struct gpuring_arguments *a, struct ompi_info_t *info,
                        ompi_request_t **request)
{
    struct gpuring_call call;
    enum gpuring_reason reason;
    int status;

    /* These are not counted. */
    if (form == GPURING_NONBLOCKING && is_internal(what, a)) {
        return gpuring_request_waits(self)
                   ? gpuring_request_behind(self, what, a, request)
                   : gpuring_stage_request(self, what, form, a, info, request);
    }
    self->calls += form == GPURING_NONBLOCKING;
    reason = describe(self, what, form == GPURING_NONBLOCKING, a, &call, &status);
    if (status != GPURING_OK) {
        gpuring_call_release(&call);
        return gpuring_compat_error(status);
    }
    return gpuring_request_call(self, what, form, a, &call, reason, info, request);
}

/* The entries. What no GPU can have a part in goes to the previous module at once. */
#define DEFINE(name, list)                                                                         \
    int mca_coll_gpuring_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING)                    \
    {                                                                                              \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                    \
                                                                                                   \
        self->calls++;                                                                             \
        if (gpuring_eligible_any()) {                                                              \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};              \
                                                                                                   \
            return blocking(self, GPURING_STAGED_##name, &a);                                      \
        }                                                                                          \
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);                                   \
        return GPURING_CALL_PREVIOUS(self, name, GPURING_NAMES_##list(GPURING_VALUE), comm);       \
    }                                                                                              \
    int mca_coll_gpuring_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING)                \
    {                                                                                              \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                    \
                                                                                                   \
        if (gpuring_eligible_any()) {                                                              \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};              \
                                                                                                   \
            return request_call(self, GPURING_STAGED_##name, GPURING_NONBLOCKING, &a, NULL,        \
                                request);                                                          \
        }                                                                                          \
        self->calls++;                                                                             \
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);                                   \
        return GPURING_CALL_PREVIOUS(self, i##name, GPURING_NAMES_##list(GPURING_VALUE), comm,     \
                                     request);                                                     \
    }                                                                                              \
    int mca_coll_gpuring_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT)           \
    {                                                                                              \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                    \
                                                                                                   \
        if (gpuring_eligible_any()) {                                                              \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};              \
                                                                                                   \
            return request_call(self, GPURING_STAGED_##name, GPURING_PERSISTENT, &a, info,         \
                                request);                                                          \
        }                                                                                          \
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);                                   \
        return GPURING_CALL_PREVIOUS(self, name##_init, GPURING_NAMES_##list(GPURING_VALUE), comm, \
                                     info, request);                                               \
    }
GPURING_SERVED_COLLECTIVES(DEFINE)
