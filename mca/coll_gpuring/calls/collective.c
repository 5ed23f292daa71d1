/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions in Open MPI's tables, three for each collective. They describe the call, decide
 * whether it is served (calls_begin.c), and run, queue or delegate it. This file has the blocking
 * calls. Calls with a request are in calls_request.c.
 */
#include "mca/coll_gpuring/calls/calls.h"

#include <stddef.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

typedef mca_coll_gpuring_module_t module_t;

/* Serve an eligible call. Return its outcome, and set *reason if it must be delegated. */
static int serve_blocking(module_t *self, struct gpuring_call *call,
                          struct gpuring_pending *pending, enum gpuring_reason *reason)
{
    int status = GPURING_OK;

    switch (gpuring_serve_decide(self, call, pending, GPURING_BLOCKING,
                                 gpuring_serve_busy(self->serve), reason)) {
    case GPURING_RUN:
        status = gpuring_execute_call(self, call, GPURING_BLOCKING, pending->number);
        break;
    case GPURING_WAIT:
        status = gpuring_progress_call(self, call, pending, GPURING_BLOCKING, reason);
        break;
    case GPURING_REFUSE:
        status = self->failure;
        break;
    default: /* delegated */
        break;
    }
    if (OPAL_UNLIKELY(status == GPURING_ERR_MIXED)) {
        *reason = GPURING_REASON_MIXED; /* the other ranks wait in the previous module */
    }
    self->agree.connected |= *reason == GPURING_REASON_NONE && status == GPURING_OK;
    return status;
}

static int blocking(struct gpuring_description *d)
{
    struct gpuring_call room, *call = &room;
    struct gpuring_pending pending;
    module_t *self = d->module;
    enum gpuring_reason reason;
    int status, delegated;

    if (!gpuring_call_is_served(self, d->what)) {
        return gpuring_stage_blocking(d);
    }
    self->calls++;
    reason = gpuring_call_begin(d, &call, &pending, &status);
    if (reason == GPURING_REASON_NONE && status == GPURING_OK) {
        status = serve_blocking(self, call, &pending, &reason);
    }
    gpuring_call_release(call);
    if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
        return OPAL_LIKELY(status == GPURING_OK) ? MPI_SUCCESS : gpuring_compat_error(status);
    }
    gpuring_call_delegated(self, d->what, reason);
    delegated = gpuring_reason_on_host(reason) ? gpuring_stage_call_previous(d, NULL)
                                               : gpuring_stage_blocking(d);
    return status == GPURING_OK ? delegated : gpuring_compat_error(status);
}

/* Count a call that is delegated because this process cannot have GPU memory now. */
static void count_idle(module_t *self, enum gpuring_staged what)
{
    if (gpuring_call_is_served(self, what)) {
        self->calls++;
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);
    }
}

/* Clear the arguments in two halves, because gcc clears more than 96 bytes in a loop. */
static inline void clear_arguments(struct gpuring_arguments *arguments)
{
    const size_t half = offsetof(struct gpuring_arguments, scounts);

    memset(arguments, 0, half);
    memset((char *) arguments + half, 0, sizeof *arguments - half);
}

/* Begin to describe a call in `d`. `set` sets the arguments that the call has. The parts are not
 * set here, because most calls do not need them. */
#define SET(type, name) d.arguments.name = name
#define DESCRIBE(self, name, FORM, persistent_info, set) \
    do {                                                 \
        d.module = (self);                               \
        d.what = GPURING_STAGED_##name;                  \
        d.form = (FORM);                                 \
        d.info = (persistent_info);                      \
        clear_arguments(&d.arguments);                   \
        set;                                             \
        d.has_parts = false;                             \
    } while (0)

#define ENTRY(function, name, list, FORM, info, request, ...)                                    \
    int mca_coll_gpuring_##function(GPURING_LIST_##list(GPURING_ARGUMENT), GPURING_END_##FORM)   \
    {                                                                                            \
        module_t *self = (module_t *) module;                                                    \
        struct gpuring_description d;                                                            \
                                                                                                 \
        if (GPURING_##FORM != GPURING_BLOCKING ||                                                \
            !gpuring_call_bypasses(self, GPURING_STAGED_##name, self->calls + 1)) {              \
            DESCRIBE(self, name, GPURING_##FORM, info, (GPURING_LIST_##list(SET), SET(, comm))); \
            return GPURING_##FORM == GPURING_BLOCKING ? blocking(&d)                             \
                                                      : gpuring_call_request(&d, request);       \
        }                                                                                        \
        count_idle(self, GPURING_STAGED_##name);                                                 \
        return GPURING_CALL_PREVIOUS(self, function, GPURING_LIST_##list(GPURING_VALUE),         \
                                     __VA_ARGS__);                                               \
    }
#define ENTRIES(name, list)                                               \
    ENTRY(name, name, list, BLOCKING, NULL, NULL, comm)                   \
    ENTRY(i##name, name, list, NONBLOCKING, NULL, request, comm, request) \
    ENTRY(name##_init, name, list, PERSISTENT, info, request, comm, info, request)
GPURING_STAGED_COLLECTIVES(ENTRIES)

/*
 * Barriers have no buffers. A GPU would not make them faster, and between nodes the messages of the
 * previous module are faster than those of a progress thread. Therefore barriers are delegated,
 * except with coll_gpuring_device=host on one node after another call has connected the ranks. In
 * both cases a non-blocking barrier keeps its place in the order of calls.
 */
static bool serves_barrier(const module_t *self)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST && self->serve != NULL &&
           gpuring_can_vote_locally(self);
}

int mca_coll_gpuring_barrier(GPURING_END_BLOCKING)
{
    module_t *self = (module_t *) module;
    struct gpuring_description d;

    if (!serves_barrier(self)) {
        return GPURING_CALL_PREVIOUS(self, barrier, comm);
    }
    DESCRIBE(self, barrier, GPURING_BLOCKING, NULL, SET(, comm));
    return blocking(&d);
}

static int barrier_request(module_t *self, enum gpuring_form form, struct ompi_communicator_t *comm,
                           struct ompi_info_t *info, ompi_request_t **request)
{
    struct gpuring_description d;

    DESCRIBE(self, barrier, form, info, SET(, comm));
    return serves_barrier(self) ? gpuring_call_request(&d, request)
                                : gpuring_call_delegate(&d, GPURING_REASON_MEMORY, request);
}

int mca_coll_gpuring_ibarrier(GPURING_END_NONBLOCKING)
{
    return barrier_request((module_t *) module, GPURING_NONBLOCKING, comm, NULL, request);
}

int mca_coll_gpuring_barrier_init(GPURING_END_PERSISTENT)
{
    return barrier_request((module_t *) module, GPURING_PERSISTENT, comm, info, request);
}

/* MPI_Reduce_local is not a collective, but Open MPI calls it through the table of MPI_COMM_SELF.
 */
int mca_coll_gpuring_reduce_local(GPURING_LIST_REDUCTION(GPURING_ARGUMENT),
                                  mca_coll_base_module_t *module)
{
    module_t *self = (module_t *) module;

    struct gpuring_description d;

    if (gpuring_memory_possible()) {
        DESCRIBE(self, reduce_local, GPURING_BLOCKING, NULL, (GPURING_LIST_REDUCTION(SET)));
        return gpuring_stage_blocking(&d);
    }
    return GPURING_CALL_PREVIOUS(self, reduce_local, GPURING_LIST_REDUCTION(GPURING_VALUE));
}
